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
constexpr double kLogTwo = 0.69314718055994530942;
constexpr double kSaturated = 9.5;  // Phi(9.5) differs from 1 by 1e-21
constexpr double kNear = 6.0;
constexpr double kTiny = 1e-200;
constexpr double kFallen = 50.0;  // e^-50 = 2^-72
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

double solve_threshold(const SignedPoints& points, double beta, StopCheck stop) {
    const double inverse_variance = 1.0 / (beta * beta);
    const std::ptrdiff_t pivot = first_positive(points);
    double low = -kInfinity;
    double high = kInfinity;
    double a = 0.0;
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

// [Phi(-z) - phi(z) R(z_r)] exp(lift) for z = z_r - d. Has the sign of d. Relative error below 300 u, and a few u
// times z^2/2 and lift.
class Excess {
public:
    Excess(double reference, double lift) : reference_(reference), lift_(lift), forward_(reference >= 0.0) {
        if (forward_) {
            ratio_ = mills_ratio(reference);
        } else {
            tail_ = normal_tail(reference);
            mirrored_ratio_ = mills_ratio(-reference);
        }
    }
    // Its value where Phi(-z) is 1.
    double saturated() const { return std::exp(lift_); }

    // `log_scale` is ln of a further factor.
    double operator()(double d, double log_scale) const {
        const double z = reference_ - d;
        const double width = std::fabs(d);
        const double upper = d > 0.0 ? reference_ : z;
        const double up = lift_ + log_scale;
        const double density = std::exp(up - 0.5 * z * z) / kSqrtTwoPi;
        if ((width <= 0.125 && upper > 0.0) || (forward_ && z >= 0.0))
            return density * (d * mills_divided_difference(d > 0.0 ? z : reference_, upper, width));
        if (forward_) return normal_tail(z) * std::exp(up) - density * ratio_;
        const double e = d * (reference_ - 0.5 * d);  // ln of phi(z) / phi(z_r)
        if (z >= 0.0) return (normal_tail(z) - std::exp(e) * tail_) * std::exp(up);
        return -std::expm1(e) * std::exp(up) - density * (mills_ratio(-z) - mirrored_ratio_);
    }

private:
    double reference_;
    double lift_;
    bool forward_;
    double ratio_ = 0.0;
    double tail_ = 0.0;
    double mirrored_ratio_ = 0.0;
};

// ln of the largest term up to a factor of about 1000, with its sign changed: the lift that keeps the sum inside
// the range of double. Terms are at most weight times 1 above the threshold and weight times phi(z) below.
double lift_of(const SignedPoints& points, double a, double inverse) {
    double top = points.beyond > 0.0 ? std::log(points.beyond) : -kInfinity;
    for (std::ptrdiff_t i = 0; i < size_of(points); ++i) {
        const double weight = std::fabs(weight_of(points, i));
        if (weight == 0.0) continue;
        const double z = std::max(0.0, (a - offset_of(points, i)) * inverse);
        const double size = std::ilogb(weight) * kLogTwo + log_scale_of(points, i) - 0.5 * z * z;
        if (size > top) top = size;
    }
    return top > -kInfinity ? -top : 0.0;
}

}  // namespace

HalfLineSum half_line_sum(const SignedPoints& points, double beta, StopCheck stop) {
    HalfLineSum out;
    const double a = solve_threshold(points, beta, stop);
    out.threshold = a;
    const double inverse = 1.0 / beta;
    const bool scaled = !points.log_scale.empty();
    const std::ptrdiff_t pivot = first_positive(points);
    const std::ptrdiff_t size = size_of(points);
    // The reference may lie anywhere between the last negative and the first positive weight: as near to t as it
    // can, when t is below kappa.
    const double shift = a >= 0.0 ? 0.0 : std::max(a, pivot > 0 ? offset_of(points, pivot - 1) : a);
    const double reference = (a - shift) * inverse;
    // Up to kNear the terms are not far below their weights, which need a lift only where they are tiny
    // themselves.
    const bool low = reference > kNear || scaled || !(pivot < size && weight_of(points, pivot) > kTiny);
    const double lift = low ? lift_of(points, a, inverse) : 0.0;
    const Excess excess(reference, lift);
    const double above_threshold = kSaturated + a * inverse;

    double above = 0.0;
    double term = 0.0;
    bool ended = false;
    std::ptrdiff_t i = pivot;
    for (; i < size; ++i) {
        const double x = offset_of(points, i);
        const double d = (x - shift) * inverse;
        // Phi(-z) is 1, and phi(z) R(z_r) negligible: R(z_r) is large where the reference is far below 0.
        if (x * inverse > above_threshold && !scaled && (reference >= 0.0 || d * (reference - 0.5 * d) < -kFallen))
            break;
        term = weight_of(points, i) * excess(d, log_scale_of(points, i));
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
    out.log_value = std::log(above + below) - lift + points.log_unit;
    return out;
}

PairedSum paired_sum(const std::vector<double>& offset, const std::vector<double>& probability, double epsilon,
                     double beta, double a) {
    const double inverse = 1.0 / beta;
    const double least = -0.0625;  // mills_ratio takes arguments from here on
    double top = -kInfinity;       // ln of the largest term, about
    for (std::size_t i = 0; i < probability.size(); ++i) {
        if (!(probability[i] > 0.0)) continue;
        const double y = std::max(0.0, (a - offset[i] - 1.0) * inverse);
        top = std::max(top, std::ilogb(probability[i]) * kLogTwo - 0.5 * y * y);
    }
    double above = 0.0;
    double below = 0.0;
    for (std::size_t i = 0; i < probability.size(); ++i) {
        if (!(probability[i] > 0.0)) continue;
        const double from = a - offset[i];
        const double z = from * inverse;
        const double y = z - inverse;
        double term = 0.0;
        if (y >= least) {
            const double rise = epsilon - (from - 0.5) * inverse * inverse;
            const double difference = inverse * mills_divided_difference(y, z, inverse);
            const double lost = mills_ratio(z) * std::expm1(rise);
            const double density = std::exp(-0.5 * y * y - top) / kSqrtTwoPi;
            above += probability[i] * density * difference;
            term = -probability[i] * density * lost;
        } else {
            above += probability[i] * std::exp(-top) * normal_tail(y);
            term = -probability[i] * std::exp(epsilon - top) * normal_tail(z);
        }
        (term > 0.0 ? above : below) += term;
    }
    return {std::log(above + below) + top, (above - below) / (above + below)};
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
