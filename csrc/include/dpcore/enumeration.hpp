// Exact enumeration of the losses of a composition of finitely many atoms.
//
// Method:    every way to distribute the copies of a law over its atoms, masses as running products of binomial
// terms, all
//            of them positive; products over laws.
// Domain:    compositions whose laws all have finitely many atoms; at most `limit` losses.
// Guarantee: bounds of delta and tails with the rounding of masses and losses inside; relative width a few
// thousand
//            roundings times the number of copies.
// Evidence:  tests/test_accounting.py, against exact rational arithmetic.
#pragma once

#include <cstddef>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore {

class Enumeration {
public:
    // Number of losses an enumeration would hold; infinity when the composition is not atomic.
    static double size(const Composition& composition);
    Enumeration(const Composition& composition, StopCheck stop);

    Interval delta(double epsilon) const;  // over finite losses
    Interval above(double epsilon) const;  // Pr[L > epsilon], finite losses
    Interval below(double epsilon) const;  // Pr[L < epsilon]

    struct Point {
        double loss, mass;
    };
    const std::vector<Point>& points() const { return points_; }
    double loss_err() const { return loss_err_; }  // absolute
    double mass_err() const { return mass_err_; }  // relative

private:
    StopCheck stop_;
    std::vector<Point> points_;
    double loss_err_ = 0.0;  // absolute
    double mass_err_ = 0.0;  // relative
};

inline constexpr double kMaxEnumeration = 1048576.0;  // distinct sums: 16 MB

}  // namespace dpcore
