// Sines and cosines at multiples of an angle, for many angles at once: turned on from one multiple to the next.
//
// Method:    one complex product an angle and multiple, in plain loops over arrays, so that they vectorise; sines
// and
//            cosines are to be taken anew after kMostTurns.
// Guarantee: after some turns from pairs of the C library each sine, and each cosine relative to 1, is within
//            turned_error times min(1, |angle|): a turn costs each of the pair its four library roundings (8
//            each), three operations and the product's share of the other's error, 60 roundings relative to the
//            angles involved, as long as these are below 1.
// Evidence:  docs/accounting_derivations.md, "subsampled_step"; tests/cpp/test_spectral.cpp.
#pragma once

#include <cstddef>

#include "dpcore/certified.hpp"

namespace dpcore::detail {

inline constexpr int kMostTurns = 16;
inline double turned_error(int turns) { return 2.0 * kLibm + 60.0 * kRound * turns; }

void turn_on(double* cosine, double* sine, const double* step_cosine, const double* step_sine, std::size_t n);

// Sums of weight times cosine and sine; less_one: times sin^2 and sin cos, for a sum near 1. Eight partial sums
// each.
struct TurnedSums {
    double first = 0.0, second = 0.0;
};
TurnedSums weigh(const double* weight, const double* cosine, const double* sine, std::size_t n, bool less_one);

}  // namespace dpcore::detail
