// Sums over laws that make up a composition, each a share of its mass: how closely each of them is asked for.
//
// Method:    The largest first, by estimates. Each gets a share of the width and of the work that is left, by what
//            it may add; one that is out of work counts with its mass, and of a delta that is hopeless then the
//            others are not asked.
// Domain:    any number of shares; masses as bounds of their logarithms.
// Guarantee: lower <= truth <= upper, if each share's bounds are; what has not been asked counts as at most 1.
// Evidence:  docs/accounting_derivations.md, "beside_listed"; tests/test_accounting_sampled_atoms.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "dpcore/spectral.hpp"
#include "log_sum.hpp"
#include "step_pieces.hpp"
#include "work.hpp"

namespace dpcore::detail {

// One of several laws that make up a composition.
struct Share {
    LogBounds mass;   // of the law, as a logarithm
    double estimate;  // of what it adds, likewise
};

// What one law adds, at most and about: nothing where all of its losses are below.
inline double share_estimate(const Composition& comp, Quantity quantity, double at, double log_mass,
                             StopCheck stop) {
    const double about = quantity == Quantity::tail ? 0.0 : log_chernoff_estimate(comp, at, stop);
    return log_mass + (about < 0.0 ? about : 0.0);
}

// The sum over all of them: ask(i, content, enough, stop) gives bounds for the i-th, its mass made 1, of a width
// that is relative for delta and absolute for tails. enough: log of what is next to nothing.
// known: a lower bound of the logarithm of the sum.
template <class Ask>
LogBounds over_shares(const std::vector<Share>& shares, Quantity quantity, double content, double known,
                      StopCheck stop, const Ask& ask) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    // Width of one share of a composition, of that of all.
    constexpr double kShareWidth = 0.3;
    // Relative width of delta with which the other shares need not be looked at.
    constexpr double kHopeless = 1e-6;
    // A share has so many times its part of the work that is left.
    constexpr double kFairShare = 2.5;
    constexpr double kLeastWork = 0.6;
    const bool tail = quantity == Quantity::tail;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < shares.size(); ++i) order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return shares[a].estimate > shares[b].estimate; });
    LogBounds sum = {-kInf, -kInf};
    const double count = static_cast<double>(shares.size());
    for (std::size_t done = 0; done < order.size(); ++done) {
        const Share& s = shares[order[done]];
        // Without a lower bound of the sum nothing is known to be next to nothing.
        const double least = tail ? 0.0 : std::max(known, sum.log_lower);
        const double wanted = std::log(content / count) + least;
        const double own = std::exp(std::min(wanted - (tail ? s.mass.log_upper : s.estimate), 0.0));
        LogBounds found = {-kInf, 0.0};
        const auto left = static_cast<double>(order.size() - done);
        const bool ended = within(stop, std::clamp(kFairShare / left, kLeastWork, 1.0), [&](StopCheck part) {
            const LogBounds b = ask(order[done], std::clamp(own, kShareWidth * content, 0.5),
                                    wanted - s.mass.log_upper - StepPieces::kNegligibleShare + 2.0, part);
            found = {std::max(found.log_lower, b.log_lower), std::min(found.log_upper, b.log_upper)};
        });
        sum = {log_add(sum.log_lower, outward(found.log_lower + s.mass.log_lower, -1.0), -1.0),
               log_add(sum.log_upper, outward(found.log_upper + s.mass.log_upper, 1.0), 1.0)};
        // Other engines have more use for the work that is left.
        if (!tail && !ended && sum.log_upper - sum.log_lower > kHopeless) return {sum.log_lower, 0.0};
    }
    return sum;
}

}  // namespace dpcore::detail
