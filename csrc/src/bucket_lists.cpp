#include "bucket_lists.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "dpcore/exp_block.hpp"

namespace dpcore::detail {

void refuse(double buckets) {
    if (!(buckets <= static_cast<double>(kMaxBuckets)))
        throw std::length_error("the bucket engine would need " +
                                std::to_string(buckets).substr(0, std::to_string(buckets).find('.')) +
                                " buckets, more than its limit of " + std::to_string(kMaxBuckets) +
                                " (120 bytes each); ask for a wider step or another engine");
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Gauss-Legendre rules of two, three and five points on [-1, 1].
struct Rule {
    int points;
    double node[5];
    double weight[5];
};
constexpr Rule kRules[3] = {
    {2, {-0.57735026918962576451, 0.57735026918962576451}, {1.0, 1.0}},
    {3,
     {-0.77459666924148337704, 0.0, 0.77459666924148337704},
     {0.55555555555555555556, 0.88888888888888888889, 0.55555555555555555556}},
    {5,
     {-0.90617984593866399280, -0.53846931010568309104, 0.0, 0.53846931010568309104, 0.90617984593866399280},
     {0.23692688505618908751, 0.47862867049936646804, 0.56888888888888888889, 0.47862867049936646804,
      0.23692688505618908751}}};
// Share of the longest panel up to which two and three points keep the same error as five points on all of it.
constexpr double kTwoPoints = 0.007;
constexpr double kThreePoints = 0.1;
const Rule& rule_for(double length, double longest) {
    return kRules[length <= kTwoPoints * longest ? 0 : length <= kThreePoints * longest ? 1 : 2];
}
// Panels are short enough that the rule's error is below 2e-13 relative: see
// docs/accounting_derivations.md, "bucket_lists".
constexpr double kPanelTurn = 0.7;
constexpr double kMassErr = 4e-13;

// e^x - 1, by its series where x is small as within a cell: the library would be most of the work.
double quick_expm1(double x) {
    if (!(std::fabs(x) < 0.01)) return std::expm1(x);
    return x *
           (1.0 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x / 5040))))));
}

// Collects masses into both lists: of points, or of densities, half a cell of which is merged to one point for the
// lower list. The masses of points may be tilted: e^{tilt loss} times the true ones, of which those in the lists
// are then too.
class Collector {
public:
    Collector(double step, double offset, double low, double high, bool dense, double tilt = 0.0)
        : step_(step), offset_(offset), tilt_(tilt), dense_(dense) {
        const double from = std::floor((low - offset) / step) - 1.0;
        const double to = std::ceil((high - offset) / step) + 1.0;
        refuse(to - from + 1.0);
        first_ = static_cast<std::int64_t>(from);
        size_ = static_cast<std::size_t>(to - from) + 1;
        upper_.assign(size_, 0.0);
        if (dense) points_.assign(2 * size_, {0.0, 0.0});
        denominator_ = -std::expm1(-step);
        half_ = -std::expm1(-0.5 * step) * (1.0 - 1e-9);
        for (std::size_t n = 0; n <= kNear; ++n) {
            const double distance = step * static_cast<double>(n);
            below_[n] = {std::expm1(distance), std::exp(distance), std::exp(tilt * distance)};
        }
    }
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
    void add_point(double loss, double upper, double lower, double moved = 0.0) {
        const double n = std::floor((loss - offset_) / step_);
        double above = loss - point(n);
        double at = n;
        if (above < 0.0) {
            at -= 1.0;
            above += step_;
        }
        if (above > step_) {
            at += 1.0;
            above -= step_;
        }
        const double snap = moved + 4.0 * kRound * (std::fabs(loss) + std::fabs(offset_));
        if (step_ - above <= snap) {
            at += 1.0;
            above = 0.0;
        }
        if (above <= snap) above = 0.0;
        const std::size_t i = index(at);
        const double fall = -quick_expm1(-above);
        const double share = std::min(1.0, fall / denominator_);
        const double turn = tilt_ == 0.0 ? 1.0 : std::exp(-tilt_ * above);
        upper_[i + 1] += upper * share * (turn * below_[1].turn);
        upper_[i] += upper * (1.0 - share) * turn;
        lower *= turn;
        if (dense_) {
            add_lower(points_[2 * i + (above < 0.5 * step_ ? 0 : 1)], lower, fall);
        } else {
            points_.push_back({lower, lower * fall});
            cells_.push_back(static_cast<std::uint32_t>(i));
        }
        run_ = i == last_ ? run_ + 1 : 1;
        last_ = i;
        longest_run_ = std::max(longest_run_, run_);
    }
    void add_atom(double loss, double mass, double moved = 0.0) { add_point(loss, mass, mass, moved); }
    // Points, if they came in order, that share a bucket of either list, at most.
    double most_together() const { return 2.0 * longest_run_ + most_merged_; }
    Buckets finish() {
        Buckets out;
        out.step = step_;
        out.offset = offset_;
        out.first = first_;
        out.upper.mass = std::move(upper_);
        out.mass_err = kMassErr;
        sort_points();
        out.lower.mass.assign(size_, 0.0);
        gather_points(out.lower.mass);
        return out;
    }

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

    void sort_points() {
        // 1 - e^-above is known to the error of the rule, or of its rounding: the points are put where that is
        // surely reached. Next to 1, in cells of many units, that leaves much of the cell open.
        constexpr double kSurely = 1.0 - 1e-12;
        for (Placed& p : points_) p.fall *= kSurely;
        if (dense_) return;
        const auto lower = [&](std::size_t a, std::size_t b) {
            if (cells_[a] != cells_[b]) return cells_[a] < cells_[b];
            return points_[a].fall * points_[b].mass < points_[b].fall * points_[a].mass;
        };
        const auto sorted = [&] {
            for (std::size_t k = 1; k < points_.size(); ++k)
                if (lower(k, k - 1)) return false;
            return true;
        };
        if (sorted()) return;
        std::reverse(points_.begin(), points_.end());
        std::reverse(cells_.begin(), cells_.end());
        if (sorted()) return;
        std::vector<std::size_t> order(points_.size());
        for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
        std::sort(order.begin(), order.end(), lower);
        std::vector<Placed> points;
        std::vector<std::uint32_t> cells;
        for (const std::size_t k : order) {
            points.push_back(points_[k]);
            cells.push_back(cells_[k]);
        }
        points_.swap(points);
        cells_.swap(cells);
    }

    // Points into the lower list, from the top: those of one cell [point, point + step) are merged with as much of
    // the points below as takes the merged ratio down to the grid point's. Shares of points are random
    // post-processing. Where points are closer than the grid it is best to merge half a cell above a grid point
    // and half a cell below it. What finds nothing below is raised or rounded down.
    void gather_points(std::vector<double>& lower) {
        if (points_.empty()) return;
        const bool fine =
            static_cast<double>(points_.size()) > 1.5 * static_cast<double>(cell(points_.size() - 1) - cell(0));
        for (std::size_t k = points_.size(); k > 0;) {
            if (!(points_[k - 1].mass > 0.0)) {
                --k;
                continue;
            }
            const std::size_t end = k;
            // Surplus: sum of mass (1 - e^{-(l - point)}) over the points above it.
            Group group = {cell(k - 1), 0.0, 0.0, 0.0};
            for (; k > 0 && cell(k - 1) == group.point; --k) {
                group.merged += points_[k - 1].mass;
                group.surplus += points_[k - 1].fall;
            }
            group.count = static_cast<double>(end - k);
            // Less than the surplus allows by more than its sums' roundings and those of the deficits.
            group.surplus *= 1.0 - 1e-12 - 4.0 * kRound * group.count;
            take_below(group, k, fine);
            // An even share leaves what rounding has left of the surplus.
            if (group.surplus > 1e-9 * step_ * group.merged) group.merged -= raise(lower, k, end, group);
            lower[group.point] += group.merged;
            most_merged_ = std::max(most_merged_, group.count);
        }
    }

    // What a point n cells below a grid point is to it: e^{n step} - 1, e^{n step} and e^{tilt n step}.
    struct Below {
        double rise, grow, turn;
    };
    static constexpr std::size_t kNear = 64;
    Below below(std::size_t n) const {
        if (n <= kNear) return below_[n];
        const double distance = step_ * static_cast<double>(n);
        return {std::expm1(distance), std::exp(distance), tilt_ == 0.0 ? 1.0 : std::exp(tilt_ * distance)};
    }
    // mass (e^{point - l} - 1), e^{point - l} = e^{n step} (1 - (1 - e^-above)).
    // Beyond the range of double it is infinite, or not a number where the tilt is: nothing is taken then.
    static double deficit_of(const Placed& p, const Below& b) {
        const double deficit = b.rise * p.mass - b.grow * p.fall;
        if (!(deficit < kInf)) return p.mass > 0.0 ? kInf : 0.0;
        return std::max(0.0, deficit) * b.turn;
    }

    // What is being merged to one grid point.
    struct Group {
        std::size_t point;
        double surplus, merged, count;
    };
    void take(Group& group, std::size_t k) {
        Placed& p = points_[k];
        const Below b = below(group.point - cell(k));
        const double deficit = deficit_of(p, b);
        group.count += 1.0;
        if (deficit * (1.0 + 1e-14) <= group.surplus) {
            group.surplus = (group.surplus - deficit) * (1.0 - 4.0 * kRound) - 4.0 * kRound * group.surplus;
            group.merged += p.mass * b.turn;
            p = {0.0, 0.0};
            return;
        }
        // What is out of the range of double is left where it is.
        const double share = deficit < kInf && b.turn < kInf ? group.surplus / deficit * (1.0 - 1e-14) : 0.0;
        if (share > 0.0) group.merged += share * p.mass * b.turn;
        p = {p.mass * (1.0 - share), p.fall * (1.0 - share)};
        group.surplus = 0.0;
    }
    // Points k - 1, k - 2, ... into the group. Where they are closer than the grid: all within half a cell, then
    // even shares of ever farther ones, so that the groups that follow are even.
    void take_below(Group& group, std::size_t k, bool fine) {
        std::size_t q = k;
        const auto within = [&](std::size_t cells) { return q > 0 && group.point - cell(q - 1) <= cells; };
        if (fine) {
            for (; group.surplus > 0.0 && within(1) && points_[q - 1].fall >= half_ * points_[q - 1].mass; --q)
                if (points_[q - 1].mass > 0.0) take(group, q - 1);
            for (const std::size_t reach : {std::size_t{2}, std::size_t{8}, kNear}) {
                if (!(group.surplus > 0.0)) return;
                const std::size_t from = q;
                double deficit = 0.0, mass = 0.0;
                for (; within(reach); --q) {
                    const Below b = below_[group.point - cell(q - 1)];
                    deficit += deficit_of(points_[q - 1], b);
                    mass += points_[q - 1].mass * b.turn;
                }
                if (!(deficit < kInf && mass < kInf)) break;
                const double number = static_cast<double>(from - q);
                const double most = group.surplus * (1.0 - 1e-12 - 8.0 * kRound * number);
                const double share = deficit > 0.0 ? std::min(0.5, most / deficit) : 0.5;
                for (std::size_t i = from; i > q; --i) {
                    points_[i - 1].mass *= 1.0 - share;
                    points_[i - 1].fall *= 1.0 - share;
                }
                group.merged += share * mass;
                group.count += number;
                group.surplus -= share * deficit * (1.0 + 8.0 * kRound * (number + 1.0));
                if (share < 0.5) return;
            }
            q = k;
        }
        for (; q > 0 && group.surplus > 0.0; --q)
            if (points_[q - 1].mass > 0.0) take(group, q - 1);
    }

    // A group [k, end) with nothing below that could take its surplus: as much of its highest points as makes it
    // is merged to the grid point above instead, with shares of what has been merged to the grid points beyond
    // that. What leaves the group.
    double raise(std::vector<double>& lower, std::size_t k, std::size_t end, const Group& group) const {
        const std::size_t next = group.point + 1;
        const std::size_t last = std::min(size_, next + 1 + kNear);
        double available = 0.0;
        // e^{-n step} and 1 - e^{-n step} of what is n cells beyond.
        for (std::size_t j = next + 1; j < last; ++j)
            available += 0.5 * lower[j] / below_[j - next].turn * (below_[j - next].rise / below_[j - next].grow);
        if (!(available > 0.0)) return 0.0;
        // All that would have to be raised, and what that needs. Points next to the grid point have no surplus to
        // speak of: raising them would cost a step.
        constexpr double kNext = 1e-3;
        const double surplus = group.surplus * (1.0 - 1e-12 - 4.0 * kRound * static_cast<double>(end - k));
        double left = surplus, leaves = 0.0, arrives = 0.0, deficit = 0.0;
        for (std::size_t i = end; i > k && left > 1e-6 * surplus; --i) {
            const Placed& p = points_[i - 1];
            if (!(p.mass > 0.0)) continue;
            if (p.fall < kNext * denominator_ * p.mass) break;
            const double share = p.fall <= left ? 1.0 : left / p.fall;
            left -= share * p.fall;
            leaves += share * p.mass;
            arrives += share * p.mass * below_[1].turn;
            deficit += share * deficit_of(p, below_[1]);
        }
        if (!(deficit > 0.0 && deficit < kInf)) return 0.0;
        deficit *= 1.0 + 1e-11;
        const double part = std::min(1.0, available / deficit * (1.0 - 1e-11));
        const double share = 0.5 * std::min(1.0, part * deficit / available);
        for (std::size_t j = next + 1; j < last; ++j) {
            const double taken = share * lower[j];
            lower[j] -= taken;
            lower[next] += taken / below_[j - next].turn;
        }
        lower[next] += part * arrives;
        return part * leaves;
    }

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

// Integrates a density over [low, high] of a coordinate x in which the loss is monotone. `loss_at` and `x_of` are
// inverse to each other, `density` is dP/dx, `longest` bounds the panels.
template <class LossAt, class XOf, class Density>
void integrate(Collector& out, double step, double low, double high, double longest, LossAt loss_at, XOf x_of,
               Density density, StopCheck check) {
    const double loss_low = std::min(loss_at(low), loss_at(high));
    const double loss_high = std::max(loss_at(low), loss_at(high));
    const bool rising = loss_at(high) >= loss_at(low);
    const double half = 0.5 * step;
    const double offset = out.point(0.0);
    double from = std::floor((loss_low - offset) / half);
    const double last = std::floor((loss_high - offset) / half);
    refuse(0.5 * (last - from));
    refuse((high - low) / longest);  // far out in the tail the panels, not the buckets, are the work
    double start = loss_low;
    double edge = rising ? low : high;  // where the last panel ended
    std::size_t turns = 0;
    for (double m = from; m <= last; m += 1.0) {
        const double stop = std::min(loss_high, offset + half * (m + 1.0));
        if (!(stop > start)) continue;
        double a = edge;
        double b = m == last ? (rising ? high : low) : x_of(stop);
        edge = b;
        start = stop;
        if (a > b) std::swap(a, b);
        const double pieces = std::max(1.0, std::ceil((b - a) / longest));
        const double n = std::floor(0.5 * m);
        const bool second_half = m - 2.0 * n > 0.5;
        const double base = out.point(n);
        for (double p = 0.0; p < pieces; p += 1.0) {
            if (turns++ % 16384 == 0) check();
            const double left = a + (b - a) * (p / pieces);
            const double right = a + (b - a) * ((p + 1.0) / pieces);
            const double middle = 0.5 * (left + right);
            const double radius = 0.5 * (right - left);
            const Rule& rule = rule_for(right - left, longest);
            for (int q = 0; q < rule.points; ++q) {
                const double x = middle + radius * rule.node[q];
                const double loss = loss_at(x);
                const double above = std::min(step, std::max(0.0, loss - base));
                out.add(n, above, radius * rule.weight[q] * density(x, loss), second_half);
            }
        }
    }
}

// The same for the mixture (1-q) N(0, s2) + q N(1, s2) against N(0, s2), with ratio W = 1 - q + q e^y, y = (x -
// 1/2)/s2, where everything stays in the range of double. No logarithm of W is taken: the shares of a loss log W
// depend on e^-above = e^base/W alone (add: the loss is -log W). That is good to a few roundings of 1, which moves
// the loss by as much: the caller charges it (kMixtureLoss).
constexpr double kMixtureLoss = 2.0 * kLibm + 32.0 * kRound;

void integrate_mixture(Collector& out, double step, double low, double high, double longest, double s2, double q,
                       bool removal, double loss_low, double loss_high, StopCheck check) {
    constexpr std::size_t kNodes = 512;
    double x[kNodes], y[kNodes], density[kNodes], weight[kNodes], origin[kNodes];
    std::size_t cell[kNodes];
    bool second[kNodes];
    std::size_t count = 0;
    const double unit = 0.39894228040143267794 / std::sqrt(s2);
    const double most = out.largest_fall();
    const auto flush = [&] {
        for (std::size_t i = 0; i < count; ++i) {
            y[i] = (x[i] - 0.5) / s2;
            density[i] = -x[i] * x[i] / (2.0 * s2);
        }
        exp_block(y, y, count);
        exp_block(density, density, count);
        for (std::size_t i = 0; i < count; ++i) {
            const double ratio = (1.0 - q) + q * y[i];
            const double down = removal ? origin[i] / ratio : origin[i] * ratio;
            const double mass = weight[i] * unit * density[i] * (removal ? ratio : 1.0);
            out.add_fallen(cell[i], std::min(most, std::max(0.0, 1.0 - down)), mass, second[i]);
        }
        count = 0;
    };
    const double half = 0.5 * step;
    const double offset = out.point(0.0);
    const double from = std::floor((loss_low - offset) / half);
    const double last = std::floor((loss_high - offset) / half);
    refuse(0.5 * (last - from));
    refuse((high - low) / longest);  // far out in the tail the panels, not the buckets, are the work
    const double sign = removal ? 1.0 : -1.0;
    double edge = removal ? low : high;  // where the last panel ended
    double base = 1.0;                   // e^{point of the cell}
    std::size_t turns = 0;
    for (double m = from; m <= last; m += 1.0) {
        const double n = std::floor(0.5 * m);
        const bool second_half = m - 2.0 * n > 0.5;
        if (!second_half || m == from) base = std::exp(offset + step * n);
        double a = edge;
        double b = removal ? high : low;
        if (m != last) {
            const double v = (std::exp(sign * (offset + half * (m + 1.0))) - (1.0 - q)) / q;
            b = v > 0.0 ? std::min(high, std::max(low, 0.5 + s2 * std::log(v))) : low;
        }
        b = removal ? std::max(a, b) : std::min(a, b);  // rounding must not turn a panel round
        edge = b;
        if (a > b) std::swap(a, b);
        const double pieces = std::max(1.0, std::ceil((b - a) / longest));
        for (double p = 0.0; p < pieces; p += 1.0) {
            if (turns++ % 16384 == 0) check();
            const double left = a + (b - a) * (p / pieces);
            const double right = a + (b - a) * ((p + 1.0) / pieces);
            const double middle = 0.5 * (left + right);
            const double radius = 0.5 * (right - left);
            const Rule& rule = rule_for(right - left, longest);
            if (count + static_cast<std::size_t>(rule.points) > kNodes) flush();
            for (int k = 0; k < rule.points; ++k) {
                x[count] = middle + radius * rule.node[k];
                weight[count] = radius * rule.weight[k];
                origin[count] = base;
                cell[count] = out.index(n);
                second[count] = second_half;
                ++count;
            }
        }
    }
    flush();
}

// The same where the loss is the coordinate itself: whole cells have the same nodes, so that their shares are
// tabulated.
template <class Exponent>
void integrate_linear(Collector& out, double step, double low, double high, double longest, double factor,
                      Exponent exponent, StopCheck check) {
    const auto same = [](double l) { return l; };
    const auto both = [&](double l, double) { return factor * std::exp(exponent(l)); };
    const double offset = out.point(0.0);
    const double first = std::ceil((low - offset) / step);
    const double last = std::floor((high - offset) / step);
    const double half = 0.5 * step;
    if (half > kThreePoints * longest || last - first < 2.0) {
        integrate(out, step, low, high, longest, same, same, both, check);
        return;
    }
    integrate(out, step, low, out.point(first), longest, same, same, both, check);
    const Rule& rule = kRules[half <= kTwoPoints * longest ? 0 : 1];
    double at[6], weight[6];
    for (int q = 0; q < rule.points; ++q) {
        at[q] = 0.25 * step * (1.0 + rule.node[q]);
        at[q + rule.points] = at[q] + half;
        weight[q] = weight[q + rule.points] = 0.25 * step * rule.weight[q];
    }
    constexpr double kCells = 16384.0;  // below a millisecond each
    for (double from = first; from < last; from += kCells) {
        check();
        out.add_cells(from, std::min(kCells, last - from), 2 * rule.points, at, weight, factor, exponent);
    }
    integrate(out, step, out.point(last), high, longest, same, same, both, check);
}

double window(double tolerance) { return std::sqrt(2.0 * std::log(1.0 / tolerance)); }

}  // namespace

Discrete discretise(const LossLaw& law, double step, double c_near, double c, double c_far, bool tilted,
                    StopCheck check, Outputs outputs) {
    constexpr double kTail = 1e-16;
    const std::vector<double> p = law.parameters();
    Discrete out;
    switch (law.kind()) {
        case LawKind::gaussian: {
            const double rho = p[0];
            const double sd = std::sqrt(2.0 * rho);
            const double reach = window(kTail);
            // In x = (L - rho)/sd the untilted law is standard normal, the tilted one is centred at c sd.
            const double low = c_near * sd - reach;
            const double high = c_far * sd + reach;
            const double longest = sd * kPanelTurn / (std::max(-low, high) + 3.2);
            Collector collect(step, 0.0, rho + sd * low, rho + sd * high, true);
            const double lift =
                std::min(0.5 * c * c * sd * sd, 0.5 * std::max(low, 0.0) * std::max(low, 0.0) + 600.0);
            out.log_scale = lift;
            integrate_linear(
                collect, step, rho + sd * low, rho + sd * high, longest, 0.39894228040143267794 / sd,
                [=](double l) {
                    const double x = (l - rho) / sd;
                    return lift - 0.5 * x * x;
                },
                check);
            out.buckets = collect.finish();
            out.tail = 2.0 * kTail;
            out.smooth = true;
            // rho is rounded: the exponent of the density moves by x^2/2 times that.
            out.buckets.mass_err += (p[1] + 4.0 * kRound) * (high * high + 4.0 * high * std::sqrt(rho) + 4.0);
            break;
        }
        case LawKind::laplace: {
            const double e = p[0];
            Collector collect(step, e - step * std::floor(e / step), -e, e, true);
            integrate_linear(collect, step, -e, e, 1.0, 0.25, [e](double l) { return 0.5 * (l - e); }, check);
            // Both lie on the grid where the step divides 2 epsilon, but for the roundings of its points.
            out.loss_err = tilted ? 16.0 * kRound * e : 0.0;
            collect.add_atom(e, 0.5, out.loss_err);
            collect.add_atom(-e, 0.5 * std::exp(-e), out.loss_err);
            out.buckets = collect.finish();
            break;
        }
        case LawKind::subsampled_gaussian: {
            const double s = p[0];
            const double q = p[1];
            const bool removal = p[2] != 0.0;
            const double s2 = s * s;
            // Tails are those under the tilt c: the two others bound where the lists themselves end. What they
            // would move far out of reach, and out of the range of double, need not be in them.
            const double power = removal ? 1.0 + std::max(c_far, 0.0) : std::max(-c, 0.0);
            const double reach = window(kTail);
            const double share0 = 1.0 / (1.0 + (1.0 - q) / q * std::exp(0.5 / s2));
            double low = -reach * s - 1.0 - std::max(0.0, removal ? -(1.0 + c) : c_far) * share0;
            double high = reach * s + power;
            const auto lambda = [=](double x) {
                const double y = (x - 0.5) / s2;
                return y < 30.0 ? std::log1p(q * std::expm1(y))
                                : y + std::log(q) + std::log1p((1.0 - q) / q * std::exp(-y));
            };
            out.tail = 6.0 * kTail;
            double lift = 0.0;  // of the logarithm of the density, where it would underflow
            if (!outputs.all()) {
                out.tail = 0.0;
                // Below, the ratio is below 1.
                if (outputs.low > low)
                    low = outputs.low;
                else
                    out.log_missing = -low * low / (2.0 * s2);
                // Beyond `high` the tilted density falls like e^{-reach x/s} at least; down from there, or from
                // where the outputs end, it is at most its two factors at the ends of a piece.
                const bool ends = outputs.high < high;
                high = ends ? outputs.high : std::max(high, low + reach * s);
                const double piece = 0.125 * s;
                const auto height = [&](double x) { return (1.0 + c) * lambda(x) - x * x / (2.0 * s2); };
                double peak = height(low);
                for (double x = low; x < high; x += piece) peak = std::max(peak, height(x));
                double rest = ends ? 0.0 : 0.4 / reach * std::exp(height(high) - peak + 1e-9);
                while (high - piece > low) {
                    const double x = high - piece;
                    const double next = std::max(x, std::min(0.0, high));  // to 0
                    const double more =
                        0.05 * std::exp((1.0 + c) * lambda(high) - next * next / (2.0 * s2) - peak + 1e-9);
                    if (!(rest + more < 0.01 * kTail)) break;
                    rest += more;
                    high = x;
                }
                const auto plain = [&](double x) { return lambda(x) - x * x / (2.0 * s2); };
                if (!ends)
                    lift = std::max(0.0, std::min(600.0 - plain(low), -plain(high)));
                else if (plain(high) < -650.0)
                    lift = std::min(600.0, -plain(high));
                out.log_scale = lift;
                out.underflows = !(std::min(plain(low), plain(high)) + lift > -650.0);
                const double above = peak + std::log(rest);
                const double top = std::max(above, out.log_missing);
                if (std::isfinite(top))
                    out.log_missing =
                        top + std::log(std::exp(above - top) + std::exp(out.log_missing - top)) + 1e-9;
            } else if (removal && c >= 0.0) {
                // Outputs next to 1 + c, which small rates leave nothing of. From the top, the tilted density is
                // at most its two factors at the ends of a piece; M(c) >= 1, since c >= 0 times the mean of the
                // loss.
                const double piece = 0.125 * s;
                double rest = 0.0;
                while (high - piece > 0.5) {
                    const double x = high - piece;
                    rest += 0.05 * std::exp((1.0 + c) * lambda(high) - x * x / (2.0 * s2) + 1e-9);
                    if (!(rest < kTail)) break;
                    high = x;
                }
                // A second hump that far out would underflow, and e^{c loss} times what underflows is anything.
                const double last = lambda(high) - high * high / (2.0 * s2);
                if (tilted && last < -650.0) lift = std::min(600.0, -last);
                out.log_scale = lift;
                out.underflows = !(last + lift > -650.0);
            }
            const double sign = removal ? 1.0 : -1.0;
            const double longest = std::min(
                s * kPanelTurn / (reach + (std::fabs(power) + std::max(0.0, c_far)) / s + 3.2), 0.25 * s2);
            const double ends[2] = {std::min(sign * lambda(low), sign * lambda(high)),
                                    std::max(sign * lambda(low), sign * lambda(high))};
            const double farthest = std::max(-low, high);
            // The short way costs a few roundings of 1 in the loss: too many for losses that are small themselves.
            const bool brief = tilted && lift == 0.0 && step >= 1e-6 && (high + 0.5) / s2 < 600.0 &&
                               farthest * farthest / (2.0 * s2) < 690.0;
            Collector collect(step, 0.0, ends[0], ends[1], true);
            if (brief)
                integrate_mixture(collect, step, low, high, longest, s2, q, removal, ends[0], ends[1], check);
            else
                integrate(
                    collect, step, low, high, longest, [=](double x) { return sign * lambda(x); },
                    [=](double l) {
                        const double v = std::expm1(sign * l) / q;
                        return v > -1.0 ? std::min(high, std::max(low, 0.5 + s2 * std::log1p(v))) : low;
                    },
                    [=](double x, double loss) {
                        return std::exp(lift - x * x / (2.0 * s2) + (removal ? loss : 0.0)) *
                               0.39894228040143267794 / s;
                    },
                    check);
            out.buckets = collect.finish();
            if (brief)
                out.loss_err = kMixtureLoss + 4.0 * kRound * std::max(std::fabs(ends[0]), std::fabs(ends[1]));
            // Exponents with a few roundings each.
            out.buckets.mass_err += 1e-13 + 8.0 * kRound * (lift + farthest * farthest / (2.0 * s2));
            out.smooth = true;
            break;
        }
        case LawKind::discrete_gaussian: {
            const double s = p[0];
            const double shift = p[1];
            const double slope = shift / (s * s);
            const double rho = 0.5 * shift * slope;
            const double reach = window(kTail) * s + 1.0;
            const double low = -shift * std::max(c_far, 0.0) - reach;
            const double high = reach + shift * std::max(0.0, -c_near);
            Collector collect(step, rho - step * std::floor(rho / step), rho - slope * high, rho - slope * low,
                              false);
            refuse(high - low);
            const double total = discrete_gaussian_sum(s);
            for (double x = std::ceil(low); x <= high; x += 1.0)
                collect.add_atom(rho - slope * x, std::exp(-x * x / (2.0 * s * s)) / total);
            out.buckets = collect.finish();
            // Exponents of up to 745 with three roundings, the sum, and atoms that share a bucket.
            out.buckets.mass_err += (2.0 * 745.0 * 3.0 + 8.0 + collect.most_together()) * kRound + 2.0 * kLibm;
            out.loss_err = 4.0 * kRound * (rho + slope * std::max(high, -low));
            out.tail = 4.0 * kTail;
            break;
        }
        case LawKind::part:  // a part of a composition, made and used by contours alone
            throw std::length_error("a part of a law has no buckets");
        case LawKind::two_point:
        case LawKind::atoms: {
            const std::vector<Atom> atoms = law.atoms();
            if (atoms.empty()) throw std::length_error("a law without finite losses has no buckets");
            double low = kInf, high = -kInf, heaviest = -kInf, anchor = 0.0;
            for (const Atom& a : atoms) {
                low = std::min(low, a.loss);
                high = std::max(high, a.loss);
                const double w = std::log(a.mass) + c * a.loss;
                if (w > heaviest) heaviest = w, anchor = a.loss;
            }
            Collector collect(step, anchor - step * std::floor(anchor / step), low, high, false);
            double mass_err = law.log_mass_err();
            double least = kInf;
            for (const Atom& a : atoms) {
                collect.add_atom(a.loss, a.mass);
                mass_err = std::max(mass_err, a.mass_err);
                out.loss_err = std::max(out.loss_err, a.loss_err);
                least = std::min(least, a.mass);
            }
            out.underflows = !(least > 1e-280);
            out.buckets = collect.finish();
            // Atoms that fall into one bucket are added up.
            out.buckets.mass_err += mass_err + static_cast<double>(atoms.size()) * kRound;
            out.buckets.upper.infinite = out.buckets.lower.infinite = law.infinite_mass();
            break;
        }
    }
    return out;
}

namespace {
// Relative error of tilted masses that are moved within a few cells: exponentials, at distances that are rounded.
double moving_err(double c, double low, double high, double offset) {
    return 4.0 * kLibm + 8.0 * c * kRound * (std::fabs(low) + std::fabs(high) + std::fabs(offset));
}
}  // namespace

Discrete discretise(const AtomBlock& block, double step, double c) {
    std::size_t heaviest = 0;
    for (std::size_t i = 0; i < block.mass.size(); ++i)
        if (block.mass[i] > block.mass[heaviest]) heaviest = i;
    const double anchor = block.loss[heaviest];
    const double offset = anchor - step * std::floor(anchor / step);
    Discrete out;
    Collector collect(step, offset, block.loss.front(), block.loss.back(), false, c);
    for (std::size_t i = 0; i < block.mass.size(); ++i)
        if (block.mass[i] > 0.0) collect.add_atom(block.loss[i], block.mass[i], block.loss_err);
    out.tilt = c;
    out.log_scale = -block.log_mass;
    out.tail = block.tail;
    out.loss_err = 2.0 * block.loss_err;
    out.underflows = false;
    out.buckets = collect.finish();
    // e^{cL} was taken at the rounded loss, and is again where an atom is moved onto a point.
    out.buckets.mass_err += block.mass_err + 1.01 * c * out.loss_err + 4.0 * kRound * std::fabs(block.log_mass) +
                            moving_err(c, block.loss.front(), block.loss.back(), offset) +
                            collect.most_together() * kRound;
    return out;
}

Discrete regrid(const Discrete& list, double step) {
    const Buckets& b = list.buckets;
    const std::size_t n = b.upper.mass.size();
    const auto heaviest = static_cast<std::size_t>(std::max_element(b.upper.mass.begin(), b.upper.mass.end()) -
                                                   b.upper.mass.begin());
    const double anchor = b.loss(heaviest);
    const double offset = anchor - step * std::floor(anchor / step);
    Discrete out;
    Collector collect(step, offset, b.loss(0), b.loss(n - 1), false, list.tilt);
    for (std::size_t i = 0; i < n; ++i)
        if (b.upper.mass[i] > 0.0 || b.lower.mass[i] > 0.0)
            collect.add_point(b.loss(i), b.upper.mass[i], b.lower.mass[i]);
    out.buckets = collect.finish();
    out.tilt = list.tilt;
    out.tail = list.tail;
    out.scatter = list.scatter;
    out.log_scale = list.log_scale;
    out.underflows = list.underflows;
    out.smooth = list.smooth;
    // What a loss is rounded by, here and when it is moved onto a point.
    const double rounded =
        8.0 * kRound * (std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) + std::fabs(b.offset) + offset);
    out.loss_err = list.loss_err + rounded;
    out.buckets.mass_err = b.mass_err + moving_err(list.tilt, b.loss(0), b.loss(n - 1), offset) +
                           1.01 * list.tilt * rounded + collect.most_together() * kRound;
    return out;
}

Powers::Powers(double tilt, double top, const Buckets& buckets) : tilt_(tilt), top_(top), buckets_(buckets) {
    const double low = tilt * buckets.loss(0) - top;
    const double high = tilt * buckets.loss(buckets.upper.mass.size() - 1) - top;
    const double turn = tilt * buckets.step;
    plain_ = std::fabs(low) < 600.0 && std::fabs(high) < 600.0 && std::fabs(turn) * kBlock < 40.0;
    for (std::size_t j = 0; plain_ && j < kBlock; ++j) table_[j] = std::exp(turn * static_cast<double>(j));
}

void Powers::start(std::size_t from) {
    from_ = from;
    if (plain_) base_ = std::exp(tilt_ * buckets_.loss(from) - top_);
}

double Powers::through_logarithm(double mass, std::size_t j) const {
    return mass > 0.0 ? std::exp(tilt_ * buckets_.loss(from_ + j) - top_ + std::log(mass)) : 0.0;
}

Tilts tilt(Discrete& list, const Tilts& tilts) {
    Buckets& b = list.buckets;
    const std::size_t n = b.upper.mass.size();
    const double at = tilts.at - list.tilt;
    const double far = tilts.far - list.tilt;
    const double near = tilts.near - list.tilt;
    // Largest tilted mass for each of the three tilts: sums are taken relative to it. Any scale will do as long as
    // nothing overflows: a sample of the buckets is enough where they are many and vary slowly.
    const std::size_t stride = list.smooth && n > 4096 ? 16 : 1;
    const auto largest = [&](double turn) {
        double top = -kInf;
        for (std::size_t i = 0; i < n; i += stride)
            if (b.upper.mass[i] > 0.0) top = std::max(top, turn * b.loss(i) + std::log(b.upper.mass[i]));
        return top;
    };
    const double top = largest(at);
    const double top_far = largest(far);
    const double top_near = largest(near);
    // Both lists under the two others: merged losses have the larger moments where these are concave (between -1
    // and 0), and what a transform has left far out is as it happens.
    double sum = 0.0, sum_far = 0.0, sum_near = 0.0, low_far = 0.0, low_near = 0.0;
    Powers here(at, top, b), farther(far, top_far, b), nearer(near, top_near, b);
    for (std::size_t from = 0; from < n; from += Powers::kBlock) {
        here.start(from);
        farther.start(from);
        nearer.start(from);
        const std::size_t count = std::min(Powers::kBlock, n - from);
        double part = 0.0, part_far = 0.0, part_near = 0.0, small_far = 0.0, small_near = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            double& mass = b.upper.mass[from + j];
            double& low = b.lower.mass[from + j];
            part_far += farther.times(mass, j);
            part_near += nearer.times(mass, j);
            small_far += farther.times(low, j);
            small_near += nearer.times(low, j);
            low = here.times(low, j);
            mass = here.times(mass, j);
            part += mass;
        }
        sum += part;
        sum_far += part_far;
        sum_near += part_near;
        low_far += small_far;
        low_near += small_near;
    }
    sum_far = std::max(sum_far, low_far);
    sum_near = std::max(sum_near, low_near);
    // Masses that underflowed are below the smallest double each.
    const auto ends = [&](double turn) { return std::max(turn * b.loss(n - 1), turn * b.loss(0)); };
    const double lost = list.underflows ? std::log(static_cast<double>(n)) - 744.0 : -kInf;
    list.tail += std::exp(lost + ends(at) - top);
    list.tail += 1.01 * std::exp(list.log_missing - (std::log(sum) + top - list.log_scale));
    sum_far += std::exp(lost + ends(far) - top_far);
    sum_near += std::exp(lost + ends(near) - top_near);
    const double whole = std::log(sum) + top;
    const Tilts out = {std::log(sum_near) + top_near - list.log_scale, whole - list.log_scale,
                       std::log(sum_far) + top_far - list.log_scale};
    // How the sum is rounded does not matter: what the masses are divided by is what the scale is.
    const double size = std::fabs(at) * (std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) + std::fabs(top));
    b.mass_err += 2.0 * kLibm * (std::fabs(top) + 800.0) + 4.0 * kRound * std::fabs(list.log_scale) +
                  4.0 * kRound * size + 40.0 * kRound + 4.0 * kLibm + kRound * (1.0 + std::fabs(out.at));
    const double unit_mass = 1.0 / sum;
    for (std::size_t i = 0; i < n; ++i) {
        b.upper.mass[i] *= unit_mass;
        b.lower.mass[i] *= unit_mass;
    }
    list.tilt = tilts.at;
    list.log_scale = -out.at;
    return out;
}

}  // namespace dpcore::detail
