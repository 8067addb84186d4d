// Where the outputs of sampled steps are cut, and the bounds that come of it.
//
// Method:    Removals: one cut in the valley between the two humps of the tilted density, moved to where the sum
//            of what one moment says of each piece is least. Additions of little noise: windows of a factor of 30
//            of the odds, over the scales of the loss that matter. Then pieces are bounded, and the one of which
//            least is known is cut again, until the sum is narrow, no cut helps or the work is used up.
// Domain:    as DividedSteps.
// Guarantee: lower <= truth <= upper wherever the cuts are.
// Evidence:  docs/accounting_derivations.md, "step_cuts"; tests/test_accounting_subsampled.py.
#pragma once

#include <vector>

#include "divided_steps.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// About where contours for epsilon stand; 1 where that is not known.
double tilt_for(const Composition& composition, double epsilon, StopCheck stop);

// The cuts to begin with; the edges are made for them.
std::vector<double> first_cuts(DividedSteps& divided, double epsilon, double c, StopCheck stop);

// Whether bounds are of that width: relative for delta, absolute for tails.
bool narrow(const LogBounds& bounds, Quantity quantity, double content);

// Bounds for the listed losses that have been chosen, of about the distance x of the steps' losses from where they
// matter, their mass being 1. enough: log of what is next to nothing.
LogBounds divided_bounds(DividedSteps& divided, Quantity quantity, double at, double x, double content,
                         double enough, StopCheck stop);

}  // namespace dpcore::detail
