// Not instrumented itself: the compiler would make it call itself.
#include "coverage.hpp"

namespace dpcore_fuzz {
std::uint8_t edge_counts[kEdges];
}  // namespace dpcore_fuzz

extern "C" {

// Also called by the resolvers of cloned functions while a shared library is being loaded: nothing here may need
// the loader (hidden, and no thread-local variable). Threads may spoil each other's edges; the fuzzer uses one.
__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc() {
    static std::uintptr_t before = 0;
    // Addresses from the start of this image: the same edge has the same number in every run.
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                      reinterpret_cast<std::uintptr_t>(&__sanitizer_cov_trace_pc);
    const std::uintptr_t mixed = here * 0x9E3779B97F4A7C15u >> 40;
    std::uint8_t& count = dpcore_fuzz::edge_counts[(mixed ^ before) % dpcore_fuzz::kEdges];
    count = static_cast<std::uint8_t>(count + (count < 255 ? 1 : 0));
    before = mixed >> 1;
}
}
