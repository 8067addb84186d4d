#include "saddle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpcore::detail {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

Saddle find_saddle(const Composition& comp, Quantity quantity, double eps, int side, double mean, double variance,
                   StopCheck stop) {
    const bool delta = quantity == Quantity::delta;
    const auto potential = [&](double c, double& first, double& second) {
        first = -1.0 / c;
        second = 1.0 / (c * c);
        double value = -std::log(std::fabs(c));
        if (delta) {
            first -= 1.0 / (1.0 + c);
            second += 1.0 / ((1.0 + c) * (1.0 + c));
            value -= std::log(std::fabs(1.0 + c));
        }
        return value;
    };
    double lo = side > 0 ? 0.0 : (delta && side == -1 ? -1.0 : -kInf);
    double hi = side > 0 ? kInf : (side == -2 ? -1.0 : 0.0);
    // Close to the last point of a lattice the minimum runs off to infinity. Where the point before it weighs
    // e^-40 of it already, nothing is gained further out, and exponentials of cd leave the range of double.
    if (comp.lattice.step > 0.0) {
        const double most = 40.0 / comp.lattice.step;
        if (side > 0)
            hi = most;
        else if (!delta)
            lo = -most;
    }
    const double gap = eps - mean;
    const double root = std::sqrt(gap * gap + 4.0 * variance);
    double c = side > 0 ? (gap >= 0.0 ? (gap + root) / (2.0 * variance) : 2.0 / (root - gap))
                        : (gap <= 0.0 ? (gap - root) / (2.0 * variance) : -2.0 / (root + gap));
    if (!(c > lo && c < hi)) c = side == -2 ? -2.0 : (delta && side < 0 ? -0.5 : (side > 0 ? 1.0 : -1.0));
    Saddle out{c, 1.0, kInf};
    for (int i = 0; i < 100; ++i) {
        double p1 = 0.0;
        double p2 = 0.0;
        const double p = potential(c, p1, p2);
        stop();
        const Cumulants k = comp.cumulants(c, stop);
        const double first = k.first - eps + p1;
        const double second = k.second + p2;
        const double value = k.value - eps * c + p;
        double next = c - first / second;
        if (!std::isfinite(value) || !std::isfinite(first) || !(second > 0.0)) {
            if (side > 0)
                hi = c;
            else
                lo = c;
            next = side > 0 ? (lo > 0.0 ? 0.5 * (lo + c) : 0.1 * c) : 0.5 * (hi + c);
        } else {
            out = {c, second, value};
            if (first * first <= 1e-3 * second) break;  // within 0.03 standard deviations of the minimum
            if (first > 0.0)
                hi = std::min(hi, c);
            else
                lo = std::max(lo, c);
        }
        if (side > 0)
            next = std::min(std::max(next, 0.1 * c), 10.0 * c);
        else if (!delta || side == -2)
            next = std::max(std::min(next, 0.1 * c), 10.0 * c);
        if (!(next > lo)) next = 0.5 * (lo + c);
        if (!(next < hi)) next = 0.5 * (hi + c);
        c = next;
    }
    return out;
}

Moments moments(const Composition& comp, StopCheck stop) {
    const Cumulants k = comp.cumulants(0.0, stop);
    return {k.first, std::max(k.second, 1e-300)};
}

LogBounds certified_moment(const Composition& comp, double c, StopCheck stop) {
    double low = 0.0, high = 0.0, size = 0.0;
    for (const Term& t : comp.terms) {
        const Certified v = t.law->line(c, 0.0, t.copies, comp.lattice.step > 0.0, stop)->value(0.0);
        const bool known = std::isfinite(v.err);
        low += known ? t.copies * (v.value.re - v.err) : -kInf;
        high += t.copies * (v.value.re + (known ? v.err : 0.0));
        size += t.copies * std::fabs(v.value.re);
    }
    const double slip = (static_cast<double>(comp.terms.size()) + 4.0) * kRound * size;
    if (std::isnan(low) || std::isnan(high)) return {-kInf, kInf};
    return {low - slip, high + slip};
}

}  // namespace dpcore::detail
