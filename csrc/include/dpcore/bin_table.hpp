// Exact choice of a bin with fixed probabilities: Walker's alias method with lazily compared thresholds.
//
// Method:    weights in 256-bit fixed point; the alias table is built in exact arithmetic on them. A choice takes
//            an index and 26 bits that are compared with the column's threshold; only if all 26 agree (probability
//            2^-26) are 192 more bits drawn and compared with the threshold's further bits.
// Guarantee: the bin's law differs from the exact weights by less than 2^-200 in total variation (weights 2^-230
//            each, thresholds truncated at 2^-218, at most 2^11 bins). One lookup, whatever the bin.
// Evidence:  tests/test_samplers_exact.py rebuilds the law from the table and compares it with mpmath.
// Reference: Walker (1977); Vose (1991).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dpcore/fixed_point.hpp"

namespace dpcore {

class BinTable {
public:
    static constexpr unsigned kAliasBits = 11;
    static constexpr unsigned kCompareBits = 26;

    // The size is a power of two, at most 2^kAliasBits.
    explicit BinTable(const std::vector<Fixed256>& weights);

    struct Choice {
        std::uint64_t bin;
        bool undecided;
    };
    // index < size(), compare < 2^kCompareBits.
    Choice choose(std::uint64_t index, std::uint64_t compare) const {
        const std::uint64_t column = columns_[index];
        const std::uint64_t threshold = column >> kAliasBits;
        const std::uint64_t alias = column & ((1U << kAliasBits) - 1);
        return {compare < threshold ? index : alias, compare == threshold};
    }

    // The same choice with the further bits of `compare`, most significant word first.
    std::uint64_t choose_exactly(std::uint64_t index, std::uint64_t compare,
                                 const std::array<std::uint64_t, 3>& further) const;

    std::size_t size() const { return columns_.size(); }
    const Fixed256& total() const { return total_; }  // sum of the weights

    struct Column {
        std::uint64_t threshold;               // first 26 bits
        std::array<std::uint64_t, 3> further;  // the next 192
        std::uint64_t alias;
    };
    Column column(std::size_t index) const;

    // exp(-i/16) for i < 2^11: the exponential law up to 128 (beyond it lies exp(-128) < 2^-184).
    static const BinTable& exponential();
    // exp(-i^2/8192) for i < 2^10: half of the normal law, in steps of 1/64, up to 16.
    static const BinTable& half_normal();

private:
    std::vector<std::uint64_t> columns_;  // threshold * 2^kAliasBits + alias
    std::vector<std::array<std::uint64_t, 3>> further_;
    Fixed256 total_;
};

}  // namespace dpcore
