#include "dpcore/gaussian.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "dpcore/normal.hpp"

using namespace dpcore;

TEST(delta_reference_values) {
    // From the definition at 60 digits.
    CHECK(std::fabs(gaussian_delta(1.0, 1.0, 1.0) / 0.1269367375066439458 - 1) < 1e-15);
    CHECK(std::fabs(gaussian_delta(1.0, 37.0, 1.0) / 6.88478515205739194e-303 - 1) < 1e-14);
    CHECK(std::fabs(gaussian_delta(30.0, 0.5, 1.0) / 9.662106682975180240e-46 - 1) < 1e-14);
    CHECK(gaussian_delta(1.0, 3.0, 2.0) == gaussian_delta(1.0, 1.5, 1.0));
}

TEST(fill_equals_scalar_for_every_step) {
    std::vector<double> epsilon(1000);
    std::vector<double> sigma(1000);
    std::vector<double> out(1000);
    for (std::size_t i = 0; i < 1000; ++i) {
        epsilon[i] = 0.01 * static_cast<double>(i + 1);
        sigma[i] = 50.0 / static_cast<double>(i + 1);
    }
    for (const double s : {1.0, 0.7}) {
        gaussian_delta_fill(epsilon.data(), 1, sigma.data(), 1, &s, 0, out.data(), 1000);
        for (std::size_t i = 0; i < 1000; ++i) CHECK(out[i] == gaussian_delta(epsilon[i], sigma[i], s));
        gaussian_delta_fill(epsilon.data(), 0, sigma.data(), 1, &s, 0, out.data(), 1000);
        for (std::size_t i = 0; i < 1000; ++i) CHECK(out[i] == gaussian_delta(epsilon[0], sigma[i], s));
    }
}

TEST(sigma_is_certified_and_tight) {
    for (const double epsilon : {1e-4, 0.01, 1.0, 30.0}) {
        for (const double delta : {1e-300, 1e-30, 1e-6, 0.1, 0.5, 0.9, 0.999999}) {
            const double sigma = gaussian_sigma(epsilon, delta, 2.0, 3.0);
            CHECK(gaussian_delta_certified(epsilon, sigma, 2.0, 3.0, delta));
            double lower = sigma;
            for (int i = 0; i < 4; ++i) lower = std::nextafter(lower, 0.0);
            CHECK(!gaussian_delta_certified(epsilon, lower, 2.0, 3.0, delta));
        }
    }
    CHECK(std::isinf(gaussian_sigma(1e-300, 1e-300, 1e300, 1.0)));
}

TEST(epsilon_inverts_delta) {
    const double epsilon = gaussian_epsilon(4.0, 1e-6, 1.0);
    CHECK(gaussian_delta_certified(epsilon, 4.0, 1.0, 1.0, 1e-6));
    CHECK(!gaussian_delta_certified(epsilon * (1 - 1e-12), 4.0, 1.0, 1.0, 1e-6));
    CHECK(gaussian_epsilon(1000.0, 0.01, 1.0) == 0.0);
}

TEST(arguments_outside_their_domain_are_refused) {
    for (const double bad : {std::nan(""), -1.0, 0.0, HUGE_VAL}) {
        CHECK_THROWS(std::invalid_argument, gaussian_delta(bad, 1.0, 1.0));
        CHECK_THROWS(std::invalid_argument, gaussian_delta(1.0, bad, 1.0));
        CHECK_THROWS(std::invalid_argument, gaussian_delta(1.0, 1.0, bad));
        CHECK_THROWS(std::invalid_argument, gaussian_log_delta(bad, 1.0, 1.0));
        for (auto* sigma : {gaussian_sigma, gaussian_sigma_probabilistic, gaussian_sigma_classical}) {
            CHECK_THROWS(std::invalid_argument, sigma(bad, 1e-6, 1.0, 1.0));
            CHECK_THROWS(std::invalid_argument, sigma(1.0, bad, 1.0, 1.0));
            CHECK_THROWS(std::invalid_argument, sigma(1.0, 1e-6, bad, 1.0));
            CHECK_THROWS(std::invalid_argument, sigma(1.0, 1e-6, 1.0, bad));
        }
        CHECK_THROWS(std::invalid_argument, gaussian_epsilon(bad, 1e-6, 1.0));
        CHECK_THROWS(std::invalid_argument, gaussian_epsilon(1.0, bad, 1.0));
        CHECK_THROWS(std::invalid_argument, gaussian_epsilon(1.0, 1e-6, bad));
    }
    CHECK_THROWS(std::invalid_argument, gaussian_sigma(1.0, 1.0, 1.0, 1.0));
}
