#include "count_points.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binomial_ratio.hpp"
#include "double_double_tables.hpp"
#include "dpcore/binomial.hpp"
#include "dpcore/double_double_functions.hpp"
#include "hypotenuse.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Points are this many to the standard deviation of the smooth summand: the error of the sum by Poisson's formula
// is below 400 exp(-2 pi^2 1.6^2) = 5e-20 of it (docs/partial_knowledge.md, theorem 4).
constexpr double kPointsPerDeviation = 1.6;
constexpr double kStrideWorthwhile = 4.0;

// Terms farther than this many standard deviations are below 2^-64 of the largest: exp(-10^2/2) = 2^-72, and two
// deviations for the distance between mean and mode of a log-concave law.
constexpr double kReach = 12.0;

// ln of the fall that makes a term negligible: 2^-72.
constexpr double kFall = 50.0;

// Windows fall at most this far (kMaxWindowDepth); beyond, points carry their own logarithms.
constexpr double kDeepest = 600.0;

double log_sum_exp_plus(DoubleDouble p, DoubleDouble q, double epsilon) {  // ln(p + q e^-eps)
    return std::log(p.hi + q.hi * std::exp(-epsilon));
}

}  // namespace

Problem make_problem(double epsilon, std::int64_t unknown, double bias, bool reflected) {
    Problem out{};
    out.epsilon = epsilon;
    out.trials = static_cast<double>(unknown) + 1.0;
    out.bias = bias;
    out.reflected = reflected;
    out.p = bias;
    out.q = two_sum(1.0, -bias);
    if (reflected) std::swap(out.p, out.q);
    // kappa = trials / (1 + e^-eps q/p), above = trials / (1 + e^eps p/q).
    const Scaled small = exp_scaled(-epsilon);
    // p times a power of two: q / p need not be in the range of double.
    const int lift = -std::ilogb(out.p.hi);
    const DoubleDouble odds_down = out.q / DoubleDouble(std::ldexp(out.p.hi, lift), std::ldexp(out.p.lo, lift));
    const auto power = static_cast<int>(std::clamp<std::int64_t>(small.exponent + lift, -1000, 1000));
    const double shrink = std::ldexp(1.0, power);
    const DoubleDouble ratio = DoubleDouble(small.mantissa.hi * shrink, small.mantissa.lo * shrink) * odds_down;
    out.kappa = DoubleDouble(out.trials) / (DoubleDouble(1.0) + ratio);
    out.above = out.kappa * ratio;
    out.log_above =
        std::log(out.trials) - epsilon + (std::log(odds_down.hi) + lift * tables::kLn2.hi) - std::log1p(ratio.hi);
    out.log_factor = epsilon + log_sum_exp_plus(out.p, out.q, epsilon) -
                     (std::log(out.trials) + std::log(out.p.hi) + std::log(out.q.hi));
    return out;
}

Extent extent_of(const Problem& problem, double beta, double widen) {
    Extent out{};
    const double kappa = problem.kappa.hi;
    const double precision = beta > 0.0 ? 1.0 / (beta * beta) : kInfinity;
    // Left of kappa the variance is at most its largest value between `low` and kappa.
    double variance = problem.variance_at(kappa);
    for (int i = 0; i < 8; ++i) {
        out.deviation = 1.0 / std::sqrt(precision + 1.0 / variance);
        out.low = std::max(0.0, std::floor(kappa - widen * (kReach * out.deviation + 4.0)));
        const double summit = std::clamp(0.5 * problem.trials, out.low, kappa);
        const double largest = problem.variance_at(summit);
        if (largest <= variance * 1.0001) break;
        variance = i == 7 ? problem.variance_at(0.5 * problem.trials) : largest;
    }
    // Next to an end of the support the weight (k - kappa) B(k) of the end itself is small by |k - kappa|, and
    // what balances it is as far down: B(1) beside B(0) when kappa < 1, B(M - 1) beside B(M) when M - kappa < 1.
    out.edge = std::max({0.0, -std::log(kappa), -problem.log_above});
    const double to_mean = std::max(0.0, kappa - problem.mean());
    out.rise = problem.epsilon * (std::min(kappa - out.low, to_mean) + 2.0);
    // The threshold lies about z0 noise scales above kappa; up to there the normal tail may grow by z0^2/2.
    const double z0 = beta > 0.0 ? to_mean * beta / problem.variance_at(kappa) + 2.0 : 0.0;
    const double reach = widen * (kReach * out.deviation + 4.0);
    out.saturated = kappa + beta * (z0 + 2.0 + widen * kReach);
    if (z0 * beta > reach + 2.0 * beta) {
        out.high = std::min(problem.trials, std::ceil(kappa + reach));
        out.fall = kInfinity;
    } else {
        out.high = problem.trials;
        out.fall = widen * (kFall + 0.5 * z0 * z0 + 2.0 * std::log1p(z0) + 2.0);
    }
    return out;
}

namespace {

void finish(const Problem& problem, SignedPoints& points) {
    points.log_unit += problem.log_factor;
    const double log_total = problem.epsilon + std::log(-std::expm1(-problem.epsilon));  // ln(e^eps - 1)
    points.total = -std::exp(log_total - points.log_unit);
    points.spread = detail::hypotenuse(std::sqrt(problem.trials * problem.p.hi * problem.q.hi),
                                       problem.kappa.hi - problem.mean());
}

}  // namespace

bool smooth_points(const Problem& problem, const Extent& extent, double beta, SignedPoints& points,
                   StopCheck stop) {
    const double kappa = problem.kappa.hi;
    const double anchor = std::floor(kappa + 0.5);
    const double room = std::min(anchor, problem.trials - anchor) * BinomialRatio::kReach;
    const double first = beta > 0.0 ? extent.low : kappa - 1.0;
    // The pmf falls below exp(-fall) of its value at kappa within this distance: its slope is epsilon at kappa,
    // its curvature at least that of the largest variance.
    double last = extent.high;
    if (extent.fall < kInfinity) {
        const double broad = problem.variance_at(std::clamp(0.5 * problem.trials, kappa, extent.high));
        const double s = problem.epsilon * broad;
        const double distance = 2.0 * extent.fall * broad / (s + std::sqrt(s * s + 2.0 * extent.fall * broad));
        last = std::min(last, std::ceil(kappa + distance + 2.0));
    }
    const double reach = std::max(kappa - first, last - kappa) + 1.0;
    if (!(reach < room) || first < BinomialRatio::kLeastCount ||
        last > problem.trials - BinomialRatio::kLeastCount)
        return false;
    const double variance = std::min(problem.variance_at(first), problem.variance_at(last));
    const double spread = std::sqrt(variance);
    const double deviation = beta > 0.0 ? 1.0 / std::sqrt(1.0 / (beta * beta) + 1.0 / variance) : 0.0;
    const double stride = std::max(1.0, std::floor(deviation / kPointsPerDeviation));

    const DoubleDouble odds =
        (DoubleDouble(anchor) * problem.q) / (DoubleDouble(problem.trials - anchor) * problem.p);
    const BinomialRatio ratio(problem.trials, anchor, log(odds).hi, reach + stride);
    const double shift = problem.offset(anchor);
    const double below = beta > 0.0 ? std::ceil((anchor - first) / stride) : 0.0;
    double above = std::ceil((last - anchor) / stride);
    const double saturated =
        beta > 0.0 ? std::ceil((extent.saturated - anchor) / stride) : (shift > 0.0 ? 0.0 : 1.0);
    const double end = (saturated - 0.5) * stride;
    const bool integrate = extent.fall < kInfinity && saturated + 30.0 < above &&
                           stride * (ratio.slope_at(end) + 3.5 / spread) <= BinomialRatio::kSmoothStep;
    if (!integrate && !(stride >= kStrideWorthwhile)) return false;

    const auto anchor_count = static_cast<std::int64_t>(problem.reflected ? problem.trials - anchor : anchor);
    points.clear();
    points.log_unit = static_cast<double>(binomial_log_pmf(problem.count(), problem.bias, anchor_count));
    points.open_below = true;
    points.open_above = !integrate;
    if (integrate) {
        above = saturated - 1.0;
        points.beyond = ratio.half_line(end, stride, shift, spread, last - anchor);
    }
    if (beta > 0.0) {
        points.offset.reserve(static_cast<std::size_t>(below + above) + 1);
        points.weight.reserve(points.offset.capacity());
        for (double j = -below; j <= above; j += 1.0) {
            const double d = j * stride;
            points.offset.push_back(d + shift);
            points.weight.push_back(stride * (d + shift) * std::exp(ratio.log_ratio(d)));
            if ((points.offset.size() & 0xffff) == 0) stop();
        }
    }
    finish(problem, points);
    return true;
}

void window_points(const Problem& problem, const Extent& extent, double beta, SignedPoints& points,
                   StopCheck stop) {
    auto low = static_cast<std::int64_t>(extent.low);
    auto high = static_cast<std::int64_t>(extent.high);
    if (problem.reflected) {
        low = problem.count() - static_cast<std::int64_t>(extent.high);
        high = problem.count() - static_cast<std::int64_t>(extent.low);
    }
    const double depth = std::min(kMaxWindowDepth, extent.rise + extent.fall + extent.edge);
    const PmfWindow window = binomial_window(problem.count(), problem.bias, low, high, depth, stop);
    const auto size = static_cast<std::ptrdiff_t>(window.value.size());
    const double first = problem.reflected ? problem.trials - static_cast<double>(window.last())
                                           : static_cast<double>(window.first);
    const double last = first + static_cast<double>(size) - 1.0;
    const double variance = std::min(problem.variance_at(first), problem.variance_at(last));
    const double deviation = beta > 0.0 ? 1.0 / std::sqrt(1.0 / (beta * beta) + 1.0 / variance) : 0.0;
    const double stride = std::max(1.0, std::floor(deviation / kPointsPerDeviation));
    // Points base + j stride, base the integer nearest to kappa (or the end of the window nearest to it).
    const double base = std::clamp(std::floor(problem.kappa.hi + 0.5), first, last);
    const double shift = problem.offset(base);
    const double from = base - stride * std::floor((base - first) / stride);
    points.clear();
    points.offset.reserve(static_cast<std::size_t>((last - from) / stride) + 1);
    points.weight.reserve(points.offset.capacity());
    for (double k = from; k <= last; k += stride) {
        const double x = (k - base) + shift;
        const auto i = static_cast<std::ptrdiff_t>(k - first);
        points.offset.push_back(x);
        points.weight.push_back(stride * x *
                                window.value[static_cast<std::size_t>(problem.reflected ? size - 1 - i : i)]);
    }
    points.log_unit = static_cast<double>(window.exponent) * tables::kLn2.hi;
    points.open_below = first > 0.0;
    points.open_above = last < problem.trials;
    finish(problem, points);
}

void deep_points(const Problem& problem, const Extent& extent, double beta, SignedPoints& points, StopCheck stop) {
    const double variance = std::min(problem.variance_at(extent.low), problem.variance_at(extent.high));
    const double precision = beta > 0.0 ? 1.0 / (beta * beta) : kInfinity;
    const double deviation = 1.0 / std::sqrt(precision + 1.0 / variance);
    const bool room = extent.low >= 1.0 && extent.high <= problem.trials - 1.0;
    const double stride = room ? std::max(1.0, std::floor(deviation / kPointsPerDeviation)) : 1.0;
    const double anchor = std::floor(problem.kappa.hi + 0.5);
    const auto log_pmf = [&](double k) {
        const auto at = static_cast<std::int64_t>(problem.reflected ? problem.trials - k : k);
        return static_cast<double>(binomial_log_pmf(problem.count(), problem.bias, at));
    };
    points.clear();
    points.log_unit = log_pmf(anchor);
    double from = anchor;
    while (from - stride >= extent.low) from -= stride;
    const double shift = problem.offset(anchor);
    for (double k = from; k <= extent.high; k += stride) {
        const bool top = k == problem.trials;
        const double x = (k - anchor) + shift;
        points.offset.push_back(top ? std::max(x, std::numeric_limits<double>::min()) : x);
        // At the very top the offset may be below the range of double; its logarithm is not.
        points.weight.push_back(top && x < 1.0 ? 1.0 : stride * x);
        points.log_scale.push_back(log_pmf(k) - points.log_unit + (top && x < 1.0 ? problem.log_above : 0.0));
        if (k > anchor && points.log_scale.back() < -(extent.fall + extent.edge + 800.0)) break;
        stop();
    }
    points.open_below = from > 0.0;
    points.open_above = true;
    finish(problem, points);
    points.total = 0.0;
    points.open_above = points.offset.back() + problem.kappa.hi < problem.trials - 0.5;
}

bool is_deep(const Problem& problem, const Extent& extent) {
    return problem.epsilon > kDeepest ||
           extent.rise + std::min(extent.fall, 12.0 * kReach) + extent.edge > kDeepest;
}

}  // namespace dpcore::detail
