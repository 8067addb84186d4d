// Chernoff's bound of a composition's loss: what holds where no contour is of use.
//
// Method:    Pr[L > x] <= E exp(c (L - x)) for c > 0, Pr[L < x] <= the same for c < 0, c where K'(c) is about x.
// Domain:    compositions of LossLaws, any x.
// Guarantee: an upper bound for whatever c is found; K(c) enters with its own error bound.
// Evidence:  tests/test_accounting.py: tails of 10^6 copies far from the mean.
#pragma once

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

struct Chernoff {
    double c;
    double log_bound;  // at least K(c) - c x
};

// side > 0: c > 0, for the tail above x; side < 0: c < 0.
Chernoff chernoff(const Composition& composition, double x, int side, StopCheck stop = {});

// log of an upper bound of Pr[L > x] (side > 0) or Pr[L <= x] (side < 0), finite losses: by the first of rising
// exponents that shows it to be below exp(enough), or the best of them.
double log_chernoff_tail(const Composition& composition, double x, int side, double enough, StopCheck stop);

// Pr[L > x] with the infinite mass, and Pr[L < x].
Tails chernoff_tails(const Composition& composition, double x, StopCheck stop = {});

}  // namespace dpcore::detail
