// Subsampled Gaussian steps less the outputs that decide about epsilon by themselves (private to the core).
//
// Method:    The least loss of a removed record is log(1 - q), the largest of an added one -log(1 - q). A removal
//            whose loss alone is above epsilon by all the others' least ones makes the sum exceed it: what such
//            steps pay is a difference of two probabilities, of normal tails. An addition whose loss is so low
//            that the others' largest ones do not make up for it pays nothing. What is left has no loss far from
//            epsilon; losses of additions are counted from the largest one down, where they differ by little.
// Domain:    compositions of subsampled Gaussian steps alone, in one direction; 0 <= epsilon < the largest loss.
// Guarantee: delta is `beyond` plus that of the outputs that are left, at `epsilon`, which is within 1e-29 of the
//            sum of the largest losses, and a rounding.
// Evidence:  docs/accounting_derivations.md, "sampled_ends"; tests/test_accounting_buckets.py.
#pragma once

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
    std::vector<double> sigmas;
    bool valid = false;

    // Whether the cuts leave out anything that counts where the whole composition has the tilt c: outputs about 1
    // + c of removals, next to 0 of additions.
    bool matter(double c) const;
};

SampledEnds sampled_ends(const Composition& composition, double epsilon);

}  // namespace dpcore::detail
