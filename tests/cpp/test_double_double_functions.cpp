#include "dpcore/double_double_functions.hpp"

#include <cmath>

#include "check.hpp"

using dpcore::DoubleDouble;
using dpcore::exp_scaled;
using dpcore::Scaled;

namespace {

double size(DoubleDouble x) { return std::fabs(x.hi + x.lo); }

// exp(log x) back to x: the two share no constants but ln 2. Largest seen: 2^-101.
double round_trip(DoubleDouble x) {
    const Scaled back = exp_scaled(log(x));
    const auto by = static_cast<int>(back.exponent);
    const DoubleDouble y = {std::ldexp(back.mantissa.hi, by), std::ldexp(back.mantissa.lo, by)};
    return size((y - x) / x);
}

}  // namespace

TEST(exponential_and_logarithm_are_inverse) {
    for (double x = 0x1p-300; x < 0x1p300; x *= 1.37)
        CHECK(round_trip(dpcore::two_sum(x, x * 0x1.23p-60)) <= 0x1p-93 + 0x1p-104 * std::fabs(std::log(x)));
}

TEST(known_digits) {
    // ln 10 and e, from their decimal expansions.
    const DoubleDouble ten = log(DoubleDouble(10.0));
    CHECK(size(ten - DoubleDouble(0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53)) <= 0x1p-102);
    const Scaled e = exp_scaled(DoubleDouble(1.0));
    const auto by = static_cast<int>(e.exponent);
    const DoubleDouble value = {std::ldexp(e.mantissa.hi, by), std::ldexp(e.mantissa.lo, by)};
    CHECK(size(value - DoubleDouble(0x1.5bf0a8b145769p+1, 0x1.4d57ee2b1013ap-53)) <= 0x1p-100);
}

TEST(near_one_the_logarithm_keeps_its_digits) {
    for (double d = 0x1p-10; d > 0x1p-100; d *= 0.3) {
        const DoubleDouble x = dpcore::two_sum(1.0, d);
        // d - d^2/2 + d^3/3 - ... by Horner in double-double.
        DoubleDouble series;
        for (int j = 14; j >= 1; --j) {
            const DoubleDouble term = DoubleDouble(j % 2 == 1 ? 1.0 : -1.0) / DoubleDouble(static_cast<double>(j));
            series = (series + term) * d;
        }
        CHECK(size((log(x) - series) / series) <= 0x1p-97);
    }
}

TEST(scaled_numbers) {
    CHECK(to_double(exp_scaled(DoubleDouble(-1e6)), 0) == 0.0);
    CHECK(exp_scaled(DoubleDouble(-1e6)).exponent == -1442695);
    CHECK(dpcore::to_double({DoubleDouble(1.5), -1074}) == 0x1p-1073);
    CHECK(dpcore::to_double({DoubleDouble(1.0), 5}, 3) == 4.0);
    const Scaled x = dpcore::normalised({DoubleDouble(0x1p-200, 0x1p-260), 7});
    CHECK(x.mantissa.hi == 1.0 && x.mantissa.lo == 0x1p-60 && x.exponent == -193);
}
