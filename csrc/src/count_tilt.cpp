#include "dpcore/count_tilt.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dpcore/double_double_functions.hpp"

namespace dpcore {

namespace {

constexpr double kRounding = 0x1p-53;

// A tilted probability below 2^-kFar, 1e-300, is left out: no double could hold what it leads to.
constexpr int kFar = 996;

// Beyond 38 deviations + 700 of its mean a binomial has probability below kUnseen (Bernstein).
constexpr double kUnseen = 1e-300;

DoubleDouble scaled(DoubleDouble value, int power) {
    return {std::ldexp(value.hi, power), std::ldexp(value.lo, power)};
}

// ln of a probability from it and its complement.
double log_of(DoubleDouble p, DoubleDouble complement) {
    return p.hi > 0.5 ? std::log1p(-complement.hi) : std::log(p.hi);
}

}  // namespace

TiltedGroup tilt_group(double size, double bias, bool zeros, double tilt, CountedFrom end) {
    DoubleDouble success = bias;
    DoubleDouble failure = two_sum(1.0, -bias);
    if (zeros) std::swap(success, failure);
    TiltedGroup out;
    if (success.hi == 0.0 || failure.hi == 0.0 || size == 0.0) {
        out.from_top = failure.hi == 0.0;
        return out;
    }
    const int up_success = -std::ilogb(success.hi);
    const int up_failure = -std::ilogb(failure.hi);
    const Scaled shrink = exp_scaled(-tilt);
    // Between 1/4 and 4.
    const DoubleDouble mantissa = scaled(failure, up_failure) / scaled(success, up_success) * shrink.mantissa;
    const std::int64_t exponent = shrink.exponent + up_success - up_failure;
    const double log_success = log_of(success, failure);
    const double log_failure = log_of(failure, success);
    if (exponent < -(kFar + 2) || exponent > kFar + 2) {
        out.from_top = exponent < 0;
        out.log_factor = size * (out.from_top ? log_success : log_failure);
        out.error = 4.0 * kRounding * std::fabs(out.log_factor);
        out.left_out = size * std::ldexp(1.0, -kFar);
        return out;
    }
    const DoubleDouble odds = scaled(mantissa, static_cast<int>(exponent));
    const DoubleDouble likely = DoubleDouble(1.0) / (DoubleDouble(1.0) + odds);
    const DoubleDouble unlikely = odds * likely;
    out.from_top = end == CountedFrom::nearer_end ? odds.hi < 1.0 : end == CountedFrom::top;
    out.handed = static_cast<double>(out.from_top ? unlikely : likely);
    const double log_plain = out.from_top ? log_success : log_failure;
    const double log_rest = std::log1p(out.from_top ? odds.hi : 1.0 / odds.hi);
    out.log_factor = size * (log_plain + log_rest);
    // An error e of the odds changes a probability by e times the distance of the group's share from its mean.
    const double slip = kRounding * (2.0 + 2.0 / (1.0 - out.handed));
    const double reach = std::min(size, 38.0 * std::sqrt(size * likely.hi * unlikely.hi) + 700.0);
    out.error = slip * reach + 4.0 * kRounding * size * (std::fabs(log_plain) + log_rest);
    out.left_out = kUnseen;
    return out;
}

}  // namespace dpcore
