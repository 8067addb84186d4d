#include "../../csrc/src/precise_complex.hpp"

#include <cmath>

#include "check.hpp"

using dpcore::DoubleDouble;
using dpcore::detail::PreciseComplex;

namespace {

struct Known {
    double re, im;
    DoubleDouble value_re, value_im;
};

// e^z - 1 by mpmath at 300 bits, cut to two doubles: mp.expm1(mp.mpc(re, im)).
const Known kKnown[] = {
    {1e-09,
     3e-07,
     {0x1.12dd93dedcb8cp-30, 0x1.9b6e474e25a64p-84},
     {0x1.421f5f463fb39p-22, -0x1.c33704a0fa6dfp-77}},
    {-0.0123,
     0.25,
     {-0x1.5fb35d4670ac5p-5, 0x1.236ceec141608p-61},
     {0x1.f47d41249e5b7p-3, -0x1.5f8b2587fe349p-57}},
    {0.7, -1.9, {-0x1.a6a997151c8e0p+0, -0x1.1f3b2b04f1a6cp-55}, {-0x1.e7d657cab538ap+0, -0x1.e33cd6a5358cfp-55}},
    {-3.0, 6.25, {-0x1.e685e6fd366edp-1, 0x1.5336fb6ed4d06p-55}, {-0x1.b108dbdb4c231p-10, 0x1.1c2578e3523a9p-64}},
    {0.0, 1.0, {-0x1.d6bafe095f2e9p-2, 0x1.23848cdb2ed0ep-57}, {0x1.aed548f090ceep-1, 0x1.06374f484e288p-59}},
    {1.0, 0.0, {0x1.b7e151628aed3p+0, -0x1.655023a9dfd8cp-54}, {0x0.0p+0, 0x0.0p+0}},
    {11.5, 40.0, {-0x1.012e4e12ac403p+16, -0x1.63dcb2037a251p-42}, {0x1.1f526b8d71260p+16, 0x1.b3b296087328fp-39}},
    {-36.0, 3.0, {-0x1.0000000000001p+0, -0x1.17e3a98d8eb72p-57}, {0x1.2de8ddbd274c9p-55, 0x1.7238f8864101bp-109}},
    {1e-30,
     2e-25,
     {0x1.4484bfeebc2a0p-100, -0x1.dee7a4ad1815fp-166},
     {0x1.ef2d0f5da7dd9p-83, 0x1.39dae6f76d884p-182}},
    {0.0,
     6.283185307179586,
     {-0x1.377ce858a5d48p-105, 0x1.8ac58c5ec675ap-162},
     {-0x1.1a62633145c07p-52, 0x1.f1976b7ed8fbfp-108}},
};

double distance(const PreciseComplex& a, DoubleDouble re, DoubleDouble im) {
    const double x = static_cast<double>(a.re - re);
    const double y = static_cast<double>(a.im - im);
    return std::sqrt(x * x + y * y);
}

}  // namespace

TEST(expm1_has_its_digits_and_knows_how_many) {
    for (const Known& k : kKnown) {
        const PreciseComplex found = expm1(PreciseComplex{k.re, k.im, 0.0});
        const double off = distance(found, k.value_re, k.value_im);
        const double size = std::exp(k.re) * std::fabs(k.im) + std::fabs(std::expm1(k.re));
        CHECK(off <= found.err + 0x1p-104 * size);
        CHECK(found.err <= 0x1p-92 * size + 1e-260);
    }
}

TEST(an_error_of_the_argument_moves_the_exponential) {
    const double shift = 0x1p-60;
    for (const Known& k : kKnown) {
        if (std::fabs(k.re) < 1e-3) continue;
        const PreciseComplex moved = expm1(PreciseComplex{dpcore::two_sum(k.re, shift), k.im, shift});
        CHECK(distance(moved, k.value_re, k.value_im) <= moved.err);
        CHECK(moved.err <= 1.1 * shift * std::exp(std::fmax(k.re, 0.0)));
    }
}

TEST(products_and_quotients_are_inverse) {
    for (const Known& a : kKnown)
        for (const Known& b : kKnown) {
            const PreciseComplex x = {a.value_re, a.value_im, 0.0};
            const PreciseComplex y = {b.value_re, b.value_im, 0.0};
            const PreciseComplex back = x * y / y;
            CHECK(distance(back, x.re, x.im) <= back.err);
            CHECK(back.err <= 0x1p-97 * x.size() + 1e-200);
        }
}

TEST(beyond_its_domain_it_knows_nothing) {
    CHECK(!(expm1(PreciseComplex{701.0, 0.0, 0.0}).err < 1e300));
    CHECK(!((PreciseComplex{1.0, 0.0, 0.0} / PreciseComplex{0.0, 0.0, 0.0}).err < 1e300));
    CHECK(!(expm1(PreciseComplex{NAN, 0.0, 0.0}).err < 1e300));
}
