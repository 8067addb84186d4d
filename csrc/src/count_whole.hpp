// The delta of two groups of records from the whole laws of both, where their sum is too deep for lattices: the
// laws as they are, or tilted (dpcore/count_tilt.hpp). Private to count_range.cpp.
#pragma once

#include "dpcore/count_delta.hpp"

namespace dpcore::detail {

// Both give |computed / exact - 1| <= relative_error, however large that is, and are false where the laws are too
// long.
bool plain_whole_law(double epsilon, double first, double first_bias, double second, double second_bias,
                     double noise_scale, bool reflected, CountDelta& out, StopCheck stop);
bool tilted_whole_law(double epsilon, double first, double first_bias, double second, double second_bias,
                      double noise_scale, bool reflected, CountDelta& out, StopCheck stop);

}  // namespace dpcore::detail
