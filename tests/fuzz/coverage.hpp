// The edges of the core that ran, for driver.cpp: gcc's -fsanitize-coverage=trace-pc calls a function at every
// block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpcore_fuzz {

// Edges share a byte where their hashes meet, as in AFL: a few of some ten thousand do.
constexpr std::size_t kEdges = std::size_t{1} << 17;
extern std::uint8_t edge_counts[kEdges];

}  // namespace dpcore_fuzz
