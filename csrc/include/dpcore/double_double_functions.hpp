// Logarithm and exponential in double-double.
//
// Method:    log: x = 2^e m with m in [45.5/64, 91/64), ln m = ln(i/64) + 2 artanh((m - i/64)/(m + i/64)) with
//            the nearest i, eight terms of the series (argument below 0.0056, so the ninth is below 2^-119 of
//            the first). exp: x = k ln 2 + 64 r, expm1(r) by twelve terms (|r| < 0.0055), six doublings y -> y
//            (2 + y).
// Domain:    log: positive, finite, hi in [2^-900, 2^990]. exp: |x| <= 2^61 (the result carries its exponent;
//            std::range_error beyond).
// Guarantee: log: |error| <= 2^-98 |ln x| (near x = 1 too). exp: relative error <= 2^-93 + 2^-104 |x|.
// Evidence:  tests/cpp/test_double_double_functions.cpp (largest seen: see there).
// Reference: Muller et al., Handbook of Floating-Point Arithmetic, 2018, chapter 10.
#pragma once

#include <cstdint>

#include "dpcore/double_double.hpp"

namespace dpcore {

DoubleDouble log(DoubleDouble x);

// A positive number beyond the range of double: mantissa * 2^exponent.
struct Scaled {
    DoubleDouble mantissa;
    std::int64_t exponent = 0;
};

// The same number with a mantissa in [2^-100, 2^100]; most calls change nothing.
Scaled normalised(const Scaled& x);

// e^x with mantissa in [1/2, 2).
Scaled exp_scaled(DoubleDouble x);

// mantissa * 2^(exponent - scale) as a double, rounded once (0 or infinity beyond the range).
double to_double(const Scaled& x, std::int64_t scale = 0);

}  // namespace dpcore
