// Non-negative fixed-point numbers with 64 integer and 256 fraction bits: the arithmetic of the samplers' slow
// path and of their tables.
//
// Method:    schoolbook arithmetic on five 64-bit limbs; every result is the exact one truncated to 256 fraction
//            bits. exp(-x): Taylor polynomial after halving the argument, then squarings.
// Domain:    results below 2^64. Subtraction needs a >= b (checked in the tests, not at run time).
// Guarantee: with ulp = 2^-256: add and subtract exact; multiply, divide, half: 0 <= exact - result < ulp (divide:
//            denominator >= 2^-8). exp_negative: |error| <= 2^-230. from_scaled: truncation below one ulp.
// Evidence:  the derivations beside the functions; tests/cpp/test_fixed_point.cpp; tests/test_samplers_exact.py
//            (mpmath).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dpcore {

__extension__ typedef unsigned __int128 Uint128;

struct Fixed256 {
    static constexpr int kFractionLimbs = 4;
    static constexpr int kLimbs = 5;
    std::array<std::uint64_t, kLimbs> limb{};  // limb[4] is the integer part, limb[0] the least significant

    constexpr Fixed256() = default;
    static Fixed256 integer(std::uint64_t value) {
        Fixed256 out;
        out.limb[4] = value;
        return out;
    }
    std::uint64_t integer_part() const { return limb[4]; }
};

inline bool operator==(const Fixed256& a, const Fixed256& b) { return a.limb == b.limb; }

inline bool operator<(const Fixed256& a, const Fixed256& b) {
    for (int i = Fixed256::kLimbs - 1; i > 0; --i)
        if (a.limb[i] != b.limb[i]) return a.limb[i] < b.limb[i];
    return a.limb[0] < b.limb[0];
}

inline Fixed256 operator+(const Fixed256& a, const Fixed256& b) {
    Fixed256 out;
    Uint128 carry = 0;
    for (int i = 0; i < Fixed256::kLimbs; ++i) {
        carry += static_cast<Uint128>(a.limb[i]) + b.limb[i];
        out.limb[i] = static_cast<std::uint64_t>(carry);
        carry >>= 64;
    }
    return out;
}

// Needs a >= b.
inline Fixed256 operator-(const Fixed256& a, const Fixed256& b) {
    Fixed256 out;
    std::uint64_t borrow = 0;
    for (int i = 0; i < Fixed256::kLimbs; ++i) {
        const Uint128 d = static_cast<Uint128>(a.limb[i]) - b.limb[i] - borrow;
        out.limb[i] = static_cast<std::uint64_t>(d);
        borrow = static_cast<std::uint64_t>(d >> 64) != 0 ? 1 : 0;
    }
    return out;
}

inline Fixed256 operator*(const Fixed256& a, const Fixed256& b) {
    std::array<std::uint64_t, 2 * Fixed256::kLimbs> wide{};
    for (int i = 0; i < Fixed256::kLimbs; ++i) {
        Uint128 carry = 0;
        for (int j = 0; j < Fixed256::kLimbs; ++j) {
            carry += static_cast<Uint128>(a.limb[i]) * b.limb[j] + wide[i + j];
            wide[i + j] = static_cast<std::uint64_t>(carry);
            carry >>= 64;
        }
        wide[i + Fixed256::kLimbs] = static_cast<std::uint64_t>(carry);
    }
    Fixed256 out;
    for (int i = 0; i < Fixed256::kLimbs; ++i) out.limb[i] = wide[i + Fixed256::kFractionLimbs];
    return out;
}

inline Fixed256 operator*(const Fixed256& a, std::uint64_t b) {
    Fixed256 out;
    Uint128 carry = 0;
    for (int i = 0; i < Fixed256::kLimbs; ++i) {
        carry += static_cast<Uint128>(a.limb[i]) * b;
        out.limb[i] = static_cast<std::uint64_t>(carry);
        carry >>= 64;
    }
    return out;
}

inline Fixed256 operator/(const Fixed256& a, std::uint64_t b) {
    Fixed256 out;
    Uint128 remainder = 0;
    for (int i = Fixed256::kLimbs - 1; i >= 0; --i) {
        remainder = (remainder << 64) | a.limb[i];
        out.limb[i] = static_cast<std::uint64_t>(remainder / b);
        remainder %= b;
    }
    return out;
}

// a * 2^-bits, truncated.
inline Fixed256 shift_right(Fixed256 a, unsigned bits) {
    for (; bits >= 64; bits -= 64) {
        for (int i = 0; i + 1 < Fixed256::kLimbs; ++i) a.limb[i] = a.limb[i + 1];
        a.limb[Fixed256::kLimbs - 1] = 0;
    }
    if (bits == 0) return a;
    for (int i = 0; i + 1 < Fixed256::kLimbs; ++i)
        a.limb[i] = (a.limb[i] >> bits) | (a.limb[i + 1] << (64 - bits));
    a.limb[Fixed256::kLimbs - 1] >>= bits;
    return a;
}

// a * 2^bits; what leaves the top is lost, so the caller knows that it fits.
inline Fixed256 shift_left(Fixed256 a, unsigned bits) {
    for (; bits >= 64; bits -= 64) {
        for (int i = Fixed256::kLimbs - 1; i > 0; --i) a.limb[i] = a.limb[i - 1];
        a.limb[0] = 0;
    }
    if (bits == 0) return a;
    for (int i = Fixed256::kLimbs - 1; i > 0; --i)
        a.limb[i] = (a.limb[i] << bits) | (a.limb[i - 1] >> (64 - bits));
    a.limb[0] <<= bits;
    return a;
}

// mantissa * 2^exponent, truncated; saturates at the largest Fixed256 when it does not fit.
Fixed256 from_scaled(std::uint64_t mantissa, int exponent);

// A non-negative finite double, by its exact value.
Fixed256 from_double(double value);

// 1 / a for a >= 2^-8.
Fixed256 reciprocal(const Fixed256& a);

// exp(-x).
Fixed256 exp_negative(const Fixed256& x);

}  // namespace dpcore
