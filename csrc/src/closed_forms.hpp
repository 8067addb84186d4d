// Losses with a closed form: one Laplace, discrete Laplace or subsampled Gaussian release, and Gaussians only.
//
// Method:    formulas of docs/accounting_derivations.md, "closed_forms", evaluated at both ends of what
//            is not known exactly. One subsampled release is one Gaussian release at another epsilon, times a
//            factor.
// Domain:    epsilon >= 0, 0 < delta < 1; parameters as mechanism.hpp checks them.
// Guarantee: lower <= truth <= upper.
// Evidence:  tests/test_accounting.py, tests/test_accounting_laplace.py, tests/test_accounting_subsampled.py.
#pragma once

#include "dpcore/composition.hpp"

namespace dpcore::detail {

// One Laplace release with this epsilon0.
LogBounds one_laplace(double epsilon0, double epsilon);

// A composition of Gaussians only, which is one of them.
LogBounds all_gaussian(const Composition& composition, double epsilon);
Interval all_gaussian_epsilon(const Composition& composition, double delta);
Interval all_gaussian_confidence(const Composition& composition, double epsilon);

LogBounds one_subsampled(double sigma, double rate, bool removal, double epsilon);
Interval one_subsampled_epsilon(double sigma, double rate, bool removal, double delta);
Interval one_subsampled_confidence(double sigma, double rate, bool removal, double epsilon);

Interval discrete_laplace_confidence(double scale, double shift, double epsilon);

}  // namespace dpcore::detail
