#include "dpcore/count_delta.hpp"

#include <cmath>
#include <limits>

#include "../../csrc/src/binomial_ratio.hpp"
#include "check.hpp"
#include "dpcore/binomial.hpp"
#include "dpcore/count_calibration.hpp"
#include "dpcore/count_range.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/gaussian.hpp"
#include "dpcore/joint_delta.hpp"

using dpcore::count_delta;
using dpcore::Direction;
using dpcore::DoubleDouble;
using dpcore::detail::BinomialRatio;

namespace {

bool near(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance; }

}  // namespace

TEST(ratios_agree_with_the_log_pmf) {
    const double u = 0x1p-53;
    for (const double trials : {1e3, 1e5, 1e9, 1e12}) {
        for (const double p : {0.2, 0.5, 0.9}) {
            const double anchor = std::floor(trials * p * 1.001);
            const DoubleDouble q = dpcore::two_sum(1.0, -p);
            const DoubleDouble odds = (DoubleDouble(anchor) * q) / dpcore::two_prod(trials - anchor, p);
            const double far = 0.29 * std::fmin(anchor, trials - anchor);
            const double deviation = std::sqrt(trials * p * (1.0 - p));
            const BinomialRatio ratio(trials, anchor, dpcore::log(odds).hi, far);
            const auto n = static_cast<std::int64_t>(trials);
            const DoubleDouble base = dpcore::binomial_log_pmf(n, p, static_cast<std::int64_t>(anchor));
            for (const double step : {-8.0, -1.0, -0.01, 0.5, 3.0, 12.0}) {
                const double d = std::floor(step * deviation);
                if (std::fabs(d) > far || d == 0.0) continue;
                const DoubleDouble want =
                    dpcore::binomial_log_pmf(n, p, static_cast<std::int64_t>(anchor + d)) - base;
                const double got = ratio.log_ratio(d);
                // |slope d| + D of the guarantee; D >= 0 is what the logarithm has beside the slope.
                const double slope = std::fabs(dpcore::log(odds).hi * d);
                CHECK(near(got, static_cast<double>(want), (12.0 + 11.0 * (2.0 * slope + std::fabs(got))) * u));
            }
        }
    }
}

TEST(no_unknown_record_is_the_gaussian_mechanism) {
    CHECK(near(count_delta(0.5, 0, 0.3, 4.0, Direction::both).log_delta, dpcore::gaussian_log_delta(0.5, 4.0, 1.0),
               1e-12));
    CHECK(count_delta(0.5, 0, 0.3, 0.0, Direction::add).log_delta == 0.0);
    CHECK(count_delta(0.5, 100, 0.0, 0.0, Direction::remove).log_delta == 0.0);
}

TEST(two_groups_of_one_bias_are_one_group) {
    for (const double noise : {0.0, 3.0, 40.0}) {
        const double one = count_delta(0.1, 3000, 0.25, noise, Direction::add).log_delta;
        // 0.25 and its neighbour: the two-group form, but nearly the same law.
        const double two =
            dpcore::count_delta_two(0.1, 1000, 0.25, 2000, std::nextafter(0.25, 1.0), noise, Direction::add)
                .log_delta;
        CHECK(near(one, two, 1e-11));
    }
}

// Found by fuzzing: an internal error. One record in 2^1068 counts, and there is no noise to speak of: delta is 1
// less something of that size.
TEST(a_bias_below_the_normal_numbers) {
    const double least = std::numeric_limits<double>::denorm_min();
    const auto found = count_delta(1.53125, 71, least, least, Direction::both);
    CHECK(found.log_delta_upper() == 0.0);
    CHECK(found.log_delta > -1e-12);
    CHECK(dpcore::count_delta_upper(1.53125, 71, least, 7.14e-85, least) == 1.0);
}

TEST(bad_arguments_throw) {
    CHECK_THROWS(std::invalid_argument, count_delta(0.0, 10, 0.5, 1.0, Direction::both));
    CHECK_THROWS(std::invalid_argument, count_delta(NAN, 10, 0.5, 1.0, Direction::both));
    CHECK_THROWS(std::invalid_argument, count_delta(1.0, -1, 0.5, 1.0, Direction::both));
    CHECK_THROWS(std::invalid_argument, count_delta(1.0, 10, 1.5, 1.0, Direction::both));
    CHECK_THROWS(std::invalid_argument, count_delta(1.0, 10, 0.5, -1.0, Direction::both));
    CHECK_THROWS(std::invalid_argument, dpcore::count_delta_range(1.0, 10, 0.6, 0.5, 1.0, Direction::both));
    CHECK_THROWS(std::invalid_argument, dpcore::joint_delta(1.0, 10, 0.5, 1.0, 0.0, Direction::both));
}

TEST(a_stop_request_is_obeyed) {
    const dpcore::StopCheck stop{[](void*) { return true; }, nullptr};
    CHECK_THROWS(dpcore::Interrupted,
                 dpcore::count_delta_range(0.1, 1000, 0.2, 0.4, 1.0, Direction::both, 2000, stop));
}

TEST(joint_bounds_bracket_the_table_and_close) {
    // tests/data/joint_delta.json, the row of 50 unknown records
    const dpcore::LogBounds bounds = dpcore::joint_delta(1.0, 50, 0.5, 3.011, 2.0, Direction::add);
    const double exact = std::log(2.7964641860044173e-06);
    CHECK(bounds.log_lower <= exact + 1e-12 && exact - 1e-12 <= bounds.log_upper);
    CHECK(bounds.log_upper - bounds.log_lower < 1e-10);
}
