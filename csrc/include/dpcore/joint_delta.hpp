// The delta of two releases of one count: X + Laplace(estimate_scale) and X + N(0, noise_scale^2).
//
// Notation:  y, z the two outputs, s and beta their scales, c_k the weights of count_delta.hpp, phi_k the normal
//            density at z - k. "Cell j" is y in [j, j + 1].
// Method:    for fixed z the weighted density is positive above some Y(z), which falls as z grows. In cell j it is
//            (e^((j-y)/s) A + e^((y-j)/s) B) / (2 s) with A = sum over k <= j of c_k phi_k e^((k-j)/s), B the same
//            over k > j with e^((j-k)/s), so the integral over y is in closed form, and
//                delta = integral over z of W(z),  W = sum over k > j of c_k phi_k - sqrt(-A B)
//            where t(j+1) <= z <= t(j), t(j) being the z with Y(z) = j; W = 0 below the last t and sum c_k phi_k
//            above the first, whose integral is a sum of normal tails. Between two t the integrand is analytic:
//            Gauss-Legendre, with the remainder bounded on an ellipse in which neither A nor B can vanish
//            (docs/partial_knowledge.md, theorem 10), pieces divided where their bound is largest.
// Domain:    epsilon > 0; 0 <= unknown < 2^53; bias in [0, 1]; noise_scale >= 0; estimate_scale > 0, all finite.
//            Outside: std::invalid_argument.
// Guarantee: log_lower <= ln delta <= log_upper, with quadrature, the cut of the law, misplaced t(j) and rounding
//            inside. Both are within about 1e-10 of each other where the noise is not many times the spread of the
//            count (rounding grows with noise_scale over that spread, and with |ln delta|), unless kMostDivisions
//            of the pieces do not suffice. Time grows like the standard deviation of the count, or where panels
//            (csrc/src/joint_panel.hpp) do not help like its variance; where the law has more than 2e7 values that
//            matter, the bounds are those of the count without noise and of each release alone.
// Evidence:  tests/test_joint_delta.py: tests/data/joint_delta.json, ball arithmetic and integration in the other
//            order, brackets without tolerance.
#pragma once

#include <cstdint>

#include "dpcore/count_delta.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore {

LogBounds joint_delta(double epsilon, std::int64_t unknown, double bias, double noise_scale, double estimate_scale,
                      Direction direction, StopCheck stop = {});

}  // namespace dpcore
