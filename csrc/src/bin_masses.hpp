// Masses of bins of a density (private to the core).
//
// Method:    Gauss-Legendre rules of two, three or five points, by the length of a panel, on halves of cells:
//            integrals of positive functions, never differences. Where the loss is the coordinate itself whole
//            cells have the same nodes, so that their shares are tabulated.
// Domain:    losses that are monotone in the coordinate, densities that are normal, mixtures of two normal ones or
//            exponential over panels of at most `longest`.
// Guarantee: masses within kMassErr (bucket_collector.hpp), relative, in both of the collector's lists.
// Evidence:  docs/accounting_derivations.md, "bin_masses"; tests/test_accounting.py,
// tests/cpp/test_bucket_ladder.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "bucket_collector.hpp"
#include "bucket_limit.hpp"
#include "dpcore/certified.hpp"
#include "dpcore/interrupt.hpp"

namespace dpcore::detail {

// Gauss-Legendre rules of two, three and five points on [-1, 1].
struct Rule {
    int points;
    double node[5];
    double weight[5];
};
inline constexpr Rule kRules[3] = {
    {2, {-0.57735026918962576451, 0.57735026918962576451}, {1.0, 1.0}},
    {3,
     {-0.77459666924148337704, 0.0, 0.77459666924148337704},
     {0.55555555555555555556, 0.88888888888888888889, 0.55555555555555555556}},
    {5,
     {-0.90617984593866399280, -0.53846931010568309104, 0.0, 0.53846931010568309104, 0.90617984593866399280},
     {0.23692688505618908751, 0.47862867049936646804, 0.56888888888888888889, 0.47862867049936646804,
      0.23692688505618908751}}};
// Share of the longest panel up to which two and three points keep the same error as five points on all of it.
inline constexpr double kTwoPoints = 0.007;
inline constexpr double kThreePoints = 0.1;
inline const Rule& rule_for(double length, double longest) {
    return kRules[length <= kTwoPoints * longest ? 0 : length <= kThreePoints * longest ? 1 : 2];
}
// Panels are short enough that the rule's error is below 2e-13 relative: see docs/accounting_derivations.md,
// "bin_masses".
inline constexpr double kPanelTurn = 0.7;

// Integrates a density over [low, high] of a coordinate x in which the loss is monotone. `loss_at` and `x_of` are
// inverse to each other, `density` is dP/dx, `longest` bounds the panels.
template <class LossAt, class XOf, class Density>
void integrate(Collector& out, double step, double low, double high, double longest, LossAt loss_at, XOf x_of,
               Density density, StopCheck check) {
    const double loss_low = std::min(loss_at(low), loss_at(high));
    const double loss_high = std::max(loss_at(low), loss_at(high));
    const bool rising = loss_at(high) >= loss_at(low);
    const double half = 0.5 * step;
    const double offset = out.point(0.0);
    double from = std::floor((loss_low - offset) / half);
    const double last = std::floor((loss_high - offset) / half);
    refuse(0.5 * (last - from));
    refuse((high - low) / longest);  // far out in the tail the panels, not the buckets, are the work
    double start = loss_low;
    double edge = rising ? low : high;  // where the last panel ended
    std::size_t turns = 0;
    for (double m = from; m <= last; m += 1.0) {
        const double stop = std::min(loss_high, offset + half * (m + 1.0));
        // The last one has all that is left, also where it begins at the largest loss but for rounding.
        if (!(stop > start) && m != last) continue;
        double a = edge;
        double b = m == last ? (rising ? high : low) : x_of(stop);
        b = rising ? std::max(a, b) : std::min(a, b);  // rounding must not turn a panel round
        edge = b;
        start = stop;
        if (a > b) std::swap(a, b);
        const double pieces = std::max(1.0, std::ceil((b - a) / longest));
        const double n = std::floor(0.5 * m);
        const bool second_half = m - 2.0 * n > 0.5;
        const double base = out.point(n);
        for (double p = 0.0; p < pieces; p += 1.0) {
            if (turns++ % 16384 == 0) check();
            const double left = a + (b - a) * (p / pieces);
            const double right = a + (b - a) * ((p + 1.0) / pieces);
            const double middle = 0.5 * (left + right);
            const double radius = 0.5 * (right - left);
            const Rule& rule = rule_for(right - left, longest);
            for (int q = 0; q < rule.points; ++q) {
                const double x = middle + radius * rule.node[q];
                const double loss = loss_at(x);
                const double above = std::min(step, std::max(0.0, loss - base));
                out.add(n, above, radius * rule.weight[q] * density(x, loss), second_half);
            }
        }
    }
}

// The same for the mixture (1-q) N(0, s2) + q N(1, s2) against N(0, s2), with ratio W = 1 - q + q e^y, y = (x -
// 1/2)/s2, where everything stays in the range of double. No logarithm of W is taken: the shares of a loss log W
// depend on e^-above = e^base/W alone (add: the loss is -log W). That is good to a few roundings of 1, which moves
// the loss by as much: the caller charges it (kMixtureLoss).
inline constexpr double kMixtureLoss = 2.0 * kLibm + 32.0 * kRound;
void integrate_mixture(Collector& out, double step, double low, double high, double longest, double s2, double q,
                       bool removal, double loss_low, double loss_high, StopCheck check);

// The same where the loss is the coordinate itself: whole cells have the same nodes, so that their shares are
// tabulated.
template <class Exponent>
void integrate_linear(Collector& out, double step, double low, double high, double longest, double factor,
                      Exponent exponent, StopCheck check) {
    const auto same = [](double l) { return l; };
    const auto both = [&](double l, double) { return factor * std::exp(exponent(l)); };
    const double offset = out.point(0.0);
    const double first = std::ceil((low - offset) / step);
    const double last = std::floor((high - offset) / step);
    const double half = 0.5 * step;
    if (half > kThreePoints * longest || last - first < 2.0) {
        integrate(out, step, low, high, longest, same, same, both, check);
        return;
    }
    integrate(out, step, low, out.point(first), longest, same, same, both, check);
    const Rule& rule = kRules[half <= kTwoPoints * longest ? 0 : 1];
    double at[6], weight[6];
    for (int q = 0; q < rule.points; ++q) {
        at[q] = 0.25 * step * (1.0 + rule.node[q]);
        at[q + rule.points] = at[q] + half;
        weight[q] = weight[q + rule.points] = 0.25 * step * rule.weight[q];
    }
    constexpr double kCells = 16384.0;  // below a millisecond each
    for (double from = first; from < last; from += kCells) {
        check();
        out.add_cells(from, std::min(kCells, last - from), 2 * rule.points, at, weight, factor, exponent);
    }
    integrate(out, step, out.point(last), high, longest, same, same, both, check);
}

}  // namespace dpcore::detail
