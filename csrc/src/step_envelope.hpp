// How fast a sum over the outputs of a subsampled Gaussian step falls along its line Re z = c.
//
// Method:    Paths. The path of integration in x is moved off the real axis, to Im x = a, where |exp(itL)| =
//            exp(-t theta), theta(x) = arg(1 - q + q e^{y + iv}), v = a/s^2, rising with x: a bound that falls
//            with t, the best of a ladder of heights a. Within four widths of an edge of the window the path stays
//            in the strip in which the window is bounded; further in, where the window is 1 less 1e-80, it may be
//            higher. The integral over a cell is the trapezoid rule and what its error can be.
//            Bulks. |phi|^2 = E cos(t D) <= 1 - t^2 A + t^4 B, D the difference of two tilted losses up to a cut:
//            sharp where t is small, so that it can be raised to a million copies.
// Domain:    as StepSum, which owns it.
// Guarantee: log_bound(T) is at least log |E[w(x) exp((c + it)L)]|, less the sum's log_scale, for every t >= T.
// Evidence:  docs/accounting_derivations.md, "step_envelope"; tests/cpp/test_spectral.cpp.
#pragma once

#include <vector>

#include "subsampled_step.hpp"

namespace dpcore::detail {

class StepEnvelope {
public:
    explicit StepEnvelope(const StepSum& sum);

    double log_bound(double from) const;

    // For other rules along these paths: heights halve from rung to rung, and up to edge_height() all of a path
    // has that height; at least the logarithm of the integral of the modulus there, for every t >= from; and of
    // what lies, at any height, outside of the sum's first and last output.
    static constexpr int kRungs = 16;
    double height(int rung) const;
    double edge_height() const;
    double log_along(int rung, double from) const;
    double log_outside(double height) const;

    // Edges are left behind after so many of their widths: there |1 - w| < 1e-80, also in the strip.
    static constexpr double kInside = 4.0;

private:
    struct Point {  // where cells meet
        double at;
        double log_density;  // tilted, without the window, times exp(-log_scale), rounding included
        double share;        // r(x)
        double odds;         // (1 - q)/q e^{-y}
    };
    struct Segment {  // points of cells of one kind
        std::size_t first, last;
        bool inside;  // at least four widths from the edges
    };
    struct Path {
        std::vector<double> cells;  // log of at least the integral of the tilted density there
        std::vector<double> theta;  // the least of each cell; 0 for what lies beyond all of them
    };
    struct Bulk {
        double half, quarter;  // E[D^2; bulk]/2 and E[D^4; bulk]/24
        double until;          // the bound falls up to there
    };

    void lay_out() const;
    Point point(double at) const;
    void lay(double first, double last, bool inside) const;
    const Path& path(int rung) const;
    double log_end(bool left, double high, double low) const;
    double log_paths(double from) const;
    double log_paths_from(double until) const;
    double log_best(double from, bool& by_paths) const;
    void gather_bulks();

    const StepSum& sum_;
    double p_, tallest_ = 0.0, edge_height_ = 0.0;
    mutable double
        fine_;  // length of cells, in standard deviations: what they are charged for goes with its square
    mutable double cell_ = 0.0;
    mutable std::vector<Point> points_;
    mutable std::vector<Segment> segments_;
    std::vector<Bulk> bulks_;
    mutable std::vector<Path> paths_;
    double mean_share_ = 0.0;         // E[r] of the tilted law
    mutable int best_ = 6;            // rung of the last answer
    mutable std::vector<int> rungs_;  // best rung of each octave of t, -1 where it was not asked for
    mutable double kept_at_ = -1.0, kept_ = 0.0;
    mutable std::vector<double> exponents_;
};

}  // namespace dpcore::detail
