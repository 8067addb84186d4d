// A stretch of a probability mass function, kept beyond the range of double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpcore {

// Pr[X = first + i] = value[i] * 2^exponent. The largest value lies in [1, 2) unless exponent was fixed by
// the function that made the window, so that every value that the window's depth admits is a normal double
// whatever the size of the probabilities themselves (1e-10000 is no different from 0.1).
//
// The mass left out is bounded, not estimated: Pr[X < first] <= below_upper * 2^exponent, and
// Pr[X > last] <= above_upper * 2^exponent; infinity where nothing better than 1 is known (the window
// does not reach the side of the mode where the tail falls). The bounds are for the law with the
// given double parameters and include rounding.
struct PmfWindow {
    std::int64_t first = 0;
    std::vector<double> value;
    std::int64_t exponent = 0;
    double below_upper = 0.0;
    double above_upper = 0.0;

    std::int64_t last() const { return first + static_cast<std::int64_t>(value.size()) - 1; }
};

// A window in double-double, for laws that are combined further: Pr[X = first + i] = (hi[i] + lo[i]) * 2^exponent.
// The largest hi lies in [2^400, 2^401); values are kept down to 2^-1100 of it, so that products of two of them
// that matter stay clear of underflow.
struct ExtendedPmf {
    std::int64_t first = 0;
    std::vector<double> hi;
    std::vector<double> lo;
    std::int64_t exponent = 0;
};

// The deepest window: e^-700 times a value in [1, 2) is still a normal double.
constexpr double kMaxWindowDepth = 700.0;

}  // namespace dpcore
