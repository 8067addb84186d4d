#include "dpcore/privacy_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "chernoff.hpp"
#include "closed_forms.hpp"
#include "dpcore/buckets.hpp"
#include "dpcore/enumeration.hpp"
#include "dpcore/validation.hpp"
#include "laplace_mixture.hpp"
#include "largest_step.hpp"
#include "near_lattice.hpp"
#include "smoothed.hpp"

namespace dpcore {

using detail::all_gaussian;
using detail::all_gaussian_confidence;
using detail::all_gaussian_epsilon;
using detail::discrete_laplace_confidence;
using detail::one_laplace;
using detail::one_subsampled;
using detail::one_subsampled_confidence;
using detail::one_subsampled_epsilon;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMaxCopies = 9007199254740992.0;  // 2^53
// Relative width with which auto is content before it tries another way.
constexpr double kContentWidth = 1e-9;
// And, as a share of that, what smoothing aims at: its bounds differ by more where losses crowd around epsilon.
constexpr double kSmoothedShare = 0.4;
// Far from the epsilon sought.
constexpr double kFarContent = 1e-5;
// Steps outward from it.
constexpr int kMostLooks = 40;
// Answers wider than this, as a share of delta, are the slow ones too; after so many of them the search is given
// up.
constexpr double kWide = 2e-5;
constexpr int kMostWide = 6;

// What both bounds allow. Bounds that contradict each other would show a fault in one of them: then what either
// allows.
LogBounds intersect(const LogBounds& a, const LogBounds& b) {
    const LogBounds both = {std::max(a.log_lower, b.log_lower), std::min(a.log_upper, b.log_upper)};
    if (both.log_lower <= both.log_upper) return both;
    return {std::min(a.log_lower, b.log_lower), std::max(a.log_upper, b.log_upper)};
}
Interval intersect(const Interval& a, const Interval& b) {
    const Interval both = {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
    if (both.lower <= both.upper) return both;
    return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
}

bool single(const Composition& comp, LawKind kind) {
    return comp.terms.size() == 1 && comp.terms[0].copies == 1.0 && comp.terms[0].law->kind() == kind;
}

double enumeration_size(const Composition& comp) {
    return comp.atomic && !comp.terms.empty() && comp.log_finite_mass > -kInf ? Enumeration::size(comp) : kInf;
}

LogBounds with_infinite(const Composition& comp, const Interval& finite) {
    const double low = (finite.lower + comp.infinite_mass_lower()) * (1.0 - kLibm);
    const double high = (finite.upper + comp.infinite_mass_upper()) * (1.0 + kLibm);
    const auto widen = [](double l, double sign) {
        return std::isfinite(l) ? l + sign * 2.0 * kLibm * (1.0 + std::fabs(l)) : l;
    };
    return {widen(std::log(low), -1.0), widen(std::log(high), 1.0)};
}

// The finite sum of a few Laplace releases is part of the spectral engine. It goes first where contours are slow.
std::optional<LogBounds> few_laplace_delta(const Composition& comp, double epsilon, StopCheck stop) {
    if (!detail::has_laplace_sum(comp) || !detail::laplace_mixture_first(comp, epsilon)) return std::nullopt;
    const auto sum = detail::laplace_mixture_delta(comp, epsilon, stop);
    const bool narrow = sum && (sum->log_upper == -kInf || sum->log_upper - sum->log_lower <= kContentWidth);
    return narrow ? sum : std::nullopt;
}
// About where delta is reached, if the sum goes first there: the saddle-point estimate, along the saddle.
std::optional<double> few_laplace_epsilon(const Composition& comp, double delta) {
    if (!detail::has_laplace_sum(comp)) return std::nullopt;
    const double goal = std::log(delta);
    double low = -40.0;
    double high = 40.0;
    double epsilon = 0.0;
    for (int i = 0; i < 40; ++i) {
        const double c = std::exp(0.5 * (low + high));
        const Cumulants k = comp.cumulants(c);
        const double estimate =
            k.value - c * k.first - std::log(c * (1.0 + c)) - 0.5 * std::log(6.3 * (k.second + 1.0 / (c * c)));
        (estimate > goal ? low : high) = 0.5 * (low + high);
        epsilon = std::min(std::max(0.0, k.first), comp.max_loss);
    }
    return detail::laplace_mixture_first(comp, epsilon) ? std::optional<double>(epsilon) : std::nullopt;
}

// Buckets that auto is willing to use when the contour decays too slowly.
constexpr double kAutoBuckets = 4194304.0;

// Points of a near lattice with which it goes before every other way: ten milliseconds.
constexpr double kFewPoints = 65536.0;

// Where fewer steps than this are sampled on average, one contour for all of them is rarely enough.
constexpr double kFewSamples = 8.0;
// And below this never.
constexpr double kHardlyAny = 0.5;

// delta by contours: one, or several where subsampled steps have to be told apart by their size. `content` is the
// relative width that is enough.
LogBounds contour_delta(const Composition& comp, double epsilon, double content, StopCheck stop) {
    const double samples = detail::expected_samples(comp);
    const LogBounds nothing = {-kInf, kInf};
    const auto narrow = [content](const LogBounds& b) { return b.log_upper - b.log_lower <= content; };
    // On addition the heavy tail is on the side of small losses, which c > 0 makes light.
    const bool later = samples > 0.0 && samples < kFewSamples && !std::isfinite(comp.max_loss);
    const LogBounds one = later ? nothing : spectral_delta(comp, epsilon, stop);
    if (samples == 0.0 || narrow(one)) return one;
    const LogBounds several = intersect(one, detail::largest_step_delta(comp, epsilon, content, stop));
    if (!later || samples < kHardlyAny || narrow(several)) return several;
    return intersect(several, spectral_delta(comp, epsilon, stop));
}

// delta in one direction.
LogBounds log_delta_of(const Composition& comp, double epsilon, Method method, StopCheck stop) {
    const Engine engine = method.engine;
    if (comp.terms.empty() || comp.log_finite_mass == -kInf || epsilon >= comp.max_loss)
        return spectral_delta(comp, epsilon, stop);  // nothing finite lies above epsilon
    if (engine == Engine::buckets) {
        BucketQuery query;
        query.step = method.step;
        return bucket_delta(comp, epsilon, query, stop);
    }
    if (engine == Engine::automatic) {
        if (single(comp, LawKind::gaussian)) return all_gaussian(comp, epsilon);
        if (single(comp, LawKind::laplace)) return one_laplace(comp.terms[0].law->parameters()[0], epsilon);
        if (single(comp, LawKind::subsampled_gaussian)) {
            const std::vector<double> p = comp.terms[0].law->parameters();
            return one_subsampled(p[0], p[1], p[2] != 0.0, epsilon);
        }
        if (enumeration_size(comp) <= 64.0) {
            // Next to an atom the rounding of its loss is everything; a contour on a lattice knows better.
            const LogBounds all = with_infinite(comp, Enumeration(comp, stop).delta(epsilon));
            return all.log_upper - all.log_lower <= kContentWidth
                       ? all
                       : intersect(all, spectral_delta(comp, epsilon, stop));
        }
    }
    if (const auto narrow = few_laplace_delta(comp, epsilon, stop)) return *narrow;
    LogBounds out = {-kInf, kInf};
    const auto near = detail::near_lattice(comp);
    if (near && near->points <= kFewPoints) out = detail::near_lattice_delta(*near, epsilon, stop);
    if (out.log_upper - out.log_lower > method.content)
        out = intersect(out, contour_delta(comp, epsilon, method.content, stop));
    const auto content = [&] { return out.log_upper - out.log_lower <= method.content || out.log_upper == -kInf; };
    if (content()) return out;
    if (detail::has_laplace_sum(comp))
        if (const auto sum = detail::laplace_mixture_delta(comp, epsilon, stop)) out = intersect(out, *sum);
    if (content()) return out;
    if (engine == Engine::automatic && enumeration_size(comp) <= kMaxEnumeration)
        return intersect(out, with_infinite(comp, Enumeration(comp, stop).delta(epsilon)));
    if (const auto smooth = detail::smoothed_delta(comp, epsilon, kSmoothedShare * method.content, stop))
        out = intersect(out, *smooth);
    if (near && near->points > kFewPoints && !content())
        out = intersect(out, detail::near_lattice_delta(*near, epsilon, stop));
    if (engine == Engine::spectral) return out;
    if (out.log_upper - out.log_lower > 1e-5 && bucket_count(comp, epsilon, {}) <= kAutoBuckets) {
        try {
            out = intersect(out, bucket_delta(comp, epsilon, {}, stop));
        } catch (const std::length_error&) {  // one law alone is too wide for a grid: the contour's bounds stand
        }
    }
    return out;
}

// Few subsampled releases take several contours: a single one is of no use there, not even as an estimate of
// epsilon.
bool searched(const Composition& comp, const Method& method) {
    const double samples = detail::expected_samples(comp);
    return method.engine != Engine::buckets && samples > 0.0 && samples < kFewSamples;
}

// An epsilon near the one sought: where the saddle point's estimate allows delta, or (removal) where the single
// steps' deltas add up to it, whichever is less.
double first_guess(const Composition& comp, double delta, StopCheck stop) {
    const double goal = std::log(delta);
    const auto smallest = [&](auto&& log_delta, double high) {
        double low = 0.0;
        while (high < 1e3 && log_delta(high) > goal) high *= 2.0;
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
    if (removal)
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
        const LogBounds b = log_delta_of(comp, eps, now, stop);
        if (b.log_upper <= goal - goal_err)
            high = std::min(high, eps);
        else if (b.log_lower > goal + goal_err)
            low = std::max(low, eps);
        const double upper = std::max(b.log_upper, kFloor);
        const double lower = std::max(b.log_lower, kFloor);
        slack = upper - lower + 2.0 * goal_err;
        if (slack > kWide) ++wide;
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
    if (searched(comp, method) || (method.engine != Engine::buckets && detail::smoothable(comp))) {
        // A secant; delta to six digits is enough until the end is near, and much cheaper.
        now.content = kFarContent;
        double x = first_guess(comp, delta, stop);
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
        if (high == 0.0) return {0.0, 0.0};
        const double rate = previous != x ? std::fabs((value - at_previous) / (x - previous)) : 1.0;
        return outward(x, rate);
    }
    double a = 0.0;
    double at_a = excess(a);
    if (high == 0.0) return {0.0, 0.0};
    double b = std::max(comp.max_loss, 0.0);
    double at_b = kFloor;
    const auto few = method.engine != Engine::buckets ? few_laplace_epsilon(comp, delta) : std::nullopt;
    const Interval near = few ? Interval{0.0, kInf} : spectral_epsilon(comp, delta, stop);
    double x = few ? *few : 0.5 * (near.lower + near.upper);
    if (std::isfinite(b)) {
        high = b;
    } else {
        b = std::isfinite(x) && x > 0.0 ? 2.0 * x : 1.0;
        while ((at_b = excess(b)) > 0.0 && b < 1e300) b *= 2.0;
        if (!(b < 1e300)) return {low, kInf};
    }
    double slope = 0.0;
    for (int i = 0; i < 100 && b - a > 1e-15 * b; ++i) {
        if (!(x > a && x < b)) x = 0.5 * (a + b);
        const double value = excess(x);
        slope = std::max(slope, std::fabs((value - at_a) / (x - a)));
        if (std::fabs(value) <= slack) break;
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
}

Interval epsilon_of(const Composition& comp, double delta, Method method, StopCheck stop) {
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
    if (delta > 0.0 && (searched(comp, method) || few_laplace_epsilon(comp, delta)))
        return epsilon_by_search(comp, delta, method, stop);
    if (delta > comp.infinite_mass_upper()) {
        const auto near = detail::near_lattice(comp);
        if (near && near->points <= kFewPoints) {
            const Interval found = detail::near_lattice_epsilon(*near, delta, stop);
            if (found.upper - found.lower <= kContentWidth * std::max(found.upper, 1.0)) return found;
        }
    }
    Interval out = spectral_epsilon(comp, delta, stop);
    if ((engine == Engine::spectral && !detail::has_laplace_sum(comp)) || out.lower == out.upper) return out;
    // Laplace releases alone have a sum of their own where the contour is slow: it is worth asking for more.
    const bool sum = detail::has_laplace_sum(comp);
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

// Width of a tail probability above which Chernoff's bound is asked as well: far from the mean contours may fail.
constexpr double kWideTail = 1e-6;

// Tails from delta alone, where contours do not decay for them: delta(y) - e^-s delta(y+s) is the integral over
// [y, y+s] of e^{y-x} Pr[L > x] dx, and Pr[L > x] falls.
Tails difference_tails(const Composition& comp, double at, StopCheck stop) {
    const auto delta = [&](double eps) {
        LogBounds b = contour_delta(comp, eps, kContentWidth, stop);
        if (b.log_upper - b.log_lower > kContentWidth)
            if (const auto smooth = detail::smoothed_delta(comp, eps, kSmoothedShare * kContentWidth, stop))
                b = intersect(b, *smooth);
        return from_log(b);
    };
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    // The roundings' share, 1e-10/step, and the tail's own fall over a step are then about the same.
    const double step = 1e-5 * std::sqrt(std::max(comp.cumulants(0.0).second, 1e-300));
    const Interval before = delta(at - step);
    const Interval here = delta(at);
    const Interval after = delta(at + step);
    const double decay = std::exp(-step);
    const double width = -std::expm1(-step);
    // The infinite mass is inside delta and inside the tail alike.
    const double lower = ((here.lower - decay * after.upper) / width) * (1.0 - 8.0 * kLibm) - 1e-15 / width;
    const double upper = ((before.upper - decay * here.lower) / width) * (1.0 + 8.0 * kLibm) + 1e-15 / width;
    const Interval above = {std::max(0.0, lower), std::min(1.0, upper)};
    return {above, {std::max(0.0, total - above.upper - slack), std::min(1.0, total - above.lower + slack)}};
}

Tails tails_of(const Composition& comp, double at, StopCheck stop) {
    if (single(comp, LawKind::laplace)) {
        // L = e0 - 2 clip(x, 0, e0) for x ~ Laplace(1).
        const double e0 = comp.terms[0].law->parameters()[0];
        const double half = 0.5 * std::exp(0.5 * (at - e0));
        const double err = 4.0 * kLibm;
        Tails out = {{0.0, 0.0}, {0.0, 0.0}};
        if (at < -e0)
            out.above = {1.0, 1.0};
        else if (at < e0)
            out.above = {1.0 - half * (1.0 + err), 1.0 - half * (1.0 - err)};
        if (at > e0)
            out.below = {1.0, 1.0};
        else if (at > -e0)
            out.below = {half * (1.0 - err), half * (1.0 + err)};
        return out;
    }
    if (!comp.smooth && !(comp.lattice.step > 0.0) && enumeration_size(comp) <= kMaxEnumeration) {
        const Enumeration all(comp, stop);
        const Interval above = all.above(at);
        return {{above.lower + comp.infinite_mass_lower(), above.upper + comp.infinite_mass_upper()},
                all.below(at)};
    }
    const double samples = detail::expected_samples(comp);
    const bool few = samples > 0.0 && samples < kFewSamples;
    const bool inside = at > comp.min_loss && at < comp.max_loss;
    const auto narrow = [](const Tails& tails) {
        return tails.above.upper - tails.above.lower <= kWideTail &&
               tails.below.upper - tails.below.lower <= kWideTail;
    };
    const auto both = [](const Tails& a, const Tails& b) {
        return Tails{intersect(a.above, b.above), intersect(a.below, b.below)};
    };
    Tails out = {{0.0, 1.0}, {0.0, 1.0}};
    if (!inside || samples == 0.0 || samples >= kHardlyAny) out = spectral_tails(comp, at, stop);
    if (!inside || narrow(out)) return out;
    if (const auto near = detail::near_lattice(comp)) {
        const Tails found = detail::near_lattice_tails(*near, at, stop);
        out = both(both(out, found), detail::chernoff_tails(comp, at));
        // Wide where a sum of losses is `at` but for its last digits: nothing else would decide that.
        if (found.above.upper - found.above.lower < 0.9) return out;
    }
    out = both(out, detail::chernoff_tails(comp, at));
    if (narrow(out) || comp.lattice.step > 0.0 || (comp.smooth && !few)) return out;
    // Next to the largest or smallest loss contours fail, but tails are monotone: what holds nearer to 0 bounds
    // them.
    for (const double nearer : {0.9, 0.6}) {
        Tails other = detail::chernoff_tails(comp, nearer * at);
        if (samples >= kHardlyAny) other = both(other, spectral_tails(comp, nearer * at, stop));
        if (at < 0.0)
            out = both(out, {{other.above.lower, 1.0}, {0.0, other.below.upper}});
        else
            out = both(out, {{0.0, other.above.upper}, {other.below.lower, 1.0}});
        if (narrow(out)) return out;
    }
    return both(out, difference_tails(comp, at, stop));
}

// 1 - Pr[L > eps] - Pr[L < -eps] with Pr[L < -eps] = e^-eps (Pr[L > eps] - delta(eps)).
Interval outside_confidence(const Interval& above, const Interval& delta, double epsilon) {
    if (above.upper == 0.0) return {1.0, 1.0};
    const double slip = 4.0 * kLibm;  // the roundings of products and sums of numbers up to 2
    const double shrink = std::exp(-epsilon);
    const Interval below = {shrink * std::max(0.0, above.lower - delta.upper) * (1.0 - slip),
                            shrink * std::max(0.0, above.upper - delta.lower) * (1.0 + slip)};
    const double low = 1.0 - above.upper - below.upper - slip * (above.upper + below.upper);
    const double high = 1.0 - above.lower - below.lower + slip * (above.upper + below.upper);
    return {std::max(0.0, low - 2.0 * kRound), std::min(1.0, high + 2.0 * kRound)};
}

// Under Q the loss of Laplace releases and randomised responses has the law of -L under P: Pr[L < -eps] = Pr_Q[L >
// eps], and delta(eps) is Pr[L > eps] - e^eps Pr_Q[L > eps].
std::optional<Interval> laplace_confidence(const Composition& comp, double epsilon, StopCheck stop) {
    const auto tail = detail::laplace_mixture_above(comp, epsilon, stop);
    const auto delta = detail::laplace_mixture_delta(comp, epsilon, stop);
    if (!tail || !delta) return std::nullopt;
    return outside_confidence(from_log(*tail), from_log(*delta), epsilon);
}

// One discrete Laplace release: parameters (-1, scale, shift) of a law of atoms.
bool one_discrete_laplace(const Composition& comp) {
    if (!single(comp, LawKind::atoms)) return false;
    const std::vector<double> p = comp.terms[0].law->parameters();
    return p.size() == 3 && p[0] == -1.0;
}

// What a contour leaves open of a probability near 1.
constexpr double kNearlyCertain = 1e-12;

Interval confidence_of(const Composition& comp, double epsilon, StopCheck stop) {
    if (single(comp, LawKind::laplace)) {
        const double e0 = comp.terms[0].law->parameters()[0];
        if (epsilon >= e0) return {1.0, 1.0};
        if (epsilon == 0.0) return {0.0, 0.0};
        // exp(-e0/2) sinh(epsilon/2), as a product of two numbers below 1: neither factor of the first form fits
        // into a double at a large e0. The difference is rounded once, and the least number covers what
        // underflows.
        const double gap = e0 - epsilon;
        const double value = -0.5 * std::expm1(-epsilon) * std::exp(-0.5 * gap);
        const double off = value * (4.0 * kLibm + kRound * gap) + 4.0 * std::numeric_limits<double>::denorm_min();
        return {std::max(value - off, 0.0), std::min(value + off, 1.0)};
    }
    if (comp.terms.empty()) return {1.0, 1.0};
    if (comp.log_finite_mass == -kInf) return {0.0, 0.0};
    if (single(comp, LawKind::gaussian)) return all_gaussian_confidence(comp, epsilon);
    if (one_discrete_laplace(comp)) {
        const std::vector<double> p = comp.terms[0].law->parameters();
        return discrete_laplace_confidence(p[1], p[2], epsilon);
    }
    if (single(comp, LawKind::subsampled_gaussian)) {
        const std::vector<double> p = comp.terms[0].law->parameters();
        return one_subsampled_confidence(p[0], p[1], p[2] != 0.0, epsilon);
    }
    if (comp.terms.size() == 1 && comp.terms[0].law->kind() == LawKind::subsampled_gaussian) {
        // All losses are within epsilon together where each is within its share of it. Where that is nearly
        // certain, a contour would take seconds to say less.
        const double copies = comp.terms[0].copies;
        const std::vector<double> p = comp.terms[0].law->parameters();
        const double share = epsilon / copies * (1.0 - 2.0 * kRound);
        const double each = 1.0 - one_subsampled_confidence(p[0], p[1], p[2] != 0.0, share).lower;
        const double missed = copies * each * (1.0 + 4.0 * kRound);
        if (missed <= kNearlyCertain) return {1.0 - missed - kRound, 1.0};
    }
    const bool sum_exists = detail::has_laplace_sum(comp);
    const bool few = sum_exists && detail::laplace_mixture_first(comp, epsilon);
    if (few) {
        if (const auto sum = laplace_confidence(comp, epsilon, stop)) return *sum;
    }
    const Interval above = tails_of(comp, epsilon, stop).above;
    const Interval below = tails_of(comp, -epsilon, stop).below;
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    if (above.upper == 0.0 && below.upper == 0.0 && comp.log_total_mass == 0.0) return {1.0, 1.0};
    const Interval out = {std::max(0.0, total - above.upper - below.upper - slack),
                          std::min(total, total - above.lower - below.lower + slack)};
    if (sum_exists && !few && out.upper - out.lower > kContentWidth)
        if (const auto sum = laplace_confidence(comp, epsilon, stop)) return intersect(out, *sum);
    return out;
}

// One exponential moment, which costs little, keeps delta of this direction at or below exp(level).
bool dominated(const Composition& comp, double epsilon, double level, StopCheck stop) {
    if (detail::expected_samples(comp) == 0.0 || comp.infinite_mass_upper() > 0.0) return false;
    return epsilon >= comp.max_loss || log_chernoff_above(comp, epsilon, stop) <= level;
}

}  // namespace

PrivacyLoss::PrivacyLoss(std::vector<Entry> entries) {
    auto state = std::make_shared<State>();
    state->entries = std::move(entries);
    for (const Entry& e : state->entries) {
        if (!(e.copies >= 0.0 && e.copies <= kMaxCopies))
            throw std::invalid_argument("more than 2^53 copies of one mechanism");
        state->symmetric = state->symmetric && e.mechanism->forward == e.mechanism->backward;
    }
    state_ = std::move(state);
}

const PrivacyLoss::State& PrivacyLoss::composed() const {
    const State& s = *state_;
    if (s.composed.load(std::memory_order_acquire)) return s;
    const std::lock_guard<std::mutex> lock(s.composing);
    if (s.composed.load(std::memory_order_relaxed)) return s;
    // Equal mechanisms share one law, also when they were made apart.
    std::vector<const Entry*> order;
    for (const Entry& e : s.entries) order.push_back(&e);
    const auto before = [](const Entry* a, const Entry* b) {
        const Mechanism& x = *a->mechanism;
        const Mechanism& y = *b->mechanism;
        if (x.name != y.name) return x.name < y.name;
        if (x.parameters != y.parameters) return x.parameters < y.parameters;
        return x.p != y.p ? x.p < y.p : x.q < y.q;
    };
    std::stable_sort(order.begin(), order.end(), before);
    std::vector<Term> forward, backward;
    const Mechanism* last = nullptr;
    for (const Entry* e : order) {
        if (e->copies == 0.0) continue;
        if (last != nullptr && last->same(*e->mechanism)) {
            forward.back().copies += e->copies;
            backward.back().copies += e->copies;
            continue;
        }
        last = e->mechanism.get();
        forward.push_back({e->mechanism->forward, e->copies});
        backward.push_back({e->mechanism->backward, e->copies});
    }
    s.forward = Composition::of(std::move(forward));
    if (!s.symmetric) s.backward = Composition::of(std::move(backward));
    s.composed.store(true, std::memory_order_release);
    return s;
}

PrivacyLoss PrivacyLoss::compose(const PrivacyLoss& other) const {
    std::vector<Entry> all;
    all.reserve(entries().size() + other.entries().size());
    all = entries();
    for (const Entry& e : other.entries()) {
        if (!all.empty() && all.back().mechanism->same(*e.mechanism))
            all.back().copies += e.copies;
        else
            all.push_back(e);
    }
    return PrivacyLoss(std::move(all));
}

PrivacyLoss PrivacyLoss::times(double copies) const {
    need_whole(copies, 0.0, kMaxCopies, "copies");
    std::vector<Entry> all = entries();
    for (Entry& e : all) e.copies *= copies;
    return PrivacyLoss(std::move(all));
}

PrivacyLoss PrivacyLoss::compose_all(const std::vector<PrivacyLoss>& losses) {
    std::vector<Entry> all;
    for (const PrivacyLoss& l : losses) {
        for (const Entry& e : l.entries()) {
            if (!all.empty() && all.back().mechanism->same(*e.mechanism))
                all.back().copies += e.copies;
            else
                all.push_back(e);
        }
    }
    return PrivacyLoss(std::move(all));
}

LogBounds PrivacyLoss::log_delta(double epsilon, Method method, StopCheck stop) const {
    need_non_negative(epsilon, "epsilon");
    const State& s = composed();
    LogBounds out = log_delta_of(s.forward, epsilon, method, stop);
    if (!s.symmetric && !dominated(s.backward, epsilon, out.log_lower, stop)) {
        const LogBounds other = log_delta_of(s.backward, epsilon, method, stop);
        out = {std::max(out.log_lower, other.log_lower), std::max(out.log_upper, other.log_upper)};
    }
    if (s.forward.log_total_mass == 0.0) out.log_upper = std::min(out.log_upper, 0.0);
    return out;
}

Interval PrivacyLoss::delta(double epsilon, Method method, StopCheck stop) const {
    Interval out = from_log(log_delta(epsilon, method, stop));
    if (state_->forward.log_total_mass == 0.0) out.upper = std::min(out.upper, 1.0);
    return out;
}

Interval PrivacyLoss::epsilon(double delta, Method method, StopCheck stop) const {
    need_probability(delta, "delta");
    const State& s = composed();
    // At the largest loss delta is the infinite mass: no epsilon beyond is needed.
    const auto direction = [&](const Composition& comp) {
        Interval found = epsilon_of(comp, delta, method, stop);
        if (comp.infinite_mass_upper() <= delta) found.upper = std::min(found.upper, std::max(comp.max_loss, 0.0));
        return Interval{std::min(found.lower, found.upper), found.upper};
    };
    Interval out = direction(s.forward);
    // Where the other direction is below delta already at the lower end, its epsilon is smaller.
    if (!s.symmetric &&
        !(delta > 0.0 && out.lower > 0.0 && std::isfinite(out.lower) &&
          dominated(s.backward, out.lower, std::log(delta) - kLibm * std::fabs(std::log(delta)), stop))) {
        const Interval other = direction(s.backward);
        out = {std::max(out.lower, other.lower), std::max(out.upper, other.upper)};
    }
    return out;
}

Interval PrivacyLoss::confidence(double epsilon, StopCheck stop) const {
    need_non_negative(epsilon, "epsilon");
    const State& s = composed();
    Interval out = confidence_of(s.forward, epsilon, stop);
    if (!s.symmetric) {
        const Interval other = confidence_of(s.backward, epsilon, stop);
        out = {std::min(out.lower, other.lower), std::min(out.upper, other.upper)};
    }
    return out;
}

double PrivacyLoss::mean() const {
    const State& s = composed();
    const auto of = [](const Composition& c) {
        if (c.terms.empty()) return 0.0;
        return c.infinite_mass_upper() > 0.0 ? kInf : c.cumulants(0.0).first;
    };
    return s.symmetric ? of(s.forward) : std::max(of(s.forward), of(s.backward));
}

double PrivacyLoss::variance() const {
    const State& s = composed();
    const auto of = [](const Composition& c) {
        if (c.terms.empty()) return 0.0;
        return c.infinite_mass_upper() > 0.0 ? kInf : c.cumulants(0.0).second;
    };
    if (s.symmetric) return of(s.forward);
    const bool forward = s.forward.cumulants(0.0).first >= s.backward.cumulants(0.0).first;
    return std::max(forward ? of(s.forward) : of(s.backward), 0.0);
}

double PrivacyLoss::max_loss() const {
    const State& s = composed();
    const auto of = [](const Composition& c) { return c.infinite_mass_upper() > 0.0 ? kInf : c.max_loss; };
    return s.symmetric ? of(s.forward) : std::max(of(s.forward), of(s.backward));
}

Interval PrivacyLoss::infinite_mass() const {
    const State& s = composed();
    Interval out = {s.forward.infinite_mass_lower(), s.forward.infinite_mass_upper()};
    if (!s.symmetric)
        out = {std::max(out.lower, s.backward.infinite_mass_lower()),
               std::max(out.upper, s.backward.infinite_mass_upper())};
    return out;
}

}  // namespace dpcore
