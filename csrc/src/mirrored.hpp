// delta of compositions with removals, from that of the mirrored one: what is added where they remove.
//
// Method:    With P and Q exchanged, sup_S P(S) - e^eps Q(S) is e^eps times sup_S Q(S) - e^-eps P(S), of the
//            complements, plus 1 - e^eps: delta(eps) = 1 - e^eps + e^eps delta'(-eps), delta' that of the mirrored
//            composition. Few removals have losses of several scales, above epsilon; few additions lose at most
//            -log(1 - rate) each, and their law, tilted upwards, has one hump: one contour, or smoothing, sees all
//            of it.
// Domain:    compositions with sampled steps, of laws that are their own mirror image beside these (all but pairs
// of
//            distributions); eps below 7.
// Guarantee: lower <= truth <= upper. Good where e^eps - 1 is not large beside delta: what delta'(-eps) is off by,
//            relatively, counts (e^eps - 1)/delta times.
// Evidence:  docs/accounting_derivations.md, "mirrored"; tests/test_accounting_mirrored.py.
#pragma once

#include <optional>

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// The composition with P and Q exchanged; nothing where a law's mirror image is not at hand.
std::optional<Composition> mirrored(const Composition& composition);

// delta, infinite mass included, to a relative width of `content` if that can be had.
LogBounds mirrored_delta(const Composition& composition, double epsilon, double content, StopCheck stop);

}  // namespace dpcore::detail
