// delta and tail probabilities of a few Laplace releases as a finite sum of positive terms.
//
// Notation:  e0 the epsilon of one release, k how many, eps the epsilon asked, T = (eps + k e0)/(2 e0) = n0 + f
//            with f in [0, 1), V_j the sum of j uniform variables on [0, 1].
// Method:    the loss of one release times exp(-loss/2) is exp(-e0/2) [1/2 at e0, 1/2 at -e0, e0/2 spread evenly
//            between]. Expanding the k-fold product by the number j of even parts,
//                delta = exp((eps - k e0)/2) sum_j C(k,j) (e0/2)^j 2^-(k-j) sum_i C(k-j,i) g_j(T - i),
//                g_j(t) = E[2 sinh(e0 (V_j - t))+]
//            with g_j(t) = (sinh(e0/2)/(e0/2))^j 2 sinh(e0 (j/2 - t)) for t <= 0, 0 for t >= j, and in between
//                g_j(t) = 2 sum over odd m of e0^m I_m(t),   I_m(t) = E[(V_j - t)+^m]/m!.
//            Pr[L > eps] is the same with E[exp(e0 (V_j - t)); V_j > t], the sum over all m. De Boor's recurrence
//            holds for every m: for 0 <= t <= j
//                (j + m) I_m of j at t = (j - t) I_m of j-1 at t-1 + t I_m of j-1 at t,
//            and (j + m) I_m of j at t = j I_m of j-1 at t-1 + |t| I_(m-1) of j at t for t < 0.
//            All arguments have the same fractional part f.
// Domain:    2 <= k <= kMostCopies, eps >= 0, e0 >= kLeastStep, and e0 times the number of even parts that matter
//            at most kMostReach; otherwise nothing is returned.
// Guarantee: bounds on ln delta or ln Pr[L > eps]; a loss equal to eps is not above it, decided without error.
// Every
//            term is positive, so the relative error is that of the worst term: 12 roundings for each step in j or
//            m, 8 for each step of the walk over i; the neglected j, i and m are bounded by geometric series (the
//            terms are log-concave in i; in m and j by Chernoff's bound with the law's own tilt).
// Evidence:  docs/accounting_derivations.md, "laplace_sum"; tests/test_accounting.py against exact
//            integration with mpmath.
// Reference: de Boor 1972 for m = -1, the density.
#pragma once

#include <optional>

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

std::optional<LogBounds> laplace_sum_delta(double epsilon0, double copies, double epsilon, StopCheck stop);

// Pr[L > epsilon]
std::optional<LogBounds> laplace_sum_above(double epsilon0, double copies, double epsilon, StopCheck stop);

// Whether the atoms that remain on a contour make it slow: a guess, to choose what to try first.
bool laplace_sum_first(double epsilon0, double copies, double epsilon);

}  // namespace dpcore::detail
