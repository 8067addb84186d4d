// delta of compositions of which some terms have few sums of losses: expanded by these sums.
//
// Method:    delta(eps) = sum over the sums l of those terms, of mass b, of b delta'(eps - l), delta' that of the
//            other terms: positive pieces. The others are either one more law on a lattice, point by point, whose
//            deltas come from two sums that run down the lattice; or whatever they are, asked by contours and the
//            engines behind them, for the heaviest sums first and until the rest is negligible. Nothing is
//            smoothed, and each piece has a contour of its own: sums of large mass next to epsilon, or on both
//            sides of it with nothing between, do no harm.
// Domain:    discrete Gaussian, discrete Laplace, randomised response, approximate DP beside anything; up to 2^15
//            points for a law, 2^21 sums in all (point by point), 2^14 (asked).
// Guarantee: lower <= truth <= upper. Masses have relative errors; what is left out weighs at most its tilted mass
//            times exp(K(c) - eps c) times the largest payoff.
// Evidence:  docs/accounting_derivations.md, "few_sums"; tests/test_accounting_few_sums.py.
#pragma once

#include <functional>
#include <optional>

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// delta of a composition at any epsilon, also a negative one, of about this relative width.
using DeltaOf = std::function<LogBounds(const Composition&, double epsilon, double width, StopCheck)>;

// delta with its infinite mass where every law has few points; nothing where one has not.
std::optional<LogBounds> listed_sums_delta(const Composition& composition, double epsilon, StopCheck stop);

// Pr[L > at] with its infinite mass and Pr[L < at], of the same. A sum that equals `at` but for its last digits is
// left open.
std::optional<Tails> listed_sums_tails(const Composition& composition, double at, StopCheck stop);

// delta with its infinite mass, of about this relative width; nothing where no term has few sums. `other` is asked
// for what is left of the composition. `give_up`: nothing either as soon as one of its answers is wider than that.
std::optional<LogBounds> few_sums_delta(const Composition& composition, double epsilon, double width,
                                        const DeltaOf& other, bool give_up, StopCheck stop);

}  // namespace dpcore::detail
