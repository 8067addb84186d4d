#include "dpcore/fixed_point.hpp"

#include <cmath>

namespace dpcore {

Fixed256 from_scaled(std::uint64_t mantissa, int exponent) {
    const Fixed256 whole = Fixed256::integer(mantissa);
    if (mantissa == 0) return whole;
    if (exponent < 0) return exponent < -320 ? Fixed256() : shift_right(whole, static_cast<unsigned>(-exponent));
    const int room = __builtin_clzll(mantissa);
    if (exponent > room) {
        Fixed256 largest;
        largest.limb.fill(~std::uint64_t{0});
        return largest;
    }
    return shift_left(whole, static_cast<unsigned>(exponent));
}

Fixed256 from_double(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return from_scaled(static_cast<std::uint64_t>(std::ldexp(fraction, 53)), exponent - 53);
}

// Long division, one bit of the quotient a step. a >= 2^-8 keeps the quotient below 2^9, so the shifted remainder
// (below 2 a) and the quotient both fit.
Fixed256 reciprocal(const Fixed256& a) {
    Fixed256 quotient;
    Fixed256 remainder = Fixed256::integer(1);
    while (!(remainder < a)) {
        remainder = remainder - a;
        quotient.limb[4] += 1;
    }
    for (int bit = 255; bit >= 0; --bit) {
        remainder = shift_left(remainder, 1);
        if (!(remainder < a)) {
            remainder = remainder - a;
            quotient.limb[bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
    }
    return quotient;
}

// With r = x / 2^h < 2^-8, the polynomial 1 - r (1 - r/2 (1 - r/3 (...))) of degree 26 leaves out less than
// (2^-8)^27 / 27! < 2^-309, and each of its steps truncates below 2 ulp, the outer ones dominating: below 4 ulp in
// all (the argument's own truncation included). Each of the h <= 16 squarings at most doubles the error of a
// number below 1 and adds an ulp: below 5 * 2^16 ulp < 2^-237.
Fixed256 exp_negative(const Fixed256& x) {
    if (x.integer_part() >= 178) return Fixed256();  // exp(-178) < 2^-256
    unsigned halvings = 0;
    Fixed256 r = x;
    const Fixed256 small = from_scaled(1, -8);
    while (!(r < small)) {
        r = shift_right(r, 1);
        ++halvings;
    }
    const Fixed256 one = Fixed256::integer(1);
    Fixed256 sum = one;
    for (std::uint64_t j = 26; j >= 1; --j) sum = one - (r * sum) / j;
    for (; halvings > 0; --halvings) sum = sum * sum;
    return sum;
}

}  // namespace dpcore
