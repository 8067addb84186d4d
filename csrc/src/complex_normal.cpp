#include "complex_normal.hpp"

#include <cmath>

namespace dpcore::detail {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kStep = 0.5;
constexpr int kTerms = 13;  // e^{-(13.5/2)^2} < 2e-20

// Of each of the rule's terms, 2 h/pi e^{-s^2}.
struct Rule {
    double square[kTerms], weight[kTerms];
    Rule() {
        for (int n = 0; n < kTerms; ++n) {
            const double s = (n + 0.5) * kStep;
            square[n] = s * s;
            weight[n] = 2.0 * kStep / kPi * std::exp(-s * s);
        }
    }
};

// Re z >= 0: e^{z^2} erfc(z).
Complex scaled_erfc(Complex z) {
    static const Rule rule;
    const Complex square = z * z;
    Complex sum;
    for (int n = kTerms - 1; n >= 0; --n)
        sum = sum + Complex{rule.weight[n], 0.0} / Complex{square.re + rule.square[n], square.im};
    Complex out = z * sum;
    // The poles: e^{z^2} 2/(1 + e^{4 pi z}).
    if (z.re < 2.0 * kPi) {
        const auto exponential = [](Complex x) {
            const double size = std::exp(x.re);
            return Complex{size * std::cos(x.im), size * std::sin(x.im)};
        };
        const double rate = 2.0 * kPi / kStep;
        // e^{-4 pi z} (e^{z^2}) / (1 + e^{-4 pi z})
        const Complex fall = exponential({-rate * z.re, -rate * z.im});
        const Complex both = exponential({square.re - rate * z.re, square.im - rate * z.im});
        out = out + 2.0 * (both / (Complex{1.0, 0.0} + fall));
    }
    return out;
}

}  // namespace

ScaledComplex complex_normal_tail(Complex w) {
    if (w.re < 0.0) {
        const ScaledComplex other = complex_normal_tail({-w.re, -w.im});
        const double size = std::exp(other.log_scale);
        // |Q(-w)| <= 0.7 in the domain, |Q(w)| >= 0.3.
        return {{1.0 - size * other.value.re, -size * other.value.im}, 0.0, 4.0 * other.err + 4.0 * kRound};
    }
    constexpr double kRootHalf = 0.70710678118654752440;
    const Complex z = {kRootHalf * w.re, kRootHalf * w.im};
    const Complex sum = scaled_erfc(z);
    // e^{-z^2}: its modulus is the scale, its argument turns the sum.
    const double angle = -2.0 * z.re * z.im;
    const Complex turned = sum * Complex{0.5 * std::cos(angle), 0.5 * std::sin(angle)};
    // In the domain terms of the sum and what the poles add are at most 3 times the result, each with some 60
    // roundings (the exponent of the poles, 4 pi |z|, is large only where they add nothing). Of the modulus
    // e^{-z^2} and the angle: 4 roundings of |w|^2. The rule: 2e-17 (1 + |w|^2) of 1/|w|.
    const double size = abs(w);
    return {turned, -(z.re * z.re - z.im * z.im),
            kRound * (400.0 + 8.0 * size * size) + 2e-17 * (1.0 + size * size)};
}

}  // namespace dpcore::detail
