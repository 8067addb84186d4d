// Sampled steps beside few Laplace releases, which are taken apart into responses and losses with a density.
//
// Method:    A loss of one release is at an end with probability a = (1 + e^-e)/2, and then that of a randomised
//            response: k of them are, with probability C(k, j) a^(k-j) (1-a)^j, k - j responses, which are listed,
//            and j losses between the ends, whose transforms fall. Larger j than matter are left out, by
//            Chernoff's bound of the binomial law.
// Domain:    as DividedSteps; up to 60 parts in all, releases of further kinds staying as they are.
// Guarantee: lower <= truth <= upper, for the finite losses; what is left out is in the upper bound.
// Evidence:  docs/accounting_derivations.md, "beside_laplace"; tests/test_accounting_sampled_atoms.py.
#pragma once

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// As beside_listed_bounds, which is asked for every part, and for the whole where there is no Laplace release.
LogBounds beside_laplace_bounds(const Composition& composition, Quantity quantity, double at, double content,
                                StopCheck stop);

}  // namespace dpcore::detail
