// The integral over the second output behind a joint release.
//
// Method:    From the first weight that is positive outwards: the z at which the density changes its sign at the
//            next cell's end (by Newton, or by secants from a panel's sums), and the piece of the integral up to
//            there (joint_piece.hpp), until what lies beyond is negligible; then pieces are divided where their
//            remainder is largest. Above the largest such z: the sum over all points, by normal tails.
// Domain:    laws with weights of both signs.
// Guarantee: lower <= truth <= upper, for the law as it is cut: misplaced z, gaps between panels, remainders and
//            rounding inside.
// Evidence:  tests/test_joint_delta.py; docs/partial_knowledge.md, theorem 10.
#pragma once

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"
#include "joint_law.hpp"

namespace dpcore::detail {

// What is left out, of the law or of the line, should be below this share of the whole: e^-32 = 1.3e-14.
inline constexpr double kLogCut = 32.0;

// ln of a lower and an upper bound of the integral of W sqrt(2 pi) beta over z, in units of exp(law.log_unit()).
// The law must have weights of both signs.
LogBounds joint_integral(const JointLaw& law, StopCheck stop);

}  // namespace dpcore::detail
