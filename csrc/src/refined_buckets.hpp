// The finite part of delta by grids that are made finer until a width is reached (private to the core).
//
// Method:    laws of atoms are composed before they are put on a grid, many copies on grids that grow with them
//            (bucket_ladder.hpp), all of them on one at last (grid_delta.hpp).
// Domain:    a valid plan; std::length_error where one law alone is too wide for any grid.
// Guarantee: as grid_delta.hpp, of all that has been added: lower <= delta <= upper.
// Evidence:  docs/accounting_derivations.md, "buckets"; tests/test_accounting_buckets.py.
#pragma once

#include <vector>

#include "bucket_plan.hpp"

namespace dpcore::detail {

class Refined {
public:
    Refined(const Plan& plan, double epsilon, StopCheck stop)
        : plan_(plan), tilts_{plan.near, plan.tilt, plan.far}, epsilon_(epsilon), stop_(stop) {}

    void add(const std::vector<Term>& terms);
    void add(const LossLaw& law, double copies, const Outputs& outputs) {
        laws_.push_back({&law, nullptr, copies, nullptr, outputs});
    }
    // asked: a relative width.
    Answer bounds(double asked);

private:
    Answer attempt(double width, bool first);
    // Blocks that are too wide for the finest grid, composed with the list on one as fine as they need, as far as
    // that goes.
    void compose_finely(Discrete& list, std::vector<const AtomBlock*>& blocks, double width);

    Plan plan_;
    Tilts tilts_;
    double epsilon_;
    StopCheck stop_;
    LawPtr gaussian_;
    std::vector<Part> laws_;
    std::vector<AtomBlock> blocks_;
};

}  // namespace dpcore::detail
