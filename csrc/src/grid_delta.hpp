// The finite part of delta of lists of buckets on one grid (private to the core).
//
// Method:    every list tilted by e^{cL} and of unit mass; the few frequencies that matter summed directly, or,
//            where they are many, transforms of a whole period; untilted inside the sum for delta. One release
//            without atoms needs neither (single_delta.hpp).
// Domain:    c > 0, grids of up to kMaxBuckets points (std::length_error beyond).
// Guarantee: lower <= delta <= upper, truncation, wrap-around and rounding included.
// Evidence:  docs/accounting_derivations.md, "grid_delta"; tests/cpp/test_bucket_ladder.cpp,
//            tests/test_accounting.py, tests/test_accounting_buckets.py.
#pragma once

#include <limits>
#include <vector>

#include "list_tilt.hpp"

namespace dpcore::detail {

// Where a query is answered: tilt, step and length of the transform.
struct Plan {
    double tilt = 0.0, far = 0.0, near = 0.0, step = 0.0, mean = 0.0, sd = 0.0, value = 0.0;
    double distance = 0.0;
    double count = std::numeric_limits<double>::infinity();
    bool valid = false;
};

// A law, or copies of it that have been composed (to atoms, or to a list on a grid of its own), and how often it
// occurs.
struct Part {
    const LossLaw* law = nullptr;
    const AtomBlock* block = nullptr;
    double copies = 1.0;
    const Discrete* list = nullptr;
    Outputs outputs = {};  // of a subsampled Gaussian: the law of those alone
};

// The step, and the buckets that it takes.
void set_step(Plan& plan, double step);

// Bounds, and the share of their width that no finer grid would change.
struct Answer {
    LogBounds bounds;
    double floor = 0.0;
    double beyond = 0.0;  // of it, what only a wider window would change
};

// Nothing known of the finite part: minus and plus infinity.
Answer grid_delta(const std::vector<Part>& parts, double epsilon, const Plan& plan, StopCheck stop);

}  // namespace dpcore::detail
