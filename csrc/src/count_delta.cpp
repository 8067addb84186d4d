#include "dpcore/count_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "count_points.hpp"
#include "double_double_tables.hpp"
#include "dpcore/gaussian.hpp"
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
            detail::deep_points(problem, extent, beta, false, points, stop);
        else if (!detail::smooth_points(problem, extent, beta, points, stop))
            detail::window_points(problem, extent, beta, false, points, stop);
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
    need_positive(epsilon, "epsilon");
    need_non_negative(noise_scale, "noise_scale");
}

CountDelta with_error(double log_delta, double extra) {
    return {std::min(log_delta, 0.0), (300.0 + 100.0 * std::fabs(std::min(log_delta, 0.0))) * 0x1p-53 + extra};
}

CountDelta no_unknown(double epsilon, double noise_scale) {
    if (noise_scale == 0.0) return {0.0, 0.0};
    return with_error(gaussian_log_delta(epsilon, noise_scale, 1.0), 0.0);
}

CountDelta larger(const CountDelta& a, const CountDelta& b) { return a.log_delta >= b.log_delta ? a : b; }

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
    if (direction == Direction::both)
        return larger(count_delta(epsilon, unknown, bias, noise_scale, Direction::add, stop),
                      count_delta(epsilon, unknown, bias, noise_scale, Direction::remove, stop));
    if (unknown == 0 || bias < detail::kNoBias || bias == 1.0) return no_unknown(epsilon, noise_scale);
    const Problem problem = detail::make_problem(epsilon, unknown, bias, direction == Direction::remove);
    const double beta = noise_scale < detail::kLeastNoise ? 0.0 : noise_scale;
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
    // Weights in units of e^eps: b(k-1) e^-eps - b(k), so that nothing overflows.
    const double shrink = std::exp(-epsilon);
    SignedPoints points;
    std::vector<double> magnitude(size + 1);
    points.weight.resize(size + 1);
    for (std::size_t i = 0; i <= size; ++i) {
        const double gain = i > 0 ? value(i - 1) * shrink : 0.0;
        const double loss = i < size ? value(i) : 0.0;
        points.weight[i] = gain - loss;
        magnitude[i] = gain + loss;
    }
    points.log_unit = epsilon + static_cast<double>(law.exponent) * tables::kLn2.hi;
    if (!detail::set_offsets(points, 1.0)) return no_unknown(epsilon, noise_scale);
    const double beta = noise_scale < detail::kLeastNoise ? 0.0 : noise_scale;
    const HalfLineSum sum = beta > 0.0 ? detail::half_line_sum(points, beta, stop) : detail::positive_part(points);
    // An error e of every value moves P(S) - e^eps Q(S) by at most e (P(S) + e^eps Q(S)), S the half line; mass
    // left out raises delta by at most itself.
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
    CountDelta out = with_error(log_value, (value_error + 16 * 0x1p-53) * condition);
    out.relative_error += left_out > 0.0 ? left_out * std::exp(-log_value) : 0.0;
    return out;
}

}  // namespace dpcore
