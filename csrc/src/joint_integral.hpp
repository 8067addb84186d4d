// The integral over the second output behind a joint release (dpcore/joint_delta.hpp has the method and the
// bounds).
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
