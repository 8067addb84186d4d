// The kernel by which the transform of a loss is weighed along a line Re z = c, for delta and for tails.
//
// Method:    1/(z(1+z)) for delta, 1/z for tails. On a lattice of spacing d, with x in (0, d] the distance from
// eps
//            to its next point, that summed over all periods 2 pi/d: d times
//                e^{-zx} [(1 - e^{-x}) + e^{-zd-x}(1 - e^{-(d-x)})] / ((1 - e^{-zd})(1 - e^{-(1+z)d})),
//            or e^{-zx}/(1 - e^{-zd}), written so that nothing cancels.
// Domain:    c != 0 (delta: nor -1); t >= 0, on a lattice up to pi/d.
// Guarantee: value() and x are within their err; bound(t, x) is at least the modulus from t on. slope() is
//            approximate.
// Evidence:  docs/accounting_derivations.md, "spectral and contour"; tests/cpp/test_spectral.cpp.
#pragma once

#include "dpcore/certified.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// First lattice point strictly above eps, less eps; and the error of that difference. A point within the error of
// eps may be taken on either side: the payoff of delta is continuous there. `tie`: a lattice point may equal eps.
struct Offset {
    double x = 0.0;
    double err = 0.0;
    bool tie = false;
    bool exact_tie = false;
};
Offset lattice_offset(const Lattice& lattice, double eps);

class ContourKernel {
public:
    // The lattice outlives the kernel; none if its step is 0.
    ContourKernel(const Lattice& lattice, Quantity quantity, double c)
        : lattice_(lattice), quantity_(quantity), c_(c) {}

    Certified value(double t, const Offset& offset) const;
    // |kernel(c + it')| <= this for all t' >= t (lattice: up to pi/step), at the distance x.
    double bound(double t, double x) const;
    // Kernel of d delta/d eps, or of that of a tail; approximate.
    Complex slope(double t, double x, Complex value) const;

private:
    bool on_lattice() const { return lattice_.step > 0.0; }

    const Lattice& lattice_;
    Quantity quantity_;
    double c_;
};

}  // namespace dpcore::detail
