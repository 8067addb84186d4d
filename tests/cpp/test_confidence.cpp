#include "dpcore/confidence.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "check.hpp"

using dpcore::LaplaceDifference;

namespace {

bool near(double got, double want, double relative) { return std::abs(got / want - 1) <= relative; }

}  // namespace

TEST(closed_forms_of_small_dimensions) {
    // P(T <= x) = 1 - e^-x for k = 1, 1 - e^-x (1 + x/2) for k = 2.
    const LaplaceDifference one(1, 100);
    const LaplaceDifference two(2, 100);
    for (double x = 0.25; x < 40; x *= 1.25) {
        CHECK(near(one.cdf(x), -std::expm1(-x), 1e-15));
        CHECK(near(two.cdf(x), -std::expm1(-x) - std::exp(-x) * x / 2, 1e-14));
        CHECK(near(two.pdf(x), std::exp(-x) * (1 + x) / 2, 1e-14));
    }
}

TEST(the_table_may_be_longer_than_needed) {
    const LaplaceDifference small(50000, 3);
    const LaplaceDifference large(50000, 1e5);
    CHECK(small.cdf(3) == large.cdf(3));
    CHECK(large.cdf(large.certain()) == 1.0);
    CHECK(large.cdf(0) == 0.0);
    CHECK(std::isnan(large.cdf(std::numeric_limits<double>::quiet_NaN())));
}

TEST(dimension_is_checked) {
    CHECK_THROWS(std::invalid_argument, LaplaceDifference(0, 1));
    CHECK_THROWS(std::invalid_argument, LaplaceDifference(LaplaceDifference::kMaxDimension + 1, 1));
}

TEST(exact_confidence_and_its_inverses) {
    CHECK(near(dpcore::exact_laplace_confidence(0.6, 1.0), std::exp(-0.5) * std::sinh(0.3), 1e-15));
    CHECK(dpcore::exact_laplace_confidence(1.0, 1.0) == 1.0);
    CHECK(dpcore::exact_laplace_epsilon_at(0.9, 1.0) == 1.0);
    CHECK(dpcore::exact_laplace_epsilon0_for(1.0, 0.9) == 1.0);
    CHECK(near(dpcore::exact_laplace_epsilon_at(dpcore::exact_laplace_confidence(0.6, 1.0), 1.0), 0.6, 1e-15));
    CHECK(std::isfinite(dpcore::exact_laplace_epsilon_at(0.4, 1e6)));
}

TEST(gaussian_confidence_is_continuous_where_its_method_changes) {
    const double below = dpcore::gaussian_confidence(std::nextafter(1.0, 0.0), 0.9, 1.0);
    const double above = dpcore::gaussian_confidence(1.0, 0.9, 1.0);
    CHECK(near(below, above, 1e-14));
}
