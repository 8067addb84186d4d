#include "count_whole.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dpcore/binomial.hpp"
#include "dpcore/count_tilt.hpp"

namespace dpcore::detail {

namespace {

constexpr double kRounding = 0x1p-53;

// Products of a convolution, about 4 ms: a search over vertices asks for many.
constexpr double kMostProducts = 4e6;

// Products of values of e^-700 of the largest are e^-1400 of it: twice 2^kLift keeps them above 2^-1022.
constexpr int kLift = 500;

PmfWindow convolved(const PmfWindow& a, const PmfWindow& b, StopCheck stop) {
    std::vector<double> lifted = b.value;
    for (double& value : lifted) value = std::ldexp(value, kLift);
    PmfWindow law;
    law.first = a.first + b.first;
    law.value.assign(a.value.size() + b.value.size() - 1, 0.0);
    law.exponent = a.exponent + b.exponent - 2 * kLift;
    for (std::size_t i = 0; i < a.value.size(); ++i) {
        if (i % 64 == 0) stop();
        const double scaled_a = std::ldexp(a.value[i], kLift);
        for (std::size_t j = 0; j < lifted.size(); ++j) law.value[i + j] += scaled_a * lifted[j];
    }
    return law;
}

PmfWindow whole_law(double trials, double bias, StopCheck stop) {
    const auto count = static_cast<std::int64_t>(trials);
    return binomial_window(count, bias, 0, count, kMaxWindowDepth, stop);
}

PmfWindow tilted_law(double trials, const TiltedGroup& group, StopCheck stop) {
    PmfWindow out = whole_law(trials, group.handed, stop);
    if (group.from_top) {
        out.first = -out.last();
        std::reverse(out.value.begin(), out.value.end());
    }
    return out;
}

// Values of either law are within 12 u, their products and sums a few more.
double convolution_error(const PmfWindow& a, const PmfWindow& b) {
    return (40.0 + static_cast<double>(std::min(a.value.size(), b.value.size()))) * kRounding;
}

// Windows end at e^-kMaxWindowDepth of their largest value.
double beyond_windows(double first, double second) { return (first + second + 2.0) * std::exp(-kMaxWindowDepth); }

}  // namespace

bool plain_whole_law(double epsilon, double first, double first_bias, double second, double second_bias,
                     double noise_scale, bool reflected, CountDelta& out, StopCheck stop) {
    if ((first + 1.0) * (second + 1.0) > kMostProducts) return false;
    const PmfWindow a = whole_law(first, first_bias, stop);
    const PmfWindow b = whole_law(second, second_bias, stop);
    const Direction direction = reflected ? Direction::remove : Direction::add;
    out = count_delta_window(epsilon, convolved(a, b, stop), convolution_error(a, b),
                             beyond_windows(first, second), noise_scale, direction, stop);
    return true;
}

bool tilted_whole_law(double epsilon, double first, double first_bias, double second, double second_bias,
                      double noise_scale, bool reflected, CountDelta& out, StopCheck stop) {
    const TiltedGroup one = tilt_group(first, first_bias, reflected, epsilon, CountedFrom::nearer_end);
    const TiltedGroup other = tilt_group(second, second_bias, reflected, epsilon, CountedFrom::nearer_end);
    // A window as deep as possible reaches 38 deviations, or a few hundred where the law is nearly Poisson's.
    const auto length = [](double trials, double p) {
        return std::min(trials, 76.0 * std::sqrt(trials * p * (1.0 - p)) + 300.0) + 1.0;
    };
    if (length(first, one.handed) * length(second, other.handed) > kMostProducts) return false;
    const PmfWindow a = tilted_law(first, one, stop);
    const PmfWindow b = tilted_law(second, other, stop);
    // Tilted, the law has its mode where it matters: back to values of at most 1, and what is then below the range
    // of double is left out like what is below e^-kMaxWindowDepth.
    PmfWindow law = convolved(a, b, stop);
    for (double& value : law.value) value = std::ldexp(value, -2 * kLift);
    law.exponent += 2 * kLift;
    const double left_out = one.left_out + other.left_out + 2.0 * beyond_windows(first, second);
    out = count_delta_tilted(epsilon, law, one.log_factor + other.log_factor,
                             one.error + other.error + convolution_error(a, b), left_out, noise_scale, stop);
    return true;
}

}  // namespace dpcore::detail
