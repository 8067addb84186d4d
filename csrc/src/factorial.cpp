#include "dpcore/factorial.hpp"

#include <cmath>

#include "double_double_tables.hpp"
#include "dpcore/double_double_functions.hpp"

namespace dpcore {

namespace {

// D(x, M) switches to the series here; |v| <= 0.1 needs 15 terms for 2^-100.
constexpr double kSeriesRatio = 0.1;

}  // namespace

DoubleDouble stirling_error(std::int64_t n) {
    if (n < tables::kSmallFactorials) return tables::kStirlingError[n];
    const auto x = static_cast<double>(n);
    const DoubleDouble inverse = DoubleDouble(1.0) / DoubleDouble(x);
    const DoubleDouble z = inverse * inverse;
    using tables::kStirlingSeries;
    // The terms from n^-7 on are below 1.4e-16 at n = 64, so that double leaves them an error below 3e-32.
    double tail = 0.0;
    for (int j = 7; j >= 3; --j) tail = tail * z.hi + kStirlingSeries[j].hi;
    const DoubleDouble series =
        ((z * tail + kStirlingSeries[2]) * z + kStirlingSeries[1]) * z + kStirlingSeries[0];
    return series * inverse;
}

DoubleDouble log_factorial(std::int64_t n) {
    if (n < tables::kSmallFactorials) return tables::kLogFactorial[n];
    const auto x = static_cast<double>(n);
    const DoubleDouble ln = log(DoubleDouble(x));
    // (n + 1/2)(ln n - 1) + 1/2 + (1/2) ln(2 pi) + S(n); n + 1/2 is two doubles beyond 2^52.
    return two_sum(x, 0.5) * (ln - 1.0) + 0.5 + tables::kHalfLnTwoPi + stirling_error(n);
}

namespace {

// ln(x / y) where the quotient itself may overflow.
DoubleDouble log_ratio(DoubleDouble x, DoubleDouble y) {
    const int ex = std::ilogb(x.hi);
    const int ey = std::ilogb(y.hi);
    if (ex - ey < 400 && ey - ex < 400) return log(x / y);
    const DoubleDouble mx = {std::ldexp(x.hi, -ex), std::ldexp(x.lo, -ex)};
    const DoubleDouble my = {std::ldexp(y.hi, -ey), std::ldexp(y.lo, -ey)};
    return log(mx / my) + tables::kLn2 * static_cast<double>(ex - ey);
}

}  // namespace

DoubleDouble deviance(DoubleDouble x, DoubleDouble mean, DoubleDouble difference) {
    if (x.hi == 0.0) return mean;
    const DoubleDouble sum = x + mean;
    if (std::fabs(difference.hi) > kSeriesRatio * sum.hi) return log_ratio(x, mean) * x - difference;
    const DoubleDouble v = difference / sum;
    const DoubleDouble z = v * v;
    // sum_{j>=1} v^(2j) / (2j + 1): as many terms as 2^-107 of the first needs, at most 16 (z <= 0.01).
    DoubleDouble series;
    int terms = 1;
    for (double power = z.hi; power > 0x1p-107 && terms < 16; power *= z.hi) ++terms;
    for (int j = terms; j >= 1; --j) series = (series + tables::kOdd[j]) * z;
    return difference * v + v * series * (x * 2.0);
}

DoubleDouble deviance(std::int64_t x, DoubleDouble mean) {
    const auto value = static_cast<double>(x);
    return deviance(DoubleDouble(value), mean, value - mean);
}

void StirlingSum::add(std::int64_t n) {
    if (n == 0) return;
    error = error + stirling_error(n);
    product = product * (tables::kTwoPi * static_cast<double>(n));
}

}  // namespace dpcore
