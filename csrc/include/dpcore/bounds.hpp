// Two numbers with the truth between them.
#pragma once

namespace dpcore {

struct Interval {
    double lower;
    double upper;
};

// exp(log_lower) <= truth <= exp(log_upper); log_lower may be -infinity.
struct LogBounds {
    double log_lower;
    double log_upper;
};

// exp of logarithmic bounds, rounded outward: below the smallest normal number the lower bound may be 0.
Interval from_log(const LogBounds& bounds);

}  // namespace dpcore
