#include "beside_listed.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "closed_forms.hpp"
#include "divided_steps.hpp"
#include "law_shares.hpp"
#include "log_sum.hpp"
#include "loss_list.hpp"
#include "step_cuts.hpp"
#include "step_pieces.hpp"
#include "step_scales.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Listed losses are one range where what is left for the steps differs by no more than this factor, and need not
// be told apart below this share of the sampled steps.
constexpr double kOneSize = 4.0;
constexpr double kLeastShare = 0.1;
// Sums from which on contours over all of them may end by themselves.
constexpr std::size_t kManySums = 1024;
// Nanoseconds of two closed forms.
constexpr double kClosedWork = 3000.0;

// One step beside listed losses, and nothing else: a closed form for each of these.
bool comp_is_one_step(const DividedSteps& divided) {
    return divided.all_listed() && divided.all_steps().size() == 1 && divided.all_steps()[0].copies == 1.0;
}
LogBounds one_step_over(const DividedSteps& divided, const LossList& list, double at, StopCheck stop) {
    const SubsampledStep step = divided.base();
    // delta at x, which is exact; below 0, 1 - e^x + e^x times that of the other direction at -x, all positive.
    const auto delta = [&](double x) {
        if (x >= 0.0) return one_subsampled(step.sigma, step.q, step.removal, x);
        const LogBounds other = one_subsampled(step.sigma, step.q, !step.removal, -x);
        const double without = std::log(-std::expm1(x));
        const double off = 2.0 * kLibm * (1.0 + std::fabs(without));
        return LogBounds{log_add(without - off, outward(other.log_lower + x, -1.0), -1.0),
                         log_add(without + off, outward(other.log_upper + x, 1.0), 1.0)};
    };
    const LogBounds mass = list.log_mass(0, list.size());
    LogBounds sum = {-kInf, -kInf};
    std::size_t done = 0;
    for (const WeightedPoint& p : divided.points(at)) {
        if (done++ % 64 == 0) stop();
        stop.spend(kClosedWork);
        sum = {log_add(sum.log_lower, outward(p.log_weight + delta(p.x + p.err).log_lower, -1.0), -1.0),
               log_add(sum.log_upper, outward(p.log_weight + delta(p.x - p.err).log_upper, 1.0), 1.0)};
    }
    const double off = divided.points_err();
    return {outward(sum.log_lower + mass.log_lower - off, -1.0),
            outward(sum.log_upper + mass.log_upper + off, 1.0)};
}

}  // namespace

LogBounds beside_listed_bounds(const Composition& comp, Quantity quantity, double at, double content,
                               StopCheck stop) {
    DividedSteps divided(comp, at, stop);
    const bool tail = quantity == Quantity::tail;
    const double tilt = tail ? 0.0 : tilt_for(comp, at, stop);
    divided.list(tilt);
    if (!divided.listed()) return divided_bounds(divided, quantity, at, at, content, -kInf, stop);
    const LossList& list = *divided.listed();
    const auto with_lost = [&](LogBounds sum) {
        const double lost = std::log(list.lost()) + (tail ? 0.0 : log_chernoff_at(comp, at, tilt, stop));
        for (const double more : {lost, std::log(list.underflow())})
            sum.log_upper = log_add(sum.log_upper, more + 1e-9, 1.0);
        return sum;
    };
    if (!tail && comp_is_one_step(divided)) return with_lost(one_step_over(divided, list, at, stop));
    // Many sums may lie so close that every contour ends by itself.
    LogBounds plain = {-kInf, kInf};
    if (list.size() > kManySums && expected_samples(comp) < kFewSteps) {
        within(stop, 0.3, [&](StopCheck part) {
            DividedSteps all(comp, at, part);
            plain = divided_bounds(all, quantity, at, at, content, -kInf, part);
        });
        if (narrow(plain, quantity, content)) return plain;
    }
    // The steps may have one scale for all of them.
    LogBounds once = {-kInf, kInf};
    if (expected_samples(comp) >= kFewSteps || much_noise_added(comp))
        within(stop, 0.3, [&](StopCheck part) {
            const LogBounds mass = list.log_mass(0, list.size());
            const LogBounds found = StepPieces(divided, {}, quantity, at, tilt, content, -kInf, part).whole(-kInf);
            once = with_lost(
                {outward(found.log_lower + mass.log_lower, -1.0), outward(found.log_upper + mass.log_upper, 1.0)});
        });
    if (narrow(once, quantity, content)) return once;
    // delta of a composition is at least that of the listed losses alone: (1 - e^x)+ for each.
    double alone = 0.0;
    if (!tail)
        for (std::size_t i = 0; i < list.size(); ++i)
            if (list.loss(i) > at) alone -= std::exp(list.log_mass_about(i)) * std::expm1(at - list.loss(i));
    const double known = tail ? 0.0 : std::max(once.log_lower, std::log(alone) - 0.1);
    // Losses are taken together where what is left for the steps is of one sign and about one size.
    struct Range {
        std::size_t first, last;
        double x;  // the least
    };
    const double least = kLeastShare * expected_samples(comp);
    const auto size = [&](std::size_t i) { return std::max(std::fabs(at - list.loss(i)), least); };
    std::vector<Range> ranges;
    std::vector<Share> shares;
    for (std::size_t first = 0; first < list.size();) {
        const bool below = list.loss(first) > at;
        double low = size(first), high = low;
        std::size_t last = first + 1;
        for (; last < list.size() && (list.loss(last) > at) == below; ++last) {
            low = std::min(low, size(last));
            high = std::max(high, size(last));
            if (high > kOneSize * low) break;
        }
        divided.choose(first, last);
        const LogBounds mass = list.log_mass(first, last);
        ranges.push_back({first, last, at - (below ? list.loss(first) : list.loss(last - 1))});
        shares.push_back(
            {mass, share_estimate(divided.outline(divided.all_steps()), quantity, at, mass.log_upper, stop)});
        first = last;
    }
    LogBounds sum = over_shares(shares, quantity, content, known, stop,
                                [&](std::size_t i, double own, double enough, StopCheck part) {
                                    divided.choose(ranges[i].first, ranges[i].last);
                                    return divided_bounds(divided, quantity, at, ranges[i].x, own, enough, part);
                                });
    sum = with_lost(sum);
    return {std::max({sum.log_lower, once.log_lower, plain.log_lower}),
            std::min({sum.log_upper, once.log_upper, plain.log_upper})};
}

}  // namespace dpcore::detail
