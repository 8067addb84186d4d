#include "dpcore/hypergeometric.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "check.hpp"

using dpcore::Hypergeometric;

namespace {

__extension__ typedef __float128 Quad;
Quad choose(int n, int k) {
    Quad out = 1;
    for (int i = 0; i < k; ++i) out = out * (n - i) / (i + 1);
    return out;
}
Quad exact(const Hypergeometric& law, std::int64_t k) {
    const auto n = static_cast<int>(law.population);
    const auto c = static_cast<int>(law.marked);
    const auto d = static_cast<int>(law.drawn);
    return choose(c, static_cast<int>(k)) * choose(n - c, d - static_cast<int>(k)) / choose(n, d);
}

}  // namespace

TEST(whole_supports) {
    for (const Hypergeometric law :
         {Hypergeometric{300, 120, 150}, {64, 32, 32}, {200, 199, 100}, {128, 5, 127}}) {
        const std::int64_t count = law.highest() - law.lowest() + 1;
        std::vector<double> got(static_cast<std::size_t>(count), -1.0);
        hypergeometric_fill(law, law.lowest(), count, got.data());
        for (std::int64_t k = law.lowest(); k <= law.highest(); ++k) {
            const double value = got[static_cast<std::size_t>(k - law.lowest())];
            CHECK(std::fabs(static_cast<double>((value - exact(law, k)) / exact(law, k))) <= 2.3e-15);
        }
    }
}

TEST(a_part_of_the_support) {
    const Hypergeometric law{1000, 400, 300};
    std::vector<double> all(301);
    hypergeometric_fill(law, 0, 301, all.data());
    for (const std::int64_t first : {0, 60, 119, 200}) {
        std::vector<double> part(50);
        hypergeometric_fill(law, first, 50, part.data());
        for (std::size_t i = 0; i < 50; ++i) {
            const double whole = all[static_cast<std::size_t>(first) + i];
            CHECK(std::fabs(part[i] - whole) <= 4.6e-15 * whole + 5e-324);
        }
    }
}

TEST(windows_beyond_double) {
    const Hypergeometric law{1000000000, 500000000, 500000000};
    const dpcore::PmfWindow w = hypergeometric_window(law, 400000000, law.highest(), 700.0);
    // The ratio is 1/16 there: 700 / ln 16 = 252.5 steps.
    CHECK(w.first == 400000000 && w.value.size() >= 252 && w.value.size() <= 254);
    const dpcore::PmfWindow far = hypergeometric_window(law, 260000000, 270000000, 100.0);
    CHECK(far.first == 260000000 && far.value.front() >= 1.0 && far.value.front() < 2.0);
    CHECK(far.exponent < -1000000 && std::isinf(far.below_upper) && far.above_upper < 1e-40);
}

TEST(stepper_follows) {
    const Hypergeometric law{500, 200, 100};
    dpcore::HypergeometricStepper stepper(law, 10);
    while (!stepper.at_highest()) stepper.up();
    CHECK(stepper.k() == 100);
    while (!stepper.at_lowest()) stepper.down();
    CHECK(stepper.k() == 0);
    CHECK(std::fabs(stepper.log_pmf() / hypergeometric_log_pmf(law, 0).hi - 1) <= 2.3e-16);
    CHECK_THROWS(std::out_of_range, stepper.down());
}

TEST(bad_input_is_refused) {
    CHECK_THROWS(std::invalid_argument, dpcore::hypergeometric_log_pmf({10, 11, 5}, 0));
    CHECK_THROWS(std::invalid_argument, dpcore::hypergeometric_cdf({10, 5, -1}, 0));
    double out[2];
    CHECK_THROWS(std::invalid_argument, dpcore::hypergeometric_fill({10, 5, 5}, 5, 2, out));
    CHECK_THROWS(std::invalid_argument, dpcore::hypergeometric_window({10, 5, 5}, -1, 2, 10.0));
}
