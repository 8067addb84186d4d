// delta of compositions whose transform does not decay: atoms that share no lattice, few Laplace losses of
// different sizes. A little normal noise on epsilon ends the integral, and convexity turns it into bounds.
//
// Method:    f(u) = delta(log u) is convex and falls. With xi normal of mean 0 and variance eta^2:
//              above  E f(u e^{xi - eta^2/2}) >= f(u): the noise keeps the mean of u (Jensen). The transform is
//                     that of delta times e^{eta^2 z(1+z)/2}: a Gaussian mechanism of rho = eta^2/2 beside it.
//              below  f(u) >= (1 + e^-xi) f(u e^xi) - e^-xi f(u e^2xi): the middle of three points lies below the
//                     chord. The transform is that of delta times
//                     e^{eta^2 z^2/2} + e^{eta^2 (1+z)^2/2} - e^{eta^2 (1+2z)^2/2}.
//            Both differ from delta by about eta^2 c(1+c) of it, and their integrals end at about t = 5/eta. Where
//            a sum of losses lies next to epsilon the bounds are wider, and eta is made smaller. Tails:
//            differences of the two smoothed deltas, sqrt(3) eta apart.
// Domain:    what LineProduct accepts: Laplace, Gaussian, atoms, discrete Gaussian, discrete Laplace, sampled
//            steps and pieces of them; no common lattice.
// Guarantee: lower <= truth <= upper: smoothing by construction; aliasing by the Chernoff bounds of the contour,
//            since neither smoothed function exceeds its aliases' deltas; truncation and rounding as error terms.
// Evidence:  docs/accounting_derivations.md, "smoothed"; tests/test_accounting_smoothed.py.
#pragma once

#include <optional>

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

bool smoothable(const Composition& composition);

// Whether bounds that will be wider than asked for are worth all of the work, or others have more use for it.
enum class Effort { all, if_enough };

// delta with its infinite mass, of about this relative width; nothing where the composition is of another kind.
std::optional<LogBounds> smoothed_delta(const Composition& composition, double epsilon, double width,
                                        Effort effort, StopCheck stop);

// Pr[L > at] with its infinite mass and Pr[L < at], of about this absolute width where no sums of losses crowd
// around `at`; nothing where the composition is of another kind.
std::optional<Tails> smoothed_tails(const Composition& composition, double at, double width, StopCheck stop);

}  // namespace dpcore::detail
