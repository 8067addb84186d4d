#include "dpcore/count_calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "dpcore/count_range.hpp"
#include "dpcore/gaussian.hpp"
#include "dpcore/validation.hpp"

namespace dpcore {

namespace {

// Rounds of solving and proving a range; two or three do.
constexpr int kMostRounds = 12;

void need_range(double low, double high) {
    need_probability(low, "bias_low");
    need_probability(high, "bias_high");
    if (!(low <= high)) refuse("bias_high", "at least bias_low", high);
}

double range_log_delta_upper(double epsilon, std::int64_t unknown, double low, double high, double noise,
                             StopCheck stop) {
    if (low == high) return count_delta(epsilon, unknown, low, noise, Direction::both, stop).log_delta_upper();
    return count_delta_range(epsilon, unknown, low, high, noise, Direction::both, kRangeBudget, stop)
        .delta.log_delta_upper();
}

// exp(log_delta), rounded up, at most 1.
double delta_upper(double log_delta) { return std::min(1.0, std::exp(log_delta) * (1.0 + 0x1p-50)); }

}  // namespace

double log_delta_goal(double delta) {
    const double goal = std::log(delta);
    return goal - 0x1p-52 * std::fabs(goal);
}

double solve_noise(const std::function<double(double)>& excess, double plain) {
    double at_low = excess(0.0);
    if (at_low <= 0.0) return 0.0;
    double at_high = excess(plain);
    if (at_high >= 0.0) return plain;
    // In noise^2 the logarithm of delta is nearly linear while the noise is small and convex when it is large: a
    // bracketed secant needs 10 to 20 evaluations.
    double low = 0.0;
    double high = plain * plain;
    while (high - low > 0x1p-46 * high) {
        const double middle = low + (high - low) * at_low / (at_low - at_high);
        if (!(low < middle && middle < high)) break;
        const double value = excess(std::sqrt(middle));
        if (value > 0.0) {
            if (value > 0.5 * at_low) at_high *= 0.5;
            low = middle;
            at_low = value;
        } else {
            if (value < 0.5 * at_high) at_low *= 0.5;
            high = middle;
            at_high = value;
            if (value > -0x1p-46) break;
        }
    }
    double noise = std::sqrt(high);
    while (excess(noise) > 0.0) noise *= 1.0 + 0x1p-50;  // the square root may have rounded down
    return std::min(noise, plain);
}

double least_count_noise(double epsilon, double goal, std::int64_t unknown, double low, double high, double plain,
                         StopCheck stop) {
    if (low == high) {
        return solve_noise(
            [&](double noise) {
                return count_delta(epsilon, unknown, low, noise, Direction::both, stop).log_delta_upper() - goal;
            },
            plain);
    }
    std::set<std::int64_t> tried = {0, unknown};
    const auto excess = [&](double noise) {
        double worst = -std::numeric_limits<double>::infinity();
        for (const std::int64_t at_low : tried) {
            worst = std::max(
                worst, count_delta_two(epsilon, at_low, low, unknown - at_low, high, noise, Direction::both, stop)
                           .log_delta_upper());
        }
        return worst - goal;
    };
    double noise = 0.0;
    for (int round = 0; round < kMostRounds; ++round) {
        noise = std::max(noise, solve_noise(excess, plain));
        if (noise >= plain) return plain;
        const RangeDelta found =
            count_delta_range(epsilon, unknown, low, high, noise, Direction::both, kRangeBudget, stop);
        const double over = found.delta.log_delta_upper() - goal;
        if (over <= 0.0) return noise;
        if (tried.insert(found.at_low).second) continue;
        // The search could not tell vertices apart (or rounding is in the way): ask the same of a goal lower by
        // what is missing.
        const double gap = over * 1.01 + 1e-13;
        noise = solve_noise([&](double x) { return excess(x) + gap; }, plain);
    }
    return plain;
}

double noise_per_release(double noise_scale, double releases) {
    // Three roundings, of 2^-53 each, are covered by 2^-51.
    return releases > 1.0 ? noise_scale * (std::sqrt(releases) * (1.0 + 0x1p-51)) : noise_scale;
}

double count_delta_upper(double epsilon, std::int64_t unknown, double low, double high, double noise_scale,
                         StopCheck stop) {
    need_range(low, high);
    return delta_upper(range_log_delta_upper(epsilon, unknown, low, high, noise_scale, stop));
}

CountNoise calibrate_count(double epsilon, double delta, std::int64_t unknown, double low, double high,
                           double worst_case_epsilon, double releases, StopCheck stop) {
    need_count_epsilon(epsilon);
    need_open_probability(delta, "delta");
    need_range(low, high);
    if (!(worst_case_epsilon >= epsilon))
        refuse("worst_case_epsilon", "at least epsilon, or infinity", worst_case_epsilon);
    need_whole(releases, 1.0, 0x1p53, "releases");
    const double plain = gaussian_sigma(epsilon, delta, 1.0, 1.0);
    const double floor =
        std::isinf(worst_case_epsilon) ? 0.0 : gaussian_sigma(worst_case_epsilon, delta, 1.0, 1.0);
    const double total =
        std::max(least_count_noise(epsilon, log_delta_goal(delta), unknown, low, high, plain, stop), floor);
    const double achieved = range_log_delta_upper(epsilon, unknown, low, high, total, stop);
    return {noise_per_release(total, releases), std::min(delta, delta_upper(achieved))};
}

}  // namespace dpcore
