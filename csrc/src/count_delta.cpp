#include "dpcore/count_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "count_points.hpp"
#include "double_double_tables.hpp"
#include "dpcore/gaussian.hpp"
#include "dpcore/normal.hpp"
#include "dpcore/validation.hpp"
#include "half_line.hpp"

namespace dpcore {

namespace {

using detail::Extent;
using detail::HalfLineSum;
using detail::Problem;
using detail::SignedPoints;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Beyond this condition of the sum over the law itself nothing is gained by it.
constexpr double kIllConditioned = 32.0;

// Windows of a law: where e^-epsilon is small enough to matter, and too small for any lift.
constexpr double kSmallEpsilon = 20.0;
constexpr int kLargestLift = 900;
constexpr double kLargestWindowEpsilon = 1200.0;

// ln of delta from the law of the count, where the noise is wide; `sum` otherwise.
double wide_value(const Problem& problem, const SignedPoints& points, double beta, const HalfLineSum& sum) {
    if (!(beta > detail::kWideNoise * points.spread) || !points.log_scale.empty() || points.beyond != 0.0)
        return sum.log_value;
    // b(k) = B(k) (M - k) / (M q), and the weights are B(k) (k - kappa).
    std::vector<double> probability(points.offset.size());
    for (std::size_t i = 0; i < probability.size(); ++i) {
        const double x = points.offset[i];
        if (x == 0.0) return sum.log_value;
        probability[i] = points.weight[i] / x * std::max(0.0, problem.above.hi - x);
    }
    const detail::PairedSum paired =
        detail::paired_sum(points.offset, probability, problem.epsilon, beta, sum.threshold);
    if (!(paired.condition < kIllConditioned)) return sum.log_value;
    return paired.log_value +
           ((points.log_unit - problem.log_factor) - (std::log(problem.trials) + std::log(problem.q.hi)));
}

HalfLineSum evaluate(const Problem& problem, double beta, StopCheck stop) {
    SignedPoints points;
    for (double widen = 1.0;; widen *= 1.5) {
        const Extent extent = detail::extent_of(problem, beta, widen);
        if (detail::is_deep(problem, extent))
            detail::deep_points(problem, extent, beta, points, stop);
        else if (!detail::smooth_points(problem, extent, beta, points, stop))
            detail::window_points(problem, extent, beta, points, stop);
        if (!(beta > 0.0)) {
            const HalfLineSum sum = detail::positive_part(points);
            if (!sum.cut_above || widen > 50.0) return sum;
            continue;
        }
        HalfLineSum sum = detail::half_line_sum(points, beta, stop);
        if ((!sum.cut_below && !sum.cut_above) || widen > 50.0) {
            sum.log_value = wide_value(problem, points, beta, sum);
            return sum;
        }
    }
}

void check_common(double epsilon, double noise_scale) {
    need_count_epsilon(epsilon);
    need_non_negative(noise_scale, "noise_scale");
}

// Below the range of double the logarithms of the weights are large too, and their errors grow with the ratio of
// Mills' ratio to its differences: a few times 100 u were seen for each unit of |ln delta|.
constexpr double kDeep = -1000.0;

CountDelta with_error(double log_delta, double extra) {
    const double value = std::min(log_delta, 0.0);
    return {value, (300.0 + (value < kDeep ? 2000.0 : 100.0) * std::fabs(value)) * 0x1p-53 + extra};
}

// As with_error. Below the range of double a window may tell nothing, or something above 1: then delta is at most
// 1, with no bound on how much less.
CountDelta or_nothing(double log_delta, double extra) {
    const bool known = std::isfinite(log_delta) && log_delta < 1e-6 && std::isfinite(extra);
    return known ? with_error(log_delta, extra) : CountDelta{0.0, kInfinity};
}

CountDelta no_unknown(double epsilon, double noise_scale) {
    if (noise_scale == 0.0) return {0.0, 0.0};
    return with_error(gaussian_log_delta(epsilon, noise_scale, 1.0), 0.0);
}

// Whether a bias next to 0 changes delta by less than 1e-18 of itself. With r = unknown * bias, s = r (1 + e^eps):
// delta(eps) >= (1 - s) delta_0(eps + 2 s) - 2 s^2 delta_0(eps), delta_0 that of no unknown record
// (joint_delta.cpp has the proof), and -d ln delta_0 / d eps < P(S) / delta_0 = R(a) / (R(a) - R(b)), which is at
// most 2 + 3 beta (b^2 + 3) because 1 - t R(t) >= 1/(t^2 + 3). For "remove" more records that count take from
// Q(S), and r stands for s.
bool counts_for_nothing(double epsilon, std::int64_t unknown, double bias, double beta, bool remove) {
    const double log_rare = std::log(static_cast<double>(unknown)) + std::log(bias);
    const double b = beta > 0.0 ? epsilon * beta + 0.5 / beta : 0.0;
    const double log_share = std::log(2.0 + 3.0 * beta * (b * b + 3.0));
    return log_rare + (remove ? 0.0 : epsilon) + log_share + std::log(8.0) < std::log(1e-18);
}

// The larger of two, with an error that covers the other one's bound as well.
CountDelta larger(const CountDelta& a, const CountDelta& b) {
    return {std::max(a.log_delta, b.log_delta), std::max(a.relative_error, b.relative_error)};
}

}  // namespace

double CountDelta::delta() const { return std::exp(log_delta); }

double CountDelta::log_delta_upper() const {
    if (log_delta == -kInfinity) return log_delta;
    return std::min(0.0, log_delta + std::log1p(relative_error) + 0x1p-51 * std::fabs(log_delta));
}

CountDelta count_delta(double epsilon, std::int64_t unknown, double bias, double noise_scale, Direction direction,
                       StopCheck stop) {
    check_common(epsilon, noise_scale);
    need_whole(unknown, 0, (std::int64_t{1} << 53) - 1, "unknown");
    need_probability(bias, "bias");
    // Zeros and ones change places between the directions: at bias 1/2, and with no unknown record, they are one.
    if (direction == Direction::both && (bias == 0.5 || unknown == 0)) direction = Direction::add;
    if (direction == Direction::both)
        return larger(count_delta(epsilon, unknown, bias, noise_scale, Direction::add, stop),
                      count_delta(epsilon, unknown, bias, noise_scale, Direction::remove, stop));
    if (unknown == 0 || bias == 0.0 || bias == 1.0) return no_unknown(epsilon, noise_scale);
    if (bias < detail::kNoBias &&
        counts_for_nothing(epsilon, unknown, bias, noise_scale, direction == Direction::remove)) {
        const CountDelta out = no_unknown(epsilon, noise_scale);
        return {out.log_delta, out.relative_error + 0x1p-53};
    }
    const Problem problem = detail::make_problem(epsilon, unknown, bias, direction == Direction::remove);
    // Biases below the normal numbers: odds of 2^1000 and more against a record leave the range of double-double
    // products. Nature's help, of that size, is not counted, which is an upper bound.
    if (std::isnan(problem.kappa.hi)) return no_unknown(epsilon, noise_scale);
    const double beta = detail::effective_noise(noise_scale, epsilon);
    // ln C and ln B at the first point are each good to 2 u of their parts; where a bias is near 0 or 1, or
    // epsilon large, they cancel.
    const double logarithms =
        epsilon + std::fabs(std::log(problem.p.hi)) + std::fabs(std::log(problem.q.hi)) + std::log(problem.trials);
    const double value = evaluate(problem, beta, stop).log_value;
    // Below exp(-2^53) or so a logarithm has no digits left to place the threshold by: nature's help is then not
    // counted, which is an upper bound.
    if (std::isnan(value)) return no_unknown(epsilon, noise_scale);
    return with_error(value, 4.0 * logarithms * 0x1p-53);
}

CountDelta count_delta_window(double epsilon, const PmfWindow& law, double value_error, double left_out,
                              double noise_scale, Direction direction, StopCheck stop) {
    check_common(epsilon, noise_scale);
    if (law.value.empty()) throw std::invalid_argument("the law must have at least one value");
    if (direction == Direction::both)
        return larger(
            count_delta_window(epsilon, law, value_error, left_out, noise_scale, Direction::add, stop),
            count_delta_window(epsilon, law, value_error, left_out, noise_scale, Direction::remove, stop));
    const std::size_t size = law.value.size();
    const auto value = [&](std::size_t i) { return law.value[direction == Direction::remove ? size - 1 - i : i]; };
    if (size == 1) return no_unknown(epsilon, noise_scale);
    // Weights in units of e^eps 2^-900: b(k-1) e^-eps - b(k) without overflow, and without underflow for a b(k)
    // that a window can hold, as long as e^(-eps/2) is in range.
    if (!(epsilon < kLargestWindowEpsilon)) return or_nothing(kInfinity, 0.0);
    const int lift =
        epsilon < kSmallEpsilon ? 0 : std::min(kLargestLift, static_cast<int>(epsilon / tables::kLn2.hi));
    const double shrink = std::exp(-0.5 * epsilon);
    SignedPoints points;
    std::vector<double> magnitude(size + 1);
    points.weight.resize(size + 1);
    for (std::size_t i = 0; i <= size; ++i) {
        const double gain = i > 0 ? std::ldexp(value(i - 1), lift) * shrink * shrink : 0.0;
        const double loss = i < size ? std::ldexp(value(i), lift) : 0.0;
        points.weight[i] = gain - loss;
        magnitude[i] = gain + loss;
    }
    points.log_unit = static_cast<double>(DoubleDouble(epsilon) +
                                          tables::kLn2 * DoubleDouble(static_cast<double>(law.exponent - lift)));
    if (!detail::set_offsets(points, 1.0)) return no_unknown(epsilon, noise_scale);
    const double beta = detail::effective_noise(noise_scale, epsilon);
    const HalfLineSum sum = beta > 0.0 ? detail::half_line_sum(points, beta, stop) : detail::positive_part(points);
    // An error e of every value moves P(S) - e^eps Q(S) by at most e (P(S) + e^eps Q(S)), S the half line; mass
    // left out moves it by as much.
    const double spread =
        detail::absolute_sum(points, magnitude, beta, sum.threshold) * std::exp(points.log_unit - sum.log_value);
    double log_value = sum.log_value;
    double condition = spread;
    if (beta > 0.0 && spread > kIllConditioned) {
        std::vector<double> probability(size + 1, 0.0);
        for (std::size_t i = 0; i < size; ++i) probability[i] = value(i);
        const detail::PairedSum paired =
            detail::paired_sum(points.offset, probability, epsilon, beta, sum.threshold);
        if (paired.condition < condition) {
            condition = paired.condition;
            log_value = paired.log_value + static_cast<double>(law.exponent) * tables::kLn2.hi;
        }
    }
    // What is left out of Q counts e^eps times.
    const double lost =
        left_out > 0.0 ? left_out * (std::exp(-log_value) + std::exp(std::min(700.0, epsilon - log_value))) : 0.0;
    return or_nothing(log_value, (value_error + 16 * 0x1p-53) * condition + lost);
}

CountDelta count_delta_tilted(double epsilon, const PmfWindow& law, double log_factor, double value_error,
                              double left_out, double noise_scale, StopCheck stop) {
    check_common(epsilon, noise_scale);
    if (law.value.empty()) throw std::invalid_argument("the law must have at least one value");
    const std::size_t size = law.value.size();
    // With b(k) = M e^(-eps k) v(k): c_k = M e^(eps - eps k) [v(k-1) - v(k)].
    SignedPoints points;
    std::vector<double> magnitude(size + 1);
    for (std::size_t i = 0; i <= size; ++i) {
        const double gain = i > 0 ? law.value[i - 1] : 0.0;
        const double loss = i < size ? law.value[i] : 0.0;
        points.weight.push_back(gain - loss);
        magnitude[i] = gain + loss;
    }
    if (!detail::set_offsets(points, 1.0)) return {0.0, kInfinity};
    const double origin = static_cast<double>(law.first) - points.offset.front();  // the k of offset 0
    for (std::size_t i = 0; i <= size; ++i) points.log_scale.push_back(-epsilon * points.offset[i]);
    const double log_reach = -epsilon * origin;
    points.log_unit = (log_factor + log_reach) + (epsilon + static_cast<double>(law.exponent) * tables::kLn2.hi);
    const double beta = detail::effective_noise(noise_scale, epsilon);
    const HalfLineSum sum = beta > 0.0 ? detail::half_line_sum(points, beta, stop) : detail::positive_part(points);
    const auto log_passed = [&](double x) {
        if (beta > 0.0) return log_normal_tail((sum.threshold - x) / beta);
        return x > 0.0 ? 0.0 : -kInfinity;
    };
    // What relative errors of the values can change, the logarithms of the factors included.
    double spread = 0.0;
    for (std::size_t i = 0; i <= size; ++i) {
        if (!(magnitude[i] > 0.0)) continue;
        const double log_term =
            points.log_scale[i] + log_passed(points.offset[i]) + points.log_unit - sum.log_value;
        spread += magnitude[i] * std::exp(log_term) *
                  (1.0 + 8.0 * 0x1p-53 / std::max(value_error, 0x1p-53) * std::fabs(points.log_scale[i]));
    }
    // What is left out counts at most e^eps b(k) Phi((k - t)/beta) each; without noise only points above count.
    // The logarithm of e^(-eps k) Phi((k - t)/beta) is concave, and its slope is 0 about where t - k is eps
    // beta^2.
    double log_most = -epsilon * *std::upper_bound(points.offset.begin(), points.offset.end(), 0.0);
    if (beta > 0.0) {
        const auto log_counted = [&](double x) { return log_passed(x) - epsilon * x; };
        const double start = points.offset.front();
        double at = start + std::floor(sum.threshold - epsilon * beta * beta - start);
        log_most = log_counted(at);
        for (const double step : {1.0, -1.0}) {
            for (double next = log_counted(at + step); next > log_most; next = log_counted(at + step)) {
                at += step;
                log_most = next;
            }
        }
    }
    const double unit = points.log_unit - static_cast<double>(law.exponent) * tables::kLn2.hi;
    const double lost = 2.0 * left_out * std::exp(log_most + unit - sum.log_value);
    const double logarithms =
        std::fabs(log_factor) + 2.0 * std::fabs(log_reach) + epsilon + std::fabs(points.log_unit);
    return or_nothing(sum.log_value, (value_error + 16 * 0x1p-53) * spread + lost + 4.0 * 0x1p-53 * logarithms);
}

}  // namespace dpcore
