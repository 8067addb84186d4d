// Compositions with subsampled Gaussian steps of which few are sampled, sorted by the largest step.
//
// The loss of such a composition has no single scale: unsampled steps lose about -rate each, a sampled one may
// lose a thousand times that, and the law of the sum is neither light-tailed nor smooth on one scale, so that no
// single contour sees all of it. Its outputs are therefore divided softly by the largest of the steps' outputs.
//
// Method:    With M_j = E[w_j(x) exp(zL)], w_j = Phi(sinh((x_j - x)/tau)) for rising cuts x_j, the k-fold law is
//                M^k = M_0^k + (M_1^k - M_0^k) + (M_2^k - M_1^k) + ... ,
//            every bracket the transform of a positive measure: the largest step lies between two cuts. Each has
//            its own contour, or is bounded by one exponential moment or by its mass; cuts are added where the sum
//            of the pieces is widest.
// Domain:    compositions with at least one subsampled Gaussian term, all in one direction.
// Guarantee: lower <= truth <= upper, as for the spectral engine.
// Evidence:  docs/accounting.md, "Sorted by the largest step"; tests/test_accounting.py.
#pragma once

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Expected number of sampled steps, all subsampled terms together; 0 where there are none.
double expected_samples(const Composition& composition);

// delta of the composition, infinite mass included, to a relative width of `content` if that can be had.
LogBounds largest_step_delta(const Composition& composition, double epsilon, double content, StopCheck stop);

}  // namespace dpcore::detail
