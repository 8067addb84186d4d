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
                                " (80 bytes each); ask for a wider step or another engine");
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
// Panels are short enough that the rule's error is below 2e-13 relative: see docs, "Bin masses".
constexpr double kPanelTurn = 0.7;
constexpr double kMassErr = 4e-13;

// Collects point masses into both lists.
class Collector {
public:
    Collector(double step, double offset, double low, double high) : step_(step), offset_(offset) {
        const double from = std::floor((low - offset) / step) - 1.0;
        const double to = std::ceil((high - offset) / step) + 1.0;
        refuse(to - from + 1.0);
        first_ = static_cast<std::int64_t>(from);
        size_ = static_cast<std::size_t>(to - from) + 1;
        upper_.assign(size_, 0.0);
        around_.assign(size_, 0.0);
        lift_.assign(size_, 0.0);
        denominator_ = -std::expm1(-step);
        grow_ = std::exp(step);
    }
    double point(double n) const { return offset_ + step_ * n; }

    // A mass whose loss is `above` beyond grid point n, 0 <= above <= step; nearest: belongs to the upper half of
    // that cell.
    void add(double n, double above, double mass, bool nearest_is_next) {
        add_fallen(index(n), std::min(denominator_, -std::expm1(-above)), mass, nearest_is_next);
    }
    // The same for fall = 1 - e^-above, 0 <= fall <= 1 - e^-step. One exponential for all: 1 - e^-above is the
    // share of the upper point, e^-above - e^-step of the lower, both over 1 - e^-step, and 1 - e^{step-above} =
    // -e^step (e^-above - e^-step). The rounding of the difference moves the loss by less than step times 2 kLibm,
    // within the error charged for a mass.
    void add_fallen(std::size_t i, double fall, double mass, bool nearest_is_next) {
        const double rest = denominator_ - fall;
        upper_[i + 1] += mass * (fall / denominator_);
        upper_[i] += mass * (rest / denominator_);
        const std::size_t j = nearest_is_next ? i + 1 : i;
        around_[j] += mass;
        lift_[j] += mass * (nearest_is_next ? (rest > 0.0 ? -grow_ * rest : 0.0)
                                            : fall);  // sum of mass (1 - e^{-(l - point)})
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
            lift[q] = -std::expm1(2 * q < points ? -at[q] : step_ - at[q]);
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
                    const std::size_t j = i + static_cast<std::size_t>(k + side);
                    upper_[j] += up[side];
                    around_[j] += around[side];
                    lift_[j] += lifted[side];
                }
            }
        }
    }
    // moved: how far the atom may be moved onto a point; the caller charges it.
    void add_atom(double loss, double mass, double moved = 0.0) {
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
        const double share = std::min(1.0, -std::expm1(-above) / denominator_);
        upper_[i + 1] += mass * share;
        upper_[i] += mass * (1.0 - share);
        atoms_.push_back({i, above, mass});
    }
    // Where one cell holds a tenth of the mass tilted by c: how far its mean is from its point, else 0.
    double heap(double c) const {
        double total = 0.0, most = 0.0, top = -kInf;
        std::size_t at = 0;
        for (std::size_t j = 0; j < size_; ++j) {
            total += around_[j];
            most = std::max(most, around_[j]);
        }
        if (most < 0.02 * total) return 0.0;  // the usual case, without exponentials
        total = most = 0.0;
        for (std::size_t j = 0; j < size_; ++j)
            if (around_[j] > 0.0) top = std::max(top, std::log(around_[j]) + c * loss_of(j));
        for (std::size_t j = 0; j < size_; ++j) {
            if (!(around_[j] > 0.0)) continue;
            const double w = std::exp(std::log(around_[j]) + c * loss_of(j) - top);
            total += w;
            if (w > most) most = w, at = j;
        }
        return most > 0.1 * total ? -std::log1p(-lift_[at] / around_[at]) : 0.0;
    }
    Buckets finish() {
        Buckets out;
        out.step = step_;
        out.offset = offset_;
        out.first = first_;
        out.upper.mass = std::move(upper_);
        out.lower.mass = even_out();
        gather_atoms(out.lower.mass);
        out.mass_err = kMassErr;
        return out;
    }

private:
    double loss_of(std::size_t j) const {
        return point(static_cast<double>(first_ + static_cast<std::int64_t>(j)));
    }

    struct Placed {
        std::size_t at;  // grid point at or below
        double above;
        double mass;
    };
    // Atoms into the lower list, from the top: those of one cell [point, point + step) are merged with as much of
    // the atoms below the point as takes the merged ratio down to the point's. Shares of atoms are random
    // post-processing. What finds nothing below is rounded down.
    void gather_atoms(std::vector<double>& lower) {
        const auto higher = [](const Placed& a, const Placed& b) {
            return a.at != b.at ? a.at > b.at : a.above > b.above;
        };
        if (!std::is_sorted(atoms_.begin(), atoms_.end(), higher)) {
            std::reverse(atoms_.begin(), atoms_.end());
            if (!std::is_sorted(atoms_.begin(), atoms_.end(), higher))
                std::sort(atoms_.begin(), atoms_.end(), higher);
        }
        const std::size_t n = atoms_.size();
        for (std::size_t k = 0; k < n;) {
            const std::size_t point = atoms_[k].at;
            // sum of mass (1 - e^{-(l - point)}) over the atoms above it
            double surplus = 0.0, merged = 0.0;
            const std::size_t from = k;
            for (; k < n && atoms_[k].at == point; ++k) {
                surplus += atoms_[k].mass * -std::expm1(-atoms_[k].above);
                merged += atoms_[k].mass;
            }
            // Less than the surplus allows by more than its sums' roundings and those of the deficits.
            surplus *= 1.0 - 1e-12 - 4.0 * kRound * static_cast<double>(k - from);
            while (k < n && surplus > 0.0) {
                Placed& a = atoms_[k];
                const double each = std::expm1(step_ * static_cast<double>(point - a.at) - a.above);
                if (!(each > 0.0)) break;
                if (a.mass * each * (1.0 + 1e-14) <= surplus) {
                    surplus = (surplus - a.mass * each) * (1.0 - 4.0 * kRound) - 4.0 * kRound * surplus;
                    merged += a.mass;
                    ++k;
                } else {
                    const double share = surplus / each * (1.0 - 1e-14);
                    merged += share;
                    a.mass -= share;
                    break;
                }
            }
            lower[point] += merged;
        }
    }

    // lift_[j]/around_[j] = 1 - e^{-h}: cell j merges to point + h. Where h < 0 it takes a share of the cell
    // above, as much as lifts to the point what it has not given away so far (what it gives later leaves it
    // above); where h > 0 it takes a share of the cell below, as much as leaves it at its point: those come second
    // and from the top, when all that cell j gives is known (to j - 1 where that has h < 0, to j + 1 where that
    // has h > 0). What is left above its point is rounded down.
    std::vector<double> even_out() const {
        constexpr double kMost = 0.5;   // of a cell, given away in all
        constexpr double kOnce = 0.25;  // and to one other
        // lift_ is a difference of sums of step * around_, with their roundings.
        const double margin = std::min(0.1, 1e-9 + 256.0 * kRound / step_);
        std::vector<double> share(size_, 0.0);  // of cell j, given away
        std::vector<double> out(size_, 0.0);    // what is gained, in the end all of it
        const double shrink = std::exp(-step_);
        std::vector<std::size_t> down;  // cells that have to be rounded down by a whole step
        for (std::size_t j = 1; j + 1 < size_; ++j) {
            if (!(around_[j] > 0.0) || !(lift_[j] < 0.0)) continue;
            // 1 - e^{-(l - point_j)} of the cell above: 1 - e^{-step} (1 - lift/around)
            const double height =
                around_[j + 1] > 0.0 ? 1.0 - shrink * (1.0 - lift_[j + 1] / around_[j + 1]) : 0.0;
            const double need =
                height > 0.0 ? -lift_[j] * (1.0 - share[j]) / (height * around_[j + 1]) * (1.0 + margin) : kInf;
            if (need < kOnce && share[j + 1] + need < kMost) {
                share[j + 1] += need;
                out[j] += need * around_[j + 1];
            } else {
                down.push_back(j);
            }
        }
        for (std::size_t j = size_ - 1; j-- > 1;) {
            if (!(around_[j] > 0.0) || !(lift_[j] > 0.0) || !(around_[j - 1] > 0.0)) continue;
            const double depth = grow_ * (1.0 - lift_[j - 1] / around_[j - 1]) - 1.0;
            if (!(depth > 0.0)) continue;
            const double want = lift_[j] * (1.0 - share[j]) / (depth * around_[j - 1]) * (1.0 - margin);
            const double given = std::min({want, kOnce, kMost - share[j - 1]});
            if (!(given > 0.0)) continue;
            share[j - 1] += given;
            out[j] += given * around_[j - 1];
        }
        for (std::size_t j = 0; j < size_; ++j) out[j] += around_[j] * (1.0 - share[j]);
        for (const std::size_t j : down) {
            // Without what it was given (nothing: it gave up), the rest of cell j moves to the point below.
            const double rest = around_[j] * (1.0 - share[j]);
            out[j] -= rest;
            if (out[j] < 0.0) out[j] = 0.0;
            out[j - 1] += rest;
        }
        return out;
    }

    double step_, offset_, denominator_ = 1.0, grow_ = 1.0;
    std::int64_t first_ = 0;
    std::size_t size_ = 0;
    std::vector<double> upper_, around_, lift_;
    std::vector<Placed> atoms_;
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
    refuse(last - from);
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
    refuse(last - from);
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
                    StopCheck check) {
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
            Collector collect(step, 0.0, rho + sd * low, rho + sd * high);
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
            // rho is rounded: the exponent of the density moves by x^2/2 times that.
            out.buckets.mass_err += (p[1] + 4.0 * kRound) * (high * high + 4.0 * high * std::sqrt(rho) + 4.0);
            break;
        }
        case LawKind::laplace: {
            const double e = p[0];
            Collector collect(step, e - step * std::floor(e / step), -e, e);
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
            const double power = removal ? 1.0 + std::max(c_far, 0.0) : std::max(-c_near, 0.0);
            const double reach = window(kTail);
            const double share0 = 1.0 / (1.0 + (1.0 - q) / q * std::exp(0.5 / s2));
            const double low = -reach * s - 1.0 - std::max(0.0, removal ? -(1.0 + c_near) : c_far) * share0;
            const double high = reach * s + power;
            const auto lambda = [=](double x) {
                const double y = (x - 0.5) / s2;
                return y < 30.0 ? std::log1p(q * std::expm1(y))
                                : y + std::log(q) + std::log1p((1.0 - q) / q * std::exp(-y));
            };
            const double sign = removal ? 1.0 : -1.0;
            const double longest = std::min(
                s * kPanelTurn / (reach + (std::fabs(power) + std::max(0.0, c_far)) / s + 3.2), 0.25 * s2);
            const double ends[2] = {std::min(sign * lambda(low), sign * lambda(high)),
                                    std::max(sign * lambda(low), sign * lambda(high))};
            const double farthest = std::max(-low, high);
            // The short way costs a few roundings of 1 in the loss: too many for losses that are small themselves.
            const bool brief =
                tilted && step >= 1e-6 && (high + 0.5) / s2 < 600.0 && farthest * farthest / (2.0 * s2) < 690.0;
            const auto tabulate = [&](Collector& collect) {
                if (brief) {
                    integrate_mixture(collect, step, low, high, longest, s2, q, removal, ends[0], ends[1], check);
                    return;
                }
                integrate(
                    collect, step, low, high, longest, [=](double x) { return sign * lambda(x); },
                    [=](double l) {
                        const double v = std::expm1(sign * l) / q;
                        return v > -1.0 ? std::min(high, std::max(low, 0.5 + s2 * std::log1p(v))) : low;
                    },
                    [=](double x, double loss) {
                        return std::exp(-x * x / (2.0 * s2) + (removal ? loss : 0.0)) * 0.39894228040143267794 / s;
                    },
                    check);
            };
            Collector collect(step, 0.0, ends[0], ends[1]);
            tabulate(collect);
            // Nearly all losses within a few steps: they count as an atom, which belongs on the grid.
            const double shift = tilted ? collect.heap(c) : 0.0;
            if (shift != 0.0) {
                Collector again(step, shift, ends[0], ends[1]);
                tabulate(again);
                out.buckets = again.finish();
            } else {
                out.buckets = collect.finish();
            }
            if (brief)
                out.loss_err = kMixtureLoss + 4.0 * kRound * std::max(std::fabs(ends[0]), std::fabs(ends[1]));
            out.buckets.mass_err += 1e-13;
            out.tail = 4.0 * kTail;
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
            Collector collect(step, rho - step * std::floor(rho / step), rho - slope * high, rho - slope * low);
            refuse(high - low);
            double total = 0.0;
            for (double x = std::ceil(-reach - 3.0 * s); x <= reach + 3.0 * s; x += 1.0)
                total += std::exp(-x * x / (2.0 * s * s));
            for (double x = std::ceil(low); x <= high; x += 1.0)
                collect.add_atom(rho - slope * x, std::exp(-x * x / (2.0 * s * s)) / total);
            out.buckets = collect.finish();
            // Exponents of up to 745 with three roundings, and the plain sum of `total`.
            out.buckets.mass_err += (high - low + 2.0 * 745.0 * 3.0) * kRound;
            out.loss_err = 4.0 * kRound * (rho + slope * std::max(high, -low));
            out.tail = 4.0 * kTail;
            break;
        }
        case LawKind::large_steps:  // a part of a composition, made and used by contours alone
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
            Collector collect(step, anchor - step * std::floor(anchor / step), low, high);
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

Discrete discretise(const AtomBlock& block, double step, double c) {
    std::size_t heaviest = 0;
    for (std::size_t i = 0; i < block.mass.size(); ++i)
        if (block.mass[i] > block.mass[heaviest]) heaviest = i;
    const double anchor = block.loss[heaviest];
    Discrete out;
    Collector collect(step, anchor - step * std::floor(anchor / step), block.loss.front(), block.loss.back());
    double turn = 0.0;
    for (std::size_t i = 0; i < block.mass.size(); ++i) {
        if (!(block.mass[i] > 0.0)) continue;
        const double exponent = c * (block.loss[i] - anchor);
        turn = std::max(turn, std::fabs(exponent));
        collect.add_atom(block.loss[i], block.mass[i] * std::exp(-exponent), block.loss_err);
    }
    out.log_scale = c * anchor - block.log_mass;
    out.tail = block.tail;
    out.loss_err = 2.0 * block.loss_err;
    out.buckets = collect.finish();
    out.buckets.mass_err += block.mass_err + 1.01 * c * out.loss_err + 2.0 * kLibm + 4.0 * kRound * turn +
                            4.0 * kRound * (std::fabs(c * anchor) + std::fabs(block.log_mass)) +
                            static_cast<double>(block.mass.size()) * kRound;
    return out;
}

}  // namespace dpcore::detail
