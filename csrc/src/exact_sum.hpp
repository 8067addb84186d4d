// The sum of a few doubles to full relative precision, with the right sign, and zero only where it is zero.
//
// Method:    error-free additions into parts that do not overlap (Shewchuk 1997); the parts are added from the
//            largest down.
// Domain:    sums and terms within the range of double, no term between 0 and 2^-900 in size.
// Guarantee: relative error at most 2 roundings; the sign is exact.
// Evidence:  tests/test_accounting.py: releases whose losses meet epsilon exactly, or miss it by one last bit.
#pragma once

#include <array>
#include <cstddef>

#include "dpcore/double_double.hpp"

namespace dpcore::detail {

// Room for the exact products of 31 pairs and one more term.
class ExactSum {
public:
    static constexpr std::size_t kMostTerms = 63;

    void add(double x) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < size_; ++i) {
            const DoubleDouble s = two_sum(x, parts_[i]);
            if (s.lo != 0.0) parts_[kept++] = s.lo;
            x = s.hi;
        }
        if (x != 0.0) parts_[kept++] = x;
        size_ = kept;
    }
    void add_product(double a, double b) {
        const DoubleDouble p = two_prod(a, b);
        add(p.lo);
        add(p.hi);
    }
    double value() const {
        double sum = 0.0;
        for (std::size_t i = size_; i-- > 0;) sum += parts_[i];
        return sum;
    }

private:
    std::array<double, kMostTerms + 1> parts_{};  // from the smallest to the largest, not overlapping
    std::size_t size_ = 0;
};

}  // namespace dpcore::detail
