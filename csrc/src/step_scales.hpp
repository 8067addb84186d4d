// How many scales the losses of sampled Gaussian steps have, and what stands beside them: which way of bounding a
// composition is tried first.
//
// Method:    An unsampled step loses about -rate, a sampled one may lose a thousand times that. That is one scale
//            where many steps are sampled on average, where additions have much noise, where delta is large, or
//            where the density of no step, tilted so that the mean loss is epsilon, can have a second hump: its
//            logarithm has the second derivative (-1 + p r(1 - r)/s^2)/s^2, below 0 where p <= 4 s^2.
// Domain:    compositions of LossLaws; sampled steps in one direction.
// Guarantee: none that a bound would need: every way that is chosen between gives bounds.
// Evidence:  docs/accounting_derivations.md, "step_scales"; tests/test_accounting_subsampled.py,
//            tests/test_accounting_sampled_atoms.py.
#pragma once

#include "dpcore/composition.hpp"
#include "dpcore/interrupt.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

// The step of a subsampled Gaussian term.
SubsampledStep step_of(const Term& term);

// Expected number of sampled steps, all subsampled terms together; 0 where there are none.
double expected_samples(const Composition& composition);

// Where as many steps are sampled on average humps run into each other.
inline constexpr double kFewSteps = 8.0;

// Whether all sampled steps are additions with so much noise that their losses have one scale.
bool much_noise_added(const Composition& composition);

// Whether something beside sampled steps (or pieces of them) has atoms.
bool beside_atoms(const Composition& composition);

// Whether something beside the steps makes every contour end by itself: Gaussian noise, or many copies.
bool ends_by_itself(const Composition& composition);

// Whether the density of some step, tilted so that the mean loss is epsilon, may have more than one hump.
bool several_humps(const Composition& composition, double epsilon, StopCheck stop);

// Whether one contour is enough, by all of the above.
bool one_scale(const Composition& composition, double epsilon, StopCheck stop);

// The kind of step with the least noise, where there are several: its losses have the most scales. Pieces of one
// kind can be smoothed, whatever is beside them.
const Term* least_noise(const Composition& composition);

}  // namespace dpcore::detail
