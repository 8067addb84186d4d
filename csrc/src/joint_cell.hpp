// What one cell of the first output adds to the delta of a joint release, at one value of the second.
//
// Notation:  that of joint_law.hpp and dpcore/joint_delta.hpp: in cell j, y from x_j to x_{j+1}, A and B are the
//            sums over the points up to x_j and above it that are tilted at j, S that over those above it that is
//            not.
// Method:    W = S - sqrt(-A B) is the integral over y of what is positive, in closed form.
// Guarantee: |CellSum::sum - exact| <= error and |CellValue::value - exact| <= error, those of the parts inside.
// Evidence:  tests/test_joint_delta.py; docs/partial_knowledge.md, theorem 10.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "joint_law.hpp"
#include "joint_panel.hpp"

namespace dpcore::detail {

// log(e^a + e^b), to some roundings.
double log_plus(double a, double b);

// Above the logarithm of a bound as it was computed.
inline double upward(double value) { return value + std::fabs(value) * 1e-12; }

// exp(top) (value +- error).
struct CellValue {
    double top = -std::numeric_limits<double>::infinity();
    double value = 0.0;
    double error = 0.0;
};

// positive - negative, with what a bound needs of both.
struct CellSum : Difference {
    double mean = 0.0;      // of x_k under the absolute terms
    double variance = 0.0;  // absolute terms times (x_k - mean)^2, over the sum; rough
    double drift = 0.0;     // mean under the signed terms less `mean`
};
CellSum cell_difference(const Part& positive, const Part& negative);

// The points of cell j: k <= j with the sign of A changed, or k > j.
struct CellRanges {
    std::pair<std::ptrdiff_t, std::ptrdiff_t> positive;
    std::pair<std::ptrdiff_t, std::ptrdiff_t> negative;
};
CellRanges below_cell(const JointLaw& law, std::ptrdiff_t j);
CellRanges above_cell(const JointLaw& law, std::ptrdiff_t j);
Query cell_query(std::pair<std::ptrdiff_t, std::ptrdiff_t> range, double z, std::ptrdiff_t j, bool tilted);
CellSum cell_sums(const JointLaw& law, const CellRanges& ranges, double z, std::ptrdiff_t j, bool tilted);

// S - sqrt(a b), a = -A: W in cell j. log_common is that of the law at the same z.
CellValue cell_value(const Difference& s, const Difference& a, const Difference& b, double log_common);

}  // namespace dpcore::detail
