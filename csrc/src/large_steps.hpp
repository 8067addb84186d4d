// Compositions with subsampled Gaussian steps of which few are sampled, sorted by how many steps are large.
//
// The loss of such a composition has no single scale: unsampled steps lose about -rate each, a sampled one may
// lose a thousand times that. Tilted so that its mean is epsilon, its law has several humps, one for each number
// of large outputs, with epsilon between them, and no single contour sees all of it. The law of the steps that are
// large and of those that are not has one hump each.
//
// Method:    The composition is divided at cuts of the outputs (divided_steps.hpp, step_cuts.hpp), and its pieces
//            are bounded one by one (step_pieces.hpp): by contours, or smoothed. Beside laws of few losses the
//            pieces are those of every sum of these (beside_listed.hpp); few Laplace releases are such a law and
//            one with a density, mixed (beside_laplace.hpp). Each way is tried where those before were wide.
// Domain:    compositions with at least one subsampled Gaussian term, all in one direction.
// Guarantee: lower <= truth <= upper, as for the spectral engine.
// Evidence:  docs/accounting_derivations.md, "large_steps"; tests/test_accounting_subsampled.py,
//            tests/test_accounting_sampled_atoms.py.
#pragma once

#include <memory>

#include "dpcore/spectral.hpp"
#include "step_scales.hpp"

namespace dpcore::detail {

// delta of the composition, infinite mass included, to a relative width of `content` if that can be had.
LogBounds large_steps_delta(const Composition& composition, double epsilon, double content, StopCheck stop);

// Pr[L > at] with the infinite mass, and Pr[L < at], to an absolute width of `content` if that can be had.
Tails large_steps_tails(const Composition& composition, double at, double content, StopCheck stop);

// The division at one cut, for sums other than contours: the pieces are known well enough to place such sums, not
// to bound them. Removals.
class LargeStepsPlaces {
public:
    LargeStepsPlaces(const Composition& composition, const Term& step, double epsilon, StopCheck stop);
    ~LargeStepsPlaces();
    LargeStepsPlaces(const LargeStepsPlaces&) = delete;
    LargeStepsPlaces& operator=(const LargeStepsPlaces&) = delete;

    double cut() const { return cut_; }  // in outputs
    Composition piece(int large);        // of so many steps beyond the cut

private:
    struct Division;
    std::unique_ptr<Division> division_;
    double cut_ = 0.0;
};

}  // namespace dpcore::detail
