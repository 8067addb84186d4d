// The delta of two releases of one count: X + Laplace(estimate_scale) and X + N(0, noise_scale^2).
//
// Method:    given the first output y, the weights of the half-line sum (count_delta.hpp) are multiplied by the
//            Laplace density at y - k and change sign where they did, so
//                delta = integral over y of sup_t sum_k [b(k-1) - e^eps b(k)] lap(y - k) Phi((k - t(y))/beta).
//            Between two integers the integrand is smooth in y, but turns from nothing to everything within
//            estimate_scale/noise_scale of where the first release alone decides: Gauss-Kronrod, divided where the
//            estimated error is largest. The integrals over the unit cells are mostly a smooth function of the
//            cell: where there are many, they are interpolated by polynomials over panels of cells and summed
//            exactly, and panels are divided in the same way. Outside the support the integrand is exponential.
// Domain:    epsilon > 0; 0 <= unknown < 2^53; bias in [0, 1]; noise_scale >= 0; estimate_scale > 0, all finite.
//            Outside: std::invalid_argument.
// Guarantee: relative_error is an estimate (the difference to a rule of lower order, plus rounding), not a bound:
//            at most 1e-9 unless 2000 divisions do not reach that. Cost grows like the standard deviation of the
//            count; a few seconds at 1e6 records.
// Evidence:  tests/test_partial_knowledge.py against direct two-dimensional integration.
#pragma once

#include <cstdint>

#include "dpcore/count_delta.hpp"

namespace dpcore {

CountDelta joint_delta(double epsilon, std::int64_t unknown, double bias, double noise_scale,
                       double estimate_scale, Direction direction, StopCheck stop = {});

}  // namespace dpcore
