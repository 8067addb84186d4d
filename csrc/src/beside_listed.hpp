// Sampled steps beside laws of few losses, which are listed: bounds for each of these, or for several together.
//
// Method:    delta and tails are the sum over the listed losses l, of mass b(l), of those of everything else at
//            epsilon - l, all positive. One step beside them and nothing else has a closed form for each l. Where
//            the steps have one scale all are asked together; else those of one sign and about one size of
//            epsilon - l, with cuts of their own.
// Domain:    as DividedSteps; losses as LossList takes them. Where nothing can be listed, the division without.
// Guarantee: lower <= truth <= upper, for the finite losses.
// Evidence:  docs/accounting_derivations.md, "beside_listed"; tests/test_accounting_sampled_atoms.py.
#pragma once

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Bounds of delta or Pr[L > at], finite losses, of about this width: relative for delta, absolute for tails.
LogBounds beside_listed_bounds(const Composition& composition, Quantity quantity, double at, double content,
                               StopCheck stop);

}  // namespace dpcore::detail
