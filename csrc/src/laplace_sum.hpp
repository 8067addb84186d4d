// delta of a few Laplace releases as a finite sum of positive terms.
//
// Notation:  e0 the epsilon of one release, k how many, eps the epsilon asked, T = (eps + k e0)/(2 e0) = n0 + f
// with f
//            in [0, 1), V_j the sum of j uniform variables on [0, 1], N_j its density (a B-spline).
// Method:    the loss of one release times exp(-loss/2) is exp(-e0/2) [1/2 at e0, 1/2 at -e0, e0/2 spread evenly
//            between]. Expanding the k-fold product by the number j of even parts,
//                delta = exp((eps - k e0)/2) sum_j C(k,j) (e0/2)^j 2^-(k-j) sum_i C(k-j,i) g_j(T - i),
//                g_j(t) = E[2 sinh(e0 (V_j - t))+]
//            with g_j(t) = (sinh(e0/2)/(e0/2))^j 2 sinh(e0 (j/2 - t)) for t <= 0, 0 for t >= j, and in between
//                g_j(t) = 2 sum over odd m of e0^m I_m(t),   I_m(t) = E[(V_j - t)+^m]/m!,
//            where I_m of j is the sum over s >= 1 of I_(m-1) of j + 1 at t + s, I_(-1) = N, and N follows
//            (n-1) N_n(t) = t N_(n-1)(t) + (n-t) N_(n-1)(t-1). All arguments have the same fractional part f.
// Domain:    2 <= k <= kMostCopies, e0 in [kLeastStep, kGreatestStep], 0 <= eps < k e0, and k e0 small enough for
// the
//            number of even parts to stay below kMostParts; otherwise nothing is returned.
// Guarantee: bounds on ln delta. Every term is positive, so the relative error is that of the worst term: 6
// roundings
//            for each level of N, the length of the row for each level of I, 8 for each step of the walk over i,
//            the neglected j, i and m bounded by geometric series (the terms are log-concave in i; in m the ratio
//            of I_(m+2) to I_m is at most (j-t)^2/((m+1)(m+2)); in j Chernoff's bound with the law's own tilt).
// Evidence:  docs/accounting.md, tests/test_accounting.py against exact integration with mpmath.
// Reference: de Boor 1972 for the recurrence of N.
#pragma once

#include <optional>

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

std::optional<LogBounds> laplace_sum_delta(double epsilon0, double copies, double epsilon, StopCheck stop);

}  // namespace dpcore::detail
