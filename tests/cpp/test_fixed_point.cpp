#include "dpcore/fixed_point.hpp"

#include <cmath>

#include "check.hpp"

using dpcore::exp_negative;
using dpcore::Fixed256;
using dpcore::from_double;
using dpcore::from_scaled;
using dpcore::reciprocal;
using dpcore::shift_left;
using dpcore::shift_right;

namespace {

struct Sequence {
    std::uint64_t state = 7;
    std::uint64_t next() {
        std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    Fixed256 fraction() {
        Fixed256 out;
        out.limb = {next(), next(), next(), next(), 0};
        return out;
    }
};

const Fixed256 kOne = Fixed256::integer(1);
Fixed256 ulps(std::uint64_t n) {
    Fixed256 out;
    out.limb[0] = n;
    return out;
}
bool near(const Fixed256& a, const Fixed256& b, std::uint64_t n) {
    return a < b ? b - a < ulps(n) || b - a == ulps(n) : a - b < ulps(n) || a - b == ulps(n);
}

}  // namespace

TEST(addition_and_subtraction_are_inverse) {
    Sequence s;
    for (int i = 0; i < 1000; ++i) {
        const Fixed256 a = s.fraction();
        const Fixed256 b = s.fraction();
        CHECK((a + b) - b == a);
        CHECK(a < a + b || b == Fixed256());
    }
}

TEST(products_of_small_integers_and_powers) {
    CHECK(Fixed256::integer(6) * Fixed256::integer(7) == Fixed256::integer(42));
    CHECK(from_scaled(3, -100) * from_scaled(5, -50) == from_scaled(15, -150));
    CHECK(from_scaled(3, -100) * std::uint64_t{5} == from_scaled(15, -100));
    CHECK(from_scaled(15, -100) / 5 == from_scaled(3, -100));
    CHECK(from_scaled(1, -300) == Fixed256());
    CHECK(from_scaled(1, 64).integer_part() == ~std::uint64_t{0});
    CHECK(from_double(0.75) == from_scaled(3, -2));
    CHECK(from_double(0.0) == Fixed256());
    CHECK(from_double(0x1p-1074) == Fixed256());
    CHECK(from_double(1e300).integer_part() == ~std::uint64_t{0});
}

TEST(products_distribute_within_an_ulp) {
    Sequence s;
    for (int i = 0; i < 1000; ++i) {
        const Fixed256 a = s.fraction();
        const Fixed256 b = s.fraction();
        const Fixed256 c = s.fraction();
        CHECK(a * b == b * a);
        CHECK(near(a * (b + c), a * b + a * c, 2));
        CHECK(near((a * 12345) / 12345, a, 1));
    }
}

TEST(shifts) {
    Sequence s;
    for (unsigned bits : {0U, 1U, 63U, 64U, 65U, 127U, 200U, 255U}) {
        const Fixed256 a = s.fraction();
        CHECK(shift_right(shift_left(shift_right(a, bits), bits > 0 ? bits : 0), bits) == shift_right(a, bits));
        CHECK(shift_right(kOne, bits) == from_scaled(1, -static_cast<int>(bits)));
    }
}

TEST(reciprocals) {
    Sequence s;
    CHECK(reciprocal(kOne) == kOne);
    CHECK(reciprocal(Fixed256::integer(1024)) == from_scaled(1, -10));
    CHECK(reciprocal(from_scaled(1, -8)) == Fixed256::integer(256));
    for (int i = 0; i < 200; ++i) {
        const Fixed256 a = kOne + s.fraction();
        const Fixed256 r = reciprocal(a);
        CHECK(near(r * a, kOne, 4));
        const Fixed256 big = Fixed256::integer(s.next() >> 2) + kOne;
        CHECK(!(kOne < reciprocal(big) * big));
    }
}

TEST(exponentials_multiply) {
    Sequence s;
    CHECK(exp_negative(Fixed256()) == kOne);
    CHECK(exp_negative(Fixed256::integer(178)) == Fixed256());
    // exp(-a) exp(-b) = exp(-a-b): an identity that no common error of scale survives together with the values
    // that tests/test_samplers_exact.py compares with mpmath.
    for (int i = 0; i < 50; ++i) {
        const Fixed256 a = s.fraction() * std::uint64_t{5};
        const Fixed256 b = s.fraction() * std::uint64_t{3};
        CHECK(near(exp_negative(a) * exp_negative(b), exp_negative(a + b), std::uint64_t{1} << 22));
    }
    CHECK(std::fabs(static_cast<double>(exp_negative(kOne).limb[3]) * 0x1p-64 - std::exp(-1.0)) < 1e-15);
}
