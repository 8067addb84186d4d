#include "dpcore/normal.hpp"

#include <cmath>
#include <limits>

#include "dpcore/double_double.hpp"
#include "mills.hpp"

namespace dpcore {

namespace {

constexpr double kSqrtTwoPi = 2.506628274631000502;
constexpr long double kSqrtTwoPiLong = 2.506628274631000502415765L;
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

// exp(-x^2/2) with the rounding of x^2 carried along: relative error 2 u where the result is normal.
double exp_minus_half_square(double x) {
    if (std::fabs(x) > 64.0) return 0.0;  // below 1e-889
    const DoubleDouble square = two_prod(x, x);
    return std::exp(-0.5 * square.hi) * (1.0 - 0.5 * square.lo);
}

}  // namespace

double mills(double t) {
    if (t >= 0.0) return detail::mills_ratio(t);
    const double square = t * t;
    const double rest = two_prod(t, t).lo;
    return kSqrtTwoPi * std::exp(0.5 * square) * (1.0 + 0.5 * rest) - detail::mills_ratio(-t);
}

long double mills(long double t) {
    if (t >= 0.0L) return detail::mills_ratio(t);
    return kSqrtTwoPiLong * std::exp(0.5L * t * t) - detail::mills_ratio(-t);
}

double mills_difference(double a, double b) {
    if (!(b > a)) return b == a ? 0.0 : std::numeric_limits<double>::quiet_NaN();
    return (b - a) * detail::mills_divided_difference(a, b, b - a);
}

long double mills_difference(long double a, long double b) {
    if (!(b > a)) return b == a ? 0.0L : std::numeric_limits<long double>::quiet_NaN();
    return (b - a) * detail::mills_divided_difference(a, b, b - a);
}

double mills_slope(double t) {
    // The divided difference with coinciding points is the derivative.
    if (t >= detail::kTableEnd / 2) {
        const double x = 1.0 / t;
        return detail::asymptotic_divided_difference(x, x) * x * x;
    }
    return detail::mills_divided_difference(t, t, 0.0);
}

double normal_tail(double x) {
    if (x < 0.0) return 1.0 - normal_tail(-x);
    return exp_minus_half_square(x) * (detail::mills_ratio(x) / kSqrtTwoPi);
}

double log_normal_tail(double x) {
    if (x < 0.0) return std::log1p(-normal_tail(-x));
    // x^2/2 dominates from x = 2 on; below, the sum has no cancellation worth a digit.
    return -0.5 * x * x + (std::log(detail::mills_ratio(x)) - kLogSqrtTwoPi);
}

double normal_quantile_tail(double p) {
    if (!(p > 0.0 && p < 1.0)) return std::numeric_limits<double>::quiet_NaN();
    if (p == 0.5) return 0.0;
    if (p > 0.5) return -normal_quantile_tail(1.0 - p);
    // Newton on log normal_tail, which is concave: from the left of the root every step stays on its left or
    // reaches it, so the iteration is monotone. sqrt(2 log(1/(2p))) is an upper bound of the root (Chernoff);
    // subtracting a little keeps few iterations from either side, since one step brings it to the left.
    const double target = std::log(p);
    double x = std::sqrt(-2.0 * std::log(2.0 * p));
    for (int i = 0; i < 60; ++i) {
        const double ratio = detail::mills_ratio(x > 0.0 ? x : 0.0);
        const double value = -0.5 * x * x + (std::log(ratio) - kLogSqrtTwoPi);
        const double step = (value - target) * ratio;  // d log tail / dx = -1/R
        x += step;
        if (x < 0.0) x = 0.0;
        if (std::fabs(step) <= 4e-16 * x) break;
    }
    // One correction on the tail itself, where log p has cost digits for p near 1/2.
    const double tail = normal_tail(x);
    x += (tail - p) / (exp_minus_half_square(x) / kSqrtTwoPi);
    return x < 0.0 ? 0.0 : x;
}

}  // namespace dpcore
