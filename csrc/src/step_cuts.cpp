#include "step_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dpcore/normal.hpp"
#include "log_sum.hpp"
#include "step_pieces.hpp"
#include "step_scales.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Cuts in a row that made a tail no narrower, after which no other is tried.
constexpr int kInVain = 2;
// log delta below which one division has to do.
constexpr double kFarBelow = -1000.0;
// Windows of additions: a factor of 30 of the odds; what is below e^-kScale does not matter.
constexpr double kWindow = 3.4;
constexpr double kScale = 40.0;

// Where to cut: between the two humps that the density of one step has when it is tilted by c, at the middle one
// of the three roots of x = p r(x), if there are as many; else where a step's share of the loss is even.
double valley(const SubsampledStep& step, double c) {
    const double p = step.power(c);
    const double s2 = step.sigma * step.sigma;
    const auto at_share = [&](double r) {  // r/(1 - r) = q/(1 - q) e^y
        return 0.5 + s2 * std::log(r / (1.0 - r) * (1.0 - step.q) / step.q);
    };
    if (p > 4.0 * s2) {
        // r(1 - r) = s^2/p, the slopes at which p r(x) - x turns.
        const double root = std::sqrt(0.25 - s2 / p);
        double low = at_share(s2 / p / (0.5 + root));
        double high = at_share(0.5 + root);
        if (p * step.posterior(low) < low && p * step.posterior(high) > high) {
            for (int i = 0; i < 40; ++i) {
                const double middle = 0.5 * (low + high);
                (p * step.posterior(middle) < middle ? low : high) = middle;
            }
            return low;
        }
    }
    return at_share(std::clamp(s2 / std::max(p, 4.0 * s2), 1e-3, 0.5));
}

// Additions of little noise: outputs on many scales of the loss, of which a window holds one or two. From where
// the tilted density ends, down to where all of so many steps are hardly ever below; or, of more steps, whose
// product dies out by itself, to where about two of them are above.
std::vector<double> addition_cuts(const SubsampledStep& step, double copies, double c) {
    const double s = step.sigma;
    const double p = step.power(c);
    const double mode = step.mode(p);
    const auto height = [&](double x) { return step.log_density(x, step.lambda(x), p); };
    double low = mode, high = mode + s;
    while (height(high) > height(mode) - kScale) high += s;
    for (int i = 0; i < 40; ++i) {
        const double middle = 0.5 * (low + high);
        (height(middle) > height(mode) - kScale ? low : high) = middle;
    }
    // |phi|^k ~ exp(-k s^2 log^2(t/c)/2) falls to e^-kScale within a factor of 300 where k s^2 > 2.5.
    const double away = copies * s * s > 2.5 ? normal_quantile_tail(std::min(0.5, 2.0 / copies))
                                             : -normal_quantile_tail(std::exp(-kScale / copies));
    const double bottom = mode + away / std::sqrt(step.curvature(p));
    std::vector<double> cuts;
    for (double at = high - kWindow * s * s; cuts.size() < StepPieces::kMostCuts; at -= kWindow * s * s) {
        cuts.push_back(at);
        if (at < bottom) break;
    }
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
}

// The best single cut, from `start`.
double best_cut(DividedSteps& divided, double start, double epsilon, double c, StopCheck stop) {
    const SubsampledStep base = divided.base();
    const double stride = StepPieces::kStride * base.sigma * base.sigma;
    const auto total = [&](double cut) {
        return StepPieces(divided, {cut}, Quantity::delta, epsilon, c, 0.1, -kInf, stop).estimate();
    };
    double at = start;
    double least = total(at);
    for (const double way : {-1.0, 1.0}) {
        bool moved = false;
        for (int i = 0; i < 12; ++i) {
            const double other = total(at + way * stride);
            if (!(other < least - 0.2)) break;
            at += way * stride;
            least = other;
            moved = true;
        }
        if (moved) break;
    }
    return at;
}

}  // namespace

double tilt_for(const Composition& comp, double epsilon, StopCheck stop) {
    const Placement place = spectral_placement(comp, epsilon, stop);
    return place.c > 0.0 ? place.c : 1.0;
}

std::vector<double> first_cuts(DividedSteps& divided, double epsilon, double c, StopCheck stop) {
    const SubsampledStep base = divided.base();
    if (!base.removal) return addition_cuts(base, divided.copies(), c);
    const double start = valley(base, c);
    divided.set_edges(start);
    const double cut = best_cut(divided, start, epsilon, c, stop);
    divided.set_edges(cut);
    return {cut};
}

bool narrow(const LogBounds& bounds, Quantity quantity, double content) {
    if (quantity == Quantity::delta) return bounds.log_upper - bounds.log_lower <= content;
    return std::exp(bounds.log_upper) - std::exp(bounds.log_lower) <= content;
}

LogBounds divided_bounds(DividedSteps& divided, Quantity quantity, double at, double x, double content,
                         double enough, StopCheck stop) {
    const bool removal = divided.base().removal;
    divided.set_distance(x);
    const Composition alone = divided.alone();
    const double c = tilt_for(alone, x < 0.0 ? std::min(-x, 0.5 * alone.max_loss) : x, stop);
    LogBounds best = {-kInf, kInf};
    const auto done = [&] {
        return narrow(best, quantity, content) || log_width(best) < enough + StepPieces::kNegligibleShare - 2.0;
    };
    // Towards the end of their losses the steps have one scale, and so they have where humps run into each other.
    const bool bounded = (x < 0.0) == removal;
    if (divided.listed()) {
        const StepPieces all(divided, {}, quantity, at, c, content, enough, stop);
        best = bounded || one_scale(alone, x, stop) ? all.whole(enough) : all.without(enough);
        if (done()) return best;
    }
    std::vector<double> cuts = first_cuts(divided, at - x + std::fabs(x), c, stop);
    // The heavy tail of additions is at small losses: where a step loses a third of -x.
    if (!removal && x < 0.0) cuts = {divided.base().place(-x / 3.0)};
    StepPieces pieces(divided, std::move(cuts), quantity, at, c, content, enough, stop);
    try {
        for (int in_vain = 0;;) {
            const LogBounds found = pieces.bounds();
            const double before = std::exp(best.log_upper) - std::exp(best.log_lower);
            best = {std::max(best.log_lower, found.log_lower), std::min(best.log_upper, found.log_upper)};
            const double width = std::exp(best.log_upper) - std::exp(best.log_lower);
            in_vain = quantity == Quantity::delta || width < 0.9 * before ? 0 : in_vain + 1;
            if (done() || in_vain == kInVain || !(best.log_upper > kFarBelow) || !pieces.refine()) break;
        }
    } catch (const OutOfWork&) {  // what has been found holds
    }
    return best;
}

}  // namespace dpcore::detail
