#include "dpcore/spectral.hpp"

#include <cmath>

#include "check.hpp"
#include "dpcore/buckets.hpp"
#include "dpcore/fourier.hpp"
#include "dpcore/privacy_loss.hpp"

using namespace dpcore;

namespace {

// A fixed sequence of numbers in [0, 1) (splitmix64).
struct Sequence {
    std::uint64_t state = 7;
    double next() {
        std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
};

}  // namespace

TEST(certified_functions_hold_their_error) {
    // long double carries 64 bits: enough to see a violation of a bound of a few ulp of double.
    Sequence s;
    for (int i = 0; i < 20000; ++i) {
        const double scale = std::ldexp(1.0, static_cast<int>(s.next() * 60.0) - 55);
        const Complex z = {(s.next() - 0.5) * scale, (s.next() - 0.5) * scale};
        const Certified e = certified_expm1(z, 0.0);
        const long double x = z.re, y = z.im;
        const long double half = std::sin(y / 2);
        const long double re = std::expm1(x) * std::cos(y) - 2 * half * half;
        const long double im = std::exp(x) * std::sin(y);
        CHECK(std::hypot(re - e.value.re, im - e.value.im) <= static_cast<long double>(e.err));
        const Certified l = certified_log1p({z, 0.0});
        const long double log_re = std::log1p(x * (2 + x) + y * y) / 2;
        const long double log_im = std::atan2(y, 1 + x);
        if (std::isfinite(l.err))
            CHECK(std::hypot(log_re - l.value.re, log_im - l.value.im) <= static_cast<long double>(l.err));
    }
}

TEST(envelopes_bound_the_function) {
    const LawPtr laws[] = {gaussian_law(3.0, 1.0),
                           laplace_law(0.4),
                           two_point_law(0.4, 0.0),
                           subsampled_gaussian_law(0.8, 0.02, true),
                           subsampled_gaussian_law(1.5, 0.1, false),
                           discrete_gaussian_law(2.0, 1.0)};
    for (const LawPtr& law : laws) {
        const bool lattice = law->lattice().step > 0.0;
        const double end = lattice ? 3.14159 / law->lattice().step : 60.0;
        for (const double c : {0.3, 4.0, -0.4}) {
            const auto line = law->line(c, end, 1.0, lattice, {});
            for (double from = 0.01; from < end; from *= 1.7) {
                const double bound = line->log_envelope(from);
                for (double t = from; t < end; t += end / 97.0) {
                    const Certified v = line->value(t);
                    if (std::isfinite(v.err)) CHECK(v.value.re - v.err <= bound);
                }
            }
        }
    }
}

TEST(cost_does_not_grow_with_the_copies) {
    double widths = 0.0;
    for (double copies = 1e2; copies <= 1e9; copies *= 10.0) {
        const Composition c = Composition::of({{laplace_law(0.5 / std::sqrt(copies) * 4.0), copies}});
        const LogBounds b = spectral_delta(c, 8.0);
        if (copies >= 1e4) CHECK(b.log_upper - b.log_lower < 1e-9 * std::max(1.0, copies * 1e-6));
        widths += b.log_upper - b.log_lower;
    }
    CHECK(std::isfinite(widths));
}

TEST(transform_matches_direct_sums) {
    Sequence s;
    for (std::size_t n = 1; n <= 256; n *= 2) {
        std::vector<double> re(n), im(n);
        for (std::size_t i = 0; i < n; ++i) re[i] = s.next() - 0.5, im[i] = s.next() - 0.5;
        std::vector<double> a = re, b = im;
        fourier_forward(a, b);
        long double error = 0, size = 0;
        for (std::size_t j = 0; j < n; ++j) {
            long double x = 0, y = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const long double angle = 2 * 3.14159265358979323846264338L * static_cast<long double>(i * j % n) /
                                          static_cast<long double>(n);
                x += re[i] * std::cos(angle) + im[i] * std::sin(angle);
                y += im[i] * std::cos(angle) - re[i] * std::sin(angle);
            }
            error += (x - a[j]) * (x - a[j]) + (y - b[j]) * (y - b[j]);
            size += x * x + y * y;
        }
        CHECK(error <= size * static_cast<long double>(transform_error(n) * transform_error(n)));
        fourier_inverse(a, b);
        for (std::size_t i = 0; i < n; ++i) CHECK(std::fabs(a[i] - re[i]) < 1e-14);
    }
    std::vector<double> odd(3), other(3);
    CHECK_THROWS(std::invalid_argument, fourier_forward(odd, other));
}

// The second entry of the transform of a unit entry is one twiddle factor: rounded once, so within half a unit of
// the last place of either part.
TEST(twiddle_factors_are_rounded_once) {
    for (const std::size_t n : {2, 4, 8, 16, 128, 1024, 2048})
        for (std::size_t j = 0; j < n / 2; ++j) {
            std::vector<double> re(n), im(n);
            re[j] = 1.0;
            fourier_forward(re, im);
            const long double angle =
                2 * 3.14159265358979323846264338L * static_cast<long double>(j) / static_cast<long double>(n);
            const auto once = [](double found, long double exact) {
                const double size = std::fabs(found);
                const double unit = std::nextafter(size, 2.0) - size;
                return std::fabs(static_cast<long double>(found) - exact) <= 0.51L * unit + 1e-19L;
            };
            CHECK(once(re[1], std::cos(angle)));
            CHECK(once(im[1], -std::sin(angle)));
        }
}

TEST(engines_bracket_each_other) {
    const Composition c = Composition::of({{gaussian_law(20.0, 1.0), 100.0}, {laplace_law(0.1), 20.0}});
    for (const double eps : {0.0, 0.5, 2.0, 6.0}) {
        const LogBounds a = spectral_delta(c, eps);
        const LogBounds b = bucket_delta(c, eps, {});
        CHECK(a.log_lower <= b.log_upper);
        CHECK(b.log_lower <= a.log_upper);
        CHECK(b.log_upper - b.log_lower < 1e-4);
    }
    BucketQuery fine;
    fine.step = 1e-9;
    CHECK_THROWS(std::length_error, bucket_delta(c, 1.0, fine));
}

TEST(losses_are_values) {
    const PrivacyLoss a(Mechanism::laplace(0.1));
    const PrivacyLoss b = a.times(10.0).compose(PrivacyLoss(Mechanism::gaussian(5.0, 1.0)));
    const PrivacyLoss copy = b;
    CHECK(copy.delta(0.5, Engine::automatic).upper == b.delta(0.5, Engine::automatic).upper);
    CHECK(a.entries().size() == 1 && a.entries()[0].copies == 1.0);
    CHECK_THROWS(std::invalid_argument, a.times(1e300));
}

TEST(envelope_of_a_sampled_step_is_above_it) {
    // What |M| is below 1 is some ten thousand roundings of 1 at the least of these; the copies multiply it.
    for (const bool removal : {false, true})
        for (const double c : {0.0, 0.5}) {
            const dpcore::LawPtr law =
                dpcore::subsampled_gaussian_law(0.28626232036158, 0.0023068831931945884, removal);
            const double reach = 0.81678499315494602;
            const auto line = law->line(c, reach, 207447.0, false, {});
            for (double from = 9.2546346728420163e-05; from < reach; from *= 1.37) {
                const double most = line->log_envelope(from);
                for (double t = from; t < reach; t *= 2.1) {
                    const dpcore::Certified v = line->value(t);
                    CHECK(v.value.re - v.err <= most);
                }
            }
        }
}
