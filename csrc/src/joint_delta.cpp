#include "dpcore/joint_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "count_points.hpp"
#include "dpcore/validation.hpp"
#include "hypotenuse.hpp"
#include "joint_integral.hpp"
#include "joint_law.hpp"

namespace dpcore {

namespace {

using detail::JointLaw;
using detail::kLogCut;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 0x1p-53;
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

// ln of how much records that hardly ever count may matter and still be left out: 1e-12.
constexpr double kLogShare = -27.6;

// Rounding of a logarithm, to either side.
double raised(double value) { return value + 4.0 * kRounding * (1.0 + std::fabs(value)); }
double lowered(double value) { return value - 4.0 * kRounding * (1.0 + std::fabs(value)); }

double log_add(double a, double b) {
    const double top = std::max(a, b);
    if (top == -kInfinity || top == kInfinity) return top;
    return top + std::log(std::exp(a - top) + std::exp(b - top));
}

// What is known without looking at both outputs together: either release alone, and the count itself.
LogBounds simple_bounds(double epsilon, std::int64_t unknown, double bias, double beta, Direction direction,
                        StopCheck stop) {
    const CountDelta least = count_delta(epsilon, unknown, bias, beta, direction, stop);
    const CountDelta most = count_delta(epsilon, unknown, bias, 0.0, direction, stop);
    const double log_lower = least.relative_error < 1.0 ? least.log_delta + std::log1p(-least.relative_error) -
                                                              1e-12 * std::fabs(least.log_delta)
                                                        : -kInfinity;
    return {log_lower, most.log_delta_upper()};
}

LogBounds one_direction(double epsilon, std::int64_t unknown, double bias, double beta, double scale,
                        bool reflected, StopCheck stop) {
    const detail::Problem problem = detail::make_problem(epsilon, unknown, bias, reflected);
    const Direction direction = reflected ? Direction::remove : Direction::add;
    const LogBounds simple = simple_bounds(epsilon, unknown, bias, beta, direction, stop);
    // A first guess of delta from normal noise of the same Fisher information; a second attempt knows better.
    const double both = 1.0 / detail::hypotenuse(1.0 / beta, 1.0 / scale);
    double guess =
        std::max(simple.log_lower, count_delta(epsilon, unknown, bias, both, direction, stop).log_delta);
    LogBounds best = simple;
    for (int attempt = 0; attempt < 8; ++attempt) {
        const double depth = epsilon + kLogCut + 10.0 - 1.1 * std::max(guess, -1e15);
        LogBounds cut{};
        double log_left_out = 0.0;
        try {
            const JointLaw law(problem, beta, scale, depth, stop);
            log_left_out = law.log_left_out();
            if (law.pivot() == 0 || law.pivot() == law.size()) {
                guess = 2.0 * guess - 100.0;
                continue;
            }
            cut = detail::joint_integral(law, stop);
            const double unit = law.log_unit() - std::log(beta) - kLogSqrtTwoPi;
            const double slip = law.unit_error() + kRounding * (8.0 + 4.0 * std::fabs(unit));
            cut.log_lower = lowered(lowered(cut.log_lower) + unit - slip);
            cut.log_upper = raised(raised(cut.log_upper) + unit + slip);
        } catch (const std::length_error&) {
            return best;
        }
        const double log_lower = log_left_out < cut.log_lower
                                     ? lowered(cut.log_lower + std::log1p(-std::exp(log_left_out - cut.log_lower)))
                                     : -kInfinity;
        best.log_lower = std::max(best.log_lower, log_lower);
        best.log_upper = std::min(best.log_upper, raised(log_add(cut.log_upper, log_left_out)));
        if (log_left_out < cut.log_upper - kLogCut) break;
        guess = cut.log_upper;
    }
    best.log_upper = std::min(best.log_upper, 0.0);
    best.log_lower = std::min(best.log_lower, best.log_upper);
    return best;
}

}  // namespace

LogBounds joint_delta(double epsilon, std::int64_t unknown, double bias, double noise_scale, double estimate_scale,
                      Direction direction, StopCheck stop) {
    need_positive(epsilon, "epsilon");
    need_whole(unknown, 0, (std::int64_t{1} << 53) - 1, "unknown");
    need_probability(bias, "bias");
    need_non_negative(noise_scale, "noise_scale");
    need_positive(estimate_scale, "estimate_scale");
    if (direction == Direction::both) {
        // Zeros and ones change places between the directions: at bias 1/2, and with no unknown record, they are
        // one.
        if (bias == 0.5 || unknown == 0)
            return joint_delta(epsilon, unknown, bias, noise_scale, estimate_scale, Direction::add, stop);
        const LogBounds add =
            joint_delta(epsilon, unknown, bias, noise_scale, estimate_scale, Direction::add, stop);
        const LogBounds remove =
            joint_delta(epsilon, unknown, bias, noise_scale, estimate_scale, Direction::remove, stop);
        return {std::max(add.log_lower, remove.log_lower), std::max(add.log_upper, remove.log_upper)};
    }
    // Without noise the second release is the count itself and the first adds nothing.
    const bool bare = detail::effective_noise(noise_scale, epsilon) == 0.0;
    // No unknown record is one record that never counts in disguise: the two-point law is the same for any bias.
    // Hardly ever counting ones are left out too. Let r = unknown * bias, T_x the law of both outputs if x of them
    // count (T_0 = Q, T_1 = P of no unknown record, delta_0 their delta), S the event of delta_0(eps). P keeps 1 -
    // r of T_1, Q has at most r^x/x! of T_x more, and T_(x+1)(S) <= e^eps T_x(S) + delta_0(eps) for every S. With
    // s = r (1 + e^eps) (1 + 1e-9), r e^eps below 1e-11: delta(eps) >= (1 - s) delta_0(eps + 2 s) - 2 s^2
    // delta_0(eps).
    const double log_rare = std::log(static_cast<double>(unknown)) + std::log(bias);
    const double log_share = log_rare + epsilon + std::log1p(std::exp(-epsilon)) + 2e-9;
    const bool rare = bias < detail::kNoBias && log_share < kLogShare;
    const bool none = unknown == 0 || bias == 0.0 || bias == 1.0 || rare;
    const auto bounds = [&](double at) {
        return bare ? simple_bounds(at, none ? 0 : unknown, none ? 0.5 : bias, 0.0, direction, stop)
                    : one_direction(at, none ? 0 : unknown, none ? 0.5 : bias, noise_scale, estimate_scale,
                                    direction == Direction::remove, stop);
    };
    LogBounds out = bounds(epsilon);
    if (rare && unknown > 0 && bias > 0.0) {
        const double share = std::exp(log_share);
        const double raised_epsilon = std::nextafter(epsilon + 2.0 * share, kInfinity);
        const double log_lower = lowered(bounds(raised_epsilon).log_lower - 2.0 * share);
        const double log_lost = out.log_upper + 2.0 * log_share + 1.0;
        out.log_lower =
            log_lost < log_lower ? lowered(log_lower + std::log1p(-std::exp(log_lost - log_lower))) : -kInfinity;
    }
    return out;
}

}  // namespace dpcore
