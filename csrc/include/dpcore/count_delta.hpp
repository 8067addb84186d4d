// The exact delta of a noisy count against an attacker who does not know some of its records.
//
// Model:     the attacker sees known part + challenge + X + N, X the sum of the `unknown` independent records, N
//            normal with standard deviation noise_scale (0: no noise). "add" is the divergence of the law with the
//            challenge 1 from the law with the challenge 0 at exp(epsilon), "remove" the reverse.
// Method:    X binomial: b(k-1) - e^eps b(k) = C B(k) (k - kappa) with B the binomial law of one trial more, so
//            delta = C sup_t E[(K - kappa) 1{K + N > t}]; the half-line sum of csrc/src/half_line.hpp. Where the
//            summand is smooth on a scale of s integers, only every (s/1.6)-th is evaluated (Poisson summation).
//            Any other log-concave X: the same sum with the weights b(k-1) - e^eps b(k). Where the noise is many
//            times the spread of X these weights differ by little, and the law itself is summed (half_line.hpp).
// Domain:    epsilon > 0; 0 <= unknown < 2^53; bias in [0, 1] (the double given is the exact bias);
//            noise_scale >= 0 and finite. Outside: std::invalid_argument.
// Guarantee: |computed / exact - 1| <= relative_error, which for one bias is
//            (300 + 100 |ln delta| + 4 (epsilon + |ln p| + |ln (1 - p)| + ln(unknown + 1))) 2^-53:
//            6e-13 at delta = 1e-20, 8e-12 at 1e-300; delta below the range of double is kept as its logarithm,
//            with 2000 in place of 100 below e^-1000.
//            Where |ln delta| exceeds 2^53 the Gaussian mechanism's may be returned, an upper bound.
// Evidence:  proofs in docs/partial_knowledge.md; tests/test_partial_knowledge.py against integration with mpmath.
// Reference: docs/partial_knowledge.md, theorems 1 to 4.
#pragma once

#include <cstdint>

#include "dpcore/interrupt.hpp"
#include "dpcore/pmf_window.hpp"

namespace dpcore {

enum class Direction { add, remove, both };

struct CountDelta {
    double log_delta;       // natural logarithm; -infinity for 0
    double relative_error;  // bound on |computed / exact - 1|
    double delta() const;
    double log_delta_upper() const;  // the exact logarithm is not above it
};

// X ~ Binomial(unknown, bias).
CountDelta count_delta(double epsilon, std::int64_t unknown, double bias, double noise_scale, Direction direction,
                       StopCheck stop = {});

// X with any log-concave law, given by a window that holds all of it but `left_out` of its probability;
// value_error bounds the relative error of its values. The result's bound includes both.
CountDelta count_delta_window(double epsilon, const PmfWindow& law, double value_error, double left_out,
                              double noise_scale, Direction direction, StopCheck stop = {});

// The same far below the range of double, "add" only: the window is that of the law b(k) e^(eps k) / M, which has
// its mode where the weights change sign, and where the plain one may have no mass that a double could hold;
// log_factor = ln M. left_out is of the tilted law.
CountDelta count_delta_tilted(double epsilon, const PmfWindow& law, double log_factor, double value_error,
                              double left_out, double noise_scale, StopCheck stop = {});

}  // namespace dpcore
