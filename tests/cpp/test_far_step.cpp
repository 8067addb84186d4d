// Sums along shifted paths against plain sums over outputs in long double, fine enough for the largest t.
#include "../../csrc/src/far_step.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.hpp"

using dpcore::detail::FarStep;
using dpcore::detail::SubsampledStep;

namespace {

struct Reference {
    long double re, im;
};

// M(c + it)/M(c) by the trapezoid rule over real outputs, `cells` of them.
Reference plain(const SubsampledStep& m, double c, double t, int cells) {
    const long double s2 = static_cast<long double>(m.sigma) * m.sigma;
    const long double p = m.power(c);
    const long double left = static_cast<long double>(m.lowest(m.power(c), 11.0));
    const long double right = static_cast<long double>(m.highest(m.power(c), 11.0));
    const long double h = (right - left) / cells;
    long double mass = 0.0L, re = 0.0L, im = 0.0L, top = -1e300L;
    // Twice: the largest exponent first, in steps of 16.
    for (int pass = 0; pass < 2; ++pass)
        for (int i = 0; i <= cells; i += pass == 0 ? 16 : 1) {
            const long double x = left + h * i;
            const long double y = (x - 0.5L) / s2;
            const long double lambda = std::log1p(static_cast<long double>(m.q) * std::expm1(y));
            const long double exponent = p * lambda - x * x / (2.0L * s2);
            if (pass == 0) {
                top = std::max(top, exponent);
                continue;
            }
            const long double w = std::exp(exponent - top);
            mass += w;
            re += w * std::cos(t * lambda);
            im += w * std::sin(t * lambda) * (m.removal ? 1.0L : -1.0L);
        }
    return {re / mass, im / mass};
}

}  // namespace

TEST(values_along_shifted_paths) {
    struct Case {
        double sigma, q;
        bool removal;
        double c, spacing;
        int cells;
    };
    const Case cases[] = {
        {1.0, 0.01, true, 3.0, 0.5, 40000},     {1.0, 0.01, false, 3.0, 0.5, 40000},
        {4.0, 1e-4, true, 0.7, 3.0, 40000},     {4.0, 1e-4, false, 30.0, 3.0, 40000},
        {0.5, 0.001, true, 8.0, 0.1, 400000},   {0.5, 0.001, false, 8.0, 0.1, 40000},
        {0.3, 0.2, true, 1.0, 0.25, 400000},    {0.3, 0.2, false, 0.5, 0.25, 40000},
        {2.0, 0.5, true, 12.0, 1.0, 40000},     {2.0, 0.999, false, 2.0, 1.0, 40000},
        {30.0, 0.05, true, 200.0, 16.0, 40000}, {30.0, 0.05, false, 200.0, 16.0, 40000},
    };
    for (const Case& k : cases) {
        const SubsampledStep m = {k.sigma, k.q, k.removal};
        FarStep far(m, {}, k.c, k.spacing, 256.0 * k.spacing, 5.0, true, {});
        CHECK(far.known());
        for (const double first : {0.0, 256.0, 300.0, 1000.0, 4096.0}) {
            const double t0 = first * k.spacing;
            const double bound = far.bound(t0, {});
            std::vector<double> re(256), im(256);
            bool wanted[FarStep::kStrides];
            for (std::size_t i = 0; i < FarStep::kStrides; ++i) wanted[i] = i != 7;
            far.values(re.data(), im.data(), wanted);
            CHECK(re[7 * 16] == 0.0 && im[8 * 16 - 1] == 0.0);
            for (const int j : {0, 1, 15, 16, 37, 255}) {
                const double t = t0 + j * k.spacing;
                const double err = far.err() + t * far.slope();
                const Reference want = plain(m, k.c, t, k.cells);
                const auto at = static_cast<std::size_t>(j);
                const double off = static_cast<double>(std::hypot(re[at] - want.re, im[at] - want.im));
                if (std::getenv("SHOW") != nullptr)
                    std::printf("s=%g q=%g %d c=%g t=%g: |M|=%.3e off=%.2e err=%.2e bound=%.3e terms=%g\n",
                                k.sigma, k.q, k.removal, k.c, t, static_cast<double>(std::hypot(want.re, want.im)),
                                off, err, bound, far.terms());
                CHECK(off <= err + 1e-17);
                CHECK(err < 3e-11);
                CHECK(static_cast<double>(std::hypot(want.re, want.im)) <= bound + 1e-17);
            }
        }
    }
}
