// Copies of one law composed on grids that grow with them (private to the core).
//
// Method:    what a grid of step h costs is h^2 for each list that is put on it, so one grid for k copies needs a
//            step like 1/sqrt(k) over the range of all of them. Here some copies at a time are composed on a step
//            that is right for the lists that are left, then put on a coarser grid: the lists are as long as if
//            there were few copies, whatever their number. Lists are tilted by e^{cL} all the way. Masses that the
//            transform has rounded below 0 are 0; its error, what lies outside of a window (Chernoff's bound of
//            the lists themselves) and what is cut off at the ends are charged as tails: every list has mass 1, so
//            that a change of one list changes the composition by as much, times the lists there are of it.
// Domain:    tilted lists of unit mass, up to 9e15 copies; std::length_error beyond kMaxBuckets.
// Guarantee: the upper list's delta with anything that is composed with it is at least that of the copies, the
//            lower one's at most, up to its tail, scatter, mass_err and loss_err.
// Evidence:  docs/accounting_derivations.md, "bucket_ladder"; tests/cpp/test_bucket_ladder.cpp,
//            tests/test_accounting_buckets.py.
#pragma once

#include <vector>

#include "list_product.hpp"
#include "list_tilt.hpp"

namespace dpcore::detail {

// Steps of the grids.
struct LadderPlan {
    double width;   // relative width of delta that they may cost together
    double factor;  // c(1+c): twice what variance costs
    double grids;   // how many share the width
    double apart;   // atoms are that far apart, a multiple of every step; 0: there are none

    double step(double left) const;  // for the lists that are left
};

LadderPlan ladder_plan(double copies, double c, double width, double apart);

// `copies` copies of the list, composed, and each of `others` once; the lists are tilted, of unit mass and on
// grids of the same step. sparse: the list's points are far apart, and belong on no coarser grid before they have
// been composed. Those of the others may be: they are composed with several copies on the first grid.
Discrete climb(Discrete list, double copies, const LadderPlan& plan, bool sparse, StopCheck stop,
               std::vector<Discrete> others = {});

// A tilted list of unit mass composed with atoms that may be far apart, on a grid of a whole fraction of its step.
Discrete composed_with(const Discrete& list, const AtomBlock& block, double parts, StopCheck stop);

}  // namespace dpcore::detail
