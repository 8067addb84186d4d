#include "dpcore/privacy_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpcore/buckets.hpp"
#include "dpcore/enumeration.hpp"
#include "dpcore/gaussian.hpp"
#include "dpcore/normal.hpp"
#include "dpcore/validation.hpp"
#include "laplace_sum.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMaxCopies = 9007199254740992.0;  // 2^53
// Relative width with which auto is content before it tries another way.
constexpr double kContentWidth = 1e-9;

std::shared_ptr<Mechanism> symmetric(const char* name, std::vector<std::pair<std::string, double>> parameters,
                                     LawPtr law) {
    auto m = std::make_shared<Mechanism>();
    m->name = name;
    m->parameters = std::move(parameters);
    m->forward = law;
    m->backward = std::move(law);
    return m;
}

LawPtr subsampled(double sigma, double rate, bool removal) {
    if (rate == 0.0) return gaussian_law_of_rho(0.0, 0.0);
    if (rate == 1.0) return gaussian_law(sigma, 1.0);
    return subsampled_gaussian_law(sigma, rate, removal);
}

LogBounds intersect(const LogBounds& a, const LogBounds& b) {
    return {std::max(a.log_lower, b.log_lower), std::min(a.log_upper, b.log_upper)};
}
Interval intersect(const Interval& a, const Interval& b) {
    return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
}

// Whole shifts beyond this make lattices of losses too long to walk.
constexpr double kMostSensitivity = 1e6;

void need_budget(double epsilon) { need_within(epsilon, 0.0, 1e100, "epsilon", "a number in [0, 1e100]"); }

void need_probabilities(const std::vector<double>& values, const char* name) {
    double total = 0.0;
    double lost = 0.0;  // Neumaier: the tolerance below must not be eaten by rounding over many outcomes
    for (const double value : values) {
        need_non_negative(value, name);
        const double sum = total + value;
        lost += total >= value ? (total - sum) + value : (value - sum) + total;
        total = sum;
    }
    total += lost;
    if (!(std::abs(total - 1.0) <= 1e-9)) refuse(name, "probabilities that sum to 1 within 1e-9", total);
}

// One Laplace release: 1 - exp((eps - eps0)/2).
LogBounds one_laplace(double epsilon0, double epsilon) {
    if (epsilon >= epsilon0) return {-kInf, -kInf};
    const double half = 0.5 * (epsilon - epsilon0);
    const double value = std::log(-std::expm1(half));
    const double err = 4.0 * kLibm * (1.0 + std::fabs(value));
    return {value - err, std::min(0.0, value + err)};
}

// Gaussian losses add up to the Gaussian mechanism of the summed rho: sensitivity mu = sqrt(2 rho) at sigma 1.
// Between these two lies the true mu: half the relative error of rho, the root's rounding and that of the products
// below.
struct Sensitivities {
    double low, high;
};
Sensitivities gaussian_sensitivity(const Composition& comp) {
    const double mu = std::sqrt(2.0 * gaussian_rho(*comp.terms[0].law));
    const double slip = 0.51 * gaussian_rho_err(*comp.terms[0].law) + 4.0 * kRound;
    return {mu * (1.0 - slip), mu * (1.0 + slip)};
}

// delta grows with mu. gaussian_log_delta is good to 4 ulp or 1e-13, whichever is larger.
LogBounds all_gaussian(const Composition& comp, double epsilon) {
    const Sensitivities mu = gaussian_sensitivity(comp);
    const auto bound = [epsilon](double sensitivity, double sign) {
        double value = 0.0;
        if (epsilon == 0.0) {  // erf(mu/sqrt 8); 1 - delta keeps its digits where delta is near 1
            const double at = sensitivity * 0.35355339059327376220;
            value = at < 1.0 ? std::log(std::erf(at)) : std::log1p(-std::erfc(at));
        } else {
            value = gaussian_log_delta(epsilon, 1.0, sensitivity);
        }
        // An exponent beyond the range of double: certainly below this.
        if (std::isinf(value)) return sign < 0.0 ? -kInf : -1e308;
        return std::min(0.0, value + sign * (1e-13 + 9.0 * kRound * std::fabs(value)));
    };
    return {bound(mu.low, -1.0), bound(mu.high, 1.0)};
}

Interval all_gaussian_epsilon(const Composition& comp, double delta) {
    const Sensitivities mu = gaussian_sensitivity(comp);
    const double high = gaussian_epsilon(1.0, delta, mu.high);  // certified: delta(high) <= delta
    if (high == 0.0) return {0.0, 0.0};
    const double goal = std::log(delta);
    for (double slip = 8.0 * kRound; slip < 1.0; slip *= 4.0) {
        const double low = std::min(high, gaussian_epsilon(1.0, delta, mu.low)) * (1.0 - slip);
        if (all_gaussian(comp, low).log_lower > goal + kLibm * std::fabs(goal)) return {low, high};
    }
    return {0.0, high};
}

// Pr[|L| <= epsilon], L of mean mu^2/2 and variance mu^2: the normal tails beyond epsilon/mu -+ mu/2.
Interval all_gaussian_confidence(const Composition& comp, double epsilon) {
    const Sensitivities mu = gaussian_sensitivity(comp);
    const auto tail = [](double x, double sign) {  // bounded outward, also below the smallest normal number
        return std::max(0.0, normal_tail(std::min(x, 1e150)) * (1.0 + sign * 16.0 * kRound) + sign * 1e-322);
    };
    const double most = 4.0 * kRound;
    const double far_low = (epsilon / mu.high + 0.5 * mu.low) * (1.0 - most);
    const double far_high = (epsilon / mu.low + 0.5 * mu.high) * (1.0 + most);
    const double slip = most * far_high;
    const double near_low = epsilon / mu.high - 0.5 * mu.high - slip;
    const double near_high = epsilon / mu.low - 0.5 * mu.low + slip;
    // Pr[L <= epsilon] on both sides of the mean without cancellation, less Pr[L < -epsilon].
    const auto up_to = [&](double x, double sign) { return x < 0.0 ? tail(-x, sign) : 1.0 - tail(x, -sign); };
    const double low = up_to(near_low, -1.0) - tail(far_low, 1.0);
    const double high = up_to(near_high, 1.0) - tail(far_high, -1.0);
    // One rounding of a difference of numbers up to 1, unless both are small.
    return {std::max(0.0, low - 2.0 * kRound * up_to(near_high, 1.0)),
            std::min(1.0, high + 2.0 * kRound * up_to(near_high, 1.0))};
}

// One subsampled release is one Gaussian release at another epsilon, times a factor.
LogBounds one_subsampled(double sigma, double rate, bool removal, double epsilon) {
    const Composition gaussian = Composition::of({{gaussian_law(sigma, 1.0), 1.0}});
    double at = 0.0;
    double at_err = 0.0;
    double factor = rate;
    double factor_err = 0.0;
    if (removal) {
        // q H(N1 || N0) at log(1 + (e^eps - 1)/q)
        if (epsilon < 40.0) {
            at = std::log1p(std::expm1(epsilon) / rate);  // a relative error of x is at most the same of log1p(x)
            at_err = 3.0 * kLibm * at;
        } else {  // eps - log q + log(1 - (1-q) e^-eps)
            at = epsilon - std::log(rate);
            at_err = 4.0 * kLibm * at + 2.0 * std::exp(-epsilon);
        }
        if (std::isinf(at)) return {-kInf, std::log(rate) * (1.0 - kLibm)};
    } else {
        // a H(N0 || N1) at log(q e^eps/a), a = 1 - (1-q) e^eps = q - (1-q)(e^eps - 1)
        const double fall = epsilon < 700.0 ? (1.0 - rate) * std::expm1(epsilon) : kInf;
        factor = rate - fall;
        const double slip = 3.0 * kLibm * fall;
        if (factor <= -slip) return {-kInf, -kInf};
        if (factor <= 4.0 * slip) {
            const double top = factor + slip;
            return {-kInf, std::log(top)};
        }
        factor_err = slip / (factor - slip) + kRound;
        at = epsilon + std::log(rate / factor);
        at_err = 4.0 * kRound * (epsilon + 1.0) + kLibm * std::fabs(at) + 2.0 * factor_err;
        at = std::max(at, 0.0);
    }
    const LogBounds low = all_gaussian(gaussian, at + at_err);
    const LogBounds high = all_gaussian(gaussian, std::max(0.0, at - at_err));
    const double lf = std::log(factor);
    const double err = factor_err + 2.0 * kLibm * (1.0 + std::fabs(lf));
    const auto outward = [](double x) { return std::isfinite(x) ? 2.0 * kRound * std::fabs(x) : 0.0; };
    LogBounds out = {low.log_lower + lf - err, high.log_upper + lf + err};
    out.log_lower -= outward(out.log_lower);
    out.log_upper += outward(out.log_upper);
    return out;
}

// Many steps of which hardly any is sampled (rate * copies small), removal: nearly all of delta is one step with a
// large loss, whose law is known in closed form. Bounds in docs/accounting.md, "Rare sampling"; kAway covers the
// roundings of their factors (normal tails of arguments up to 39: 39^2 roundings).
LogBounds rare_sampling(double sigma, double rate, double copies, double epsilon) {
    constexpr double kAway = 2e-12;
    const LogBounds nothing = {-kInf, 0.0};
    if (!(epsilon > 0.0 && epsilon < 600.0 && rate <= 0.5)) return nothing;
    const double s2 = sigma * sigma;
    const auto place = [&](double loss) { return 0.5 + s2 * std::log1p(std::expm1(loss) / rate); };
    const auto under_q = [&](double x) { return normal_tail(x / sigma); };
    const auto under_p = [&](double x) {
        return (1.0 - rate) * normal_tail(x / sigma) + rate * normal_tail((x - 1.0) / sigma);
    };
    // Below: the event that some step lies beyond x.
    const auto some = [copies](double p) { return -std::expm1(copies * std::log1p(-p)); };
    double low = 0.0;
    for (const double shift : {0.0, 1e-4, 1e-3, 1e-2, 0.03, 0.1}) {
        const double x = place(epsilon * (1.0 + shift));
        if (!(x > 1.0 && x / sigma < 37.0)) continue;  // beyond, tails leave the range of double
        low =
            std::max(low, some(under_p(x)) * (1.0 - kAway) - std::exp(epsilon) * some(under_q(x)) * (1.0 + kAway));
    }
    // Above: one large loss beside the sum S of the small ones, or two large ones, or S alone above epsilon.
    const double chi2 = rate * rate * std::expm1(1.0 / s2) * (1.0 + kAway);
    const double third = rate * rate * rate * std::exp(3.0 / s2);  // at least E_Q (W - 1)^3
    const double variance = copies * (chi2 + third) / ((1.0 - rate) * (1.0 - rate)) * (1.0 + kAway);
    const double mean = copies * chi2;
    // One step's delta at epsilon - s for rising levels of s, the last of which stands for all beyond.
    std::vector<double> levels, one;
    for (double at = std::max(1e-5 * epsilon, 2.0 * mean); at < 0.98 * epsilon; at *= 1.25) {
        levels.push_back(at);
        const double value = copies * std::exp(one_subsampled(sigma, rate, true, epsilon - at).log_upper);
        one.push_back(std::max(value * (1.0 + kAway), one.empty() ? 0.0 : one.back()));
    }
    double high = kInf;
    double size = 0.5 * epsilon;
    for (int i = 0; i < 24 && std::isfinite(variance) && !levels.empty(); ++i, size *= 0.6) {
        const double x = place(size);
        if (!(x > 1.0 && x / sigma < 37.0)) continue;
        const double most = std::log1p(rate * std::expm1((x - 0.5) / s2)) * (1.0 + kAway) + 2.0 * rate;
        const double large = under_p(x);
        const auto beyond = [&](double level) {  // Pr[S > level] by Cantelli and Bennett
            const double room = level - mean;
            const double u = most * room / variance;
            const double cantelli = variance / (variance + room * room);
            if (!(u >= 1.0)) return std::min(1.0, cantelli);
            const double exponent = variance / (most * most) * ((1.0 + u) * std::log1p(u) - u);
            return std::min(cantelli, std::exp(-exponent * (1.0 - 1e-10)));
        };
        double total = 0.5 * copies * copies * large * large + one[0];
        for (std::size_t j = 0; j < levels.size(); ++j) {
            const double next = j + 1 < levels.size() ? one[j + 1] : 1.0 + one[j];
            total += (next - one[j]) * beyond(levels[j]) * (1.0 + kAway);
        }
        high = std::min(high, total * (1.0 + kAway) + 1e-300);
    }
    return {low > 0.0 ? std::log(low) - 1e-12 : -kInf, high < 1.0 ? std::log(high) + 1e-12 : 0.0};
}

// Expected number of sampled steps below which they are taken one by one, and the width that is accepted then.
constexpr double kRare = 0.02;
constexpr double kRareWidth = 0.5;

bool rarely_sampled(const Composition& comp) {
    if (comp.terms.size() != 1 || comp.terms[0].law->kind() != LawKind::subsampled_gaussian) return false;
    if (comp.terms[0].copies == 1.0) return false;  // known in closed form
    const std::vector<double> p = comp.terms[0].law->parameters();
    return p[2] != 0.0 && p[1] * comp.terms[0].copies <= kRare;
}
LogBounds rare_sampling(const Composition& comp, double epsilon) {
    const std::vector<double> p = comp.terms[0].law->parameters();
    return rare_sampling(p[0], p[1], comp.terms[0].copies, epsilon);
}

// Contours would take seconds and say nothing: epsilon from those bounds alone. Every end has been evaluated.
Interval rare_epsilon(const Composition& comp, double delta) {
    // delta(0) is at most copies times the total variation of one step, which is at most the rate.
    if (delta >= comp.terms[0].law->parameters()[1] * comp.terms[0].copies * (1.0 + 4.0 * kRound))
        return {0.0, 0.0};
    const double goal = std::log(delta);
    const double slip = kLibm * std::fabs(goal);
    const auto holds = [&](double at) { return rare_sampling(comp, at).log_upper <= goal - slip; };
    const auto fails = [&](double at) { return rare_sampling(comp, at).log_lower > goal + slip; };
    double high = 1.0;
    while (high < 512.0 && !holds(high)) high *= 2.0;
    if (!(high < 512.0)) return {0.0, kInf};
    for (double low = 0.0; high > 1e-9 && high - low > 1e-12 * high;) {
        const double middle = low > 0.0 ? std::sqrt(low * high) : 1e-3 * high;
        (holds(middle) ? high : low) = middle;
    }
    // Far below the bound from below is void again: look downward from the upper end.
    constexpr double kStride = 0.97;
    double low = high;
    for (int i = 0; i < 300; ++i) {
        low *= kStride;
        if (!fails(low)) continue;
        for (double top = std::min(high, low / kStride); top - low > 1e-12 * top;) {
            const double middle = 0.5 * (low + top);
            (fails(middle) ? low : top) = middle;
        }
        return {low, high};
    }
    return {0.0, high};
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

// Buckets that auto is willing to use when the contour decays too slowly.
constexpr double kAutoBuckets = 4194304.0;

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
    LogBounds rare = {-kInf, kInf};
    if (engine == Engine::automatic && rarely_sampled(comp)) {
        rare = rare_sampling(comp, epsilon);
        if (rare.log_upper - rare.log_lower <= kRareWidth) return rare;  // a contour would say nothing more
    }
    LogBounds out = intersect(rare, spectral_delta(comp, epsilon, stop));
    if (engine == Engine::spectral || out.log_upper - out.log_lower <= kContentWidth || out.log_upper == -kInf)
        return out;
    if (comp.terms.size() == 1 && comp.terms[0].law->kind() == LawKind::laplace) {
        const double epsilon0 = comp.terms[0].law->parameters()[0];
        if (const auto sum = detail::laplace_sum_delta(epsilon0, comp.terms[0].copies, epsilon, stop))
            return intersect(out, *sum);
    }
    if (enumeration_size(comp) <= kMaxEnumeration)
        return intersect(out, with_infinite(comp, Enumeration(comp, stop).delta(epsilon)));
    if (out.log_upper - out.log_lower > 1e-5 && bucket_count(comp, epsilon, {}) <= kAutoBuckets) {
        try {
            out = intersect(out, bucket_delta(comp, epsilon, {}, stop));
        } catch (const std::length_error&) {  // one law alone is too wide for a grid: the contour's bounds stand
        }
    }
    return out;
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
    // How far ln delta is above the goal, by the middle of its bounds.
    const auto excess = [&](double eps) {
        const LogBounds b = log_delta_of(comp, eps, method, stop);
        if (b.log_upper <= goal - goal_err)
            high = std::min(high, eps);
        else if (b.log_lower > goal + goal_err)
            low = std::max(low, eps);
        const double upper = std::max(b.log_upper, kFloor);
        const double lower = std::max(b.log_lower, kFloor);
        slack = upper - lower + 2.0 * goal_err;
        return 0.5 * (upper + lower) - goal;
    };
    double a = 0.0;
    double at_a = excess(a);
    if (high == 0.0) return {0.0, 0.0};
    double b = std::max(comp.max_loss, 0.0);
    double at_b = kFloor;
    // One subsampled release has a closed form, and a contour that is of no use even as an estimate.
    const bool closed = method.engine == Engine::automatic && single(comp, LawKind::subsampled_gaussian);
    const Interval near = closed ? Interval{0.0, kInf} : spectral_epsilon(comp, delta, stop);
    double x = 0.5 * (near.lower + near.upper);
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
    const double unit = (slack / std::max(slope, 1e-3)) + 4.0 * kRound * x + 1e-300;
    for (double w = unit; x + w < high; w *= 2.0) excess(x + w);
    for (double w = unit; x - w > low; w *= 2.0) excess(x - w);
    return {low, high};
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
    if (engine == Engine::automatic && delta > 0.0 && rarely_sampled(comp)) {
        const Interval rare = rare_epsilon(comp, delta);
        if (std::isfinite(rare.upper)) return rare;
    }
    // The other direction: losses are at most -copies log(1 - rate). Where a contour says nothing half way, none
    // will.
    if (engine == Engine::automatic && delta > 0.0 && comp.terms.size() == 1 &&
        comp.terms[0].law->kind() == LawKind::subsampled_gaussian && comp.max_loss <= 2.0 * kRare &&
        !single(comp, LawKind::subsampled_gaussian) &&
        spectral_delta(comp, 0.5 * comp.max_loss, stop).log_lower == -kInf)
        return {0.0, std::max(0.0, comp.max_loss)};
    if (engine == Engine::automatic && single(comp, LawKind::subsampled_gaussian) && delta > 0.0)
        return epsilon_by_search(comp, delta, method, stop);
    Interval out = spectral_epsilon(comp, delta, stop);
    if (engine == Engine::spectral || out.lower == out.upper) return out;
    // Laplace releases alone have a sum of their own where the contour is slow: it is worth asking for more.
    const bool sum = comp.terms.size() == 1 && comp.terms[0].law->kind() == LawKind::laplace;
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
    return spectral_tails(comp, at, stop);
}

Interval confidence_of(const Composition& comp, double epsilon, StopCheck stop) {
    if (single(comp, LawKind::laplace)) {
        const double e0 = comp.terms[0].law->parameters()[0];
        if (epsilon >= e0) return {1.0, 1.0};
        const double value = std::exp(-0.5 * e0) * std::sinh(0.5 * epsilon);
        return {value * (1.0 - 4.0 * kLibm), value * (1.0 + 4.0 * kLibm)};
    }
    if (comp.terms.empty()) return {1.0, 1.0};
    if (comp.log_finite_mass == -kInf) return {0.0, 0.0};
    if (single(comp, LawKind::gaussian)) return all_gaussian_confidence(comp, epsilon);
    const Interval above = tails_of(comp, epsilon, stop).above;
    const Interval below = tails_of(comp, -epsilon, stop).below;
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    if (above.upper == 0.0 && below.upper == 0.0 && comp.log_total_mass == 0.0) return {1.0, 1.0};
    return {std::max(0.0, total - above.upper - below.upper - slack),
            std::min(total, total - above.lower - below.lower + slack)};
}

}  // namespace

bool Mechanism::same(const Mechanism& other) const {
    return this == &other ||
           (name == other.name && parameters == other.parameters && p == other.p && q == other.q);
}

MechanismPtr Mechanism::gaussian(double sigma, double sensitivity) {
    need_positive(sigma, "sigma");
    need_positive(sensitivity, "sensitivity");
    need_within(sigma / sensitivity, 1e-100, 1e100, "sigma/sensitivity", "in [1e-100, 1e100]");
    return symmetric("gaussian", {{"sigma", sigma}, {"sensitivity", sensitivity}},
                     gaussian_law(sigma, sensitivity));
}
MechanismPtr Mechanism::laplace(double epsilon) {
    need_budget(epsilon);
    return symmetric("laplace", {{"epsilon", epsilon}},
                     epsilon > 0.0 ? laplace_law(epsilon) : two_point_law(0.0, 0.0));
}
MechanismPtr Mechanism::randomized_response(double epsilon) {
    need_budget(epsilon);
    return symmetric("randomized_response", {{"epsilon", epsilon}}, two_point_law(epsilon, 0.0));
}
MechanismPtr Mechanism::pure(double epsilon) {
    need_budget(epsilon);
    return symmetric("pure", {{"epsilon", epsilon}}, two_point_law(epsilon, 0.0));
}
MechanismPtr Mechanism::approximate(double epsilon, double delta) {
    need_budget(epsilon);
    need_probability(delta, "delta");
    return symmetric("approximate", {{"epsilon", epsilon}, {"delta", delta}}, two_point_law(epsilon, delta));
}
MechanismPtr Mechanism::discrete_laplace(double scale, double sensitivity) {
    need_within(scale, 1e-100, 1e100, "scale", "a number in [1e-100, 1e100]");
    need_whole(sensitivity, 1.0, kMostSensitivity, "sensitivity");
    return symmetric("discrete_laplace", {{"scale", scale}, {"sensitivity", sensitivity}},
                     discrete_laplace_law(scale, static_cast<std::int64_t>(sensitivity)));
}
MechanismPtr Mechanism::discrete_gaussian(double sigma, double sensitivity) {
    need_within(sigma, 0.01, 1e100, "sigma", "a number in [0.01, 1e100]");
    need_whole(sensitivity, 1.0, kMostSensitivity, "sensitivity");
    return symmetric("discrete_gaussian", {{"sigma", sigma}, {"sensitivity", sensitivity}},
                     discrete_gaussian_law(sigma, sensitivity));
}
MechanismPtr Mechanism::subsampled_gaussian(double sigma, double rate, char neighbours) {
    need_within(sigma, 0.05, 1e6, "sigma", "a number in [0.05, 1e6]");
    need_probability(rate, "rate");
    if (neighbours != 'a' && neighbours != 'r' && neighbours != 'b')
        throw std::invalid_argument("neighbours must be 'a' (add), 'r' (remove) or 'b' (both)");
    auto m = std::make_shared<Mechanism>();
    m->name = "subsampled_gaussian";
    m->parameters = {{"sigma", sigma}, {"rate", rate}, {"neighbours", static_cast<double>(neighbours)}};
    const bool plain = rate == 0.0 || rate == 1.0;
    m->forward = subsampled(sigma, rate, neighbours != 'a');
    m->backward = plain || neighbours != 'b' ? m->forward : subsampled(sigma, rate, false);
    return m;
}
MechanismPtr Mechanism::pmf(std::vector<double> p, std::vector<double> q) {
    need_probabilities(p, "p");
    need_probabilities(q, "q");
    auto m = std::make_shared<Mechanism>();
    m->name = "pmf";
    m->forward = pmf_law(p, q);
    m->backward = pmf_law(q, p);
    m->p = std::move(p);
    m->q = std::move(q);
    return m;
}

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
    std::call_once(s.once, [&s] {
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
    });
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
    if (!s.symmetric) {
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
    Interval out = epsilon_of(s.forward, delta, method, stop);
    if (!s.symmetric) {
        const Interval other = epsilon_of(s.backward, delta, method, stop);
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
