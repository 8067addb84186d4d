// Walks along a pmf whose neighbouring values have a rational ratio: binomial and hypergeometric.
//
// Method:    v(k+1) / v(k) = odds * prod_f (top_f - k) / (bottom_f + k), f < F. Every 8 points an anchor is
//            carried on in double-double (the factors are exact integers, so one relative error of about 2^-97
//            a block); the points between are at most 4 steps from an anchor: anchor * odds^i * (product of
//            tops / product of bottoms) in double. Four blocks, a chunk of 32 points, are worked on side by
//            side in vector lanes. The anchor has its own binary exponent, so nothing under- or overflows on
//            the way. Where the ratio is extreme (beyond 2^+-20), and over the last points of the support, it
//            goes one by one in double-double.
// Domain:    tops and bottoms are integers below 2^53 in magnitude, bottom_f + k > 0 and top_f - k > 0 for k
//            before `last`.
// Guarantee: with u = 2^-53, a value written is within (2 (4 F - 1) + 5) u of the exact one times the start's
//            error, F = 1: 11 u = 1.3e-15, F = 2: 19 u = 2.2e-15, plus 2^-97 a block walked, plus one rounding
//            to the subnormal grid for results below 2^-1022. The same bits on every processor: the fused
//            multiply-add of the AVX2 variant only computes what the splitting computes, exactly.
// Evidence:  tests/test_distributions.py measures the laws built on it against exact rationals;
//            tests/cpp/test_ratio_walk.cpp compares the variants and the single step.
#pragma once

#include <cstdint>

#include "dpcore/double_double.hpp"
#include "dpcore/double_double_functions.hpp"

namespace dpcore {

template <int F>
struct RatioLaw {
    double top[F] = {};
    double bottom[F] = {};
    DoubleDouble odds = 1.0;         // mantissa, hi in [1, 2),
    std::int64_t odds_exponent = 0;  // and exponent of the constant factor
    double last = 0.0;               // the ratio at `last` is 0: end of the support

    // v(k+1) / v(k) in double: at most 2F + 2 roundings; and the same without odds.
    double ratio(double k) const;
    double product_ratio(double k) const;
    // The same without odds in double-double, relative error 2^-98.
    DoubleDouble exact_ratio(double k) const;
};

template <int F>
class RatioWalk {
public:
    static constexpr int kChunk = 32;

    RatioWalk(const RatioLaw<F>& law, double k, const Scaled& value);

    double k() const { return k_; }
    const Scaled& value() const { return value_; }
    bool at_end() const { return !(k_ < law_.last); }

    // One step, all in double-double. Not at the end.
    void step();

    // Writes v(k), v(k+1), ... times 2^-scale, at most kChunk of them, and moves past them; the number written, 0
    // once the last value of the support has been written. `out` has room for kChunk values.
    int next(double* out, std::int64_t scale);

private:
    bool chunk_fits() const;

    RatioLaw<F> law_;
    double k_;
    Scaled value_;
    bool by_chunk_ = false;
    bool finished_ = false;
    double forward_power_[5] = {};   // odds^i
    double backward_power_[5] = {};  // odds^-i
    DoubleDouble block_power_ = 1.0;
};

extern template struct RatioLaw<1>;
extern template struct RatioLaw<2>;
extern template class RatioWalk<1>;
extern template class RatioWalk<2>;

}  // namespace dpcore
