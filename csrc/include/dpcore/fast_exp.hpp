// exp(-y) in double precision for the fast side of a comparison between a uniform number and a probability.
//
// Method:    n = round(y / ln 2), r = n ln 2 - y in [-0.347, 0.347], Taylor polynomial of degree 9, times 2^-n.
//            D is double or a vector of doubles, U the unsigned integers of the same shape; every lane gives the
//            bits that double gives.
// Domain:    y >= 0; beyond 40 the result is that of 40, which is below 2^-57. No branch: the time does not depend
//            on y.
// Guarantee: absolute error below 2^-34. Left out: 0.347^10/10! < 2^-36.9; rounding: n ln 2 < 41 with relative
//            error 2^-52 gives 2^-46, the polynomial 2^-50.
// Evidence:  tests/test_samplers_exact.py (mpmath).
#pragma once

#include <cstdint>
#include <cstring>

namespace dpcore {

template <class D, class U>
[[gnu::always_inline]] inline void exp_negative_fast(const D& argument, D& result) {
    static_assert(sizeof(D) == sizeof(U));
    constexpr double kInverseLn2 = 1.4426950408889634;
    constexpr double kLn2 = 0.69314718055994531;
    constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
    const D forty = D{} + 40.0;
    const D y = argument < forty ? argument : forty;
    const D shifted = y * kInverseLn2 + kRound;
    const D n = shifted - kRound;
    const D r = n * kLn2 - y;
    const D r2 = r * r;
    const D r4 = r2 * r2;
    const D p01 = 1.0 + r;
    const D p23 = 1.0 / 2 + r * (1.0 / 6);
    const D p45 = 1.0 / 24 + r * (1.0 / 120);
    const D p67 = 1.0 / 720 + r * (1.0 / 5040);
    const D p89 = 1.0 / 40320 + r * (1.0 / 362880);
    const D p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
    U bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    const U power = (1023 - (bits & 0xFF)) << 52;  // n <= 58 sits in the low byte
    D scale;
    std::memcpy(&scale, &power, sizeof scale);
    result = p * scale;
}

inline double exp_negative_fast(double y) {
    double result;
    exp_negative_fast<double, std::uint64_t>(y, result);
    return result;
}

}  // namespace dpcore
