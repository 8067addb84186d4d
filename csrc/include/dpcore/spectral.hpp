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
// Evidence:  derivation in docs/accounting.md; tests/cpp/test_spectral.cpp, tests/test_accounting.py against
// mpmath. Reference: Zhu, Dong, Wang 2022 (characteristic functions of privacy losses); Trefethen and Weideman
// 2014 (trapezoid rule).
#pragma once

#include <memory>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/loss_law.hpp"

namespace dpcore {

struct Term {
    LawPtr law;
    double copies = 1.0;  // a whole number
};

// The loss of a composition in one direction.
struct Composition {
    std::vector<Term> terms;
    double max_loss = 0.0;  // rounded up
    double min_loss = 0.0;  // rounded down
    double log_finite_mass = 0.0;
    double log_total_mass = 0.0;
    double log_mass_err = 0.0;
    double log_finite_share = 0.0;      // log(finite mass/total mass)
    double log_finite_share_err = 0.0;  // relative
    double infinite_mass = -1.0;        // where it is known without rounding error, else -1
    bool atomic = false;                // every law has finitely many atoms
    bool smooth = false;                // some law has a density and no atoms
    Lattice lattice;                    // common lattice, step 0 if there is none

    static Composition of(std::vector<Term> terms);
    Cumulants cumulants(double c) const;
    double infinite_mass_lower() const;
    double infinite_mass_upper() const;
};

// exp(log_lower) <= truth <= exp(log_upper); log_lower may be -infinity.
struct LogBounds {
    double log_lower;
    double log_upper;
};

// Smooth quantities of the loss: delta(eps), or a tail probability of it.
enum class Quantity { delta, tail };

LogBounds spectral_delta(const Composition& composition, double epsilon, StopCheck stop = {});

struct Interval {
    double lower;
    double upper;
};

// exp of logarithmic bounds, rounded outward: below the smallest normal number the lower bound may be 0.
Interval from_log(const LogBounds& bounds);

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
Placement spectral_placement(const Composition& composition, double epsilon);

// Adds the mass of infinite losses to bounds of the finite part, and cuts at the total mass.
LogBounds add_infinite_mass(const Composition& composition, LogBounds finite);

}  // namespace dpcore
