#include "chernoff.hpp"

#include <algorithm>
#include <cmath>

namespace dpcore::detail {

namespace {
// K(c) - c x, rounded up.
double log_moment(const Composition& composition, double x, double c, StopCheck stop) {
    double sum = -c * x;
    double size = std::fabs(sum);
    for (const Term& t : composition.terms) {
        const Certified v = t.law->line(c, 0.0, t.copies, false, stop)->value(0.0);
        sum += t.copies * (v.value.re + v.err);
        size += t.copies * (std::fabs(v.value.re) + v.err);
    }
    return sum + (static_cast<double>(composition.terms.size()) + 4.0) * kRound * size;
}
}  // namespace

Chernoff chernoff(const Composition& composition, double x, int side, StopCheck stop) {
    const double sign = side > 0 ? 1.0 : -1.0;
    double low = -45.0;  // of ln |c|
    double high = 45.0;
    for (int i = 0; i < 40; ++i) {
        const double middle = 0.5 * (low + high);
        const Cumulants k = composition.cumulants(sign * std::exp(middle), stop);
        const bool beyond = !std::isfinite(k.value) || !std::isfinite(k.first) || sign * (k.first - x) > 0.0;
        (beyond ? high : low) = middle;
    }
    const double c = sign * std::exp(low);
    return {c, log_moment(composition, x, c, stop)};
}

double log_chernoff_tail(const Composition& composition, double x, int side, double enough, StopCheck stop) {
    // Exponents that are of any use are larger than the inverse of the distance.
    const double distance = std::fabs(composition.cumulants(0.0, stop).first - x);
    double c = (side > 0 ? 0.1 : -0.1) / std::max(distance, 1e-300);
    double best = 0.0;
    double least = composition.log_finite_mass;
    for (int i = 0; i < 60; ++i, c *= 2.0) {
        const double value = composition.cumulants(c, stop).value - c * x;
        if (!(value < least)) break;
        least = value;
        best = c;
        if (value < enough - 1.0) break;
    }
    const double log_mass = composition.log_finite_mass + composition.log_mass_err;
    if (best == 0.0) return log_mass;
    const double found = log_moment(composition, x, best, stop);
    return found < log_mass ? found : log_mass;  // also where it is not a number
}

Tails chernoff_tails(const Composition& composition, double x, StopCheck stop) {
    const double total = std::exp(composition.log_total_mass);
    const double slack = total * (composition.log_mass_err + 8.0 * kLibm);
    const double infinite = composition.infinite_mass_upper();
    Tails out = {{0.0, 1.0}, {0.0, 1.0}};
    if (composition.terms.empty() || !(composition.log_finite_mass > -745.0)) return out;
    const auto bound = [](const Chernoff& b) {
        return std::isnan(b.log_bound) || b.log_bound >= 0.0
                   ? 1.0
                   : std::min(1.0, std::exp(b.log_bound) * (1.0 + kLibm) + 1e-300);
    };
    const double above = bound(chernoff(composition, x, 1, stop));
    const double below = bound(chernoff(composition, x, -1, stop));
    out.above = {std::max(0.0, total - below - slack), std::min(1.0, above + infinite + slack)};
    out.below = {std::max(0.0, total - infinite - above - slack), below};
    // Pr[L <= x] is bounded like Pr[L < x], so that both lower bounds hold for losses equal to x.
    return out;
}

}  // namespace dpcore::detail
