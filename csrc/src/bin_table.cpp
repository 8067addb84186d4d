#include "dpcore/bin_table.hpp"

#include <stdexcept>

namespace dpcore {

BinTable::BinTable(const std::vector<Fixed256>& weights)
    : columns_(weights.size()), further_(weights.size()), total_() {
    const std::size_t n = weights.size();
    if (n == 0 || (n & (n - 1)) != 0 || n > (std::size_t{1} << kAliasBits))
        throw std::invalid_argument("a bin table holds a power of two of bins, at most 2048");
    for (const Fixed256& w : weights) total_ = total_ + w;
    const Fixed256 scale = reciprocal(total_);

    // Vose's construction: every column holds `total_`, bin i brings n * weight. All sums are exact.
    std::vector<Fixed256> left(n);
    std::vector<std::size_t> low;
    std::vector<std::size_t> high;
    for (std::size_t i = 0; i < n; ++i) {
        left[i] = weights[i] * n;
        (left[i] < total_ ? low : high).push_back(i);
    }
    const auto set = [&](std::size_t i, const Fixed256& share, std::size_t alias) {
        const Fixed256 threshold = share * scale;  // below 1, because share < total
        columns_[i] = ((threshold.limb[3] >> (64 - kCompareBits)) << kAliasBits) | alias;
        const Fixed256 rest = shift_left(threshold, kCompareBits);
        further_[i] = {rest.limb[3], rest.limb[2], rest.limb[1]};
    };
    while (!low.empty() && !high.empty()) {
        const std::size_t small = low.back();
        const std::size_t large = high.back();
        low.pop_back();
        set(small, left[small], large);
        left[large] = left[large] - (total_ - left[small]);
        if (left[large] < total_) {
            high.pop_back();
            low.push_back(large);
        }
    }
    // Full columns: either way leads to the bin itself.
    for (const std::size_t i : low) columns_[i] = i;
    for (const std::size_t i : high) columns_[i] = i;
}

std::uint64_t BinTable::choose_exactly(std::uint64_t index, std::uint64_t compare,
                                       const std::array<std::uint64_t, 3>& further) const {
    const Column c = column(index);
    if (compare != c.threshold) return compare < c.threshold ? index : c.alias;
    return further < c.further ? index : c.alias;
}

BinTable::Column BinTable::column(std::size_t index) const {
    const std::uint64_t packed = columns_.at(index);
    return {packed >> kAliasBits, further_[index], packed & ((1U << kAliasBits) - 1)};
}

const BinTable& BinTable::exponential() {
    static const BinTable table = [] {
        std::vector<Fixed256> weights;
        const Fixed256 ratio = exp_negative(from_scaled(1, -4));
        Fixed256 w = Fixed256::integer(1);
        for (int i = 0; i < 2048; ++i) {
            weights.push_back(w);
            w = w * ratio;
        }
        return BinTable(weights);
    }();
    return table;
}

const BinTable& BinTable::half_normal() {
    static const BinTable table = [] {
        // (i+1)^2 - i^2 = 2 i + 1: the ratio of neighbours is itself a geometric sequence.
        std::vector<Fixed256> weights;
        Fixed256 w = Fixed256::integer(1);
        Fixed256 ratio = exp_negative(from_scaled(1, -13));
        const Fixed256 step = exp_negative(from_scaled(1, -12));
        for (int i = 0; i < 1024; ++i) {
            weights.push_back(w);
            w = w * ratio;
            ratio = ratio * step;
        }
        return BinTable(weights);
    }();
    return table;
}

}  // namespace dpcore
