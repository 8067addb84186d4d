// How far the loss of an added record is below the largest one (private to the core).
//
// Method:    with y = (x - 1/2)/s^2 and W = 1 - q + q e^y the loss is -log W, at most -log(1 - q); the difference
//            is log(1 + q/(1-q) e^y), in which nothing cancels however small it is.
// Domain:    as subsampled_step.hpp; gaps below 700.
// Guarantee: relative error of `of` at most `err` of an output; that of the gap at `place` likewise.
// Evidence:  docs/accounting_derivations.md, "sampled_ends"; tests/test_accounting_buckets.py.
#pragma once

#include <cmath>

#include "dpcore/certified.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

class AddedGap {
public:
    explicit AddedGap(const SubsampledStep& step)
        : s2_(step.sigma * step.sigma), odds_(step.q / (1.0 - step.q)), step_(step) {}
    double of(double x) const { return std::log1p(odds_ * std::exp(step_.exponent(x))); }
    double place(double gap) const { return 0.5 + s2_ * std::log(std::expm1(gap) / odds_); }
    // y has at most 5 roundings and e^y as many times |y|; the functions and products their own.
    double err(double x) const { return 4.0 * kLibm + 16.0 * kRound * (1.0 + std::fabs(step_.exponent(x))); }

private:
    double s2_, odds_;
    SubsampledStep step_;
};

}  // namespace dpcore::detail
