#include "dpcore/buckets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "dpcore/direct_spectrum.hpp"
#include "dpcore/exp_block.hpp"
#include "dpcore/fourier.hpp"

namespace dpcore {

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

void refuse(double buckets) {
    if (!(buckets <= static_cast<double>(kMaxBuckets)))
        throw std::length_error("the bucket engine would need " +
                                std::to_string(buckets).substr(0, std::to_string(buckets).find('.')) +
                                " buckets, more than its limit of " + std::to_string(kMaxBuckets) +
                                " (80 bytes each); ask for a wider step or another engine");
}

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
    void add_atom(double loss, double mass) {
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
        // An atom has no neighbours to be evened out with: in the lower list it is rounded down.
        const double snap = 4.0 * kRound * (std::fabs(loss) + std::fabs(offset_));
        if (step_ - above <= snap) {
            at += 1.0;
            above = 0.0;
        }
        if (above <= snap) above = 0.0;
        const std::size_t i = index(at);
        const double share = std::min(1.0, -std::expm1(-above) / denominator_);
        upper_[i + 1] += mass * share;
        upper_[i] += mass * (1.0 - share);
        atoms_.push_back({i, mass});
    }
    Buckets finish() {
        Buckets out;
        out.step = step_;
        out.offset = offset_;
        out.first = first_;
        out.upper.mass = std::move(upper_);
        out.lower.mass = even_out();
        for (const auto& a : atoms_) out.lower.mass[a.first] += a.second;
        out.mass_err = kMassErr;
        return out;
    }

private:
    // lift_[j]/around_[j] = 1 - e^{-h}: cell j merges to point + h. Where h < 0 it takes a share of the cell
    // above, which is enough to reach the point even if nothing is taken from j itself; where h > 0 it takes a
    // share of the cell below, not more than leaves it at the point if kMost of j were taken away. What is left
    // above its point is rounded down.
    std::vector<double> even_out() const {
        constexpr double kMost = 0.5;
        std::vector<double> share(size_, 0.0);  // of cell j, given away
        std::vector<double> out(size_, 0.0);    // what is gained, in the end all of it
        const double shrink = std::exp(-step_);
        std::vector<std::size_t> down;  // cells that have to be rounded down by a whole step
        for (std::size_t j = 1; j + 1 < size_; ++j) {
            if (!(around_[j] > 0.0) || lift_[j] == 0.0) continue;
            if (lift_[j] < 0.0) {
                // 1 - e^{-(l - point_j)} of the cell above: 1 - e^{-step} (1 - lift/around)
                const double height =
                    around_[j + 1] > 0.0 ? 1.0 - shrink * (1.0 - lift_[j + 1] / around_[j + 1]) : 0.0;
                const double need = height > 0.0 ? -lift_[j] / (height * around_[j + 1]) * (1.0 + 1e-9) : kInf;
                // A cell above its point relies on 0.9 of itself (below), one under its point on nothing.
                const double most = lift_[j + 1] > 0.0 ? 0.1 : kMost;
                if (need < 0.25 && share[j + 1] + need < most) {
                    share[j + 1] += need;
                    out[j] += need * around_[j + 1];
                } else {
                    down.push_back(j);
                }
            } else {
                const double depth =
                    around_[j - 1] > 0.0 ? grow_ * (1.0 - lift_[j - 1] / around_[j - 1]) - 1.0 : 0.0;
                // Only a part is needed for a valid bound; all of it is wanted for a narrow one. 0.9: of cell j up
                // to a tenth may be given away to others.
                const double want = depth > 0.0 ? 0.9 * lift_[j] / (depth * around_[j - 1]) : 0.0;
                if (want > 0.0 && want < 0.25 && share[j - 1] + want < 0.1) {
                    share[j - 1] += want;
                    out[j] += want * around_[j - 1];
                }
            }
        }
        // Cells with h > 0 rely on at least 0.9 of themselves; those with h < 0 on nothing.
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
    std::vector<std::pair<std::size_t, double>> atoms_;
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
    const double from = std::floor(loss_low / half);
    const double last = std::floor(loss_high / half);
    refuse(last - from);
    refuse((high - low) / longest);  // far out in the tail the panels, not the buckets, are the work
    const double sign = removal ? 1.0 : -1.0;
    double edge = removal ? low : high;  // where the last panel ended
    double base = 1.0;                   // e^{point of the cell}
    std::size_t turns = 0;
    for (double m = from; m <= last; m += 1.0) {
        const double n = std::floor(0.5 * m);
        const bool second_half = m - 2.0 * n > 0.5;
        if (!second_half || m == from) base = std::exp(step * n);
        double a = edge;
        double b = removal ? high : low;
        if (m != last) {
            const double v = (std::exp(sign * half * (m + 1.0)) - (1.0 - q)) / q;
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

// Tail: tilted mass left out (a bound), relative to M(c).
struct Discrete {
    Buckets buckets;
    double tail = 0.0;
    double log_scale = 0.0;  // the masses are exp(log_scale) times the true ones: far tails would underflow
    double loss_err = 0.0;   // largest error of an atom's loss
    bool underflows = true;  // masses may have been lost below the smallest double
};

// Discretises `law` for use under the tilt c. tilted: the caller charges loss_err.
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
            collect.add_atom(e, 0.5);
            collect.add_atom(-e, 0.5 * std::exp(-e));
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
            Collector collect(step, 0.0, std::min(sign * lambda(low), sign * lambda(high)),
                              std::max(sign * lambda(low), sign * lambda(high)));
            // The short way costs a few roundings of 1 in the loss: too many for losses that are small themselves.
            const double farthest = std::max(-low, high);
            if (tilted && step >= 1e-6 && (high + 0.5) / s2 < 600.0 && farthest * farthest / (2.0 * s2) < 690.0) {
                const double ends[2] = {sign * lambda(low), sign * lambda(high)};
                integrate_mixture(collect, step, low, high, longest, s2, q, removal, std::min(ends[0], ends[1]),
                                  std::max(ends[0], ends[1]), check);
                out.loss_err = kMixtureLoss + 4.0 * kRound * std::max(std::fabs(ends[0]), std::fabs(ends[1]));
                out.buckets = collect.finish();
                out.buckets.mass_err += 1e-13;
                out.tail = 4.0 * kTail;
                break;
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
            out.buckets = collect.finish();
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
        case LawKind::largest_step:  // a part of a composition, made and used by contours alone
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

}  // namespace

double BucketList::total() const {
    double sum = 0.0;
    for (const double m : mass) sum += m;
    return sum + infinite + above + below;
}

Buckets Buckets::of(const LossLaw& law, double step, double low, double high, StopCheck stop) {
    Discrete d = discretise(law, step, 0.0, 0.0, 0.0, false, stop);
    Buckets b = std::move(d.buckets);
    b.upper.above += d.tail;
    b.lower.below += d.tail;
    // Cut to the window; what is cut keeps its name.
    std::size_t from = 0;
    std::size_t to = b.upper.mass.size();
    while (from + 1 < to && b.loss(from + 1) <= low) {
        b.upper.below += b.upper.mass[from];
        b.lower.below += b.lower.mass[from];
        ++from;
    }
    while (to - 1 > from && b.loss(to - 2) >= high) {
        --to;
        b.upper.above += b.upper.mass[to];
        b.lower.above += b.lower.mass[to];
    }
    for (BucketList* list : {&b.upper, &b.lower})
        list->mass.assign(list->mass.begin() + static_cast<std::ptrdiff_t>(from),
                          list->mass.begin() + static_cast<std::ptrdiff_t>(to));
    b.first += static_cast<std::int64_t>(from);
    return b;
}

Buckets Buckets::convolve(const Buckets& other, StopCheck stop) const {
    if (step != other.step)
        throw std::invalid_argument("buckets of different steps cannot be convolved; coarsen one of them");
    const std::size_t size = upper.mass.size() + other.upper.mass.size() - 1;
    refuse(static_cast<double>(size));
    Buckets out;
    out.step = step;
    out.offset = offset + other.offset;
    out.first = first + other.first;
    const double n = static_cast<double>(std::min(upper.mass.size(), other.upper.mass.size()));
    out.mass_err = mass_err + other.mass_err + (n + 4.0) * kRound;
    const auto join = [&](const BucketList& a, const BucketList& b, bool pessimistic) {
        BucketList r;
        r.mass.assign(size, 0.0);
        // Masses beyond the ends count where their list says.
        std::vector<double> x = a.mass;
        std::vector<double> y = b.mass;
        if (pessimistic) {
            x.front() += a.below;
            y.front() += b.below;
        } else {
            x.back() += a.above;
            y.back() += b.above;
        }
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (x[i] == 0.0) continue;
            if ((i & 63) == 0) stop();
            const double xi = x[i];
            double* to = r.mass.data() + i;
            for (std::size_t j = 0; j < y.size(); ++j) to[j] += xi * y[j];
        }
        const double ta = a.total();
        const double tb = b.total();
        r.infinite = a.infinite * tb + b.infinite * (ta - a.infinite);
        if (pessimistic)
            r.above = a.above * (tb - b.infinite) + b.above * (ta - a.infinite - a.above);
        else
            r.below = a.below * (tb - b.infinite) + b.below * (ta - a.infinite - a.below);
        return r;
    };
    out.upper = join(upper, other.upper, true);
    out.lower = join(lower, other.lower, false);
    return out;
}

Buckets Buckets::self_compose(std::uint64_t copies, StopCheck stop) const {
    Buckets out;
    out.step = step;
    out.upper.mass = out.lower.mass = {1.0};
    if (copies == 0) return out;
    Buckets power = *this;
    bool started = false;
    while (true) {
        if ((copies & 1U) != 0U) {
            out = started ? out.convolve(power, stop) : power;
            started = true;
        }
        copies >>= 1U;
        if (copies == 0) return out;
        power = power.convolve(power, stop);
    }
}

Buckets Buckets::coarsen() const {
    Buckets out;
    out.step = 2.0 * step;
    out.offset = offset;
    out.mass_err = mass_err + 8.0 * kLibm;
    const std::int64_t last = first + static_cast<std::int64_t>(upper.mass.size()) - 1;
    const auto floor_half = [](std::int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); };
    out.first = floor_half(first);
    const auto size = static_cast<std::size_t>(floor_half(last) - out.first) + 2;
    out.upper = {std::vector<double>(size, 0.0), upper.infinite, upper.above, 0.0};
    out.lower = {std::vector<double>(size, 0.0), lower.infinite, 0.0, lower.below};
    const double share = 1.0 / (1.0 + std::exp(-step));  // (1 - e^-d)/(1 - e^-2d)
    for (std::size_t i = 0; i < upper.mass.size(); ++i) {
        const std::int64_t n = first + static_cast<std::int64_t>(i);
        const auto at = static_cast<std::size_t>(floor_half(n) - out.first);
        // The ends of the new grid lie outside the old one: masses that count as an end go there now.
        const double low = lower.mass[i] + (i + 1 == upper.mass.size() ? lower.above : 0.0);
        const double high = upper.mass[i] + (i == 0 ? upper.below : 0.0);
        out.lower.mass[at] += low;
        if (n % 2 == 0) {
            out.upper.mass[at] += high;
        } else {
            out.upper.mass[at + 1] += high * share;
            out.upper.mass[at] += high * (1.0 - share);
        }
    }
    return out;
}

Interval Buckets::delta(double epsilon) const {
    double up = upper.infinite + upper.above;
    double down = lower.infinite;
    const double slip = 8.0 * kRound *
                        (std::fabs(epsilon) + std::fabs(offset) + step * static_cast<double>(upper.mass.size()) +
                         std::fabs(loss(0)));
    for (std::size_t i = 0; i < upper.mass.size(); ++i) {
        const double l = loss(i);
        double high = upper.mass[i];
        double low = lower.mass[i];
        if (i == 0) high += upper.below;
        if (i + 1 == upper.mass.size()) low += lower.above;
        if (l + slip > epsilon) up -= high * std::expm1(epsilon - l - slip);
        if (l - slip > epsilon) down -= low * std::expm1(epsilon - l + slip);
    }
    const double rel = mass_err + (static_cast<double>(upper.mass.size()) + 8.0) * kRound;
    return {std::max(0.0, down * (1.0 - rel)), std::min(1.0, up * (1.0 + rel))};
}

namespace {

// Nanoseconds of a bucket when its law is tabulated and tilted, and of an entry in a transform and its power.
constexpr double kBucketWork = 45.0;
constexpr double kTransformWork = 55.0;

// Where a query is answered: tilt, step and length of the transform.
struct Plan {
    double tilt = 0.0, far = 0.0, near = 0.0, step = 0.0, mean = 0.0, sd = 0.0, value = 0.0;
    double count = kInf;
};

Plan make_plan(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    Plan plan;
    const Placement place = spectral_placement(comp, epsilon, stop);
    if (!place.valid) return plan;
    plan.tilt = place.c;
    plan.mean = place.mean;
    plan.sd = std::sqrt(place.variance);
    plan.value = place.value;
    plan.far = place.far;
    plan.near = place.near;
    double copies = 0.0;
    for (const Term& t : comp.terms) copies += t.copies;
    if (comp.lattice.step > 0.0 && query.step == 0.0) {
        plan.step = comp.lattice.step;
    } else {
        // Upper adds about step^2/6 to the variance of each loss, lower takes step^2/12 away; delta changes by
        // c(1+c)/2 times that.
        double step = std::sqrt(2.0 * query.width / (copies * plan.tilt * (1.0 + plan.tilt)));
        step = std::min(step, plan.sd / 4.0);
        if (query.step > 0.0)
            step = query.step;
        else {
            // Atoms of a single Laplace law lie on the grid.
            double largest = 0.0;
            for (const Term& t : comp.terms)
                if (t.law->kind() == LawKind::laplace) largest = std::max(largest, t.law->parameters()[0]);
            // Atoms off the grid are rounded down in the lower list, by half a step on average: first order.
            double loose = 0.0;
            bool anchored = false;
            for (const Term& t : comp.terms) {
                const LawKind kind = t.law->kind();
                if (kind == LawKind::laplace) {
                    if (t.law->parameters()[0] != largest) loose += t.copies;
                } else if (kind != LawKind::gaussian && kind != LawKind::subsampled_gaussian) {
                    if (anchored || largest > 0.0 || !(t.law->lattice().step > 0.0))
                        loose += t.copies;
                    else {
                        const double lattice = t.law->lattice().step;
                        step = lattice / std::ceil(lattice / step);
                        anchored = true;
                    }
                }
            }
            if (loose > 0.0)
                step =
                    std::min(step, std::max(3.0 * query.width / (loose * plan.tilt), 2.0 * place.distance / 2e6));
            if (largest > 0.0) step = largest / std::ceil(largest / step);
        }
        plan.step = step;
    }
    plan.count = (2.0 * place.distance + 8.0 * plan.step) / plan.step;
    // A law wider than that on its own still has to be tabulated; discretise() refuses beyond the limit.
    return plan;
}

// Where a sum left the range of double: no statement but the trivial one.
LogBounds nothing_known(const Composition& comp) {
    return add_infinite_mass(comp, {-kInf, comp.log_finite_mass + comp.log_mass_err});
}

// mass e^{tilt loss - top} over a list: one exponential a block and a table of e^{tilt step j}, or through the
// logarithm where the factors alone would leave the range of double.
class Powers {
public:
    static constexpr std::size_t kBlock = 64;
    Powers(double tilt, double top, const Buckets& buckets) : tilt_(tilt), top_(top), buckets_(buckets) {
        const double low = tilt * buckets.loss(0) - top;
        const double high = tilt * buckets.loss(buckets.upper.mass.size() - 1) - top;
        const double turn = tilt * buckets.step;
        plain_ = std::fabs(low) < 600.0 && std::fabs(high) < 600.0 && std::fabs(turn) * kBlock < 40.0;
        for (std::size_t j = 0; plain_ && j < kBlock; ++j) table_[j] = std::exp(turn * static_cast<double>(j));
    }
    void start(std::size_t from) {
        from_ = from;
        if (plain_) base_ = std::exp(tilt_ * buckets_.loss(from) - top_);
    }
    double times(double mass, std::size_t j) const {
        if (plain_) return mass * (base_ * table_[j]);
        return mass > 0.0 ? std::exp(tilt_ * buckets_.loss(from_ + j) - top_ + std::log(mass)) : 0.0;
    }

private:
    double tilt_, top_, base_ = 0.0;
    const Buckets& buckets_;
    std::size_t from_ = 0;
    bool plain_ = false;
    double table_[kBlock] = {};
};

// One release needs no transform: delta straight from the tilted lists.
LogBounds single_delta(const Composition& comp, double epsilon, double step, double c, StopCheck stop) {
    const Discrete d = discretise(*comp.terms[0].law, step, c, c, c, true, stop);
    const Buckets& b = d.buckets;
    const std::size_t n = b.upper.mass.size();
    double top = -kInf;
    for (std::size_t i = 0; i < n; ++i)
        if (b.upper.mass[i] > 0.0 && (i % 16 == 0 || n < 4096))
            top = std::max(top, c * b.loss(i) + std::log(b.upper.mass[i]));
    if (!std::isfinite(top)) return nothing_known(comp);
    // mass (1 - e^{eps - l}) for l > eps, relative to e^{top - c eps}: mass e^{c eps - top} times the payoff.
    const double scale = c * epsilon - top;
    if (!(scale < 650.0)) return nothing_known(comp);
    const double slip = d.loss_err + 8.0 * kRound *
                                         (std::fabs(epsilon) + std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) +
                                          std::fabs(b.offset));
    double upper = 0.0, lower = 0.0, mass = 0.0;
    const double factor = std::exp(scale);
    Powers here(c, top, b);
    // 1 - e^-x from the start of a block on: (1 - e^-y) + e^-y (1 - e^{-step j}), nothing cancels where y >= 0.
    // Below 0, and where a block straddles it, one by one.
    double fallen[Powers::kBlock];
    for (std::size_t j = 0; j < Powers::kBlock; ++j) fallen[j] = -std::expm1(-step * static_cast<double>(j));
    for (std::size_t from = 0; from < n; from += Powers::kBlock) {
        const std::size_t count = std::min(Powers::kBlock, n - from);
        here.start(from);
        double sum = 0.0;
        for (std::size_t j = 0; j < count; ++j) sum += here.times(b.upper.mass[from + j], j);
        mass += sum;
        const double y = b.loss(from) - epsilon;
        if (b.loss(from + count - 1) - epsilon + slip <= 0.0) continue;
        const double whole = y >= 0.0 ? -std::expm1(-y) : 0.0;
        const double rest = y >= 0.0 ? std::exp(-y) : 0.0;
        double high = 0.0, low = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            double pay = whole + rest * fallen[j];
            if (y < 0.0) {
                const double x = b.loss(from + j) - epsilon;
                if (x + slip <= 0.0) continue;
                pay = x > 0.0 ? -std::expm1(-x) : 0.0;
            }
            high += b.upper.mass[from + j] * factor * (pay + 1.01 * slip);
            low += b.lower.mass[from + j] * factor * std::max(0.0, pay - 1.01 * slip);
        }
        upper += high;
        lower += low;
    }
    // Tabulated range: all but d.tail of the tilted law.
    const double pay = std::exp(c * std::log(c) - (1.0 + c) * std::log1p(c));
    const double outside =
        (d.tail * 1.01 * mass +
         static_cast<double>(n) * std::exp(std::max(c * b.loss(n - 1), c * b.loss(0)) - top - 744.0)) *
        pay;
    const double slack = b.mass_err * 2.0 + (static_cast<double>(n) + 64.0) * kRound +
                         8.0 * kLibm * (1.0 + std::fabs(scale)) + 4.0 * kRound * d.log_scale;
    const double base = top - d.log_scale - c * epsilon;
    const double high = (upper + outside) * (1.0 + slack);
    const double low = (lower - outside) * (1.0 - slack);
    if (!(std::isfinite(high) && std::isfinite(base))) return nothing_known(comp);
    return add_infinite_mass(comp, {low > 0.0 ? base + std::log(low) - 4.0 * kRound * std::fabs(base) : -kInf,
                                    base + std::log(high) + 4.0 * kRound * std::fabs(base)});
}

std::size_t power_of_two(double count) {
    std::size_t n = 16;
    while (static_cast<double>(n) < count) n *= 2;
    return n;
}

}  // namespace

double bucket_count(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.terms.empty() || epsilon >= comp.max_loss || comp.log_finite_mass == -kInf) return 0.0;
    return make_plan(comp, epsilon, query, stop).count;
}

LogBounds bucket_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.log_finite_mass == -kInf || comp.terms.empty() || epsilon >= comp.max_loss)
        return spectral_delta(comp, epsilon, stop);
    const Plan plan = make_plan(comp, epsilon, query, stop);
    refuse(plan.count);
    const double c = plan.tilt;
    if (comp.terms.size() == 1 && comp.terms[0].copies == 1.0) {
        const LawKind kind = comp.terms[0].law->kind();
        if (kind == LawKind::gaussian || kind == LawKind::subsampled_gaussian)
            return single_delta(comp, epsilon, plan.step, c, stop);
    }
    const std::size_t size = power_of_two(plan.count);
    refuse(static_cast<double>(size));

    // Tilted lists of unit mass.
    const auto period = static_cast<std::int64_t>(size);
    double log_scale = 0.0;  // log of the product of the tilted masses (upper lists)
    double tail = 0.0;       // relative mass of left-out tails
    double rel = 0.0;        // relative error of masses, summed over copies
    double offset = 0.0, offset_err = 0.0;
    const double c_right = plan.far;
    const double c_left = plan.near;
    double log_right = 0.0, log_left = 0.0;
    double list_top = 0.0, list_bottom = 0.0;  // extremes of the composed lists
    bool in_range = true;
    const auto prepare = [&](const Term& t) {
        stop();
        Discrete d = discretise(*t.law, plan.step, c_left, c, c_right, true, stop);
        Buckets& b = d.buckets;
        const std::size_t n = b.upper.mass.size();
        stop.spend(kBucketWork * static_cast<double>(n));
        // Largest tilted mass for each of the three tilts: sums are taken relative to it.
        // Any scale will do as long as nothing overflows: a sample of the buckets is enough where they are many
        // and vary slowly.
        const LawKind kind = t.law->kind();
        const bool dense = kind == LawKind::gaussian || kind == LawKind::subsampled_gaussian;
        const std::size_t stride = dense && n > 4096 ? 16 : 1;
        const auto largest = [&](double tilt) {
            double top = -kInf;
            for (std::size_t i = 0; i < n; i += stride)
                if (b.upper.mass[i] > 0.0) top = std::max(top, tilt * b.loss(i) + std::log(b.upper.mass[i]));
            return top;
        };
        const double top = largest(c);
        const double top_right = largest(c_right);
        const double top_left = largest(c_left);
        double upper_sum = 0.0, right = 0.0, left = 0.0;
        Powers here(c, top, b), far(c_right, top_right, b), near(c_left, top_left, b);
        for (std::size_t from = 0; from < n; from += Powers::kBlock) {
            here.start(from);
            far.start(from);
            near.start(from);
            const std::size_t count = std::min(Powers::kBlock, n - from);
            double sum = 0.0, sum_right = 0.0, sum_left = 0.0;
            for (std::size_t j = 0; j < count; ++j) {
                double& mass = b.upper.mass[from + j];
                double& low = b.lower.mass[from + j];
                sum_right += far.times(mass, j);
                sum_left += near.times(mass, j);
                low = here.times(low, j);
                mass = here.times(mass, j);
                sum += mass;
            }
            upper_sum += sum;
            right += sum_right;
            left += sum_left;
        }
        // Masses that underflowed are below the smallest double each.
        const double ends = std::max(c * b.loss(n - 1), c * b.loss(0));
        const double lost = d.underflows ? std::log(static_cast<double>(n)) - 744.0 : -kInf;
        tail += t.copies * std::exp(lost + ends - top);
        right += std::exp(lost + std::max(c_right * b.loss(n - 1), c_right * b.loss(0)) - top_right);
        left += std::exp(lost + std::max(c_left * b.loss(n - 1), c_left * b.loss(0)) - top_left);
        in_range = in_range && upper_sum > 0.0 && upper_sum < kInf && right < kInf && left < kInf;
        const double log_upper_mass = std::log(upper_sum) + top - d.log_scale;
        log_scale += t.copies * log_upper_mass;
        log_right += t.copies * (std::log(right) + top_right - d.log_scale + d.tail);
        log_left += t.copies * (std::log(left) + top_left - d.log_scale + d.tail);
        tail += t.copies * d.tail;
        std::size_t last = n - 1;
        std::size_t lowest = 0;
        while (last > 0 && b.upper.mass[last] == 0.0 && b.lower.mass[last] == 0.0) --last;
        while (lowest < last && b.upper.mass[lowest] == 0.0 && b.lower.mass[lowest] == 0.0) ++lowest;
        list_top += t.copies * b.loss(last);
        list_bottom += t.copies * b.loss(lowest);
        const double size_c = std::fabs(c) * (std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) + std::fabs(top));
        rel += t.copies * (b.mass_err + 2.0 * kLibm * (std::fabs(top) + 800.0) + 4.0 * kRound * d.log_scale +
                           4.0 * kRound * size_c + (static_cast<double>(n) * 2.0 + 40.0) * kRound + 4.0 * kLibm +
                           kRound * (1.0 + std::fabs(log_upper_mass)));
        offset += t.copies * b.offset;
        offset_err += t.copies * d.loss_err +
                      t.copies * 4.0 * kRound *
                          (std::fabs(b.offset) +
                           plan.step * (std::fabs(static_cast<double>(b.first)) + static_cast<double>(n)));
        const double unit_mass = 1.0 / upper_sum;
        for (std::size_t i = 0; i < n; ++i) {
            b.upper.mass[i] *= unit_mass;
            b.lower.mass[i] *= unit_mass;
        }
        return TiltedList{std::move(b.upper.mass), std::move(b.lower.mass), b.first, t.copies};
    };
    // The few frequencies that matter first, as long as all lists together are not much longer than a transform's
    // arrays. What has been prepared is kept: its sums are in the totals. A product costs about a thirtieth of
    // what a transform there and back takes for an entry.
    constexpr double kProductsOfEntry = 40.0;
    const bool single_release = comp.terms.size() == 1 && comp.terms[0].copies == 1.0;
    std::vector<TiltedList> lists;
    std::size_t kept = 0;
    for (const Term& t : comp.terms) {
        lists.push_back(prepare(t));
        if (!in_range) return nothing_known(comp);
        kept += lists.back().upper.size();
        if (kept > 2 * size) break;
    }
    const bool all_kept = lists.size() == comp.terms.size();
    // delta = exp(log_scale - c eps) sum over n of tilted mass * exp(-c x)(1 - exp(-x)), x = loss - eps > 0. The
    // window is one period around the centre; eps is somewhere inside or below.
    const double half = static_cast<double>(size / 2);
    const auto centre_now = [&] { return std::nearbyint((plan.mean - offset) / plan.step); };
    const auto slip_now = [&] {
        return offset_err +
               4.0 * kRound *
                   (std::fabs(epsilon) + std::fabs(offset) + plan.step * (std::fabs(centre_now()) + half));
    };
    // The weight e^{-cx}(1 - e^{-x}) moves by at most slip (1+c) e^{-cx} e^{c slip} when x is off by slip.
    const auto drift_now = [&] { return 1.01 * slip_now() * (1.0 + c) * std::exp(c * slip_now()); };
    double upper = 0.0, lower = 0.0, noise = 0.0;
    DirectSum few;
    if (all_kept && !single_release) {
        const double bottom = centre_now() - half;
        double from = std::max(bottom, std::floor((epsilon - offset) / plan.step));
        double x0 = (offset - epsilon) + plan.step * from;
        for (int i = 0; i < 3 && !(x0 > 0.0); ++i) {
            from += 1.0;
            x0 = (offset - epsilon) + plan.step * from;
        }
        if (std::fabs(from) < 9e15)
            few = direct_spectrum(lists, size,
                                  {c, plan.step, x0, static_cast<std::int64_t>(from), bottom + 2.0 * half - from},
                                  kProductsOfEntry * static_cast<double>(size * (lists.size() + 1)), stop);
    }
    double transform_err = 0.0;  // L2, relative to unit lists
    double spectrum = 0.0;
    if (few.valid) {
        // All tilted mass, 1, under a weight that drifts by at most drift e^{-cx}, x > -slip.
        upper = few.upper + 1.01 * drift_now();
        lower = few.lower - 1.01 * drift_now();
        noise = few.err;
    } else {
        const double unit = transform_error(size);
        std::vector<double> re(size), im(size), all_re, all_im, low_re, low_im;
        bool first_law = true;
        for (std::size_t i = 0; i < comp.terms.size(); ++i) {
            const Term& t = comp.terms[i];
            const TiltedList list = i < lists.size() ? std::move(lists[i]) : prepare(t);
            if (!in_range) return nothing_known(comp);
            std::fill(re.begin(), re.end(), 0.0);
            std::fill(im.begin(), im.end(), 0.0);
            // Folded into the transform's period.
            std::int64_t at = list.first % period;
            if (at < 0) at += period;
            for (std::size_t j = 0; j < list.upper.size(); ++j) {
                re[static_cast<std::size_t>(at)] += list.upper[j];
                im[static_cast<std::size_t>(at)] += list.lower[j];
                if (++at == period) at = 0;
            }
            if (single_release) break;
            double norm = 0.0;
            for (std::size_t j = 0; j < size; ++j) norm += re[j] * re[j] + im[j] * im[j];
            stop.spend(kTransformWork * static_cast<double>(size));
            fourier_forward(re, im, stop);
            transform_err += t.copies * unit * std::sqrt(norm) * 1.5;
            // Separate the two real sequences and take powers; frequencies that cannot matter are left out.
            if (first_law) {
                all_re.assign(size / 2 + 1, 1.0);
                all_im.assign(size / 2 + 1, 0.0);
                low_re = all_re;
                low_im = all_im;
                first_law = false;
            }
            const auto copies = static_cast<std::uint64_t>(t.copies);
            const double negligible = std::exp(-120.0 / t.copies) * (1.0 - kLibm);  // |x|^copies < e^-60
            for (std::size_t j = 0; j <= size / 2; ++j) {
                const std::size_t mirror = (size - j) & (size - 1);
                if (j % 65536 == 0) stop();
                Complex up = {0.5 * (re[j] + re[mirror]), 0.5 * (im[j] - im[mirror])};
                Complex low = {0.5 * (im[j] + im[mirror]), -0.5 * (re[j] - re[mirror])};
                const auto power = [&](Complex x, double& out_re, double& out_im) {
                    const double square = norm2(x);
                    if (out_re == 0.0 && out_im == 0.0) return;
                    if (square < negligible) {
                        out_re = out_im = 0.0;
                        return;
                    }
                    Complex result = {out_re, out_im};
                    for (std::uint64_t k = copies;;) {
                        if ((k & 1U) != 0U) result = result * x;
                        k >>= 1U;
                        if (k == 0) break;
                        x = x * x;
                    }
                    out_re = result.re;
                    out_im = result.im;
                };
                power(up, all_re[j], all_im[j]);
                power(low, low_re[j], low_im[j]);
            }
            // Squarings and products: 4 roundings each, the error of a power counts its exponent.
            transform_err += t.copies * 16.0 * kRound + std::sqrt(static_cast<double>(size)) * 1e-26;
        }
        if (!single_release) {
            for (std::size_t j = 0; j <= size / 2; ++j) {
                const std::size_t mirror = (size - j) & (size - 1);
                // upper + i lower, both real sequences
                re[j] = all_re[j] - low_im[j];
                im[j] = all_im[j] + low_re[j];
                re[mirror] = all_re[j] + low_im[j];
                im[mirror] = -all_im[j] + low_re[j];
            }
            for (std::size_t j = 0; j < size; ++j) spectrum += re[j] * re[j] + im[j] * im[j];
            stop.spend(kTransformWork * static_cast<double>(size));
            fourier_inverse(re, im, stop);
        }
        // || error of the composed tilted masses ||_2: the forward error (its L2 norm is divided by sqrt(size) on
        // the way back and multiplied by it on the way in), and the inverse transform's own.
        const double l2 =
            (transform_err + unit * std::sqrt(spectrum) / std::sqrt(static_cast<double>(size))) * 1.01;

        // Indices are known modulo the period; the window of one period around the tilted mean decides.
        const double centre = centre_now();
        const double start = std::fmod(centre, static_cast<double>(size));
        const double slip = slip_now();
        const double drift = drift_now();
        double weight2 = 0.0;
        for (std::size_t j = 0; j < size; ++j) {
            double n = static_cast<double>(j) - start;  // relative to the centre, in [-half, half)
            while (n >= half) n -= static_cast<double>(size);
            while (n < -half) n += static_cast<double>(size);
            const double x = (offset - epsilon) + plan.step * (centre + n);
            if (x <= -slip) continue;
            const double fall = std::exp(-c * x);
            const double middle = x > 0.0 ? fall * -std::expm1(-x) : 0.0;
            const double w = middle + fall * drift;
            upper += std::max(0.0, re[j]) * w;
            weight2 += w * w;
            lower += std::max(0.0, im[j]) * std::max(0.0, middle - fall * drift);
        }
        noise = l2 * std::sqrt(weight2);
    }
    const double centre = centre_now();
    const double slip = slip_now();
    const double pay = std::exp(c * std::log(c) - (1.0 + c) * std::log1p(c));
    // Outside the window: tilted mass by Chernoff at c_right and c_left, each relative to exp(log_scale).
    const double window_top = offset + plan.step * (centre + half - 1.0);
    const double window_bottom = offset + plan.step * (centre - half);
    const double above =
        list_top <= window_top - plan.step ? 0.0 : std::exp(log_right - log_scale - (c_right - c) * window_top);
    const double under = list_bottom >= window_bottom + plan.step
                             ? 0.0
                             : std::exp(log_left - log_scale + (c - c_left) * window_bottom);
    const double beyond = above + under;
    const double outside = (beyond * 1.01 + tail) * pay * (1.0 + 1e-6);
    const double base = log_scale - c * epsilon;
    const double slack = rel * 2.0 + 2.0 * c * slip + 8.0 * kLibm +
                         4.0 * kRound * (std::fabs(log_scale) + std::fabs(c * epsilon)) +
                         2.0 * static_cast<double>(size) * kRound;
    const double high = (upper + noise + outside) * (1.0 + slack);
    const double low = (lower - noise - outside) * (1.0 - slack);
    // First-order bounds hold while they are small.
    if (!(std::isfinite(high) && std::isfinite(low) && std::isfinite(base) && std::isfinite(spectrum)) ||
        !(slack < 0.1) || !(transform_err < 0.1))
        return nothing_known(comp);
    LogBounds finite = {low > 0.0 ? base + std::log(low) : -kInf, base + std::log(high)};
    return add_infinite_mass(comp, finite);
}

}  // namespace dpcore
