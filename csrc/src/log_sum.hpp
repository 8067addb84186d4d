// Sums of numbers that are known by their logarithms, rounded to one side.
//
// Guarantee: log_add(a, b, 1) is at least, log_add(a, b, -1) at most log(e^a + e^b); within some roundings of 1
// and of
//            the larger.
// Evidence:  tests/cpp/test_point_sums.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/bounds.hpp"
#include "dpcore/certified.hpp"

namespace dpcore::detail {

// Where one is not known, neither is the sum.
inline double log_add(double a, double b, double direction) {
    if (std::isnan(a) || std::isnan(b)) return direction * std::numeric_limits<double>::infinity();
    const double top = std::max(a, b);
    if (std::isinf(top)) return top;
    const double sum = top + std::log1p(std::exp(std::min(a, b) - top));
    return sum + direction * (2.0 * kLibm + 2.0 * kRound * std::fabs(sum));
}

// A sum or difference of two logarithms as it was rounded, moved to one side.
inline double outward(double sum, double direction) {
    return std::isfinite(sum) ? sum + direction * 2.0 * kRound * std::fabs(sum) : sum;
}

// log of (upper - lower), about.
inline double log_width(const LogBounds& b) {
    if (std::isinf(b.log_lower)) return b.log_upper;
    return b.log_upper + std::log(-std::expm1(std::min(b.log_lower - b.log_upper, 0.0)));
}

}  // namespace dpcore::detail
