#include "dpcore/factorial.hpp"

#include <cmath>

#include "check.hpp"
#include "dpcore/double_double_functions.hpp"

using dpcore::deviance;
using dpcore::DoubleDouble;
using dpcore::log_factorial;
using dpcore::stirling_error;

namespace {
double size(DoubleDouble x) { return std::fabs(x.hi + x.lo); }
}  // namespace

TEST(differences_are_logarithms) {
    // Across the end of the table at 64, and where a double holds ln n! to 1e-2 only.
    for (const std::int64_t n : {2L, 10L, 63L, 64L, 65L, 1000L, 1000000000000L, 9007199254740992L}) {
        const DoubleDouble want = log(DoubleDouble(static_cast<double>(n)));
        const DoubleDouble got = log_factorial(n) - log_factorial(n - 1);
        CHECK(size(got - want) <= 0x1p-98 * log_factorial(n).hi + 0x1p-100);
    }
}

TEST(stirling_error_is_the_rest) {
    CHECK(stirling_error(1).hi == 0x1.4c071bdce8d69p-4 ||
          std::fabs(stirling_error(1).hi - 0.08106146679532726) < 1e-17);
    // The series keeps to its first two terms far out.
    const double n = 1e9;
    CHECK(std::fabs(stirling_error(1000000000).hi - (1 / (12 * n) - 1 / (360 * n * n * n))) <= 1e-25);
}

TEST(deviance_at_its_edges) {
    CHECK(deviance(0, DoubleDouble(2.5)).hi == 2.5);
    CHECK(deviance(7, DoubleDouble(7.0)).hi == 0.0);
    // Both sides of the series' end at |x - M| = 0.1 (x + M), by the other formula.
    for (const double mean : {90.0, 90.5, 121.5, 122.5, 123.0, 82.0, 81.5}) {
        const DoubleDouble x = 100.0;
        const DoubleDouble want = log(x / DoubleDouble(mean)) * x + DoubleDouble(mean) - x;
        CHECK(size(deviance(100, DoubleDouble(mean)) - want) <= 0x1p-93);
    }
}
