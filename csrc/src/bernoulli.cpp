#include "dpcore/bernoulli.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "dpcore/double_double.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/factorial.hpp"

namespace dpcore {

namespace {

DoubleDouble times_power(DoubleDouble x, int exponent) {
    return {std::ldexp(x.hi, exponent), std::ldexp(x.lo, exponent)};
}

// D(x, mean) with powers of two taken out, so that tiny arguments and tiny differences keep their digits: D is
// homogeneous, and for |difference| < 2^-200 mean it is difference^2 / (x + mean) up to 2^-200 of itself.
Scaled scaled_deviance(DoubleDouble x, DoubleDouble mean, DoubleDouble difference) {
    const int by = std::ilogb(std::max(x.hi, mean.hi));
    if (difference.hi == 0.0) return {0.0, 0};
    const int small = std::ilogb(difference.hi);
    if (small < by - 200) {
        const DoubleDouble unit = times_power(difference, -small);
        return {unit * unit / times_power(x + mean, -by), 2 * static_cast<std::int64_t>(small) - by};
    }
    if (by > -200) return {deviance(x, mean, difference), 0};
    return {deviance(times_power(x, -by), times_power(mean, -by), times_power(difference, -by)), by};
}

// a + b, both >= 0.
Scaled sum(Scaled a, Scaled b) {
    if (b.mantissa.hi == 0.0) return a;
    if (a.mantissa.hi == 0.0) return b;
    if (a.exponent < b.exponent) std::swap(a, b);
    const std::int64_t shift = b.exponent - a.exponent;
    if (shift < -2000) return a;
    return {a.mantissa + times_power(b.mantissa, static_cast<int>(shift)), a.exponent};
}

// KL(p - t || p) for a coin p with 1 - p = q, 0 <= t <= p up to rounding.
Scaled divergence_below(DoubleDouble p, DoubleDouble q, double t) {
    DoubleDouble x = p - t;
    if (!(x.hi > 0.0)) x = 0.0;
    return sum(scaled_deviance(x, p, -t), scaled_deviance(q + t, q, t));
}

// Whether x >= bound >= 0.
bool at_least(const Scaled& x, double bound) {
    const std::int64_t by = std::clamp<std::int64_t>(-x.exponent, -2000, 2000);
    return (x.mantissa - std::ldexp(bound, static_cast<int>(by))).hi >= 0.0;
}

std::int64_t bits(double x) {
    std::int64_t out;
    std::memcpy(&out, &x, sizeof out);
    return out;
}
double from_bits(std::int64_t x) {
    double out;
    std::memcpy(&out, &x, sizeof out);
    return out;
}

// Smallest double t <= edge with KL(p - t || p) >= divergence; edge where there is none. The divergence is convex
// and increasing in t, so Newton's step from the right never passes the root; every fourth step halves the bracket
// in the order of the doubles, which covers the slopes that double cannot hold.
double half_width(DoubleDouble p, DoubleDouble q, double edge, double divergence) {
    if (divergence == 0.0) return 0.0;
    double low = 0.0;  // KL < divergence
    double high = edge;
    if (!at_least(divergence_below(p, q, edge), divergence)) return edge;
    // KL(p - t || p) >= 2 t^2 and >= t^2 / (2 p): the root is below either, 2^-40 for the roundings.
    const double start =
        std::min(std::sqrt(divergence / 2.0), std::sqrt(2.0 * p.hi * divergence)) * (1.0 + 0x1p-40);
    double next = start < edge && start > 0.0 ? start : edge;
    for (int step = 0; bits(high) - bits(low) > 1; ++step) {
        if (!(next > low && next < high)) {
            // Newton has nothing new: look next to the end that holds, then halve.
            next = step % 2 == 0 ? std::nextafter(high, 0.0) : from_bits(bits(low) + (bits(high) - bits(low)) / 2);
            if (!(next > low && next < high)) next = from_bits(bits(low) + (bits(high) - bits(low)) / 2);
        } else if (step % 4 == 3) {
            next = from_bits(bits(low) + (bits(high) - bits(low)) / 2);
        }
        const Scaled value = divergence_below(p, q, next);
        (at_least(value, divergence) ? high : low) = next;
        const double slope = std::log1p(next / q.hi) - std::log1p(-next / p.hi);
        next -= (to_double(value) - divergence) / slope;
    }
    return high;
}

void check(double value, const char* message) {
    if (!(value >= 0.0 && value <= 1.0)) throw std::invalid_argument(message);
}

void check_inverse(double bias, double divergence) {
    check(bias, "bias must be in [0, 1]");
    if (!(divergence >= 0.0)) throw std::invalid_argument("divergence must be >= 0");
}

DoubleDouble complement(double x) { return two_sum(1.0, -x); }  // exact

}  // namespace

double bernoulli_kl(double q, double p) {
    check(q, "q must be in [0, 1]");
    check(p, "p must be in [0, 1]");
    if (q == p) return 0.0;
    if (p == 0.0 || p == 1.0) return std::numeric_limits<double>::infinity();
    const DoubleDouble difference = two_sum(q, -p);
    return to_double(
        sum(scaled_deviance(q, p, difference), scaled_deviance(complement(q), complement(p), -difference)));
}

double kl_half_width_below(double bias, double divergence) {
    check_inverse(bias, divergence);
    if (bias == 0.0) return 0.0;
    // KL(q || 1) is infinite for every q below 1.
    if (bias == 1.0) return divergence == 0.0 ? 0.0 : std::numeric_limits<double>::denorm_min();
    return half_width(bias, complement(bias), bias, divergence);
}

double kl_half_width_above(double bias, double divergence) {
    check_inverse(bias, divergence);
    if (bias == 1.0) return 0.0;
    if (bias == 0.0) return divergence == 0.0 ? 0.0 : std::numeric_limits<double>::denorm_min();
    const DoubleDouble room = complement(bias);
    const double edge = room.lo > 0.0 ? std::nextafter(room.hi, 2.0) : room.hi;
    return half_width(room, bias, edge, divergence);
}

}  // namespace dpcore
