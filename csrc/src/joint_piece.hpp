// One piece of the integral over the second output of a joint release: z between two bounds, in one cell of the
// first output.
//
// Method:    Gauss-Legendre of 2 to 20 nodes. Its remainder is bounded by Bernstein's ellipse inside of a disc in
//            which neither A nor B can vanish, so that W is analytic (theorem 10 (a)); where there is no such
//            disc, W is at most the positive terms. From the sums over a law, or, of many cells, those of a panel.
// Guarantee: the integral over the piece is within exp(log_remainder) + exp(log_rounding) of exp(log_value); from
//            panels beside what joint_integral.cpp charges for the ends. Division lowers the remainder.
// Evidence:  tests/test_joint_delta.py; docs/partial_knowledge.md, theorem 10 (a) and (d).
#pragma once

#include <cstddef>
#include <limits>

#include "dpcore/interrupt.hpp"
#include "joint_law.hpp"
#include "joint_panel.hpp"

namespace dpcore::detail {

// A piece of the integral over z.
struct JointPiece {
    std::ptrdiff_t cell;
    double from;
    double to;
    double log_value = -std::numeric_limits<double>::infinity();
    double log_remainder = -std::numeric_limits<double>::infinity();  // what division can lower
    double log_rounding = -std::numeric_limits<double>::infinity();   // what it cannot
    bool operator<(const JointPiece& other) const { return log_remainder < other.log_remainder; }
};

class JointPieces {
public:
    JointPieces(const JointLaw& law, StopCheck stop) : law_(law), stop_(stop) {}

    JointPiece piece(std::ptrdiff_t cell, double from, double to);
    // The same from the sums of a panel, in its coordinate tau. False where it cannot tell.
    bool piece(const JointPanel& panel, std::ptrdiff_t cell, double from, double to, JointPiece& out);
    // A piece that is negligible; false where it is not.
    bool sliver(const JointPanel& panel, std::ptrdiff_t cell, double from, double to, JointPiece& out) const;

private:
    double log_crude(std::ptrdiff_t cell, double from, double to) const;

    const JointLaw& law_;
    StopCheck stop_;
    // ln of the largest rough value of a piece so far.
    double log_best_ = -std::numeric_limits<double>::infinity();
};

}  // namespace dpcore::detail
