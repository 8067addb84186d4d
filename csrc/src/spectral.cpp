#include "dpcore/spectral.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contour.hpp"
#include "contour_kernel.hpp"
#include "saddle.hpp"

namespace dpcore {

using detail::certified_moment;
using detail::Contour;
using detail::find_saddle;
using detail::kAim;
using detail::lattice_offset;
using detail::log_payoff;
using detail::Moments;
using detail::moments;
using detail::Offset;
using detail::Saddle;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr double kLeast = std::numeric_limits<double>::min();
// An epsilon below so many standard deviations may be 0.
constexpr double kNearZero = 1e-3;

// log x, rounded down and up; minus infinity at 0.
double log_below(double x) {
    const double l = std::log(x);
    return std::isfinite(l) ? l - kLibm * std::fabs(l) : l;
}
double log_above(double x) {
    const double l = std::log(x);
    return std::isfinite(l) ? l + kLibm * std::fabs(l) : l;
}
}  // namespace

LogBounds trivial_delta(const Composition& comp, double eps) {
    double log_rest = comp.log_finite_mass + comp.log_mass_err;
    if (std::isfinite(comp.max_loss)) log_rest += std::log(std::max(0.0, -std::expm1(eps - comp.max_loss)));
    // Sampled steps alone: nothing happens but with the probability that one is sampled.
    double sampled = 0.0;
    for (const Term& t : comp.terms)
        sampled += t.law->kind() == LawKind::subsampled_gaussian ? t.copies * t.law->parameters()[1] : kInf;
    if (eps >= 0.0) log_rest = std::min(log_rest, std::log(sampled));
    log_rest += (8.0 + static_cast<double>(comp.terms.size())) * kLibm + 4.0 * kRound * std::fabs(log_rest);
    // In logarithms: the finite mass alone may be below the range of double.
    if (comp.infinite_mass_upper() == 0.0) return {-kInf, log_rest};
    const double total = std::exp(comp.log_total_mass + comp.log_mass_err) * (1.0 + 8.0 * kLibm);
    const double p_lower = comp.infinite_mass_lower();
    const double all = (comp.infinite_mass_upper() + std::exp(log_rest)) * (1.0 + 8.0 * kLibm);
    return {log_below(p_lower), std::log(std::min(all, total)) + 4.0 * kLibm};
}

LogBounds add_infinite_mass(const Composition& comp, LogBounds finite) {
    double log_lower = finite.log_lower;
    double log_upper = finite.log_upper;
    const double p_upper = comp.infinite_mass_upper();
    if (p_upper > 0.0) {
        const double low = comp.infinite_mass_lower() + (log_lower > -745.0 ? std::exp(log_lower) : 0.0);
        const double high = p_upper + (log_upper > -745.0 ? std::exp(log_upper) : 5e-324);
        log_lower = std::log(low * (1.0 - 4.0 * kLibm));
        log_upper = std::log(high * (1.0 + 4.0 * kLibm)) + 2.0 * kLibm;
        log_upper += kLibm * std::fabs(log_upper);
        if (std::isfinite(log_lower)) log_lower -= kLibm * std::fabs(log_lower);
    }
    return {log_lower, std::min(log_upper, comp.log_total_mass + comp.log_mass_err + 4.0 * kLibm)};
}

Tails both_tails(const Composition& comp, const Interval& above) {
    const double finite = std::exp(comp.log_finite_mass);
    const double slack =
        std::exp(comp.log_total_mass) * (std::expm1(std::min(comp.log_mass_err, 700.0)) + 4.0 * kLibm);
    const double upper = std::min(above.upper, finite + slack);
    return {{std::min(1.0, above.lower + comp.infinite_mass_lower()),
             std::min(1.0, upper + comp.infinite_mass_upper() + slack)},
            {std::max(0.0, finite - upper - slack), std::min(1.0, finite - above.lower + slack)}};
}

namespace detail {
// The integral itself, in logarithms, rounded outward.
LogBounds positive(const Contour::Sum& sum) {
    const auto outward = [](double l) { return 4.0 * kLibm + 2.0 * kRound * std::fabs(l); };
    double log_lower = sum.lower > 0.0 ? sum.scale + std::log(sum.lower) : -kInf;
    double log_upper = sum.upper > 0.0 ? sum.scale + std::log(sum.upper) : -kInf;
    if (log_lower > -kInf) log_lower -= sum.scale_err + outward(log_lower) + outward(sum.scale);
    if (log_upper > -kInf) log_upper += sum.scale_err + outward(log_upper) + outward(sum.scale);
    return {log_lower, log_upper};
}
}  // namespace detail

namespace {

using detail::positive;

// Adds the infinite mass; for complements turns 1 - delta into delta. All in logs with outward rounding.
LogBounds finish(const Composition& comp, const Contour::Sum& sum, bool complement) {
    const double p_lower = comp.infinite_mass_lower();
    const double total_log = comp.log_total_mass;
    const double total_err = comp.log_mass_err + 4.0 * kLibm;
    if (complement) {
        const double lower = sum.lower > 0.0
                                 ? std::exp(sum.scale + std::log(sum.lower) - sum.scale_err) * (1.0 - 8.0 * kLibm)
                                 : 0.0;
        const double upper = sum.upper > 0.0
                                 ? std::exp(sum.scale + std::log(sum.upper) + sum.scale_err) * (1.0 + 8.0 * kLibm)
                                 : 0.0;
        const double total = std::exp(total_log);
        const double slack = total * std::expm1(std::min(total_err, 700.0));
        // The least number: a total below the range of double is no zero.
        const double high = std::min(total - lower + 4.0 * kRound, total) + slack + kLeast;
        const double low = total - upper - 4.0 * kRound - slack;
        return {low > p_lower ? log_below(low) : log_below(p_lower), log_above(high)};
    }
    return add_infinite_mass(comp, positive(sum));
}

int side_for(double eps, const Moments& m) { return eps < m.mean - std::sqrt(m.variance) ? -1 : 1; }

}  // namespace

Placement spectral_placement(const Composition& comp, double epsilon, StopCheck stop) {
    Placement out;
    const Moments m = moments(comp, stop);
    const Saddle s = find_saddle(comp, Quantity::delta, epsilon, 1, m.mean, m.variance, stop);
    if (!std::isfinite(s.value)) return out;
    const Cumulants k = comp.cumulants(s.c, stop);
    if (!std::isfinite(k.value) || !(k.second > 0.0)) return out;
    out.c = s.c;
    out.value = k.value;
    out.mean = k.first;
    out.variance = k.second;
    constexpr double kWindow = 22.0;  // e^-22: the window's share of the width
    // The points x on either side of c with the smallest need(x) = (K(x) - K(c) - (x - c) mean + kWindow)/|x - c|.
    const auto search = [&](double direction, double& chosen) {
        double best = kInf;
        // Next to the largest loss the variance vanishes: the law is then a point, and any width of c's size will
        // do.
        double width = std::min(std::sqrt(2.0 * kWindow / k.second), 4.0 * s.c);
        for (int i = 0; i < 24; ++i, width *= 0.8) {
            const Cumulants at = comp.cumulants(s.c + direction * width, stop);
            const double need = (at.value - k.value - direction * width * k.first + kWindow) / width;
            if (std::isfinite(need) && need < best) {
                best = need;
                chosen = s.c + direction * width;
            } else if (std::isfinite(best)) {
                break;
            }
        }
        return best;
    };
    out.distance = std::max(search(1.0, out.far), search(-1.0, out.near));
    out.valid = std::isfinite(out.distance) && out.distance > 0.0;
    return out;
}

double log_delta_estimate(const Composition& comp, double epsilon, StopCheck stop) {
    const Moments m = moments(comp, stop);
    const Saddle s = find_saddle(comp, Quantity::delta, epsilon, 1, m.mean, m.variance, stop);
    return s.value - 0.5 * std::log(2.0 * kPi * s.second);
}

double log_chernoff_estimate(const Composition& comp, double epsilon, StopCheck stop) {
    const Moments m = moments(comp, stop);
    return find_saddle(comp, Quantity::delta, epsilon, 1, m.mean, m.variance, stop).value;
}

double log_chernoff_at(const Composition& comp, double epsilon, double c, StopCheck stop) {
    stop();
    const double at = certified_moment(comp, c, stop).log_upper + log_payoff(c) - epsilon * c;
    return at + 8.0 * kRound * (std::fabs(at) + std::fabs(epsilon * c) + 1.0 + c);
}

double log_chernoff_above(const Composition& comp, double epsilon, StopCheck stop, double useful) {
    const Moments m = moments(comp, stop);
    const Saddle s = find_saddle(comp, Quantity::delta, epsilon, 1, m.mean, m.variance, stop);
    if (!std::isfinite(s.value)) return kInf;
    if (s.value + std::log(s.c) + std::log1p(s.c) + log_payoff(s.c) > useful) return kInf;
    const auto bound = [&](double c) { return log_chernoff_at(comp, epsilon, c, stop); };
    // Next to the largest loss, or beyond nearly all of them, the saddle point runs off to where no moment can be
    // certified; any smaller exponent gives a bound, and the largest that can be is about as good.
    double c = s.c;
    double found = bound(c);
    for (int i = 0; i < 80 && !std::isfinite(found) && c > 1e-3; ++i) found = bound(c *= 0.0625);
    if (c < s.c && std::isfinite(found)) {
        const double nearer = bound(4.0 * c);
        if (nearer < found) found = nearer;
    }
    return std::isfinite(found) ? found : kInf;
}

LogBounds mostly_above(const Composition& comp, double epsilon, double negligible, StopCheck stop) {
    const LogBounds p = certified_moment(comp, 0.0, stop);
    const LogBounds q = certified_moment(comp, -1.0, stop);
    // What E[(e^{eps-L} - 1)+] need not be known to, also beside the rest of this sum.
    const double main = -std::expm1(std::min(q.log_upper + epsilon - p.log_lower, 0.0));
    const double enough = std::max(negligible, p.log_lower + std::log(main) - kAim);
    const auto moment = [&](double c) {
        const double at = certified_moment(comp, c, stop).log_upper + log_payoff(-1.0 - c) - c * epsilon;
        return at + 8.0 * kRound * (std::fabs(at) + std::fabs(c) * (1.0 + epsilon));
    };
    LogBounds rest = {-kInf, kInf};
    // Where hardly any loss is below eps the saddle point is far out; the first exponent that is enough will do.
    for (double c = -2.0; c > -1e12 && !(rest.log_upper <= enough); c *= 2.0) {
        stop();
        const Cumulants k = comp.cumulants(c, stop);
        if (!std::isfinite(k.value) || !(k.first > epsilon)) break;
        if (k.value + log_payoff(-1.0 - c) - c * epsilon < enough - 1.0) rest.log_upper = moment(c);
    }
    if (!(rest.log_upper <= enough)) {
        const Moments m = moments(comp, stop);
        const Saddle s = find_saddle(comp, Quantity::delta, epsilon, -2, m.mean, m.variance, stop);
        if (std::isfinite(s.value)) {
            const double most = moment(s.c);
            if (most <= rest.log_upper) rest.log_upper = most;
            if (!(rest.log_upper <= enough)) {
                const Contour contour(comp, Quantity::delta, s.c, s.second, epsilon, stop);
                if (contour.usable()) {
                    const LogBounds found = positive(contour.evaluate(epsilon));
                    rest = {found.log_lower, std::min(found.log_upper, rest.log_upper)};
                }
            }
        }
    }
    // All relative to M(0).
    const double slip = 8.0 * kLibm + 4.0 * kRound * (std::fabs(p.log_upper) + std::fabs(q.log_upper) + epsilon);
    const auto relative = [&](double log_value, double log_base) {
        return std::exp(std::min(log_value - log_base, 40.0));
    };
    const double low = 1.0 - relative(q.log_upper + epsilon, p.log_lower) * (1.0 + slip) +
                       relative(rest.log_lower, p.log_upper) * (1.0 - slip) - slip;
    const double high = 1.0 - relative(q.log_lower + epsilon, p.log_upper) * (1.0 - slip) +
                        relative(rest.log_upper, p.log_lower) * (1.0 + slip) + slip;
    const auto finite = [&](double share, double base, double sign) {
        const double value = base + std::log(share);
        return value + sign * (2.0 * kLibm + 2.0 * kRound * (std::fabs(base) + std::fabs(value)));
    };
    LogBounds out = {-kInf, p.log_upper};
    if (low > 0.0) out.log_lower = finite(low, p.log_lower, -1.0);
    if (high > 0.0 && high < 1.0) out.log_upper = finite(high, p.log_upper, 1.0);
    // Where the losses are only a little above eps, the difference of nearly equal masses is less exact than a
    // contour at c > 0.
    const double width = std::log(-std::expm1(std::min(out.log_lower - out.log_upper, -1e-300)));
    if (!(out.log_upper + width <= negligible)) {
        const Moments m = moments(comp, stop);
        const Saddle s = find_saddle(comp, Quantity::delta, epsilon, 1, m.mean, m.variance, stop);
        if (!std::isfinite(s.value)) return out;
        const Contour contour(comp, Quantity::delta, s.c, s.second, epsilon, stop);
        if (!contour.usable()) return out;
        const LogBounds found = positive(contour.evaluate(epsilon));
        out = {std::max(out.log_lower, found.log_lower), std::min(out.log_upper, found.log_upper)};
    }
    return out;
}

ContourPlace spectral_place(const Composition& comp, double epsilon, Quantity quantity, StopCheck stop) {
    const Moments m = moments(comp, stop);
    const Saddle s = find_saddle(comp, quantity, epsilon, 1, m.mean, m.variance, stop);
    return std::isfinite(s.value) ? Contour::placed(comp, quantity, s.c, s.second, epsilon, stop) : ContourPlace{};
}

LogBounds spectral_delta(const Composition& comp, double epsilon, StopCheck stop) {
    if (comp.terms.empty() || comp.log_finite_mass == -kInf || epsilon >= comp.max_loss)
        return {log_below(comp.infinite_mass_lower()), log_above(comp.infinite_mass_upper())};
    const Moments m = moments(comp, stop);
    const LogBounds fallback = trivial_delta(comp, epsilon);
    const Saddle saddle =
        find_saddle(comp, Quantity::delta, epsilon, side_for(epsilon, m), m.mean, m.variance, stop);
    if (!std::isfinite(saddle.value)) return fallback;
    const Contour contour(comp, Quantity::delta, saddle.c, saddle.second, epsilon, stop);
    if (!contour.usable()) return fallback;
    const LogBounds out = finish(comp, contour.evaluate(epsilon), contour.complement());
    return {std::max(out.log_lower, fallback.log_lower), std::min(out.log_upper, fallback.log_upper)};
}

Tails spectral_tails(const Composition& comp, double at, StopCheck stop) {
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (std::expm1(std::min(comp.log_mass_err, 700.0)) + 4.0 * kLibm);
    const double p_lower = comp.infinite_mass_lower();
    const double p_upper = comp.infinite_mass_upper();
    if (comp.log_finite_mass == -kInf) return {{p_lower, p_upper}, {0.0, 0.0}};
    if (comp.terms.empty())
        return {{at < 0.0 ? 1.0 : 0.0, at < 0.0 ? 1.0 : 0.0}, {at > 0.0 ? 1.0 : 0.0, at > 0.0 ? 1.0 : 0.0}};
    const double finite = std::exp(comp.log_finite_mass);
    if (at > comp.max_loss) return {{p_lower, p_upper}, {finite - slack, std::min(1.0, finite + slack)}};
    if (at < comp.min_loss) return {{total - slack, std::min(1.0, total + slack)}, {0.0, 0.0}};
    const Moments m = moments(comp, stop);
    const Interval nothing = {0.0, 1.0};
    Tails out = {nothing, nothing};
    if (at >= comp.max_loss) out.above = {p_lower, p_upper};
    if (at <= comp.min_loss) out.below = {0.0, 0.0};
    if (at == comp.max_loss || at == comp.min_loss) return out;  // the other side is asked for by nobody
    const Saddle saddle = find_saddle(comp, Quantity::tail, at, at < m.mean ? -1 : 1, m.mean, m.variance, stop);
    if (!std::isfinite(saddle.value)) return out;
    const Contour contour(comp, Quantity::tail, saddle.c, saddle.second, at, stop);
    if (contour.usable()) {
        const auto interval = [&](const Contour::Sum& s) {
            const auto value = [&](double v, double sign) {
                if (!(v > 0.0)) return 0.0;
                const double found = v * std::exp(s.scale + sign * s.scale_err) * (1.0 + sign * 4.0 * kLibm);
                // What underflows is not 0. A NaN stays one above.
                return sign > 0.0 ? found + kLeast : std::max(0.0, found - kLeast);
            };
            const Interval found = {value(s.lower, -1.0), value(s.upper, 1.0)};
            // A sum that overflowed says nothing; NaN must not pass for a tail of 0.
            const bool known = !std::isnan(s.lower) && !std::isnan(s.upper) && !std::isnan(found.upper);
            return known ? found : nothing;
        };
        // strict: ties are not above; loose: they are.
        Interval strict = interval(contour.evaluate(at, false));
        Interval loose = interval(contour.evaluate(at, true));
        const Offset offset = comp.lattice.step > 0.0 ? lattice_offset(comp.lattice, at) : Offset{};
        if (offset.tie && !offset.exact_tie) {
            strict = {std::min(strict.lower, loose.lower), std::max(strict.upper, loose.upper)};
            loose = strict;
        }
        const auto other = [&](const Interval& i, double mass) {
            return Interval{std::max(0.0, mass - i.upper - slack), std::min(1.0, mass - i.lower + slack)};
        };
        if (contour.complement()) {  // the sum is Pr[L <= at] (strict) or Pr[L < at] (loose)
            out.below = loose;
            out.above = other(strict, total);
        } else {
            out.above = {strict.lower + p_lower, strict.upper + p_upper};
            out.below = other(loose, finite);
        }
        return out;
    }
    return out;
}

Interval spectral_epsilon(const Composition& comp, double delta, StopCheck stop) {
    if (delta >= 1.0 || comp.terms.empty()) return {0.0, 0.0};
    const double p_lower = comp.infinite_mass_lower();
    const double p_upper = comp.infinite_mass_upper();
    if (delta < p_lower) return {kInf, kInf};
    const double top = comp.max_loss;
    if (delta <= p_upper) {
        if (p_lower != p_upper) return {0.0, kInf};
        // The largest loss itself: nothing finite lies above it, and just below it delta exceeds the infinite
        // mass.
        if (!std::isfinite(top)) return {kInf, kInf};
        // max_loss is rounded up: by the errors of the single losses (32 roundings at the most), and of their sum.
        return {std::max(0.0, top * (1.0 - 8.0 * kRound * static_cast<double>(comp.terms.size() + 8)) - 1e-300),
                std::max(top, 0.0)};
    }
    const double goal = std::log(delta);
    const double goal_low = log_below(delta);  // at most this: certainly at most delta
    const double goal_high = log_above(delta);
    double lo = 0.0;  // certified delta(lo) > delta, or 0
    const double hi = std::isfinite(top) ? std::max(top, 0.0) : kInf;
    double best_hi = hi;
    bool lo_certified = false;
    // Whether no epsilon is needed at all. A contour of its own, and mostly not asked for: an eps > 0 with
    // delta(eps) above the goal says the same.
    bool zero_asked = false;
    const auto nothing_needed = [&] {
        if (zero_asked || lo > 0.0) return false;
        zero_asked = true;
        const LogBounds at0 = spectral_delta(comp, 0.0, stop);
        lo_certified = lo_certified || at0.log_lower > goal_high;
        return at0.log_upper <= goal_low;
    };
    const auto search = [&] {
        // Saddle-point estimate: eps as a function of c, then contours with Newton steps in log delta.
        const Moments m = moments(comp, stop);
        const double p_mid = 0.5 * (p_lower + p_upper);
        double eps =
            std::max(0.0, m.mean + std::sqrt(m.variance) * std::sqrt(2.0 * std::max(0.0, -goal - 0.5)) * 0.8);
        if (p_mid < delta) {
            const double finite_goal = std::log(delta - p_mid);
            for (int i = 0; i < 60; ++i) {
                if (!(eps < hi)) eps = 0.5 * (lo + hi);
                const Saddle s = find_saddle(comp, Quantity::delta, eps, 1, m.mean, m.variance, stop);
                if (!std::isfinite(s.value)) break;
                const double estimate = s.value - 0.5 * std::log(2.0 * kPi * s.second);
                const double step = (estimate - finite_goal) / s.c;  // d log delta / d eps is about -c
                const double limit = 3.0 * std::sqrt(m.variance) + 0.5 * std::fabs(eps);
                const double next = std::max(0.0, eps + std::max(-limit, std::min(limit, step)));
                const bool done = std::fabs(estimate - finite_goal) < 0.1 || next == eps;
                eps = next;
                if (done) break;
            }
            if (!(eps < hi)) eps = 0.5 * (lo + hi);
        }
        if (!(eps > kNearZero * std::sqrt(m.variance)) && nothing_needed()) return Interval{0.0, 0.0};
        for (int round = 0; round < 60; ++round) {
            const int side = side_for(eps, m);
            const Saddle saddle = find_saddle(comp, Quantity::delta, eps, side, m.mean, m.variance, stop);
            std::unique_ptr<Contour> contour;
            if (std::isfinite(saddle.value))
                contour = std::make_unique<Contour>(comp, Quantity::delta, saddle.c, saddle.second, eps, stop);
            if (contour == nullptr || !contour->usable()) {
                if (nothing_needed()) return Interval{0.0, 0.0};
                return Interval{lo_certified ? lo : 0.0, best_hi};
            }
            const auto look = [&](double e) { return finish(comp, contour->evaluate(e), contour->complement()); };
            // Newton on this contour while eps stays near.
            const double start = eps;
            bool moved_far = false;
            double last_width = kInf;
            for (int i = 0; i < 12; ++i) {
                const Contour::Sum s = contour->evaluate(eps);
                const LogBounds b = finish(comp, s, contour->complement());
                if (b.log_lower > goal_high && eps > lo) lo = eps, lo_certified = true;
                if (b.log_upper <= goal_low && eps < best_hi) best_hi = eps;
                const double value =
                    0.5 * (std::exp(b.log_lower - goal) + std::exp(std::min(b.log_upper - goal, 50.0)));
                last_width = b.log_upper - b.log_lower;
                const double rate = s.slope * std::exp(s.scale - goal);  // d(delta/goal)/d eps < 0
                if (!(rate < 0.0) || !std::isfinite(value)) {
                    moved_far = true;
                    eps = std::isfinite(best_hi) ? 0.5 * (lo + best_hi) : 2.0 * eps + 1.0;
                    break;
                }
                // Newton in log delta; for delta near 1 in delta itself.
                double step = contour->complement() ? (1.0 - value) / rate : -std::log(value) * value / rate;
                double next = eps + step;
                if (!(next > lo)) {
                    if (nothing_needed()) return Interval{0.0, 0.0};
                    next = 0.5 * (lo + eps);
                }
                if (!(next < best_hi)) next = 0.5 * (best_hi + eps);
                const double scale = 1.0 / std::sqrt(saddle.second);
                if (std::fabs(next - start) > 2.0 / scale * 0.5) {
                    eps = next;
                    moved_far = true;
                    break;
                }
                const bool settled =
                    std::fabs(next - eps) <= 1e-15 * std::fabs(eps) + 1e-14 * std::fabs(value / rate) ||
                    std::fabs(std::log(value)) <= 2.0 * last_width;
                eps = next;
                if (settled) break;
            }
            if (moved_far) continue;
            // Finish outward: smallest steps that certify both sides.
            const Contour::Sum s = contour->evaluate(eps);
            const double rate = std::fabs(s.slope) * std::exp(s.scale - goal);
            double step = std::max(1e-15 * eps, 2.0 * std::max(last_width, 1e-15) / std::max(rate, 1e-300));
            // Bounds without a width (a contour that cannot tell) make the step infinite: nothing to look for
            // then.
            for (double w = step; std::isfinite(w) && (best_hi > eps + w || !(best_hi < kInf)); w *= 2.0) {
                if (look(eps + w).log_upper <= goal_low) {
                    best_hi = eps + w;
                    break;
                }
                if (w > 1e6 * step) break;
            }
            for (double w = step; lo < eps - w; w *= 2.0) {
                if (look(eps - w).log_lower > goal_high) {
                    lo = eps - w;
                    lo_certified = true;
                    break;
                }
                if (w > 1e6 * step) break;
            }
            if (!lo_certified && nothing_needed()) return Interval{0.0, 0.0};
            return Interval{lo_certified ? lo : 0.0, best_hi};
        }
        return Interval{lo_certified ? lo : 0.0, best_hi};
    };
    try {
        return search();
    } catch (const OutOfWork&) {  // the ends found so far
        return {lo_certified ? lo : 0.0, best_hi};
    }
}

}  // namespace dpcore
