// The normal tail at complex arguments against a path of integration in long double: Q(x + iy) = Q(x) - i times
// the integral of phi(x + is) from 0 to y, by the midpoint rule of Gauss with many panels.
#include "../../csrc/src/complex_normal.hpp"

#include <cmath>
#include <complex>

#include "check.hpp"

namespace {

using Wide = std::complex<long double>;

Wide reference(long double x, long double y) {
    const long double root = 0.7071067811865475244008443621L;
    // Gauss's rule of five points on each of the panels.
    const long double at[] = {0.0L, 0.5384693101056830910363144207L, 0.9061798459386639927976268783L};
    const long double weight[] = {0.5688888888888888888888888889L, 0.4786286704993664680412915148L,
                                  0.2369268850561890875142640407L};
    constexpr int kPanels = 400;
    const long double half = 0.5L * y / kPanels;
    Wide sum = 0.0L;
    const auto density = [&](long double s) {  // phi(x + is)/phi(x)
        return std::exp(Wide(0.5L * s * s, -x * s));
    };
    for (int i = 0; i < kPanels; ++i) {
        const long double middle = (2.0L * i + 1.0L) * half;
        sum += weight[0] * density(middle);
        for (int j = 1; j < 3; ++j)
            sum += weight[j] * (density(middle - at[j] * half) + density(middle + at[j] * half));
    }
    const long double normal = std::exp(-0.5L * x * x) * 0.3989422804014326779399460599L;
    return 0.5L * std::erfc(x * root) - Wide(0.0L, 1.0L) * normal * half * sum;
}

}  // namespace

TEST(tails_in_the_strip_of_windows) {
    for (const double alpha : {-0.26, -0.1, 0.0, 0.02, 0.15, 0.2617}) {
        for (double u = -3.2; u <= 3.2; u += 0.05) {
            const double re = std::sinh(u) * std::cos(alpha);
            const double im = std::cosh(u) * std::sin(alpha);
            const dpcore::detail::ScaledComplex found = dpcore::detail::complex_normal_tail({re, im});
            const Wide want = reference(re, im);
            const Wide value =
                std::exp(static_cast<long double>(found.log_scale)) * Wide(found.value.re, found.value.im);
            CHECK(std::abs(value - want) <= (found.err + 1e-17L) * std::abs(want));
            CHECK(found.err < 1e-12);
        }
    }
}

TEST(tails_beyond_the_range_of_double) {
    // |Q(w)| is e^{-Re(w^2)/2}/(|w| sqrt(2 pi)) but for a share of 1/|w|^2.
    const dpcore::detail::ScaledComplex far = dpcore::detail::complex_normal_tail({400.0, 90.0});
    const double size = std::hypot(far.value.re, far.value.im);
    const double about = 1.0 / (std::hypot(400.0, 90.0) * 2.5066282746310002);
    CHECK(std::fabs(far.log_scale + 0.5 * (400.0 * 400.0 - 90.0 * 90.0)) < 1e-9);
    CHECK(std::fabs(size / about - 1.0) < 1e-4);
}
