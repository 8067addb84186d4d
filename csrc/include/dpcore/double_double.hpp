// Double-double arithmetic: an unevaluated sum hi + lo with |lo| <= ulp(hi)/2, about 106 significand bits.
//
// Method:    error-free transformations of Knuth (two_sum) and Dekker/Veltkamp (two_prod); no fma, because the
//            x86-64 baseline has none and a library call would cost more than the splitting.
// Domain:    finite inputs with magnitude in [2^-900, 2^990] or zero (the splitting overflows above 2^996, and
//            products below 2^-969 lose their low part).
// Guarantee: two_sum, quick_two_sum and two_prod are exact. Relative error of + and - on operands of one sign,
//            of * and / : at most 2^-101 (Joldes, Muller, Popescu 2017, "Tight and rigorous error bounds for
//            basic building blocks of double-word arithmetic", algorithms 6, 12 and 18, state 3u^2, 5u^2, 10u^2
//            with u = 2^-53). Sums of opposite sign use the accurate variant: 3u^2 as well.
// Evidence:  tests/cpp/test_double_double.cpp.
#pragma once

#include <cmath>

namespace dpcore {

struct DoubleDouble {
    double hi = 0.0;
    double lo = 0.0;
    constexpr DoubleDouble() = default;
    constexpr DoubleDouble(double h) : hi(h) {}
    constexpr DoubleDouble(double h, double l) : hi(h), lo(l) {}
    constexpr explicit operator double() const { return hi + lo; }
};

// s + e == a + b exactly.
inline DoubleDouble two_sum(double a, double b) {
    const double s = a + b;
    const double t = s - a;
    return {s, (a - (s - t)) + (b - t)};
}

// As two_sum, for |a| >= |b| or a == 0.
inline DoubleDouble quick_two_sum(double a, double b) {
    const double s = a + b;
    return {s, b - (s - a)};
}

// p + e == a * b exactly.
inline DoubleDouble two_prod(double a, double b) {
    constexpr double kSplit = 134217729.0;  // 2^27 + 1
    const double p = a * b;
    const double ta = kSplit * a;
    const double ah = ta - (ta - a);
    const double al = a - ah;
    const double tb = kSplit * b;
    const double bh = tb - (tb - b);
    const double bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
    DoubleDouble s = two_sum(a.hi, b.hi);
    const DoubleDouble t = two_sum(a.lo, b.lo);
    s = quick_two_sum(s.hi, s.lo + t.hi);
    return quick_two_sum(s.hi, s.lo + t.lo);
}

inline DoubleDouble operator-(DoubleDouble a) { return {-a.hi, -a.lo}; }
inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + (-b); }

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
    const DoubleDouble p = two_prod(a.hi, b.hi);
    return quick_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

// Mixed forms: the same bounds, fewer operations.
inline DoubleDouble operator+(DoubleDouble a, double b) {
    const DoubleDouble s = two_sum(a.hi, b);
    return quick_two_sum(s.hi, s.lo + a.lo);
}
inline DoubleDouble operator+(double a, DoubleDouble b) { return b + a; }
inline DoubleDouble operator-(DoubleDouble a, double b) { return a + (-b); }
inline DoubleDouble operator-(double a, DoubleDouble b) { return (-b) + a; }
inline DoubleDouble operator*(DoubleDouble a, double b) {
    const DoubleDouble p = two_prod(a.hi, b);
    return quick_two_sum(p.hi, p.lo + a.lo * b);
}
inline DoubleDouble operator*(double a, DoubleDouble b) { return b * a; }

inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
    const double q = a.hi / b.hi;
    const DoubleDouble r = a - b * DoubleDouble(q);
    const double q2 = r.hi / b.hi;
    const DoubleDouble r2 = r - b * DoubleDouble(q2);
    const DoubleDouble s = quick_two_sum(q, q2);
    return quick_two_sum(s.hi, s.lo + r2.hi / b.hi);
}

}  // namespace dpcore
