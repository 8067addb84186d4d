// Complex numbers in double-double arithmetic with a bound on their absolute error: for differences that cancel
// and are then multiplied by a million copies.
//
// Method:    sums and products of double-double parts; expm1 by Taylor's series of z/2^s, |z/2^s| <= 2^-6, and s
//            doublings y -> y (2 + y). The bound travels beside the value, as in certified.hpp.
// Domain:    parts of size 0 or from 1e-250 to 1e250; expm1: |z| <= 700.
// Guarantee: |value - truth| <= err. With u = 2^-53 a sum of parts has relative error 3u^2, a product 5u^2, a
//            quotient 10u^2 (double_double.hpp). A complex product has two products and a sum in each part: 8u^2
//            (|ac| + |bd|) <= 8u^2 |x||y| a part, 12u^2 = 2^-102.4 in modulus: kProduct. A quotient x
//            conj(y)/|y|^2 has 12u^2, the norm's 8u^2 and 10u^2, 30u^2 in each part, 2^-100.5 in modulus:
//            kQuotient.
// Evidence:  tests/cpp/test_precise_complex.cpp.
#pragma once

#include <cmath>

#include "dpcore/certified.hpp"
#include "dpcore/double_double.hpp"

namespace dpcore::detail {

struct PreciseComplex {
    DoubleDouble re, im;
    double err = 0.0;

    static constexpr double kSum = 0x1p-103;
    static constexpr double kProduct = 0x1p-102;
    static constexpr double kQuotient = 0x1p-100;
    static constexpr double kLost = 1e-270;  // what underflows in the low parts of a product

    double size() const { return std::sqrt(re.hi * re.hi + im.hi * im.hi) * (1.0 + 8.0 * kRound); }  // at least
    // The nearest pair of doubles; their roundings are in the error.
    Certified rounded() const {
        return {{static_cast<double>(re), static_cast<double>(im)}, kSlack * (err + kRound * size()) + kLost};
    }
};

inline PreciseComplex operator+(const PreciseComplex& a, const PreciseComplex& b) {
    PreciseComplex out = {a.re + b.re, a.im + b.im, 0.0};
    out.err = kSlack * (a.err + b.err + PreciseComplex::kSum * out.size());
    return out;
}
inline PreciseComplex operator*(const PreciseComplex& a, const PreciseComplex& b) {
    const double x = a.size();
    const double y = b.size();
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re,
            kSlack * (x * b.err + y * a.err + a.err * b.err + PreciseComplex::kProduct * x * y) +
                PreciseComplex::kLost};
}
inline PreciseComplex operator/(const PreciseComplex& a, const PreciseComplex& b) {
    const DoubleDouble norm = b.re * b.re + b.im * b.im;
    const double y = std::sqrt(norm.hi) * (1.0 - 8.0 * kRound);
    PreciseComplex out = {(a.re * b.re + a.im * b.im) / norm, (a.im * b.re - a.re * b.im) / norm, 0.0};
    if (!(y > 2.0 * b.err && y > 1e-120)) {
        out.err = INFINITY;
        return out;
    }
    const double q = a.size() / y;  // parts of the numerator may cancel: relative to the moduli
    out.err = kSlack * ((a.err + q * b.err) / (y - b.err) + PreciseComplex::kQuotient * q) + PreciseComplex::kLost;
    return out;
}

// e^z - 1.
inline PreciseComplex expm1(const PreciseComplex& z) {
    const double size = z.size();
    if (!(size <= 700.0)) return {0.0, 0.0, INFINITY};
    int doublings = 0;
    double by = 1.0;
    while (size * by > 0x1p-6) by *= 0.5, ++doublings;
    const PreciseComplex r = {{z.re.hi * by, z.re.lo * by}, {z.im.hi * by, z.im.lo * by}, 0.0};
    // Sum of r^n/(n+1)!, n = 0 ... 14, by Horner's rule; from r^9/10! < 2^-75 on in double. Left out: r^15/16! <
    // 2^-134. The steps in double-double make 2^-102.4 |r| and 2^-103 (1 + |r|) each, of which those before the
    // last are multiplied by |r|: below 2^-102 in all.
    Complex tail = {1.0 / 1307674368000.0, 0.0};  // 1/15!
    const Complex low = {r.re.hi, r.im.hi};
    double factorial = 1307674368000.0;
    for (int n = 14; n >= 10; --n) {
        factorial /= n + 1;  // whole numbers: exact
        tail = tail * low + Complex{1.0 / factorial, 0.0};
    }
    DoubleDouble re = tail.re;
    DoubleDouble im = tail.im;
    for (int n = 9; n >= 1; --n) {
        factorial /= n + 1;
        const DoubleDouble next = r.re * re - r.im * im + DoubleDouble(1.0) / DoubleDouble(factorial);
        im = r.re * im + r.im * re;
        re = next;
    }
    PreciseComplex y = r * PreciseComplex{re, im, 0x1p-101};
    // e^y moves by at most e^|y| (e^err - 1).
    y.err += kSlack * 1.02 * by * z.err;
    const PreciseComplex two = {2.0, 0.0, 0.0};
    for (int i = 0; i < doublings; ++i) {
        const PreciseComplex more = y + two;
        // y (2 + y) moves by |2 + 2y| err + err^2.
        const double slope = std::sqrt(4.0 * (1.0 + y.re.hi) * (1.0 + y.re.hi) + 4.0 * y.im.hi * y.im.hi);
        const double err = y.err;
        y = PreciseComplex{y.re, y.im, 0.0} * PreciseComplex{more.re, more.im, 0.0};
        // The sum 2 + y is off by 2^-103 of itself.
        y.err += kSlack * (err * (slope * (1.0 + 8.0 * kRound) + err) + 2.0 * PreciseComplex::kSum * y.size());
    }
    return y;
}

}  // namespace dpcore::detail
