// A complex number with a bound on its absolute error, and the few functions the accountant needs of it.
//
// Method:    values in double; the bound travels beside the value (first-order terms with their exact constants,
//            second-order terms absorbed by the factor kSlack).
// Domain:    finite arguments; |Im| may be large, the C library reduces the arguments of sin and cos exactly.
// Guarantee: |value - truth| <= err, assuming that exp, expm1, log, log1p, sin, cos, sinh, cosh, tanh, atan2 and
// hypot of
//            the C library are within kLibm = 4 ulp (glibc 2.28 and later documents at most 2 for each of them).
// Evidence:  docs/accounting_derivations.md, "Notation" and "loss_law"; tests/cpp/test_spectral.cpp.
#pragma once

#include <cmath>

namespace dpcore {

inline constexpr double kRound = 0x1p-53;      // relative error of one rounded operation
inline constexpr double kLibm = 8.0 * kRound;  // relative error of one library function: 4 ulp
inline constexpr double kSlack = 1.0 + 0x1p-20;

struct Complex {
    double re = 0.0;
    double im = 0.0;
};
inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
inline Complex operator*(double a, Complex b) { return {a * b.re, a * b.im}; }
inline double norm2(Complex a) { return a.re * a.re + a.im * a.im; }
inline double abs(Complex a) { return std::sqrt(norm2(a)); }
inline Complex operator/(Complex a, Complex b) {
    const double scale = 1.0 / norm2(b);
    return {(a.re * b.re + a.im * b.im) * scale, (a.im * b.re - a.re * b.im) * scale};
}

struct Certified {
    Complex value;
    double err = 0.0;
};

// A product or quotient as written above has relative error below 12 roundings (8 suffice: sqrt(5) u for the
// product, Brent, Percival and Zimmermann 2007; the quotient adds the norm, its reciprocal and one scaling).
inline constexpr double kComplexOp = 12.0 * kRound;

inline Certified operator*(const Certified& a, const Certified& b) {
    const Complex v = a.value * b.value;
    return {v, kSlack * (abs(a.value) * b.err + abs(b.value) * a.err + a.err * b.err) + kComplexOp * abs(v)};
}
inline Certified operator+(const Certified& a, const Certified& b) {
    const Complex v = a.value + b.value;
    return {v, kSlack * (a.err + b.err + kRound * abs(v))};
}

// exp(z) - 1. expm1(x) cos(y) - 2 sin(y/2)^2 has no cancellation that matters: its error is relative to |exp(z) -
// 1|.
Certified certified_expm1(Complex z, double err);

// log(1 + w). Where w.err is not below |1 + w|/2 the result's err is infinite and its real part an upper bound of
// log |1 + w|.
Certified certified_log1p(const Certified& w);

// log(g), with the same convention where g.err is not below |g|/2.
Certified certified_log(const Certified& g);

// sinh(z)
Certified certified_sinh(Complex z, double err);

}  // namespace dpcore
