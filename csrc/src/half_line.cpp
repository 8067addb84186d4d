#include "half_line.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/double_double.hpp"
#include "dpcore/normal.hpp"
#include "mills.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNegligible = 0x1p-64;  // of the sum so far, where terms fall faster than geometrically
constexpr double kCut = 0x1p-50;         // a last term above this share says that the window was too short
constexpr double kSqrtTwoPi = 2.506628274631000502;
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;
constexpr double kSaturated = 9.5;  // Phi(9.5) differs from 1 by 1e-21
constexpr double kWideNoise = 8.0;  // noise beyond this many spreads: solve for t with expm1
constexpr std::ptrdiff_t kPollEvery = 1 << 14;

double log_scale_of(const SignedPoints& points, std::ptrdiff_t i) {
    return points.log_scale.empty() ? 0.0 : points.log_scale[static_cast<std::size_t>(i)];
}
double offset_of(const SignedPoints& points, std::ptrdiff_t i) {
    return points.offset[static_cast<std::size_t>(i)];
}
double weight_of(const SignedPoints& points, std::ptrdiff_t i) {
    return points.weight[static_cast<std::size_t>(i)];
}
std::ptrdiff_t size_of(const SignedPoints& points) { return static_cast<std::ptrdiff_t>(points.offset.size()); }

// Blocks of 32 added up plainly, their sums with compensation: relative error 33 u for any number of terms of one
// sign.
double sum(const double* from, const double* to) {
    DoubleDouble total;
    while (from != to) {
        double block = 0.0;
        const double* end = from + std::min<std::ptrdiff_t>(32, to - from);
        for (; from != end; ++from) block += *from;
        const DoubleDouble next = two_sum(total.hi, block);
        total = {next.hi, total.lo + next.lo};
    }
    return total.hi + total.lo;
}

std::ptrdiff_t first_positive(const SignedPoints& points) {
    return std::upper_bound(points.offset.begin(), points.offset.end(), 0.0) - points.offset.begin();
}

// Sum of |c_i| exp(e_i) over one side of kappa, as exp(log_sum), with the mean of x_i under it.
struct SideSum {
    double log_sum = -kInfinity;
    double mean = 0.0;
};

// Walks outward from kappa. Terms are unimodal (log-concave weights times a Gaussian), so the first term that is
// negligible beside the sum is on the falling side and ends the walk.
SideSum side_sum(const SignedPoints& points, double a, double inverse_variance, std::ptrdiff_t first,
                 std::ptrdiff_t last, std::ptrdiff_t step) {
    SideSum out;
    double top = -kInfinity;
    double total = 0.0;
    double moment = 0.0;
    for (std::ptrdiff_t i = first; i != last; i += step) {
        const double x = offset_of(points, i);
        const double weight = std::fabs(weight_of(points, i));
        if (weight == 0.0) continue;
        const double exponent = x * (a - 0.5 * x) * inverse_variance + log_scale_of(points, i);
        if (exponent > top + 500.0) {
            const double shrink = std::exp(top - exponent);  // 0 the first time
            total *= shrink;
            moment *= shrink;
            top = exponent;
        }
        const double term = weight * std::exp(exponent - top);
        total += term;
        moment += term * x;
        if (term < kNegligible * total) break;
    }
    if (total > 0.0) {
        out.log_sum = top + std::log(total);
        out.mean = moment / total;
    }
    return out;
}

double solve_threshold(const SignedPoints& points, double beta, double guess, StopCheck stop) {
    const double inverse_variance = 1.0 / (beta * beta);
    const std::ptrdiff_t pivot = first_positive(points);
    double low = -kInfinity;
    double high = kInfinity;
    double a = guess;
    for (int iteration = 0; iteration < 200; ++iteration) {
        stop();
        const SideSum up = side_sum(points, a, inverse_variance, pivot, size_of(points), 1);
        const SideSum down = side_sum(points, a, inverse_variance, pivot - 1, -1, -1);
        const double value = up.log_sum - down.log_sum;
        const double slope = (up.mean - down.mean) * inverse_variance;
        const double step = value / slope;
        // 2^-44 is above the noise of the two logarithms, and the error after a step is quadratic in the one
        // before.
        if (std::fabs(value) < 0x1p-44 || std::fabs(step) <= 0x1p-52 * std::fabs(a)) {
            a -= step;
            break;
        }
        (value < 0.0 ? low : high) = a;
        a -= step;
        if (!(a > low && a < high)) a = 0.5 * (low + high);
    }
    // Wide noise: exp(e_i) is near 1 for all i, its sum cancels, and the sum of the c_i is known exactly.
    if (points.total < 0.0 && beta > kWideNoise * points.spread && points.log_scale.empty() &&
        points.beyond == 0.0) {
        for (int iteration = 0; iteration < 4; ++iteration) {
            double residual = points.total;
            double slope = 0.0;
            double plain = 0.0;  // sums of magnitudes: the rounding error of either form
            double centred = std::fabs(points.total);
            for (std::size_t i = 0; i < points.offset.size(); ++i) {
                const double x = points.offset[i];
                const double grown = std::expm1(x * (a - 0.5 * x) * inverse_variance);
                const double term = points.weight[i] * grown;
                residual += term;
                centred += std::fabs(term);
                plain += std::fabs(points.weight[i] * (1.0 + grown));
                slope += points.weight[i] * x * (1.0 + grown);
            }
            if (!(centred < 0.5 * plain)) break;
            const double step = residual / (slope * inverse_variance);
            a -= step;
            if (std::fabs(step) <= 0x1p-51 * std::fabs(a)) break;
        }
    }
    return a;
}

// [Phi(-z) - phi(z) R(z_r)] / unit for z = z_r - d, where unit is phi(z_r) for z_r >= 0, else 1. Has the sign of
// d. Relative error below 300 u.
class Excess {
public:
    explicit Excess(double reference) : reference_(reference), forward_(reference >= 0.0) {
        if (forward_) {
            ratio_ = mills_ratio(reference);
            inverse_density_ = kSqrtTwoPi * std::exp(0.5 * reference * reference);
            log_unit_ = -0.5 * reference * reference - kLogSqrtTwoPi;
        } else {
            tail_ = normal_tail(reference);
            mirrored_ratio_ = mills_ratio(-reference);
        }
    }
    double log_unit() const { return log_unit_; }
    // Its value where Phi(-z) is 1.
    double saturated() const { return forward_ ? inverse_density_ : 1.0; }

    // `log_scale` is ln of a further factor.
    double operator()(double d, double log_scale) const {
        const double z = reference_ - d;
        const double e = d * (reference_ - 0.5 * d);  // ln of phi(z) / phi(z_r)
        const double width = std::fabs(d);
        const double upper = d > 0.0 ? reference_ : z;
        if ((width <= 0.125 && upper > 0.0) || (forward_ && z >= 0.0)) {
            const double difference = d * mills_divided_difference(d > 0.0 ? z : reference_, upper, width);
            return forward_ ? std::exp(e + log_scale) * difference : density(z) * difference * factor(log_scale);
        }
        if (forward_) {
            const double unit = log_scale == 0.0
                                    ? inverse_density_
                                    : kSqrtTwoPi * std::exp(0.5 * reference_ * reference_ + log_scale);
            return normal_tail(z) * unit - std::exp(e + log_scale) * ratio_;
        }
        if (z >= 0.0) return (normal_tail(z) - std::exp(e) * tail_) * factor(log_scale);
        return (-std::expm1(e) - density(z) * (mills_ratio(-z) - mirrored_ratio_)) * factor(log_scale);
    }

private:
    static double factor(double log_scale) { return log_scale == 0.0 ? 1.0 : std::exp(log_scale); }
    static double density(double z) { return std::exp(-0.5 * z * z) / kSqrtTwoPi; }
    double reference_;
    bool forward_;
    double ratio_ = 0.0;
    double inverse_density_ = 0.0;
    double tail_ = 0.0;
    double mirrored_ratio_ = 0.0;
    double log_unit_ = 0.0;
};

}  // namespace

HalfLineSum half_line_sum(const SignedPoints& points, double beta, StopCheck stop, double guess) {
    HalfLineSum out;
    const double a = solve_threshold(points, beta, guess, stop);
    out.threshold = a;
    const double inverse = 1.0 / beta;
    const bool scaled = !points.log_scale.empty();
    const std::ptrdiff_t pivot = first_positive(points);
    const std::ptrdiff_t size = size_of(points);
    // The reference may lie anywhere between the last negative and the first positive weight: as near to t as it
    // can, when t is below kappa.
    const double shift = a >= 0.0 ? 0.0 : std::max(a, pivot > 0 ? offset_of(points, pivot - 1) : a);
    const Excess excess((a - shift) * inverse);
    const double above_threshold = kSaturated + a * inverse;

    double above = 0.0;
    double term = 0.0;
    bool ended = false;
    std::ptrdiff_t i = pivot;
    for (; i < size; ++i) {
        const double x = offset_of(points, i);
        if (x * inverse > above_threshold && !scaled) break;
        term = weight_of(points, i) * excess((x - shift) * inverse, log_scale_of(points, i));
        if (!(term < kInfinity)) {
            // Phi/phi beyond the range of double, at a weight that is below e^-700 of the others.
            term = 0.0;
            ended = true;
            break;
        }
        above += term;
        if (term < kNegligible * above) {
            ended = true;
            break;
        }
        if (i % kPollEvery == 0) stop();
    }
    if (!ended && i < size) {  // from here on Phi is 1
        term = weight_of(points, size - 1) * excess.saturated();
        above += sum(points.weight.data() + i, points.weight.data() + size) * excess.saturated();
    }
    if (points.beyond > 0.0 && !ended) {
        if (i == size) out.cut_above = true;  // Phi is not 1 where `beyond` begins
        above += points.beyond * excess.saturated();
    }
    if (points.open_above && term > kCut * above) out.cut_above = true;

    double below = 0.0;
    double before = 0.0;
    term = 0.0;
    for (i = pivot - 1; i >= 0; --i) {
        term = weight_of(points, i) * excess((offset_of(points, i) - shift) * inverse, log_scale_of(points, i));
        below += term;
        // Next to kappa terms may be small because the weights are; only a falling one ends the sum.
        if (term < kNegligible * (above + below) && term < before) break;
        before = term;
    }
    out.cut_below = points.open_below && term > kCut * (above + below);
    out.log_value = std::log(above + below) + excess.log_unit() + points.log_unit;
    return out;
}

HalfLineSum positive_part(const SignedPoints& points) {
    HalfLineSum out;
    const double* begin = points.weight.data() + first_positive(points);
    const double* end = points.weight.data() + points.weight.size();
    std::vector<double> scaled;
    double top = 0.0;
    if (!points.log_scale.empty()) {
        const double* log_scale = points.log_scale.data() + (begin - points.weight.data());
        if (begin != end) top = *std::max_element(log_scale, log_scale + (end - begin));
        for (const double* at = begin; at != end; ++at, ++log_scale)
            scaled.push_back(*at * std::exp(*log_scale - top));
        begin = scaled.data();
        end = begin + scaled.size();
    }
    const double total = sum(begin, end) + points.beyond;
    out.cut_above = points.open_above && begin != end && *(end - 1) > kCut * total;
    out.log_value = std::log(total) + (points.log_unit + top);
    return out;
}

double absolute_sum(const SignedPoints& points, const std::vector<double>& magnitude, double beta,
                    double threshold) {
    double total = 0.0;
    for (std::size_t i = 0; i < magnitude.size(); ++i) {
        const double x = points.offset[i];
        if (beta > 0.0)
            total += magnitude[i] * normal_tail((threshold - x) / beta);
        else if (x > 0.0)
            total += magnitude[i];
    }
    return total;
}

bool set_offsets(SignedPoints& points, double spacing) {
    const auto size = static_cast<std::ptrdiff_t>(points.weight.size());
    std::ptrdiff_t negative = size - 1;
    while (negative >= 0 && !(weight_of(points, negative) < 0.0)) --negative;
    if (negative < 0 || negative == size - 1) return false;
    const double from = weight_of(points, negative);
    const double to = weight_of(points, negative + 1);
    const double part = std::clamp(from / (from - to), 0x1p-40, 1.0 - 0x1p-40);
    points.offset.resize(points.weight.size());
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        points.offset[at] = (static_cast<double>(i - negative) - part) * spacing;
        if (i < negative && points.weight[at] > 0.0) points.weight[at] = 0.0;
    }
    return true;
}

}  // namespace dpcore::detail
