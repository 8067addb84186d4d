#include "point_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "log_sum.hpp"
#include "saddle.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Points of one contour lie within so many standard deviations of the law tilted for the first of them, and so
// close that at the ends the integrand, and rounding with it, is at most e^kAbove of what it is at its own saddle
// point.
constexpr double kGroup = 4.0;
constexpr double kAbove = 3.0;
constexpr int kMostShorter = 12;
constexpr int kMostGroups = 400;
constexpr double kMostTilt = 1e6;
// A group is left to one moment where that is so much below what is next to nothing, as a logarithm.
constexpr double kGroupShare = 4.0;

// log of the sum of weight times exp(-c x), rounded up.
double log_tilted(const WeightedPoint* first, const WeightedPoint* last, double c) {
    double top = -kInf, size = 0.0;
    for (const WeightedPoint* p = first; p < last; ++p) {
        top = std::max(top, p->log_weight - c * p->x);
        size = std::max(size, std::fabs(p->log_weight) + std::fabs(c) * (std::fabs(p->x) + p->err / kRound));
    }
    if (!std::isfinite(top)) return top;
    double sum = 0.0;
    for (const WeightedPoint* p = first; p < last; ++p) sum += std::exp(p->log_weight - c * p->x - top);
    return top + std::log(sum) + 4.0 * kRound * (size + std::fabs(top) + static_cast<double>(last - first)) +
           4.0 * kLibm;
}

// What one moment says of points, K(c) being `value`; c > 0, or c < -1 (c < 0 for tails) for what is below them.
double log_moment(Quantity quantity, const WeightedPoint* first, const WeightedPoint* last, double c,
                  double value) {
    const double payoff = quantity == Quantity::tail ? 0.0 : log_payoff(c > 0.0 ? c : -1.0 - c);
    const double at = value + payoff + log_tilted(first, last, c);
    return at + 8.0 * kRound * (std::fabs(at) + std::fabs(value) + 1.0 + std::fabs(c));
}

class PointSums {
public:
    PointSums(const Composition& comp, Quantity quantity, const std::vector<WeightedPoint>& points, double enough,
              StopCheck stop)
        : comp_(comp),
          quantity_(quantity),
          begin_(points.data()),
          end_(points.data() + points.size()),
          enough_(enough),
          stop_(stop),
          moments_(moments(comp, stop)) {}

    LogBounds sum() {
        const WeightedPoint* middle = std::lower_bound(
            begin_, end_, moments_.mean, [](const WeightedPoint& p, double mean) { return p.x < mean; });
        // Nothing is above the largest loss, nor below the smallest.
        const WeightedPoint* top = end_;
        while (top > middle && (top - 1)->x - (top - 1)->err >= comp_.max_loss) --top;
        LogBounds out = side(middle, top, 1);
        if (middle > begin_) {
            LogBounds low = below(middle);
            // Where the losses are only a little above the points, the difference of nearly equal masses is less
            // exact than contours at c > 0.
            if (delta() && !(log_width(low) < enough_)) {
                const LogBounds other = side(begin_, middle, 1);
                low = {std::max(low.log_lower, other.log_lower), std::min(low.log_upper, other.log_upper)};
            }
            out = {log_add(out.log_lower, low.log_lower, -1.0), log_add(out.log_upper, low.log_upper, 1.0)};
        }
        return out;
    }

private:
    bool delta() const { return quantity_ == Quantity::delta; }

    // Points from `first` to before `last`, all on one side of the mean: delta or the tail above it (side 1), what
    // is E[(e^{x-L} - 1)+] or Pr[L <= x] below it (side -1), as a logarithm.
    LogBounds side(const WeightedPoint* first, const WeightedPoint* last, int way) {
        LogBounds out = {-kInf, -kInf};
        const auto add = [&](const LogBounds& b) {
            out = {log_add(out.log_lower, b.log_lower, -1.0), log_add(out.log_upper, b.log_upper, 1.0)};
        };
        // Where hardly any loss is below the points the saddle point is far out; the first exponent that is enough
        // will do.
        if (way < 0 && first < last) {
            double before = kInf;
            for (double c = -2.0; c > -kMostTilt; c *= 2.0) {
                stop_();
                const double at = log_moment(quantity_, first, last, c, comp_.cumulants(c, stop_).value);
                if (at < enough_ - 1.0) {
                    const double most =
                        log_moment(quantity_, first, last, c, certified_moment(comp_, c, stop_).log_upper);
                    if (most < enough_) return {-kInf, most};
                }
                if (!(at < before)) break;
                before = at;
            }
        }
        int groups = 0;
        while (first < last) {
            stop_();
            const double near = way > 0 ? first->x : (last - 1)->x;
            const Saddle at = saddle(near, way);
            if (!std::isfinite(at.value) || ++groups > kMostGroups) {
                add({-kInf, kInf});
                break;
            }
            const Cumulants k = comp_.cumulants(at.c, stop_);
            // All that is left.
            if (log_moment(quantity_, first, last, at.c, k.value) < enough_ - kGroupShare) {
                const double most =
                    log_moment(quantity_, first, last, at.c, certified_moment(comp_, at.c, stop_).log_upper);
                if (most < enough_) {
                    add({-kInf, most});
                    break;
                }
            }
            double length = std::min(kGroup * std::sqrt(std::max(k.second, 0.0)), (last - 1)->x - first->x);
            for (int i = 0; i < kMostShorter && length > 0.0; ++i, length *= 0.5)
                if (!far_from_saddle(near, way * length, at.c, k.value, way)) break;
            const double far = near + way * length;
            const WeightedPoint* from = first;
            const WeightedPoint* to = last;
            if (way > 0)
                to = std::upper_bound(first + 1, last, far,
                                      [](double x, const WeightedPoint& p) { return x < p.x; });
            else
                from = std::lower_bound(first, last - 1, far,
                                        [](const WeightedPoint& p, double x) { return p.x < x; });
            add(group(from, to, at, k.value, way));
            (way > 0 ? first : last) = way > 0 ? to : from;
        }
        return out;
    }

    LogBounds group(const WeightedPoint* first, const WeightedPoint* last, const Saddle& near, double value,
                    int way) {
        LogBounds out = {-kInf, kInf};
        const auto by_moment = [&](double c) {
            out.log_upper = std::min(
                out.log_upper, log_moment(quantity_, first, last, c, certified_moment(comp_, c, stop_).log_upper));
        };
        if (log_moment(quantity_, first, last, near.c, value) < enough_ - kGroupShare) {
            by_moment(near.c);
            if (out.log_upper < enough_ - 0.5 * kGroupShare) return out;
        }
        const double middle = 0.5 * (first->x + (last - 1)->x);
        const Saddle at = last - first > 1 ? saddle(middle, way) : near;
        const Contour contour(comp_, quantity_, at.c, at.second, middle, stop_);
        if (!std::isfinite(at.value) || !contour.usable()) {
            // What one moment says, the saddle point's or, where that cannot be certified, one nearer to 0 or -1.
            const double from = way < 0 && delta() ? -1.0 : 0.0;
            for (double part = 1.0; part > 1e-3 && std::isinf(out.log_upper); part *= 0.25)
                by_moment(from + part * (near.c - from));
            return out;
        }
        const Contour::Sum s = contour.evaluate(first, last);
        const auto log_of = [&](double v, double sign) {
            if (!(v > 0.0)) return -kInf;
            const double l = s.scale + std::log(v);
            return l + sign * (s.scale_err + 4.0 * kLibm + 2.0 * kRound * (std::fabs(l) + std::fabs(s.scale)));
        };
        const LogBounds found = {log_of(s.lower, -1.0), log_of(s.upper, 1.0)};
        if (std::isnan(found.log_lower) || std::isnan(found.log_upper)) return out;
        return {std::max(out.log_lower, found.log_lower), std::min(out.log_upper, found.log_upper)};
    }

    // Whether the integrand of the contour in the middle of near and near + length is too high for `near`, whose
    // own saddle point is at c, K(c) being `value`; for the other end it is about the same.
    bool far_from_saddle(double near, double length, double c, double value, int way) const {
        const Saddle middle = saddle(near + 0.5 * length, way);
        if (!std::isfinite(middle.value)) return true;
        return comp_.cumulants(middle.c, stop_).value - middle.c * near > value - c * near + kAbove;
    }

    Saddle saddle(double x, int way) const {
        const int side = way > 0 ? 1 : (delta() ? -2 : -1);
        return find_saddle(comp_, quantity_, x, side, moments_.mean, moments_.variance, stop_);
    }

    // All points before `last`, which are below the mean.
    LogBounds below(const WeightedPoint* last) {
        const WeightedPoint* first = begin_;
        while (first < last && first->x + first->err <= comp_.min_loss) ++first;
        const LogBounds rest = side(first, last, -1);
        const double mass_err = comp_.log_mass_err + 4.0 * kRound * std::fabs(comp_.log_finite_mass);
        const LogBounds known = {comp_.log_finite_mass - mass_err, comp_.log_finite_mass + mass_err};
        LogBounds p = certified_moment(comp_, 0.0, stop_);
        p = {std::max(p.log_lower, known.log_lower), std::min(p.log_upper, known.log_upper)};
        const LogBounds q = delta() ? certified_moment(comp_, -1.0, stop_) : LogBounds{-kInf, -kInf};
        if (!(std::isfinite(p.log_lower) && std::isfinite(p.log_upper)) || std::isnan(q.log_lower) ||
            std::isnan(q.log_upper))
            return {-kInf, kInf};
        // Relative to M(0) and the largest weight; 1 - e^x M(-1)/M(0) is taken at both ends of what is known.
        double top = -kInf;
        for (const WeightedPoint* w = begin_; w < last; ++w) top = std::max(top, w->log_weight);
        double low = 0.0, high = 0.0, size = 0.0;
        for (const WeightedPoint* w = begin_; w < last; ++w) {
            const double weight = std::exp(w->log_weight - top);
            const double off = 4.0 * kRound * (std::fabs(w->log_weight) + std::fabs(top));
            const double slip =
                w->err + 4.0 * kRound * (std::fabs(w->x) + std::fabs(q.log_upper) + std::fabs(p.log_upper));
            const double least = delta() ? -std::expm1(w->x + (q.log_upper - p.log_lower) + slip) : 1.0;
            const double most = delta() ? -std::expm1(w->x + (q.log_lower - p.log_upper) - slip) : 1.0;
            low += weight * least;
            high += weight * most;
            size += weight * (std::fabs(least) + std::fabs(most)) * (2.0 * kLibm + off);
        }
        const double count = static_cast<double>(last - begin_);
        size += (count + 4.0) * kRound * (std::fabs(low) + std::fabs(high));
        const double base_low = top + p.log_lower, base_high = top + p.log_upper;
        const auto share = [&](double log_value, double base) {
            return std::exp(std::min(log_value - base, 700.0));
        };
        // The rest is added to delta, and taken from a tail.
        const double err = 4.0 * kLibm + 4.0 * kRound * (std::fabs(base_low) + std::fabs(base_high));
        if (delta()) {
            low += share(rest.log_lower, base_high) * (1.0 - err);
            high += share(rest.log_upper, base_low) * (1.0 + err);
        } else {
            low -= share(rest.log_upper, base_low) * (1.0 + err);
            high -= share(rest.log_lower, base_high) * (1.0 - err);
        }
        low -= kSlack * size;
        high += kSlack * size;
        const auto outward = [](double l, double sign) {
            return std::isfinite(l) ? l + sign * (2.0 * kLibm + 2.0 * kRound * std::fabs(l)) : l;
        };
        if (std::isnan(low) || std::isnan(high)) return {-kInf, kInf};
        return {low > 0.0 ? outward(base_low + std::log(low), -1.0) : -kInf,
                high > 0.0 ? outward(base_high + std::log(high), 1.0) : -kInf};
    }

    const Composition& comp_;
    Quantity quantity_;
    const WeightedPoint *begin_, *end_;
    double enough_;
    StopCheck stop_;
    Moments moments_;
};

}  // namespace

double log_point_moment(const Composition& composition, Quantity quantity,
                        const std::vector<WeightedPoint>& points, double c, StopCheck stop) {
    stop();
    return log_moment(quantity, points.data(), points.data() + points.size(), c,
                      certified_moment(composition, c, stop).log_upper);
}

LogBounds point_sums(const Composition& composition, Quantity quantity, const std::vector<WeightedPoint>& points,
                     double enough, StopCheck stop) {
    if (points.empty()) return {-kInf, -kInf};
    return PointSums(composition, quantity, points, enough, stop).sum();
}

}  // namespace dpcore::detail
