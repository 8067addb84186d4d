// Sums of independent records with unequal probabilities, and of independent groups of equal ones.
//
// Method:    divide and conquer on positive numbers: 16 records at a time by the recurrence b(k) <- (1 - p)
//            b(k) + p b(k-1), groups by their binomial windows, everything in double-double, then pairs of laws
//            by direct convolution. All laws are log-concave, so that the terms of one output rise to one place
//            and fall from there: only the band that carries all but 2^-80 of it on each side is added up,
//            which makes the cost of a level of the tree about a thousand times the variance instead of the
//            square of the length. No FFT: its error is relative to the largest value, here every value keeps
//            its own digits.
// Domain:    probabilities in [0, 1], 0 and 1 allowed (they shift the law); sizes in [0, 2^53]. At least one.
//            Outside: std::invalid_argument.
// Guarantee: with u = 2^-53, every value above 2^-1022 has relative error <= u (1 + 2^-7): the rounding of the
//            result, plus n 2^-83 for the bands, n 2^-88 for the arithmetic (n <= 2^23 records) and 2^-60 for
//            what the laws leave out below 2^-1100 of their largest value; docs/distributions.md has the proof.
//            Below, half a unit of the subnormal grid more.
// Evidence:  tests/test_poisson_binomial.py, against exact rationals and against the binomial law.
// Reference: Hong 2013, "On computing the distribution function for the Poisson binomial distribution", for the
//            recurrence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dpcore/interrupt.hpp"
#include "dpcore/pmf_window.hpp"

namespace dpcore {

// The law of a sum of independent laws; both log-concave.
ExtendedPmf convolve(const ExtendedPmf& a, const ExtendedPmf& b, StopCheck stop = {});

// The law of the sum of `count` independent Bernoulli records, count >= 1.
ExtendedPmf poisson_binomial(const double* probabilities, std::size_t count, StopCheck stop = {});

// The law of the sum of `count` independent binomials, count >= 1.
ExtendedPmf stratified(const std::int64_t* sizes, const double* probabilities, std::size_t count,
                       StopCheck stop = {});

// Values as doubles: out[i] = Pr[X = first + i] for i < count, 0 outside the law's window or below the smallest
// double.
void to_doubles(const ExtendedPmf& law, std::int64_t first, std::size_t count, double* out);

}  // namespace dpcore
