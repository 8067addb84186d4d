#include "dpcore/double_double.hpp"

#include <cstdint>

#include "check.hpp"

using dpcore::DoubleDouble;
using dpcore::two_prod;
using dpcore::two_sum;

namespace {

// A fixed sequence of awkward doubles (splitmix64), magnitudes 2^-30 to 2^30.
struct Sequence {
    std::uint64_t state = 1;
    double next() {
        std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        z ^= z >> 31;
        const double fraction = static_cast<double>(z >> 11) * 0x1p-53 + 1.0;
        return std::ldexp((z & 1) != 0 ? fraction : -fraction, static_cast<int>((z >> 1) % 61) - 30);
    }
};

// Relative difference in __float128, which holds 113 bits: the reference for 106-bit arithmetic.
__extension__ typedef __float128 Quad;
Quad quad(DoubleDouble x) { return static_cast<Quad>(x.hi) + x.lo; }
double relative(Quad got, Quad want) {
    const Quad d = got - want;
    return static_cast<double>((d < 0 ? -d : d) / (want < 0 ? -want : want));
}

}  // namespace

TEST(transformations_are_exact) {
    Sequence s;
    for (int i = 0; i < 20000; ++i) {
        const double a = s.next();
        const double b = s.next();
        CHECK(quad(two_sum(a, b)) == static_cast<Quad>(a) + b);
        CHECK(quad(two_prod(a, b)) == static_cast<Quad>(a) * b);
    }
}

TEST(arithmetic_keeps_its_bound) {
    Sequence s;
    for (int i = 0; i < 20000; ++i) {
        const DoubleDouble a = two_sum(s.next(), s.next() * 0x1p-60);
        const DoubleDouble b = two_sum(s.next(), s.next() * 0x1p-60);
        CHECK(relative(quad(a * b), quad(a) * quad(b)) <= 0x1p-101);
        CHECK(relative(quad(a / b), quad(a) / quad(b)) <= 0x1p-101);
        CHECK(relative(quad(a + b), quad(a) + quad(b)) <= 0x1p-101);
        CHECK(relative(quad(a - b), quad(a) - quad(b)) <= 0x1p-101);
    }
}
