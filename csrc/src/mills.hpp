// Private templates behind normal.hpp and gaussian.hpp, for double and long double alike.
#pragma once

#include <cmath>

#include "mills_table.hpp"

namespace dpcore::detail {

// Terms that bring the neglected tail below a rounding error: with e the distance to the node and t the node,
// c_{n+1} e / c_n <= e / t for t >= 4 and smaller than e / sqrt(n) near 0. R alone has e/t <= 1/16; the divided
// difference reaches e/t = 1/8 (b - a up to a node spacing), where c_n t^{n+1} has itself fallen by e^{-n^2/2t^2}.
template <class Real>
struct Terms;
template <>
struct Terms<double> {
    static constexpr int kRatio = 14;       // first neglected: (1/16)^15 = 2^-60
    static constexpr int kDifference = 17;  // first neglected: (1/8)^18 = 2^-54 at t = 64, less below
};
template <>
struct Terms<long double> {
    static constexpr int kRatio = 18;       // first neglected: 2^-76
    static constexpr int kDifference = 22;  // first neglected: (1/8)^23 = 2^-69
};

template <class Real>
struct Table {
    Real c[kMillsNodes][kMillsTerms];
};
template <class Real>
constexpr Table<Real> make_table() {
    Table<Real> table{};
    for (int i = 0; i < kMillsNodes; ++i)
        for (int n = 0; n < kMillsTerms; ++n) table.c[i][n] = static_cast<Real>(kMillsTaylor[i][n]);
    return table;
}
template <class Real>
inline constexpr Table<Real> kTable = make_table<Real>();

template <class Real>
struct Node {
    int index;
    Real at;
    Real spacing;
};

inline constexpr int kTableEnd = 64;

// The lowest node at or above t, for t < 64. Values down to -1/16 use the node at 0.
template <class Real>
inline Node<Real> mills_node(Real t) {
    Real spacing = Real(0.125);
    int first = 0;
    if (t > 4) {
        const int octave = (t > 8) + (t > 16) + (t > 32);
        spacing = Real(0.25) * static_cast<Real>(1 << octave);
        first = 16 + 16 * octave;  // node index = first + t / spacing, since the octave starts at 16 spacings
    }
    const Real position = t / spacing;  // exact: a power of two
    int index = static_cast<int>(position);
    index += static_cast<Real>(index) < position;
    return {first + index, static_cast<Real>(index) * spacing, spacing};
}

// sum_k (-1)^k (2k-1)!! x^{2k+1}, x = 1/t: the asymptotic series of R, t >= 32. The first neglected term
// (21!! / 32^24 < 2^-84 relative) bounds the error.
inline constexpr int kAsymptoticTerms = 11;
template <class Real>
inline Real asymptotic(Real x) {
    const Real y = x * x;
    Real sum = 1;
    for (int k = kAsymptoticTerms; k >= 1; --k) sum = 1 - static_cast<Real>(2 * k - 1) * y * sum;
    return x * sum;
}

// [F(x) - F(y)] / (x - y) for the same series F, by Horner's rule for divided differences.
template <class Real>
inline Real asymptotic_divided_difference(Real x, Real y) {
    // Coefficients of x^1, x^3, ..., with signs; synthetic division in x alone.
    Real odd[kAsymptoticTerms + 1];
    odd[0] = 1;
    for (int k = 1; k <= kAsymptoticTerms; ++k) odd[k] = -odd[k - 1] * static_cast<Real>(2 * k - 1);
    Real value = 0;
    Real divided = 0;
    for (int power = 2 * kAsymptoticTerms + 1; power >= 0; --power) {
        divided = divided * y + value;
        value = value * x + ((power & 1) != 0 ? odd[power / 2] : Real(0));
    }
    return divided;
}

// R(t), t >= -1/16.
template <class Real>
inline Real mills_ratio(Real t) {
    if (!(t < kTableEnd)) return asymptotic(1 / t);
    const Node<Real> node = mills_node(t);
    const Real e = node.at - t;
    const Real* c = kTable<Real>.c[node.index];
    Real sum = c[Terms<Real>::kRatio];
    for (int n = Terms<Real>::kRatio - 1; n >= 0; --n) sum = sum * e + c[n];
    return sum;
}

// [R(a) - R(b)] / (b - a), given width = b - a > 0; a and b as in mills_difference.
template <class Real>
inline Real mills_divided_difference(Real a, Real b, Real width) {
    if (b < kTableEnd) {
        const Node<Real> node = mills_node(b);
        if (width <= node.spacing) {
            const Real eb = node.at - b;
            const Real ea = eb + width;
            const Real* c = kTable<Real>.c[node.index];
            Real value = c[Terms<Real>::kDifference];
            Real divided = 0;
            for (int n = Terms<Real>::kDifference - 1; n >= 0; --n) {
                divided = divided * eb + value;
                value = value * ea + c[n];
            }
            return divided;
        }
    } else if (a >= kTableEnd / 2) {
        const Real x = 1 / a;
        const Real y = 1 / b;
        return asymptotic_divided_difference(x, y) * x * y;  // (x - y)/(b - a) = x y
    }
    return (mills_ratio(a) - mills_ratio(b)) / width;
}

}  // namespace dpcore::detail
