// Where contours stand: saddle points and moments of a composition on the real axis.
//
// Method:    Newton's, kept inside a bracket, for the minimum of K(c) - eps c and the logarithm of the kernel.
// Domain:    compositions of LossLaws.
// Guarantee: find_saddle and moments are approximate: any c gives a valid contour. certified_moment is between its
//            bounds.
// Evidence:  docs/accounting_derivations.md, "spectral and contour"; tests/cpp/test_spectral.cpp.
#pragma once

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Minimum of K(c) - eps c + potential on c > 0 (side 1), on -1 < c < 0 for delta and c < 0 for tails (side -1), or
// on c < -1 for delta (side -2); Newton kept inside a bracket.
struct Saddle {
    double c;
    double second;
    double value;  // K(c) - eps c + potential
};

Saddle find_saddle(const Composition& composition, Quantity quantity, double epsilon, int side, double mean,
                   double variance, StopCheck stop);

struct Moments {
    double mean, variance;
};
Moments moments(const Composition& composition, StopCheck stop);

// K at a real point, between two bounds; the lower one is -infinity where it is not known.
LogBounds certified_moment(const Composition& composition, double c, StopCheck stop);

}  // namespace dpcore::detail
