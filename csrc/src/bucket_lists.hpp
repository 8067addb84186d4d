// The lists of buckets of one law, tabulated on a grid (private to the core).
//
// Method:    both lists of buckets.hpp at once: bin masses are integrals of positive functions by Gauss-Legendre
//            rules on panels short enough for their error, atoms are put where they are.
// Domain:    laws with finite losses; a grid of up to kMaxBuckets, beyond which std::length_error says so.
// Guarantee: the upper list's delta is at least the law's, the lower one's at most, with masses off by mass_err.
// Evidence:  docs/accounting.md, "Privacy buckets" and "Bin masses"; tests/test_accounting.py.
#pragma once

#include "atom_blocks.hpp"
#include "dpcore/buckets.hpp"

namespace dpcore::detail {

// std::length_error for more buckets than there may be.
void refuse(double buckets);

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
                    StopCheck check);
// The same for copies of a law that have been composed, with the tilt they were composed under.
Discrete discretise(const AtomBlock& block, double step, double c);

}  // namespace dpcore::detail
