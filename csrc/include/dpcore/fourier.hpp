// Discrete Fourier transform of a power-of-two length, with a proven error bound.
//
// Method:    Stockham autosort, radix 2, on separate real and imaginary parts; twiddle factors from two of a table
// in
//            double-double arithmetic, rounded once. No plan is kept: the table costs less than the transform.
// Domain:    length 1 to 2^26; finite values without overflow of their sum.
// Guarantee: || computed - exact ||_2 <= transform_error(length) * || exact ||_2. Higham, Accuracy and Stability,
// theorem
//            24.2: t eta/(1 - t eta), eta = mu + gamma_4 (sqrt 2 + mu), t = log2(length), mu the error of a
//            twiddle factor.
// Evidence:  tests/cpp/test_spectral.cpp, against direct sums.
#pragma once

#include <cstddef>
#include <vector>

#include "dpcore/interrupt.hpp"

namespace dpcore {

// In place; forward: sum x_n exp(-2 pi i jn/N); inverse: with + and divided by N. Both vectors have the same
// power-of-two length.
void fourier_forward(std::vector<double>& re, std::vector<double>& im, StopCheck stop = {});
void fourier_inverse(std::vector<double>& re, std::vector<double>& im, StopCheck stop = {});

double transform_error(std::size_t length);

inline constexpr std::size_t kMaxTransform = std::size_t{1} << 24;

}  // namespace dpcore
