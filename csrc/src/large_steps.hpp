// Compositions with subsampled Gaussian steps of which few are sampled, sorted by how many steps are large.
//
// The loss of such a composition has no single scale: unsampled steps lose about -rate each, a sampled one may
// lose a thousand times that. Tilted so that its mean is epsilon, its law has several humps, one for each number
// of large outputs, with epsilon between them, and no single contour sees all of it. The law of the steps that are
// large and of those that are not has one hump each.
//
// Method:    Outputs are cut softly at rising x_1 < x_2 < ...: with A_i the sum over the outputs below x_i, B_i
// that
//            over those from x_i to x_{i+1},
//                M^k = A_1^k + sum over i, and m >= 1, of C(k, m) A_i^{k-m} B_i^m :
//            the highest window that is reached, and by how many steps. Every term is the transform of a positive
//            measure and has its own contour, or is bounded by one exponential moment. One cut, in the valley
//            between the humps, is enough for removals; additions of little noise spread over many scales and take
//            several. Beside laws of few losses the pieces are those of every sum of these, or of sums that are
//            one contour together; few Laplace releases are such a law and one with a density, mixed.
// Domain:    compositions with at least one subsampled Gaussian term, all in one direction.
// Guarantee: lower <= truth <= upper, as for the spectral engine.
// Evidence:  docs/accounting_derivations.md, "large_steps"; tests/test_accounting_subsampled.py,
//            tests/test_accounting_sampled_atoms.py.
#pragma once

#include <memory>

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Expected number of sampled steps, all subsampled terms together; 0 where there are none.
double expected_samples(const Composition& composition);

// Whether all sampled steps are additions with so much noise that their losses have one scale.
bool much_noise_added(const Composition& composition);

// Whether something beside sampled steps (or pieces of them) has atoms.
bool beside_atoms(const Composition& composition);

// Whether something beside the steps makes every contour end by itself: Gaussian noise, or many copies.
bool ends_by_itself(const Composition& composition);

// Whether the density of some step, tilted so that the mean loss is epsilon, may have more than one hump.
bool several_humps(const Composition& composition, double epsilon, StopCheck stop);

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
