#include "beside_laplace.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "beside_listed.hpp"
#include "divided_steps.hpp"
#include "large_steps_law.hpp"
#include "law_shares.hpp"
#include "log_sum.hpp"
#include "step_cuts.hpp"
#include "step_pieces.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Parts into which Laplace releases are expanded, each of which takes milliseconds; and log of the share of the
// others.
constexpr double kMostParts = 60.0;
constexpr double kLost = -60.0;
// An estimate of log delta, less this, is a lower bound for sharing out widths.
constexpr double kLessThanEstimated = 2.0;
// Losses between the ends with which one contour is tried first.
constexpr double kEnoughBetween = 4.0;

// How many of some equal Laplace losses lie between the ends, tilted by c: up to which number that is to be looked
// at, and log of the share of the others, by Chernoff's bound of a binomial law: for every s > 1, Pr[j > J] <= (1
// - p + ps)^k s^-(J+1).
struct BetweenTheEnds {
    int most;
    double log_lost;
};
BetweenTheEnds between_the_ends(const Term& laplace, double c, StopCheck stop) {
    const double e = laplace.law->parameters()[0];
    const double k = laplace.copies;
    const double ends = std::log(0.5 * (1.0 + std::exp(-e))) + two_point_law(e, 0.0)->cumulants(c, stop).value;
    const double inner = std::log(-0.5 * std::expm1(-e)) + laplace_interior_law(e)->cumulants(c, stop).value;
    // Rounded up: the odds are good to much more than that.
    const double p = std::min(1.0, (1.0 + 1e-9) / (1.0 + std::exp(ends - inner)));
    for (int most = static_cast<int>(std::min(k * p, kMostParts)); most < k && most <= kMostParts; ++most) {
        const double f = (most + 1.0) / k;
        if (!(f > p)) continue;
        const double log_s = f < 1.0 ? std::log(f * (1.0 - p) / (p * (1.0 - f))) : 50.0;
        const double log_lost = k * std::log1p(p * std::expm1(log_s)) - (most + 1.0) * log_s;
        if (log_lost < kLost) return {most, log_lost + 1e-6 * (1.0 + k * p)};
    }
    if (k <= kMostParts) return {static_cast<int>(k), -kInf};
    return {static_cast<int>(kMostParts) + 1, 0.0};
}

// Losses between the ends.
double between_ends(const Composition& comp) {
    double count = 0.0;
    for (const Term& t : comp.terms)
        if (t.law->kind() == LawKind::part) count += t.copies;
    return count;
}

}  // namespace

LogBounds beside_laplace_bounds(const Composition& comp, Quantity quantity, double at, double content,
                                StopCheck stop) {
    const bool tail = quantity == Quantity::tail;
    const double tilt = tail ? 0.0 : tilt_for(comp, at, stop);
    std::vector<Composition> parts = {comp};
    std::vector<Share> shares = {{{0.0, 0.0}, 0.0}};
    double lost = -kInf;  // log of the tilted share of what is left out
    for (std::size_t i = 0; i < parts.size();) {
        const auto& terms = parts[i].terms;
        BetweenTheEnds between{};
        const auto laplace = std::find_if(terms.begin(), terms.end(), [&](const Term& t) {
            if (t.law->kind() != LawKind::laplace) return false;
            between = between_the_ends(t, tilt, stop);
            return static_cast<double>(parts.size()) + between.most <= kMostParts;
        });
        if (laplace == terms.end()) {
            ++i;
            continue;
        }
        const Term one = *laplace;
        std::vector<Term> others = terms;
        others.erase(others.begin() + (laplace - terms.begin()));
        const LogBounds before = shares[i].mass;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        shares.erase(shares.begin() + static_cast<std::ptrdiff_t>(i));
        // Of every part that is divided on: at most that share of all.
        lost = log_add(lost, between.log_lost, 1.0);
        const double e = one.law->parameters()[0];
        const double log_ends = std::log(0.5 * (1.0 + std::exp(-e)));
        const double log_between = std::log(-0.5 * std::expm1(-e));
        for (int j = 0; j <= between.most; ++j) {
            std::vector<Term> own = others;
            own.push_back({two_point_law(e, 0.0), one.copies - j});
            own.push_back({laplace_interior_law(e), static_cast<double>(j)});
            const Certified choose = certified_choose(one.copies, j);
            const double ends = (one.copies - j) * log_ends;
            const double inner = j * log_between;
            const double log_mass = choose.value.re + ends + inner;
            const double off = choose.err + one.copies * 2.0 * kLibm +
                               (kLibm + 4.0 * kRound) * (choose.value.re + std::fabs(ends) + std::fabs(inner));
            parts.push_back(Composition::of(std::move(own)));
            shares.push_back({{outward(before.log_lower + log_mass - off, -1.0),
                               outward(before.log_upper + log_mass + off, 1.0)},
                              0.0});
        }
    }
    if (parts.size() == 1) return beside_listed_bounds(comp, quantity, at, content, stop);
    for (std::size_t i = 0; i < parts.size(); ++i)
        shares[i].estimate = parts[i].max_loss > at
                                 ? share_estimate(parts[i], quantity, at, shares[i].mass.log_upper, stop)
                                 : -kInf;
    // The estimate of all of them, which is not far off where Laplace losses are most of it.
    const double known = tail ? 0.0 : log_delta_estimate(comp, at, stop) - kLessThanEstimated;
    LogBounds sum = over_shares(
        shares, quantity, content, known, stop, [&](std::size_t i, double own, double enough, StopCheck part) {
            // Some losses between the ends are enough for one contour; with fewer of them others go before it.
            LogBounds best = {-kInf, kInf};
            const auto done = [&] { return best.log_upper < enough || narrow(best, quantity, own); };
            const auto tighter = [&](const LogBounds& b) {
                best = {std::max(best.log_lower, b.log_lower), std::min(best.log_upper, b.log_upper)};
            };
            const auto one_contour = [&](StopCheck check) {
                DividedSteps divided(parts[i], at, check);
                tighter(StepPieces(divided, {}, quantity, at, 1.0, own, enough, check).whole(enough));
            };
            const bool first = between_ends(parts[i]) >= kEnoughBetween;
            if (first) one_contour(part);
            if (!done())
                within(part, first ? 1.0 : 0.9, [&](StopCheck check) {
                    tighter(beside_listed_bounds(parts[i], quantity, at, own, check));
                });
            if (!done() && !first) one_contour(part);
            return best;
        });
    if (lost > -kInf)
        sum.log_upper =
            log_add(sum.log_upper, lost + (tail ? 0.0 : log_chernoff_at(comp, at, tilt, stop)) + 1e-9, 1.0);
    return sum;
}

}  // namespace dpcore::detail
