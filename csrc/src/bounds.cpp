#include "dpcore/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/certified.hpp"

namespace dpcore {

Interval from_log(const LogBounds& b) {
    constexpr double tiny = std::numeric_limits<double>::denorm_min();
    const double lower = b.log_lower == -std::numeric_limits<double>::infinity()
                             ? 0.0
                             : std::exp(b.log_lower) * (1.0 - 2.0 * kLibm) - 2.0 * tiny;
    const double upper = b.log_upper == -std::numeric_limits<double>::infinity()
                             ? 0.0
                             : std::exp(b.log_upper) * (1.0 + 2.0 * kLibm) + 2.0 * tiny;
    return {std::max(0.0, lower), upper};
}

}  // namespace dpcore
