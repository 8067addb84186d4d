#include "epsilon_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "closed_forms.hpp"
#include "composed_delta.hpp"
#include "dpcore/enumeration.hpp"
#include "laplace_mixture.hpp"
#include "near_lattice.hpp"
#include "smoothed.hpp"
#include "step_scales.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Far from the epsilon sought.
constexpr double kFarContent = 1e-5;
// Steps outward from it.
constexpr int kMostLooks = 40;
// Answers wider than this, as a share of delta, are the slow ones too; after so many of them the search is given
// up.
constexpr double kWide = 2e-5;
constexpr int kMostWide = 6;
// An answer so wide, as a share of itself, may be narrowed by an exponential moment.
constexpr double kPoor = 0.01;
// Work for one delta on the way, in nanoseconds.
constexpr double kDeltaWork = 1e9;

// About where delta is reached, if the sum goes first there: the saddle-point estimate, along the saddle.
std::optional<double> few_laplace_epsilon(const Composition& comp, double delta, StopCheck stop) {
    if (!has_laplace_sum(comp)) return std::nullopt;
    const double goal = std::log(delta);
    double low = -40.0;
    double high = 40.0;
    double epsilon = 0.0;
    for (int i = 0; i < 40; ++i) {
        const double c = std::exp(0.5 * (low + high));
        const Cumulants k = comp.cumulants(c, stop);
        const double estimate =
            k.value - c * k.first - std::log(c * (1.0 + c)) - 0.5 * std::log(6.3 * (k.second + 1.0 / (c * c)));
        (estimate > goal ? low : high) = 0.5 * (low + high);
        epsilon = std::min(std::max(0.0, k.first), comp.max_loss);
    }
    return laplace_mixture_first(comp, epsilon) ? std::optional<double>(epsilon) : std::nullopt;
}

// Few subsampled releases take several contours: a single one is of no use there, not even as an estimate of
// epsilon.
bool searched(const Composition& comp, const Method& method) {
    const double samples = expected_samples(comp);
    return method.engine != Engine::buckets && samples > 0.0 && samples < kFewSamples;
}

// Losses of little noise may be thousands.
constexpr double kMostGuess = 1e12;

// An epsilon near the one sought: where the saddle point's estimate allows delta, or, of few removals, where the
// single steps' deltas add up to it, whichever is less.
double first_guess(const Composition& comp, double delta, StopCheck stop) {
    const double goal = std::log(delta);
    const auto smallest = [&](auto&& log_delta, double high) {
        double low = 0.0;
        while (high < kMostGuess && log_delta(high) > goal) high *= 2.0;
        for (int i = 0; i < 30; ++i) {
            const double middle = 0.5 * (low + high);
            (log_delta(middle) > goal ? low : high) = middle;
        }
        return high;
    };
    const double most = std::isfinite(comp.max_loss) ? comp.max_loss : kInf;
    double guess = smallest(
        [&](double eps) { return eps < most * (1.0 - 1e-9) ? log_delta_estimate(comp, eps, stop) : -kInf; },
        std::min(1.0, most));
    const bool removal = std::all_of(comp.terms.begin(), comp.terms.end(), [](const Term& t) {
        return t.law->kind() == LawKind::subsampled_gaussian && t.law->parameters()[2] != 0.0;
    });
    if (removal && expected_samples(comp) < kFewSamples)
        guess = std::min(guess, smallest(
                                    [&](double eps) {
                                        double total = 0.0;
                                        for (const Term& t : comp.terms) {
                                            const std::vector<double> p = t.law->parameters();
                                            total += t.copies *
                                                     std::exp(one_subsampled(p[0], p[1], true, eps).log_upper);
                                        }
                                        return std::log(total);
                                    },
                                    1.0));
    return std::min(guess, most * (1.0 - 1e-6));
}

// epsilon in one direction from delta alone, where contours are of no use or not wanted: a bracketed secant on ln
// delta from the spectral estimate, until its value is inside the bounds' own width, then outward on both sides.
// Every end of the result has been evaluated.
Interval epsilon_by_search(const Composition& comp, double delta, Method method, StopCheck stop) {
    if (delta < comp.infinite_mass_lower()) return {kInf, kInf};
    if (!(delta > comp.infinite_mass_upper())) return spectral_epsilon(comp, delta, stop);
    constexpr double kFloor = -1e4;  // stands for ln 0 in the secant
    const double goal = std::log(delta);
    const double goal_err = kLibm * std::fabs(goal);
    double low = 0.0;    // delta is above the goal there, or it is 0
    double high = kInf;  // delta is not above the goal there
    double slack = 0.0;  // width of the last bounds
    int wide = 0;
    Method now = method;
    // How far ln delta is above the goal, by the middle of its bounds.
    const auto excess = [&](double eps) {
        stop.spend(0.0);  // all of it may be used up
        LogBounds b = {-kInf, kInf};
        within(stop, 1.0, kDeltaWork, [&](StopCheck own) { b = log_delta_of(comp, eps, now, own); });
        if (b.log_upper <= goal - goal_err)
            high = std::min(high, eps);
        else if (b.log_lower > goal + goal_err)
            low = std::max(low, eps);
        const double upper = std::max(b.log_upper, kFloor);
        const double lower = std::max(b.log_lower, kFloor);
        slack = upper - lower + 2.0 * goal_err;
        if (slack > kWide && now.content <= method.content) ++wide;
        return 0.5 * (upper + lower) - goal;
    };
    // Both sides of x, at distances that the bounds' own width asks for.
    const auto outward = [&](double x, double slope) {
        const double unit = slack / std::max(slope, 1e-3) + 4.0 * kRound * x + 1e-300;
        // Where bounds are as wide as all of delta no end will be found by going on.
        int left = kMostLooks;
        for (double w = unit; x + w < high && left > 0 && wide < kMostWide + 4; w *= 2.0, --left) excess(x + w);
        left = kMostLooks;
        for (double w = unit; x - w > low && left > 0 && wide < kMostWide + 8; w *= 2.0, --left) excess(x - w);
        return Interval{low, high};
    };
    const auto search = [&] {
        if (searched(comp, method) || (method.engine != Engine::buckets && smoothable(comp))) {
            // A secant; delta to six digits is enough until the end is near, and much cheaper.
            now.content = kFarContent;
            double x = std::min(1.0, comp.max_loss);
            within(stop, 0.15, [&](StopCheck own) { x = first_guess(comp, delta, own); });
            double value = excess(x);
            double previous = x > 0.0 ? x * (value > 0.0 ? 1.05 : 0.95) : 1e-3;
            double at_previous = excess(previous);
            for (int i = 0; i < 40 && x != previous && wide < kMostWide; ++i) {
                if (std::fabs(value) <= slack) {
                    if (now.content <= method.content) break;
                    now.content = method.content;
                    value = excess(x);
                    continue;
                }
                const double rate = (value - at_previous) / (x - previous);
                double next = rate < 0.0 ? x - value / rate : (value > 0.0 ? 2.0 * x + 1e-3 : 0.5 * x);
                const double top = std::isfinite(high) ? high : 4.0 * x + 1.0;
                if (!(next > low)) next = low > 0.0 ? 0.5 * (low + x) : (x > 1e-6 ? 0.25 * x : 0.0);
                if (!(next < top)) next = 0.5 * (top + x);
                previous = x;
                at_previous = value;
                x = next;
                value = excess(x);
                if (x == 0.0 && value <= 0.0) break;
            }
            if (high == 0.0) return Interval{0.0, 0.0};
            const double rate = previous != x ? std::fabs((value - at_previous) / (x - previous)) : 1.0;
            return outward(x, rate);
        }
        double a = 0.0;
        // Here too six digits, or a coarser grid, until the end is near.
        if (method.engine != Engine::buckets) now.content = kFarContent;
        double at_a = excess(a);
        if (high == 0.0) return Interval{0.0, 0.0};
        double b = std::max(comp.max_loss, 0.0);
        double at_b = kFloor;
        const auto few = method.engine != Engine::buckets ? few_laplace_epsilon(comp, delta, stop) : std::nullopt;
        Interval near = {0.0, kInf};
        if (!few) within(stop, 0.2, [&](StopCheck own) { near = spectral_epsilon(comp, delta, own); });
        double x = few ? *few : 0.5 * (near.lower + near.upper);
        if (!few && !(near.upper - near.lower <= 0.1 * near.upper))
            within(stop, 0.1, [&](StopCheck own) { x = first_guess(comp, delta, own); });
        if (std::isfinite(b)) {
            high = b;
        } else {
            b = std::isfinite(x) && x > 0.0 ? 2.0 * x : 1.0;
            while ((at_b = excess(b)) > 0.0 && b < 1e300) b *= 2.0;
            if (!(b < 1e300)) return Interval{low, kInf};
        }
        double slope = 0.0;
        for (int i = 0; i < 100 && b - a > 1e-15 * b; ++i) {
            if (!(x > a && x < b)) x = 0.5 * (a + b);
            const double value = excess(x);
            slope = std::max(slope, std::fabs((value - at_a) / (x - a)));
            if (std::fabs(value) <= slack) {
                if (now.content <= method.content) break;
                now.content = method.content;
                continue;
            }
            const double kept = value > 0.0 ? at_b : at_a;
            if (value > 0.0) {
                if (value > 0.5 * at_a) at_b *= 0.5;  // Illinois: the end that stays counts less
                a = x;
                at_a = value;
            } else {
                if (value < 0.5 * at_b) at_a *= 0.5;
                b = x;
                at_b = value;
            }
            // Far from the root ln delta is curved: halve until the secant has two values of ordinary size.
            x = std::fabs(kept) > 100.0 ? 0.5 * (a + b) : a + (b - a) * at_a / (at_a - at_b);
        }
        return outward(x, slope);
    };
    try {
        return search();
    } catch (const OutOfWork&) {
        return {low, high};
    }
}

Interval narrow_epsilon(const Composition& comp, double delta, Method method, StopCheck stop) {
    const Engine engine = method.engine;
    if (delta >= 1.0 || comp.terms.empty() || comp.log_finite_mass == -kInf)
        return spectral_epsilon(comp, delta, stop);
    if (engine == Engine::buckets) return epsilon_by_search(comp, delta, method, stop);
    if (engine == Engine::automatic && delta > 0.0 && single(comp, LawKind::gaussian))
        return all_gaussian_epsilon(comp, delta);
    if (engine == Engine::automatic && single(comp, LawKind::laplace) && delta > 0.0) {
        // 1 - exp((eps - eps0)/2) = delta
        const double value = comp.terms[0].law->parameters()[0] + 2.0 * std::log1p(-delta);
        const double err = 4.0 * kLibm * (comp.terms[0].law->parameters()[0] - 2.0 * std::log1p(-delta));
        return {std::max(0.0, value - err), std::max(0.0, value + err)};
    }
    if (engine == Engine::automatic && single(comp, LawKind::subsampled_gaussian) && delta > 0.0) {
        const std::vector<double> p = comp.terms[0].law->parameters();
        return one_subsampled_epsilon(p[0], p[1], p[2] != 0.0, delta);
    }
    if (delta > 0.0 && (searched(comp, method) || few_laplace_epsilon(comp, delta, stop)))
        return epsilon_by_search(comp, delta, method, stop);
    if (delta > comp.infinite_mass_upper()) {
        const auto near = near_lattice(comp);
        if (near && near->points <= kFewPoints) {
            const Interval found = near_lattice_epsilon(*near, delta, stop);
            if (found.upper - found.lower <= kContentWidth * std::max(found.upper, 1.0)) return found;
        }
    }
    Interval out = spectral_epsilon(comp, delta, stop);
    if ((engine == Engine::spectral && !has_laplace_sum(comp)) || out.lower == out.upper) return out;
    // Laplace releases alone have a sum of their own where the contour is slow: it is worth asking for more.
    const bool sum = has_laplace_sum(comp);
    const double content = (sum ? 1e-11 : 1e-8) * std::max(out.upper, 1.0);
    if (std::isfinite(out.upper) && out.upper - out.lower <= content) return out;
    if (enumeration_size(comp) <= kMaxEnumeration && delta > 0.0) {
        const Enumeration all(comp, stop);
        const double p_lower = comp.infinite_mass_lower();
        const double p_upper = comp.infinite_mass_upper();
        double lo = 0.0, hi = std::max(comp.max_loss, 0.0);
        if (!(all.delta(0.0).lower + p_lower > delta * (1.0 + kLibm)))
            return intersect(out,
                             {0.0, all.delta(0.0).upper + p_upper <= delta * (1.0 - kLibm) ? 0.0 : out.upper});
        if (!(p_upper <= delta)) return out;
        double a = lo, b = hi;
        for (int i = 0; i < 100 && b - a > 1e-14 * b; ++i) {
            const double mid = 0.5 * (a + b);
            const Interval d = all.delta(mid);
            if (d.upper + p_upper <= delta * (1.0 - kLibm))
                hi = b = mid;
            else if (d.lower + p_lower > delta * (1.0 + kLibm))
                lo = a = mid;
            else {  // inside the error: leave by small steps on both sides
                double w = 1e-15 * std::max(mid, 1e-300);
                for (; mid + w < hi; w *= 4.0)
                    if (all.delta(mid + w).upper + p_upper <= delta * (1.0 - kLibm)) {
                        hi = mid + w;
                        break;
                    }
                w = 1e-15 * std::max(mid, 1e-300);
                for (; mid - w > lo; w *= 4.0)
                    if (all.delta(mid - w).lower + p_lower > delta * (1.0 + kLibm)) {
                        lo = mid - w;
                        break;
                    }
                break;
            }
        }
        return intersect(out, {lo, hi});
    }
    if (!sum && std::isfinite(out.upper) && out.upper - out.lower <= 1e-6 * std::max(out.upper, 1.0)) return out;
    return delta > 0.0 ? intersect(out, epsilon_by_search(comp, delta, method, stop)) : out;
}

// Where one exponential moment keeps delta at or below the goal: an upper bound of epsilon, lowered step by step.
void lower_by_moments(const Composition& comp, double delta, double& upper, StopCheck stop) {
    const double finite = (delta - comp.infinite_mass_upper()) * (1.0 - 4.0 * kLibm);
    if (!(finite > 0.0)) return;
    const double goal = std::log(finite) - kLibm * std::fabs(std::log(finite));
    double low = 0.0;
    double high = std::min(1.0, upper);
    while (high < upper && log_chernoff_above(comp, high, stop) > goal) {
        low = high;
        high *= 4.0;
    }
    if (!(high < 1e300)) return;
    upper = high = std::min(upper, high);
    for (int i = 0; i < 30 && high - low > 1e-3 * high; ++i) {
        const double middle = 0.5 * (low + high);
        (log_chernoff_above(comp, middle, stop) > goal ? low : high) = middle;
        upper = std::min(upper, high);
    }
}

}  // namespace

Interval epsilon_of(const Composition& comp, double delta, Method method, StopCheck stop) {
    Interval out = {0.0, kInf};
    const auto search = [&](StopCheck own) { out = narrow_epsilon(comp, delta, method, own); };
    const bool enough = within(stop, 0.9, search);
    const bool wide = out.lower < kInf && out.upper > 0.0 && !(out.upper - out.lower <= kPoor * out.upper);
    if (stop.work != nullptr && (!enough || wide))
        within(stop, 1.0, [&](StopCheck own) { lower_by_moments(comp, delta, out.upper, own); });
    return out;
}

}  // namespace dpcore::detail
