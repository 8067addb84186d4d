// The sum over points x of weight times delta(x), or times Pr[L > x], of a composition: what a composition adds to
// listed losses of others, x being epsilon less such a loss.
//
// Method:    Points at or above the mean of L: neighbouring ones, within some standard deviations of the tilted
// law,
//            have one contour together (contour.hpp), c > 0. Points below it: delta(x) = M(0) - e^x M(-1) +
//            E[(e^{x-L} - 1)+], the last by contours left of -1; Pr[L > x] = M(0) - Pr[L <= x], by contours left
//            of 0. One exponential moment for what is next to nothing.
// Domain:    compositions without a lattice; points sorted by rising x, of either sign.
// Guarantee: lower <= truth <= upper, for the weights as they are.
// Evidence:  docs/accounting_derivations.md, "point_sums"; tests/test_accounting_sampled_atoms.py,
//            tests/cpp/test_point_sums.cpp.
#pragma once

#include <vector>

#include "contour.hpp"

namespace dpcore::detail {

// Of finite losses, as a logarithm. enough: log of what is next to nothing.
LogBounds point_sums(const Composition& composition, Quantity quantity, const std::vector<WeightedPoint>& points,
                     double enough, StopCheck stop);
// An upper bound of it, from the moment with exponent c > 0.
double log_point_moment(const Composition& composition, Quantity quantity,
                        const std::vector<WeightedPoint>& points, double c, StopCheck stop);

}  // namespace dpcore::detail
