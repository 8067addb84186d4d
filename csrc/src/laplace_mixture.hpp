// delta and tail probabilities of a few different Laplace releases, alone or beside randomised responses, as a
// finite sum of positive terms.
//
// Notation:  releases of epsilon e_i, k_i of each, R = sum of k_i e_i; a state holds s_i even parts and a_i upper
//            atoms of each kind (the other k_i - s_i - a_i are lower atoms), n = sum of s_i, V the sum of s_i
//            uniform variables on [0, 2 e_i] over all i, W = sum of 2 e_i s_i, t = eps + R - sum of 2 e_i a_i.
// Method:    as for equal releases (laplace_sum.hpp) the law times exp(-loss/2) is exp(-R/2) times the product of
//            [1/2, 1/2, e_i/2 spread evenly] or, for a randomised response, [p, p] with p = 1/(1 + exp(-e_i)), so
//                delta = exp((eps - R)/2) sum over states of weight E[2 sinh((V - t)/2)+],
//            and Pr[L > eps] the same with E[exp((V - t)/2); V > t]: sums over m of 2^-m I_m(t), I_m =
//            E[(V-t)+^m]/m!. De Boor and Hoellig's recurrence for box splines holds for every m: for 0 <= t <= W
//                (n + m) I_m = sum_i s_i [(1 - t/W) I_m(s_i - 1, a_i + 1) + (t/W) I_m(s_i - 1, a_i)],
//            and (n + m) I_m = sum_i s_i I_m(s_i - 1, a_i + 1) + |t| I_(m-1) for t < 0: states lead to states.
// Domain:    Laplace laws, at least one, and randomised responses (or infinite losses, which are added at the
// end); at
//            most kMostStates states and kMostWork steps. Otherwise nothing is returned.
// Guarantee: bounds on ln delta or ln Pr[L > eps]. Every t is a sum without error, so a loss equal to eps is not
// above
//            it; every term is positive, so the relative error is the number of roundings along a path; powers
//            left out are bounded by a factorial or by Chernoff's bound.
// Evidence:  docs/accounting_derivations.md, "laplace_mixture"; tests/test_accounting.py against divided
//            differences in mpmath.
// Reference: de Boor and Hoellig 1982, "Recurrence relations for multivariate B-splines", for m = -1.
#pragma once

#include <optional>

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Whether the composition has such a sum (equal releases: that of laplace_sum.hpp), small enough to be worth it.
bool has_laplace_sum(const Composition& composition);

// Only where has_laplace_sum, at epsilon >= 0.
std::optional<LogBounds> laplace_mixture_delta(const Composition& composition, double epsilon, StopCheck stop);
std::optional<LogBounds> laplace_mixture_above(const Composition& composition, double epsilon, StopCheck stop);

// Whether to try the sum before a contour, on which the atoms would decay too slowly; a guess.
bool laplace_mixture_first(const Composition& composition, double epsilon);

}  // namespace dpcore::detail
