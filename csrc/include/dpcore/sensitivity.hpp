// Values of built-in targets on pairs of neighbouring databases, for sensitivity sampling.
//
// A block holds `count` times `records` + 1 records of `width` numbers each, one after the other. Of each group
// the first database is records 0 .. records - 1, its neighbour the same with the last record replaced by record
// number `records`. What the two share is worked out once.
//
// Method:    sum, mean: compensated summation (Kahan-Babuska-Neumaier) in eight lanes, the shared records first.
//            quantile: selection of three order statistics of the shared records, then insertion of the last one;
//            linear interpolation between order statistics (definition 7 of Hyndman and Fan).
//            histogram: bins [e_i, e_{i+1}), the last one closed; values outside are not counted.
//            regression: R of the QR factorisation of the shared rows by Givens rotations, then the last row.
// Domain:    records >= 1. NaN and infinite records are allowed: sum, mean, quantile and regression then give NaN
//            or infinity, histogram does not count NaN. A design that is singular to working precision gives NaN.
// Guarantee: both values are bit for bit what the single-database function gives on that database. Sum and mean:
//            error <= 2 ulp + (records 2^-52)^2 sum |x|. Quantile: the formula evaluated in double precision.
//            Regression: backward stable.
// Evidence:  tests/cpp/test_sensitivity.cpp, tests/test_sensitivity_targets.py.
// Reference: Rubinstein and Alda 2017, Algorithm 1; Golub and Van Loan, Matrix Computations, section 6.5.
#pragma once

#include <cstddef>

#include "dpcore/interrupt.hpp"

namespace dpcore {

// `count` groups of `records` + 1 records of `width` doubles.
struct NeighbourBlock {
    const double* data;
    std::size_t count;
    std::size_t records;
    std::size_t width;
};

// `first` and `second` have `count` times `width` elements. `divisor` 1 gives sums, `records` means.
void sum_pairs(const NeighbourBlock& block, double divisor, double* first, double* second, StopCheck stop);
void sum_single(const double* data, std::size_t records, std::size_t width, double divisor, double* out);

// width 1; `first` and `second` have `count` elements. `probability` in [0, 1].
void quantile_pairs(const NeighbourBlock& block, double probability, double* first, double* second,
                    StopCheck stop);
double quantile_single(const double* data, std::size_t records, double probability);

// width 1; `edges` has bins + 1 ascending elements; `first` and `second` have count * bins.
void histogram_pairs(const NeighbourBlock& block, const double* edges, std::size_t bins, double* first,
                     double* second, StopCheck stop);
void histogram_single(const double* data, std::size_t records, const double* edges, std::size_t bins, double* out);

// The last of the `width` >= 2 columns is the response, the others are features. Coefficients of the features,
// then the intercept if there is one: width - 1 + intercept of them for each database. `ridge` >= 0 penalises the
// squares of the coefficients, not of the intercept.
void regression_pairs(const NeighbourBlock& block, bool intercept, double ridge, double* first, double* second,
                      StopCheck stop);
void regression_single(const double* data, std::size_t records, std::size_t width, bool intercept, double ridge,
                       double* out);

}  // namespace dpcore
