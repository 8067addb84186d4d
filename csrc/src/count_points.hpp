// The points of the half-line sum for a binomial count: where they lie, how far they reach, how smooth they are.
// Private to count_delta.cpp and joint_delta.cpp; the method is described in dpcore/count_delta.hpp.
#pragma once

#include <cstdint>

#include "dpcore/double_double.hpp"
#include "half_line.hpp"

namespace dpcore::detail {

// A bias nearer to 0 than this is 0 where that changes nothing (count_delta.cpp, joint_delta.cpp), which is where
// unknown * bias * e^epsilon is negligible. Elsewhere kappa and its like are in the range of double, and epsilon
// is large: with a small one the error of ln(bias) would grow by |ln delta| / epsilon.
constexpr double kNoBias = 1e-150;

struct Problem {
    double epsilon;
    double trials;   // unknown + 1
    DoubleDouble p;  // probability of a success in the direction looked at
    DoubleDouble q;
    double bias;         // as given
    bool reflected;      // successes are the zeros
    DoubleDouble kappa;  // where the likelihood ratio is exp(epsilon)
    DoubleDouble above;  // trials - kappa
    double log_above;    // ln(above), also where above underflows
    double log_factor;   // ln C

    std::int64_t count() const { return static_cast<std::int64_t>(trials); }
    double mean() const { return trials * p.hi; }
    // -1 over the second derivative of the log pmf, at least: the trigamma function exceeds 1/x.
    double variance_at(double x) const { return (x + 1.0) * (trials - x + 1.0) / (trials + 2.0); }
    double offset(double k) const {
        const DoubleDouble from_below = DoubleDouble(k) - kappa;
        const DoubleDouble from_above = above - DoubleDouble(trials - k);
        return k > 0.5 * trials ? static_cast<double>(from_above) : static_cast<double>(from_below);
    }
};

Problem make_problem(double epsilon, std::int64_t unknown, double bias, bool reflected);

// How far the summand reaches, and how smooth it is.
struct Extent {
    double low;        // first point that may matter
    double high;       // last one
    double fall;       // ln of the fall of the pmf from kappa to the last point that may matter
    double rise;       // ln of its rise from kappa to the first
    double edge;       // ln of what the end of the support exceeds its neighbour by, where kappa is next to it
    double deviation;  // standard deviation of the posterior of K at the threshold, at most
    double saturated;  // beyond this point Phi is 1
};

// `widen` stretches the reach, where a first try was cut short.
Extent extent_of(const Problem& problem, double beta, double widen);

// Whether probabilities vary too much over the extent for one scale.
bool is_deep(const Problem& problem, const Extent& extent);

// Points by BinomialRatio, every stride-th, up to where Phi is 1; the rest of the half line as an integral. False
// where the law is not smooth enough for that to be worth it.
bool smooth_points(const Problem& problem, const Extent& extent, double beta, SignedPoints& points,
                   StopCheck stop);

// Points of a window of the pmf, every stride-th.
void window_points(const Problem& problem, const Extent& extent, double beta, SignedPoints& points,
                   StopCheck stop);

// Where the pmf varies too much for one scale: each point with its own logarithm. Such sums are below e^-400.
void deep_points(const Problem& problem, const Extent& extent, double beta, SignedPoints& points, StopCheck stop);

}  // namespace dpcore::detail
