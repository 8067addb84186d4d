// The lists of buckets of one law, tabulated on a grid (private to the core).
//
// Method:    both lists of buckets.hpp at once (bucket_collector.hpp): bin masses of densities (bin_masses.hpp),
//            atoms are put where they are.
// Domain:    laws with finite losses; a grid of up to kMaxBuckets, beyond which std::length_error says so.
// Guarantee: the upper list's delta is at least the law's, the lower one's at most, with masses off by mass_err.
// Evidence:  docs/accounting_derivations.md, "buckets" and "bucket_lists"; tests/test_accounting.py,
//            tests/cpp/test_bucket_ladder.cpp.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "atom_blocks.hpp"
#include "bucket_limit.hpp"
#include "dpcore/buckets.hpp"

namespace dpcore::detail {

// Tail: tilted mass left out (a bound), relative to M(c), under the tilt that is in use.
struct Discrete {
    Buckets buckets;
    double tail = 0.0;
    double tilt = 0.0;       // the masses are e^{tilt loss} times
    double log_scale = 0.0;  // e^{log_scale} times the true ones: far tails would underflow
    double loss_err = 0.0;   // largest error of an atom's loss
    bool underflows = true;  // masses may have been lost below the smallest double
    bool smooth = false;     // they vary slowly
    double log_missing = -std::numeric_limits<double>::infinity();  // tilted mass left out, itself
    double scatter = 0.0;  // L2 norm of errors of masses that may lie anywhere, over the root of the step then
};

// Outputs of a subsampled Gaussian step. from_top (additions): losses less the largest one (added_gap.hpp).
struct Outputs {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    bool from_top = false;
    bool all() const { return std::isinf(low) && std::isinf(high); }
};

// Discretises `law` for use under the tilt c. tilted: the caller charges loss_err. Of some outputs only (removals,
// or additions up to an output and from the top; one tilt): what is left out is in log_missing.
Discrete discretise(const LossLaw& law, double step, double c_near, double c, double c_far, bool tilted,
                    StopCheck check, Outputs outputs = {});
// The same for copies of a law that have been composed, with the tilt they were composed under.
Discrete discretise(const AtomBlock& block, double step, double c);
// Two copies of the block, every sum of two losses put where it is: they lie much closer than those of one.
// Nothing where too many of them fall together.
std::optional<Discrete> discretise_twice(const AtomBlock& block, double step, double c, StopCheck check);
// A tilted list on a grid of another step.
Discrete regrid(const Discrete& list, double step);

}  // namespace dpcore::detail
