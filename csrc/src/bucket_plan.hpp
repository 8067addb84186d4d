// Where a bucket answer is placed, and the step for a width (private to the core).
//
// Method:    the tilt at the saddle point; a step from what both lists do to the variance, put among those on
// which
//            the atoms of one law lie.
// Domain:    any composition; a plan is not valid where there is no saddle point.
// Guarantee: none: no bound rests on where a grid lies.
// Evidence:  docs/accounting_derivations.md, "buckets"; tests/test_accounting_buckets.py.
#pragma once

#include <algorithm>
#include <vector>

#include "grid_delta.hpp"

namespace dpcore::detail {

inline constexpr double kFinest = 0.99 * static_cast<double>(kMaxBuckets);  // what a finer grid may take

Plan place_plan(const Composition& comp, double epsilon, StopCheck stop);
// The step for a width, among those on which the atoms of one law lie.
double fitting_step(const Plan& plan, const std::vector<Part>& parts, double width, bool thorough);

inline LogBounds intersected(const LogBounds& a, const LogBounds& b) {
    return {std::max(a.log_lower, b.log_lower), std::min(a.log_upper, b.log_upper)};
}

}  // namespace dpcore::detail
