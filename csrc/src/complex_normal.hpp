// The tail of the normal law at complex arguments: Q(w) = erfc(w/sqrt 2)/2.
//
// Method:    With z = w/sqrt 2 and Re z > 0, erfc(z) = e^{-z^2} (z/pi) * integral of e^{-s^2}/(s^2 + z^2) ds, by
// the
//            trapezoid rule at s = (n + 1/2) h, h = 1/2. Its error is what the poles at s = +-iz add,
//            2/(1 + e^{2 pi z/h}), which is exact and counts where they are nearer than pi/h, and an integral
//            along Im s = b, at most 2 e^{(b - pi/h)^2 - (pi/h)^2} |z|/sqrt(pi)/(|b - Re z| b), 1 <= |b - Re z|,
//            |b - 2 pi| <=
//            1. Left of 0: Q(w) = 1 - Q(-w).
// Domain:    |Im w| <= 0.3 + 0.3 |Re w|: away from the poles of the rule.
// Guarantee: the value exp(log_scale) value is within relative error err of Q(w), the argument being exact.
// Evidence:  docs/accounting_derivations.md, "far_step"; tests/cpp/test_complex_normal.cpp.
// Reference: Chiarella and Reichel 1968; Matta and Reichel 1971.
#pragma once

#include "dpcore/certified.hpp"

namespace dpcore::detail {

struct ScaledComplex {
    Complex value;
    double log_scale;  // of its modulus, so that it may be beyond the range of double
    double err;        // relative
};
ScaledComplex complex_normal_tail(Complex w);

}  // namespace dpcore::detail
