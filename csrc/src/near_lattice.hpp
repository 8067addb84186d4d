// Compositions whose losses lie on a common lattice but for the last digits of their parameters: integer sigmas
// and scales, epsilons with a few decimals.
//
// Method:    steps that are small multiples of one d, up to a few roundings. A law of bounded losses is scaled by
//            1/(1+e) so that its step is a multiple of d exactly. That moves the sum of all losses by at most
//            shift = sum of copies * largest loss * e, so delta and the tails at x lie between those of the scaled
//            composition at x + shift and at x - shift; and eps between its eps - shift and eps + shift. Discrete
//            Gaussian losses are not bounded: theirs must agree exactly, which is decided in exact arithmetic.
//            The scaled composition goes through the spectral engine as any other on a lattice.
// Domain:    randomised response, approximate DP, two atoms, discrete Laplace, discrete Gaussian; up to 2^17
//            points of the lattice in the range that matters. No exact lattice (that is common_lattice's).
// Guarantee: lower <= truth <= upper. Scaling changes M(c + it) by at most e |c + it| E|L| M(c), which is in the
//            error of every node.
// Evidence:  docs/accounting_derivations.md, "near_lattice"; tests/test_accounting_smoothed.py.
#pragma once

#include <optional>

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Points with which it goes before every other way: ten milliseconds.
inline constexpr double kFewPoints = 65536.0;

struct NearLattice {
    Composition scaled;
    double shift = 0.0;
    double points = 0.0;  // of the lattice, in the range that matters, about
};
std::optional<NearLattice> near_lattice(const Composition& composition);

LogBounds near_lattice_delta(const NearLattice& near, double epsilon, StopCheck stop);
// delta above the infinite mass.
Interval near_lattice_epsilon(const NearLattice& near, double delta, StopCheck stop);
Tails near_lattice_tails(const NearLattice& near, double at, StopCheck stop);

}  // namespace dpcore::detail
