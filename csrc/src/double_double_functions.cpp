#include "dpcore/double_double_functions.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "double_double_tables.hpp"

namespace dpcore {

DoubleDouble log(DoubleDouble x) {
    int exponent = 0;
    double hi = std::frexp(x.hi, &exponent);
    if (hi < 45.5 / 64.0) {
        hi *= 2.0;
        --exponent;
    }
    const double lo = std::ldexp(x.lo, -exponent);
    const double scaled = std::nearbyint(hi * 64.0);  // 45 .. 91
    const double c = scaled * 0x1p-6;
    // hi - c is exact: both are multiples of the same power of two and within a factor of two.
    const DoubleDouble s = two_sum(hi - c, lo) / (DoubleDouble(hi, lo) + c);
    const DoubleDouble z = s * s;
    using tables::kOdd;
    // From z^4 on, below 2^-60 of the sum, double is enough.
    const double tail = kOdd[4].hi + z.hi * (kOdd[5].hi + z.hi * (kOdd[6].hi + z.hi * kOdd[7].hi));
    const DoubleDouble series = ((z * tail + kOdd[3]) * z + kOdd[2]) * z + kOdd[1];
    const DoubleDouble artanh = s + s * (z * series);
    const DoubleDouble near = {2.0 * artanh.hi, 2.0 * artanh.lo};
    const int i = static_cast<int>(scaled);
    if (exponent == 0 && i == 64) return near;
    const DoubleDouble grid = tables::kLogGrid[i - 45];
    return tables::kLn2 * static_cast<double>(exponent) + grid + near;
}

Scaled exp_scaled(DoubleDouble x) {
    if (!(std::fabs(x.hi) <= 0x1p61)) throw std::range_error("the value is beyond every exponent");
    const double k = std::nearbyint(x.hi * (1.0 / tables::kLn2.hi));
    const DoubleDouble reduced = x - tables::kLn2 * k;
    const DoubleDouble r = {reduced.hi * 0x1p-6, reduced.lo * 0x1p-6};
    using tables::kInverseFactorial;
    double tail = kInverseFactorial[12].hi;
    for (int n = 11; n >= 8; --n) tail = tail * r.hi + kInverseFactorial[n].hi;
    DoubleDouble y = r * tail + kInverseFactorial[7];
    for (int n = 6; n >= 2; --n) y = y * r + kInverseFactorial[n];
    y = r + (r * r) * y;                            // expm1(r)
    for (int i = 0; i < 6; ++i) y = y * (y + 2.0);  // expm1(2 r) = expm1(r) (expm1(r) + 2)
    return {y + 1.0, static_cast<std::int64_t>(k)};
}

Scaled normalised(const Scaled& x) {
    const double magnitude = std::fabs(x.mantissa.hi);
    if ((magnitude >= 0x1p-100 && magnitude <= 0x1p100) || magnitude == 0.0) return x;
    const int by = std::ilogb(magnitude);
    return {{std::ldexp(x.mantissa.hi, -by), std::ldexp(x.mantissa.lo, -by)}, x.exponent + by};
}

double to_double(const Scaled& x, std::int64_t scale) {
    const std::int64_t shift = std::clamp<std::int64_t>(x.exponent - scale, -5000, 5000);
    return std::ldexp(x.mantissa.hi + x.mantissa.lo, static_cast<int>(shift));
}

}  // namespace dpcore
