// Sums along shifted paths against plain sums over outputs in long double, fine enough for the largest t.
#include "../../csrc/src/far_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"

using dpcore::detail::FarStep;
using dpcore::detail::SubsampledStep;
using dpcore::detail::Window;

namespace {

struct Reference {
    long double re, im;
};

// 1 - Phi(x), by the C library.
long double tail(long double x) { return 0.5L * std::erfc(x * 0.7071067811865475244008443621L); }

long double weight(const Window& w, long double x) {
    long double out = 1.0L;
    if (!w.above_open()) out = tail(std::sinh((x - w.high) / w.width));
    if (!w.below_open()) {
        const long double low = std::sinh((x - w.low) / w.width);
        // From the side on which both are tails.
        if (w.above_open() || x < 0.5L * (w.low + w.high))
            out = tail(-low) - (w.above_open() ? 0.0L : tail(-std::sinh((x - w.high) / w.width)));
        else
            out -= tail(low);
    }
    return out;
}

// M(c + it)/M(c) exp(-it drift) less 1, by the trapezoid rule over real outputs, `cells` of them.
Reference plain(const SubsampledStep& m, const Window& window, double c, double t, int cells) {
    const long double s2 = static_cast<long double>(m.sigma) * m.sigma;
    const long double p = m.power(c);
    const long double left = static_cast<long double>(m.lowest(m.power(c), 11.0));
    const long double right = window.above_open() ? static_cast<long double>(m.highest(m.power(c), 11.0))
                                                  : static_cast<long double>(window.high + 6.0 * window.width);
    const long double h = (right - left) / cells;
    long double mass = 0.0L, re = 0.0L, im = 0.0L, top = -1e300L;
    const long double least = std::log1p(-m.q);  // the drift, as it is used
    // Twice: the largest exponent first, in steps of 16.
    for (int pass = 0; pass < 2; ++pass)
        for (int i = 0; i <= cells; i += pass == 0 ? 16 : 1) {
            const long double x = left + h * i;
            const long double y = (x - 0.5L) / s2;
            const long double lambda = std::log1p(static_cast<long double>(m.q) * std::expm1(y));
            const long double exponent = p * lambda - x * x / (2.0L * s2);
            if (pass == 0) {
                if (weight(window, x) > 1e-30L) top = std::max(top, exponent);
                continue;
            }
            const long double w = std::exp(exponent - top) * weight(window, x);
            mass += w;
            const long double swing = std::sin(0.5L * t * (lambda - least));
            re -= 2.0L * w * swing * swing;
            im += w * std::sin(t * (lambda - least)) * (m.removal ? 1.0L : -1.0L);
        }
    return {re / mass, im / mass};
}

struct Case {
    double sigma, q;
    bool removal;
    double c, spacing;
    int cells;
    Window window = {};
    double most = 2e-10;  // error that is allowed
};

void compare(const Case& k) {
    const SubsampledStep m = {k.sigma, k.q, k.removal};
    FarStep far(m, k.window, k.c, k.spacing, 256.0 * k.spacing, 5.0, k.window.open(), {});
    CHECK(far.known());
    // Blocks forwards, from a place that is no multiple of a block, and back again within an octave.
    for (const double first : {256.0, 300.0, 3000.0, 3256.0, 3001.0, 256.0}) {
        const double t0 = first * k.spacing;
        const double bound = far.bound(t0, {});
        std::vector<double> re(256), im(256);
        bool wanted[FarStep::kStrides];
        for (std::size_t i = 0; i < FarStep::kStrides; ++i) wanted[i] = i != 7;
        far.values(re.data(), im.data(), wanted);
        CHECK(re[7 * 16] == -1.0 && im[8 * 16 - 1] == 0.0);
        for (const int j : {0, 37, 255}) {
            const double t = t0 + j * k.spacing;
            const double err = far.err() + t * far.slope();
            const Reference want = plain(m, k.window, k.c, t, k.cells);
            const double size = static_cast<double>(std::hypot(1.0L + want.re, want.im));
            const auto at = static_cast<std::size_t>(j);
            // The reference is good to some roundings of long double of what it is less than 1 by.
            CHECK(static_cast<double>(std::hypot(re[at] - want.re, im[at] - want.im)) <=
                  err + 1e-17 * std::min(1.0, 1e16 * k.most));
            CHECK(err < k.most);
            CHECK(size <= bound + 1e-17);
        }
    }
}

}  // namespace

TEST(values_along_shifted_paths) {
    const Case cases[] = {
        {1.0, 0.01, true, 3.0, 0.5, 10000},     {1.0, 0.01, false, 3.0, 0.5, 10000},
        {4.0, 1e-4, true, 0.7, 3.0, 10000},     {4.0, 1e-4, false, 30.0, 3.0, 10000},
        {0.5, 0.001, true, 8.0, 0.1, 60000},    {0.5, 0.001, false, 8.0, 0.1, 20000},
        {0.3, 0.2, true, 1.0, 0.25, 80000},     {0.3, 0.2, false, 0.5, 0.25, 20000},
        {2.0, 0.5, true, 12.0, 1.0, 20000},     {2.0, 0.999, false, 2.0, 1.0, 20000},
        {30.0, 0.05, true, 200.0, 16.0, 20000}, {30.0, 0.05, false, 200.0, 16.0, 20000},
    };
    for (const Case& k : cases) compare(k);
}

TEST(losses_that_are_nearly_one) {
    // Added records of little noise at rates next to 1: all of Lambda is log(1 - q) but for little, and
    // polynomials are long.
    const Case cases[] = {
        {0.05, 0.99286168447023304, false, 0.0027669233123993474, 0.021321028470993042, 20000},
        {0.05, 0.9749181173940461, false, 0.53864070971552092, 0.34500598907470703, 20000},
        {0.05, 0.8783434716269175, false, 0.0042615505082187703, 0.029534697532653809, 20000},
    };
    for (const Case& k : cases) compare(k);
}

TEST(rare_samples) {
    // Nearly 1: what is less than 1 has errors of its own size, so that 10^5 copies and more are known.
    const Case cases[] = {
        {21.14, 9.735e-8, false, 9.7, 1.67, 10000, {}, 2e-16},
        {32.45, 1.823e-9, true, 20.0, 3.4, 10000, {}, 4e-17},
        {1.0, 1e-6, true, 3.0, 0.5, 20000, {}, 2e-15},
        {0.5, 1e-7, false, 8.0, 0.1, 20000, {}, 2e-16},
    };
    for (const Case& k : cases) compare(k);
}

TEST(values_with_windows) {
    const double inf = std::numeric_limits<double>::infinity();
    const Case cases[] = {
        // Below a cut, far from the bulk and within it; between two; above one.
        {0.5, 1e-4, true, 300.0, 40.0, 160000, {-inf, 1.6, 0.12}},
        {1.0, 0.01, true, 20.0, 1.0, 20000, {-inf, 2.5, 0.3}},
        {1.0, 0.01, false, 3.0, 0.5, 20000, {-inf, 0.3, 0.4}},
        {0.6, 0.01, true, 8.0, 0.2, 40000, {0.8, 1.5, 0.1}},
        {2.0, 0.05, false, 10.0, 0.5, 20000, {-1.0, 0.2, 0.8}},
        {1.0, 0.02, true, 4.0, 0.1, 40000, {2.0, inf, 0.3}},
    };
    for (const Case& k : cases) compare(k);
}
