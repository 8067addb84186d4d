// The smallest noise that protects a count from an attacker who does not know some of its records.
//
// Method:    delta falls with the noise, so one root in noise^2 by a bracketed secant (Illinois); what is solved
// for
//            is the certified upper bound of delta, and the answer has been evaluated. A range of biases is solved
//            on the worst vertices found so far and then proved by the branch and bound of count_range.hpp, until
//            both agree.
// Domain:    as count_delta.hpp and count_range.hpp, and 0 < delta < 1, worst_case_epsilon >= epsilon or infinite,
//            releases >= 1. Outside: std::invalid_argument.
// Guarantee: the exact delta of the noise returned is at most the delta asked; the noise is within about 1e-13 of
//            the smallest such (of a range: where the search proves its worst vertex), and never above the sigma
//            of plain differential privacy.
// Evidence:  tests/test_partial_knowledge.py, tests/test_c_api.py.
#pragma once

#include <cstdint>
#include <functional>

#include "dpcore/interrupt.hpp"

namespace dpcore {

// A number not above the exact ln of delta.
double log_delta_goal(double delta);

// Smallest noise, to about 1e-14 of it, at which `excess` is at most 0, or `plain`. `excess` falls with the noise.
// The result has been evaluated, excess(result) <= 0, or it is `plain`, which must have a certificate of its own.
double solve_noise(const std::function<double(double)>& excess, double plain);

// Smallest noise, at most `plain`, at which ln of delta is certainly at most `goal` for `unknown` records whose
// probabilities lie in [low, high].
double least_count_noise(double epsilon, double goal, std::int64_t unknown, double low, double high, double plain,
                         StopCheck stop = {});

// `releases` releases with the result are at least as noisy as one with `noise_scale`.
double noise_per_release(double noise_scale, double releases);

// Upper bound of the delta of a noisy count, both directions; above the exact value by its error bound only, of a
// range where the search proves its worst vertex.
double count_delta_upper(double epsilon, std::int64_t unknown, double low, double high, double noise_scale,
                         StopCheck stop = {});

struct CountNoise {
    double noise_scale;  // of each release; 0 where the unknown records are noise enough
    double delta;        // achieved, an upper bound, at most the delta asked
};

// The noise is also enough for plain (worst_case_epsilon, delta)-differential privacy.
CountNoise calibrate_count(double epsilon, double delta, std::int64_t unknown, double low, double high,
                           double worst_case_epsilon, double releases, StopCheck stop = {});

}  // namespace dpcore
