// delta of one release with a density, on a grid (private to the core).
//
// Method:    only losses above epsilon count. Both lists are tabulated from some cells below it up to where the
//            mass beyond is next to nothing beside delta, relative to the largest density among them, and summed
//            as they are: no tilt, no transform. Epsilon lies on the grid, where connecting the dots costs
//            nothing.
// Domain:    Gaussian and subsampled Gaussian releases; a grid of up to kMaxBuckets (std::length_error beyond).
// Guarantee: lower <= delta <= upper. What is below the cells can only be missing in the lower list, where it
//            counts as nothing; what is beyond the last one is at most its mass, by Mills' bound of the normal
//            tail.
// Evidence:  docs/accounting_derivations.md, "single_delta"; tests/test_accounting_buckets.py,
// tests/test_accounting.py.
#pragma once

#include "dpcore/interrupt.hpp"
#include "dpcore/loss_law.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Bounds of the logarithm; minus and plus infinity where nothing is known.
LogBounds single_delta(const LossLaw& law, double epsilon, double step, StopCheck stop);
// The same with a step chosen so that they are within a width of each other, as far as there are buckets.
LogBounds single_delta_within(const LossLaw& law, double epsilon, double width, StopCheck stop);
// Whether a law is one of those.
bool has_single_delta(const LossLaw& law);

}  // namespace dpcore::detail
