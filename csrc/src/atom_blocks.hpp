// Several copies of one law of atoms, composed exactly: sums of losses and their masses (private to the core).
//
// Method:    repeated doubling. Losses on a lattice: convolution of positive masses by index. Others: all pairs,
//            sorted, sums that agree to rounding joined. Masses are tilted by e^{cL}, so that none that matters
//            underflows; both ends are cut where nothing is left under any of the three tilts in use.
// Domain:    laws of finitely many atoms and discrete Gaussians, as many copies as a bounded number of products
//            allows (kLatticeProducts, kPairProducts); the rest of the copies is left to the caller as further
//            blocks.
// Guarantee: masses within mass_err (relative), losses within loss_err, what is cut off within tail (relative,
//            under each of the tilts).
// Evidence:  docs/accounting_derivations.md, "atom_blocks"; tests/test_accounting.py.
#pragma once

#include <optional>
#include <vector>

#include "dpcore/loss_law.hpp"

namespace dpcore::detail {

struct Tilts {
    double near, at, far;
};

struct AtomBlock {
    std::vector<double> loss;  // rising
    std::vector<double> mass;  // e^{c loss} times the true one, times e^{-log_mass}
    double log_mass = 0.0;
    double mass_err = 0.0, loss_err = 0.0, tail = 0.0;
    double step = 0.0;    // of the lattice that the losses are all points of; 0: none
    double laws = 1.0;    // how many copies of the law it holds
    double copies = 1.0;  // how often the block occurs
};

// Sum of e^{-x^2/(2 s^2)} over the integers, to 8 roundings and kLibm.
double discrete_gaussian_sum(double s);
// Of the (tilted) mass, that of all atoms but the heaviest.
double spread_share(const AtomBlock& block);
// Blocks that together are `copies` copies of the law: none where it has no atoms to compose, or too many.
std::vector<AtomBlock> atom_blocks(const LossLaw& law, double copies, const Tilts& tilts, StopCheck stop);
// Two of them (of different laws) composed to one, unless that has too many atoms.
std::optional<AtomBlock> joined(const AtomBlock& x, const AtomBlock& y, const Tilts& tilts, StopCheck stop);

}  // namespace dpcore::detail
