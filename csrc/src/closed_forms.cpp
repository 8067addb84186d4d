#include "closed_forms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/gaussian.hpp"
#include "dpcore/normal.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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

}  // namespace

// One Laplace release: 1 - exp((eps - eps0)/2).
LogBounds one_laplace(double epsilon0, double epsilon) {
    if (epsilon >= epsilon0) return {-kInf, -kInf};
    const double half = 0.5 * (epsilon - epsilon0);
    const double value = std::log(-std::expm1(half));
    const double err = 4.0 * kLibm * (1.0 + std::fabs(value));
    return {value - err, std::min(0.0, value + err)};
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

// Where its delta falls to the one given, from both sides: bisection on certified values, which cost a
// microsecond.
Interval one_subsampled_epsilon(double sigma, double rate, bool removal, double delta) {
    const double goal = std::log(delta);
    const double goal_err = kLibm * std::fabs(goal);
    const auto enough = [&](double eps) {
        return one_subsampled(sigma, rate, removal, eps).log_upper <= goal - goal_err;
    };
    const auto too_little = [&](double eps) {
        return one_subsampled(sigma, rate, removal, eps).log_lower > goal + goal_err;
    };
    // The largest point found where `left` holds, and the smallest where it does not.
    const auto turn = [](auto&& left, double low, double high) {
        while (high - low > 0.5 * kRound * high) {
            const double middle = 0.5 * (low + high);
            if (middle == low || middle == high) break;
            (left(middle) ? low : high) = middle;
        }
        return Interval{low, high};
    };
    if (enough(0.0)) return {0.0, 0.0};
    double high = 1.0;
    while (high < 1e308 && !enough(high)) high *= 2.0;
    high = turn([&](double eps) { return !enough(eps); }, 0.0, high).upper;
    return {too_little(0.0) ? turn(too_little, 0.0, high).lower : 0.0, high};
}

// Pr[|L| <= epsilon] of one subsampled release: the loss log(1 - q + q e^{(2x-1)/(2 sigma^2)}) (removal; the other
// direction has its negative) rises with the output x, so the event is an interval of x around 1/2, and x is
// normal about 0, or, on removal, about 1 with probability q.
Interval one_subsampled_confidence(double sigma, double rate, bool removal, double epsilon) {
    // log1p((e^epsilon - 1)/q) and log1p((e^-epsilon - 1)/q), the ends as (x - 1/2)/sigma^2, with their bounds. A
    // relative error of y >= 0 is at most the same of log1p(y).
    const double ratio = std::expm1(epsilon) / rate;
    Interval end = {690.0, kInf};  // log 1e300 is 690.8; tails beyond are 0 to all digits of a sum with 1
    if (ratio < 1e300) end = {std::log1p(ratio) * (1.0 - 4.0 * kLibm), std::log1p(ratio) * (1.0 + 4.0 * kLibm)};
    const double fall = -std::expm1(-epsilon) / rate;
    const auto start_at = [](double y, double sign) {
        const double at = std::log1p(-y);
        return at + sign * 2.0 * kLibm * std::fabs(at);
    };
    const double least = fall * (1.0 - 3.0 * kLibm), most = fall * (1.0 + 3.0 * kLibm);
    const Interval start = {most < 1.0 ? start_at(most, -1.0) : -kInf, least < 1.0 ? start_at(least, 1.0) : -kInf};
    // Pr[x <= 1/2 + sigma^2 t] for x of the given mean: `sign` -1 bounds it from below, 1 from above.
    const auto up_to = [sigma](double t, double mean, double sign) {
        if (std::isinf(t)) return t > 0.0 ? 1.0 : 0.0;
        const double shift = (0.5 - mean) / sigma, stretch = sigma * t;
        const double x = shift + stretch + sign * 4.0 * kRound * (std::fabs(shift) + std::fabs(stretch));
        const auto tail = [](double z, double outward) {
            return std::max(0.0,
                            normal_tail(std::min(z, 1e150)) * (1.0 + outward * 16.0 * kRound) + outward * 1e-322);
        };
        return x < 0.0 ? tail(-x, sign) : 1.0 - tail(x, -sign);
    };
    const auto inside = [&](double mean) {
        return Interval{up_to(end.lower, mean, -1.0) - up_to(start.upper, mean, 1.0),
                        up_to(end.upper, mean, 1.0) - up_to(start.lower, mean, -1.0)};
    };
    Interval out = inside(0.0);
    if (removal) {
        const Interval moved = inside(1.0);
        out = {(1.0 - rate) * out.lower + rate * moved.lower, (1.0 - rate) * out.upper + rate * moved.upper};
    }
    // Differences of numbers up to 1, and the mixture's products.
    constexpr double kSlip = 8.0 * kRound;
    return {std::max(0.0, out.lower - kSlip), std::min(1.0, out.upper + kSlip)};
}

// The loss is (s - 2x)/b for outputs 0 <= x <= s, the ends standing for all beyond; the
// outputs from m to s - m have |L| <= epsilon, and weigh (q^m - q^(s-m+1))/(1 + q), q = e^(-1/b).
Interval discrete_laplace_confidence(double scale, double shift, double epsilon) {
    // The sign of a fused multiply-add is that of the exact value: ties are decided exactly.
    const auto within = [&](double m) { return std::fma(epsilon, scale, 2.0 * m - shift) >= 0.0; };
    if (within(0.0)) return {1.0, 1.0};
    double m = std::clamp(std::ceil(0.5 * std::fma(-epsilon, scale, shift)), 1.0, shift);
    while (m > 1.0 && within(m - 1.0)) m -= 1.0;
    while (!within(m)) m += 1.0;  // ends: 2 m >= shift is within every epsilon
    if (2.0 * m > shift) return {0.0, 0.0};
    const double e = 1.0 / scale;
    const double value = std::exp(-e * m) * -std::expm1(-e * (shift - 2.0 * m + 1.0)) / (1.0 + std::exp(-e));
    const double err = 8.0 * kLibm + 4.0 * kRound * e * m;  // the exponent's two roundings, and its functions'
    constexpr double tiny = std::numeric_limits<double>::denorm_min();
    return {std::max(0.0, value * (1.0 - err) - 4.0 * tiny), std::min(1.0, value * (1.0 + err) + 4.0 * tiny)};
}

}  // namespace dpcore::detail
