// The epsilon at which delta is reached, in one direction.
//
// Method:    a closed form, the spectral engine's Newton steps, bisection of an enumeration, or a secant on ln
// delta
//            where delta takes several contours or other engines; every end has been evaluated.
// Domain:    as privacy_loss.hpp.
// Guarantee: lower <= epsilon <= upper. Where `stop` bounds the work and it is used up, the ends found by then;
//            one exponential moment gives an upper one where there is none.
// Evidence:  tests/test_accounting.py, tests/test_accounting_subsampled.py, tests/test_accounting_work.py.
#pragma once

#include "dpcore/privacy_loss.hpp"

namespace dpcore::detail {

Interval epsilon_of(const Composition& composition, double delta, Method method, StopCheck stop);

}  // namespace dpcore::detail
