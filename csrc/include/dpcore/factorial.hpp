// Logarithms of factorials that keep their digits, and the two terms binomial probabilities are made of.
//
// Method:    below 64 a table (made with 60 digits by csrc/tools/make_tables.py); from 64 on Stirling's series
//            with eight terms, S(n) = sum_j B(2j) / (2j (2j - 1) n^(2j - 1)); the remainder is smaller than the
//            ninth term and of its sign (Whittaker-Watson 12.33), so below 3.6e-32 at n = 64. Deviance: D(x, M)
//            = x ln(x/M) + M - x; where |x - M| <= 0.1 (x + M) by the series (x - M)^2/(x + M) + 2 x sum_{j>=1}
//            v^(2j+1)/(2j+1), v = (x - M)/(x + M), which has no cancellation.
// Domain:    0 <= n <= 2^53; deviance: x >= 0 an integer <= 2^53, M > 0 in [2^-400, 2^54].
// Guarantee: absolute error of the log-factorial at most 2^-98 of its value (so below 1e-15 for every n, where
//            differences of doubles would be good to 1e-8 only); stirling_error 1e-31 absolute; deviance 2^-95
//            relative (for M exact).
// Evidence:  tests/cpp/test_factorial.cpp, tests/test_distributions.py.
// Reference: Loader 2000, "Fast and accurate computation of binomial probabilities" (stirlerr, bd0).
#pragma once

#include <cstdint>

#include "dpcore/double_double.hpp"

namespace dpcore {

// ln n!
DoubleDouble log_factorial(std::int64_t n);

// ln n! - [(n + 1/2) ln n - n + (1/2) ln(2 pi)], n >= 1.
DoubleDouble stirling_error(std::int64_t n);

// x ln(x/mean) + mean - x >= 0; mean at x = 0.
DoubleDouble deviance(std::int64_t x, DoubleDouble mean);

// The same for any x >= 0 where difference = x - mean is known to more digits than x and mean tell.
DoubleDouble deviance(DoubleDouble x, DoubleDouble mean, DoubleDouble difference);

// The sum of stirling_error over n, and the product of 2 pi n, over some counts; a count of 0 has neither
// (0! = 1 is its own Stirling formula). Binomial coefficients and 2x2 tables are differences of two such sums:
// ln n! = n ln n - n + error + (1/2) ln(product).
struct StirlingSum {
    DoubleDouble error;
    DoubleDouble product = 1.0;
    void add(std::int64_t n);
};

}  // namespace dpcore
