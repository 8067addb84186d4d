// The spectral engine: delta(eps) of a composition from the moment generating function of its loss.
//
// Method:    delta(eps) = 1/(2 pi i) integral over Re z = c of exp(K(z) - eps z)/(z (1+z)) dz by the trapezoid
// rule of step h,
//            c at the minimum of the integrand on the real axis: on c > 0, or, where delta is near 1, on -1 < c <
//            0 for 1 - delta. Losses on a lattice: the sum over one period with the kernel summed over all
//            periods. With D = 2 pi/h the rule gives sum over all integers m of e^{cDm} delta(eps + Dm): the terms
//            m != 0 are positive, so the rule is an upper bound, and Chernoff bounds of them make the lower one.
// Domain:    compositions of LossLaws; eps >= 0 for delta, any eps for tails.
// Guarantee: lower <= truth <= upper, with aliasing, truncation and rounding inside; widths of about 1e-12 to
// 1e-10
//            relative where the integrand decays within kMaxNodes nodes, else the trivial bounds. Never a wrong
//            bound.
// Evidence:  derivation in docs/accounting_derivations.md, "spectral and contour"; tests/cpp/test_spectral.cpp,
//            tests/test_accounting.py against mpmath.
// Reference: Zhu, Dong, Wang 2022 (characteristic functions of privacy losses); Trefethen and Weideman
// 2014 (trapezoid rule).
#pragma once

#include <limits>

#include "dpcore/composition.hpp"
#include "dpcore/interrupt.hpp"

namespace dpcore {

// Smooth quantities of the loss: delta(eps), or a tail probability of it.
enum class Quantity { delta, tail };

LogBounds spectral_delta(const Composition& composition, double epsilon, StopCheck stop = {});
// What holds without any integral: the infinite mass below, and above it what bounded losses can add.
LogBounds trivial_delta(const Composition& composition, double epsilon);

// Pr[L > at] with the infinite mass, and Pr[L < at], both strict.
struct Tails {
    Interval above;
    Interval below;
};
Tails spectral_tails(const Composition& composition, double at, StopCheck stop = {});

// Smallest eps >= 0 with delta(eps) <= delta: lower and upper bound (infinity where the infinite mass exceeds
// delta).
Interval spectral_epsilon(const Composition& composition, double delta, StopCheck stop = {});

// Where a contour for eps would stand (c > 0), for engines that tilt by it. Approximate, but far > c.
struct Placement {
    bool valid = false;
    double c = 0.0;
    double value = 0.0;     // K(c)
    double mean = 0.0;      // K'(c)
    double variance = 0.0;  // K''(c)
    double distance = 0.0;  // half a window around the mean that holds all but about 1e-9 of the tilted law
    double far = 0.0;       // Chernoff points above and below c for the two ends of that window
    double near = 0.0;
};
Placement spectral_placement(const Composition& composition, double epsilon, StopCheck stop = {});

// A contour for delta(eps) or Pr[L > eps] on c > 0 that is placed but not evaluated: the trapezoid rule with this
// spacing is off by at most exp(log_alias), relative to exp(K(c) - eps c), as is the estimate of the result.
struct ContourPlace {
    bool valid = false;
    double c = 0.0;
    double spacing = 0.0;  // 26 bits, so that multiples are exact
    double log_alias = 0.0;
    double log_estimate = 0.0;
};
ContourPlace spectral_place(const Composition& composition, double epsilon, Quantity quantity = Quantity::delta,
                            StopCheck stop = {});

// Saddle-point estimate of the logarithm of the finite part of delta(eps): no bound, and cheap.
double log_delta_estimate(const Composition& composition, double epsilon, StopCheck stop = {});
// The integrand at the saddle point: about as an upper bound from one exponential moment, but no bound.
double log_chernoff_estimate(const Composition& composition, double epsilon, StopCheck stop = {});
// log of an upper bound on the finite part of delta(eps), from one exponential moment; infinity where it would be
// above `useful`.
double log_chernoff_above(const Composition& composition, double epsilon, StopCheck stop = {},
                          double useful = std::numeric_limits<double>::infinity());
// The same from the moment with exponent c > 0.
double log_chernoff_at(const Composition& composition, double epsilon, double c, StopCheck stop = {});
// Bounds on it where nearly all losses are above eps: M(0) - e^eps M(-1) + E[(e^{eps-L} - 1)+], the last by one
// exponential moment if that is at most exp(negligible), else by a contour left of -1. No lattice, no infinite
// mass.
LogBounds mostly_above(const Composition& composition, double epsilon, double negligible, StopCheck stop);

// Adds the mass of infinite losses to bounds of the finite part, and cuts at the total mass.
LogBounds add_infinite_mass(const Composition& composition, LogBounds finite);
// The same for tails, from bounds of Pr[L > at] over finite losses, the upper one also of Pr[L >= at].
Tails both_tails(const Composition& composition, const Interval& finite_above);

}  // namespace dpcore
