// Masses put on a grid, into both lists of buckets.hpp (private to the core).
//
// Method:    the upper list connects the dots: a loss is split between its two neighbours. The lower list merges
//            points, or halves of cells of a density, from the top: those of one cell [point, point + step) with
//            as much of the points below as takes the merged ratio down to the grid point's.
// Domain:    points and densities within the range given; a grid of up to kMaxBuckets (std::length_error beyond).
// Guarantee: the upper list's delta is at least that of the points, also under composition, the lower one's at
//            most; masses within mass_err.
// Evidence:  docs/accounting_derivations.md, "bucket_collector"; tests/test_accounting_buckets.py,
//            tests/cpp/test_bucket_ladder.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "dpcore/buckets.hpp"
#include "dpcore/exp_block.hpp"

namespace dpcore::detail {

// Relative error of the mass of a bin: docs, "Bin masses".
inline constexpr double kMassErr = 4e-13;
// By how much, relative, 1 - e^-above is taken lower than it may be.
inline constexpr double kSurplus = 1e-12;

// Collects masses into both lists: of points, or of densities, half a cell of which is merged to one point for the
// lower list. The masses of points may be tilted: e^{tilt loss} times the true ones, of which those in the lists
// are then too.
class Collector {
public:
    Collector(double step, double offset, double low, double high, bool dense, double tilt = 0.0);
    double point(double n) const { return offset_ + step_ * n; }

    // A mass whose loss is `above` beyond grid point n, 0 <= above <= step, in one of the halves of that cell.
    void add(double n, double above, double mass, bool second_half) {
        add_fallen(index(n), std::min(denominator_, -std::expm1(-above)), mass, second_half);
    }
    // The same for fall = 1 - e^-above, 0 <= fall <= 1 - e^-step. One exponential for all: 1 - e^-above is the
    // share of the upper point, e^-above - e^-step of the lower, both over 1 - e^-step. The rounding of the
    // difference moves the loss by less than step times 2 kLibm, within the error charged for a mass.
    void add_fallen(std::size_t i, double fall, double mass, bool second_half) {
        upper_[i + 1] += mass * (fall / denominator_);
        upper_[i] += mass * ((denominator_ - fall) / denominator_);
        add_lower(points_[2 * i + (second_half ? 1 : 0)], mass, fall);
    }
    double largest_fall() const { return denominator_; }
    std::size_t index(double n) const { return static_cast<std::size_t>(static_cast<std::int64_t>(n) - first_); }

    // Whole cells [n, n+1): nodes at the same places in each, the first half of them in its lower half.
    // Density: factor times e^{exponent(loss)}.
    template <class Exponent>
    void add_cells(double first, double count, int points, const double* at, const double* weight, double factor,
                   Exponent exponent) {
        constexpr int kCells = 64;
        double scaled[6], share[6], rest[6], lift[6], density[6 * kCells];
        for (int q = 0; q < points; ++q) {
            scaled[q] = weight[q] * factor;
            share[q] = -std::expm1(-at[q]) / denominator_;
            rest[q] = -std::exp(-at[q]) * std::expm1(at[q] - step_) / denominator_;
            lift[q] = -std::expm1(-at[q]);
        }
        for (double n = first; n < first + count; n += kCells) {
            const int cells = static_cast<int>(std::min<double>(kCells, first + count - n));
            double least = 0.0, most = 0.0;
            for (int k = 0; k < cells; ++k)
                for (int q = 0; q < points; ++q) {
                    const double e = exponent(point(n + k) + at[q]);
                    density[k * points + q] = e;
                    least = std::min(least, e);
                    most = std::max(most, e);
                }
            if (least > -700.0 && most < 700.0)
                exp_block(density, density, static_cast<std::size_t>(cells * points));
            else
                for (int k = 0; k < cells * points; ++k) density[k] = std::exp(density[k]);
            const std::size_t i = index(n);
            for (int k = 0; k < cells; ++k) {
                double up[2] = {}, around[2] = {}, lifted[2] = {};
                for (int q = 0; q < points; ++q) {
                    const double mass = scaled[q] * density[k * points + q];
                    const int side = 2 * q < points ? 0 : 1;
                    up[1] += mass * share[q];
                    up[0] += mass * rest[q];
                    around[side] += mass;
                    lifted[side] += mass * lift[q];
                }
                for (int side = 0; side < 2; ++side) {
                    const std::size_t j = i + static_cast<std::size_t>(k);
                    upper_[j + static_cast<std::size_t>(side)] += up[side];
                    points_[2 * j + static_cast<std::size_t>(side)].mass += around[side];
                    points_[2 * j + static_cast<std::size_t>(side)].fall += lifted[side];
                }
            }
        }
    }
    // moved: how far the point may be moved onto one of the grid; the caller charges it.
    void add_point(double loss, double upper, double lower, double moved = 0.0);
    void add_atom(double loss, double mass, double moved = 0.0) { add_point(loss, mass, mass, moved); }
    // Points, if they came in order, that share a bucket of either list, at most.
    double most_together() const { return 2.0 * longest_run_ + most_merged_; }
    Buckets finish();

private:
    // Losses in one cell that are merged: their mass, e^{-tilt above} times the tilted one, and the sum of mass
    // times 1 - e^-above. Halves of cells, or points, in rising order.
    struct Placed {
        double mass, fall;
    };
    static void add_lower(Placed& p, double mass, double fall) {
        p.mass += mass;
        p.fall += mass * fall;
    }
    std::size_t cell(std::size_t k) const { return dense_ ? k / 2 : cells_[k]; }

    void sort_points();

    // Points into the lower list, from the top: those of one cell [point, point + step) are merged with as much of
    // the points below as takes the merged ratio down to the grid point's. Shares of points are random
    // post-processing. Where points are closer than the grid it is best to merge half a cell above a grid point
    // and half a cell below it. What finds nothing below is raised or rounded down.
    void gather_points(std::vector<double>& lower);

    // What a point n cells below a grid point is to it: e^{n step} - 1, e^{n step} and e^{tilt n step}.
    struct Below {
        double rise, grow, turn;
    };
    static constexpr std::size_t kNear = 64;
    Below below(std::size_t n) const;
    // mass (e^{point - l} - 1), e^{point - l} = e^{n step} (1 - (1 - e^-above)).
    // Beyond the range of double it is infinite, or not a number where the tilt is: nothing is taken then.
    static double deficit_of(const Placed& p, const Below& b) {
        const double deficit = b.rise * p.mass - b.grow * p.fall;
        if (!(deficit < std::numeric_limits<double>::infinity()))
            return p.mass > 0.0 ? std::numeric_limits<double>::infinity() : 0.0;
        return std::max(0.0, deficit) * b.turn;
    }

    // What is being merged to one grid point.
    struct Group {
        std::size_t point;
        double surplus, merged, count;
    };
    void take(Group& group, std::size_t k);
    // Points k - 1, k - 2, ... into the group. Where they are closer than the grid: all within half a cell, then
    // even shares of ever farther ones, so that the groups that follow are even.
    void take_below(Group& group, std::size_t k, bool fine);

    // A group [k, end) with nothing below that could take its surplus: as much of its highest points as makes it
    // is merged to the grid point above instead, with shares of what has been merged to the grid points beyond
    // that. What leaves the group.
    double raise(std::vector<double>& lower, std::size_t k, std::size_t end, const Group& group) const;

    double step_, offset_, tilt_, denominator_ = 1.0, half_ = 0.0;
    bool dense_;
    double run_ = 0.0, longest_run_ = 0.0, most_merged_ = 0.0;
    std::int64_t first_ = 0;
    std::size_t size_ = 0, last_ = 0;
    std::vector<double> upper_;
    std::vector<Placed> points_;
    std::vector<std::uint32_t> cells_;  // of points; halves of cells have their places
    Below below_[kNear + 1] = {};
};

}  // namespace dpcore::detail
