// Binomial probabilities: one of them to full accuracy, or a window of them around any point.
//
// Method:    log pmf by Stirling errors and deviances (factorial.hpp) in double-double; windows start at the
//            largest value in the range asked and walk outward with the exact ratio (ratio_walk.hpp). Cost:
//            about 1 microsecond, and then a few nanoseconds a point of the window; nothing depends on the
//            number of trials.
// Domain:    0 <= trials <= 2^53, 0 <= probability <= 1 (the double given is the exact probability; 1 -
//            probability is carried as two doubles). Probability 0 or 1 gives the point mass. Outside:
//            std::invalid_argument.
// Guarantee: log pmf: absolute error <= 2^-90 (1 + |log pmf|) before its rounding to double. Window values and
//            pmf values above 2^-1022: relative error <= 12 u = 1.4e-15 (u = 2^-53); below, half a unit of the
//            subnormal grid more. A window whose largest value has |log pmf| > 2^36 carries its error, 2^-90
//            |log pmf|, as a common factor. cdf and sf: 2.9e-15 relative. Bounds of the mass left out are upper
//            bounds, rounding included.
// Evidence:  docs/distributions.md, tests/test_distributions.py, tests/cpp/test_binomial.cpp.
// Reference: Loader 2000, "Fast and accurate computation of binomial probabilities".
#pragma once

#include <cstdint>

#include "dpcore/double_double.hpp"
#include "dpcore/interrupt.hpp"
#include "dpcore/pmf_window.hpp"

namespace dpcore {

// ln Pr[X = k]; hi is -infinity for an impossible k.
DoubleDouble binomial_log_pmf(std::int64_t trials, double probability, std::int64_t k);

// Pr[X <= k] and Pr[X > k], for any k; relative error <= 2.9e-15 down to 2^-1022.
double binomial_cdf(std::int64_t trials, double probability, std::int64_t k, StopCheck stop = {});
double binomial_sf(std::int64_t trials, double probability, std::int64_t k, StopCheck stop = {});

// A most probable value.
std::int64_t binomial_mode(std::int64_t trials, double probability);

// All k in [low, high] whose log pmf is within `depth` (0 < depth <= kMaxWindowDepth) of the largest in [low,
// high]. Scaled so that the largest value is in [1, 2). 0 <= low <= high <= trials. Where the law is a point mass
// outside [low, high] the window is empty: first = low, no value, and the bound on the mass's side is 1.
PmfWindow binomial_window(std::int64_t trials, double probability, std::int64_t low, std::int64_t high,
                          double depth, StopCheck stop = {});

// The shortest window around the mode whose bound of the mass left out on each side is at most `tail` (0 < tail <
// 1, at least 1e-300). exponent is 0: the values are the probabilities.
PmfWindow binomial_tail_window(std::int64_t trials, double probability, double tail, StopCheck stop = {});

// All k whose probability does not round to 0; exponent 0. Windows of more than 5e8 points are refused
// (std::length_error).
PmfWindow binomial_visible_window(std::int64_t trials, double probability, StopCheck stop = {});

// The same in double-double (relative error 2^-85), down to 2^-1100 of the largest value; about 0.1 microseconds a
// point.
ExtendedPmf binomial_extended(std::int64_t trials, double probability, StopCheck stop = {});

// Pr[X = first + i] for i < count, 0 where it is below the smallest double. 0 <= first, first + count - 1 <=
// trials.
void binomial_fill(std::int64_t trials, double probability, std::int64_t first, std::int64_t count, double* out,
                   bool is_zero = false, StopCheck stop = {});

}  // namespace dpcore
