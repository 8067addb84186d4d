// Compositions less the outputs of subsampled Gaussian steps that decide by themselves (private to the core).
//
// Method:    Where some removal's output is beyond a cut, what is paid is at most the probability of that and at
//            least as much less e^epsilon times that without the record: normal tails. Cuts are where the latter
//            is a negligible part of delta, or where the loss alone is above epsilon by all other releases' least
//            losses, so that all of the difference is paid. An addition whose loss is so low that the others'
//            largest ones do not make up for it pays nothing. What is left has no loss far from epsilon; losses
//            of additions alone are counted from the largest one down, where they differ by little.
// Domain:    compositions with removals, or of additions alone; 0 <= epsilon < the largest loss.
// Guarantee: the finite part of delta is between the bounds of `beyond` plus that of the outputs that are left, at
//            `epsilon`, which is within 1e-29 of the sum of the largest losses, and a rounding.
// Evidence:  docs/accounting_derivations.md, "sampled_ends"; tests/test_accounting_buckets.py.
#pragma once

#include <limits>
#include <vector>

#include "bucket_lists.hpp"
#include "dpcore/composition.hpp"

namespace dpcore::detail {

struct SampledEnds {
    std::vector<Outputs> outputs;  // of each term
    LogBounds beyond;              // what the others pay
    double epsilon = 0.0;          // for the losses of these outputs
    Composition outline;           // atoms like them, of mass 1: to place sums, not to bound them
    double outline_mass = 0.0;     // logarithm, about
    double max_loss = std::numeric_limits<double>::infinity();  // of what is left, rounded up
    std::vector<double> sigmas;
    bool valid = false;

    // Whether the cuts leave out anything that counts where the whole composition has the tilt c: outputs about 1
    // + c of removals, next to 0 of additions.
    bool matter(double c) const;
};

// c: the tilt of the whole composition; kinds whose cut is far beyond what it looks at are left whole. log_aim: of
// what the bounds of `beyond` may lie apart.
SampledEnds sampled_ends(const Composition& composition, double epsilon, double c, double log_aim, StopCheck stop);

}  // namespace dpcore::detail
