// The standard normal distribution: Mills ratio, its differences, tails and quantiles, without cancellation.
//
// R(t) = Phi(-t)/phi(t) = integral over u > 0 of exp(-t u - u^2/2), phi the density, Phi the distribution.
//
// Method:    R by Taylor series about a node at or above t, where every term is positive
// (csrc/src/mills_table.hpp,
//            nodes a 16th of the argument apart); the asymptotic series from t = 64 on (terms fall by 2n/t^2);
//            reflection R(t) = sqrt(2 pi) exp(t^2/2) - R(-t) below 0.
//            R(a) - R(b) as a divided difference of the same positive series when a and b are close (no
//            subtraction of values), as a difference when they are not.
// Domain:    finite t; R overflows to infinity below about -38.5 (double) as it must.
// Guarantee: relative error, u = 2^-53 for double and 2^-64 for an 80-bit long double:
//            mills              6 u for t >= 0
//            mills_difference   300 u for 0 <= a <= b where values are subtracted (b - a is then over a node
//                               spacing, a 32nd of b, so the condition number is at most 70), 10 u elsewhere
//            normal_tail        8 u for x <= 2, else 10 u + the rounding of x^2/2, which is compensated: 12 u
//            normal_quantile_tail  the x for which normal_tail(x) is p, to 4 u relative or u absolute
//            long double results are good to max(2^-64, LDBL_EPSILON / 2) times these, the table having 25 digits.
// Evidence:  tests/test_normal.py against mpmath at 60 digits, both sides of each threshold.
// Reference: R is completely monotone (its n-th derivative has sign (-1)^n), hence the positive series.
#pragma once

namespace dpcore {

// R(t).
double mills(double t);
long double mills(long double t);

// R(a) - R(b) for 0 <= a <= b, or for any a <= b with b - a <= 1/8 and b > 0.
double mills_difference(double a, double b);
long double mills_difference(long double a, long double b);

// 1 - t R(t) = -R'(t), t >= 0.
double mills_slope(double t);

// Phi(-x), the upper tail, and its natural logarithm (finite for every finite x below 1e154 in magnitude).
double normal_tail(double x);
double log_normal_tail(double x);

// x with normal_tail(x) = p, 0 < p < 1.
double normal_quantile_tail(double p);

}  // namespace dpcore
