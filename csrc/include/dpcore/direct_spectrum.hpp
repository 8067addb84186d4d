// Sum of weights over a composition of bucket lists, from the few frequencies that matter: no transform.
//
// Method:    the sum over one period of the composed masses times w(n) = e^{-cx}(1 - e^{-x}), x = x0 + step n, is
//            (1/N) sum over frequencies of (product of the lists' transforms to their copies) times the transform
//            of w, which is two geometric series. After many copies all but some tens of frequencies are
//            negligible: those are found by walking up from 0. Between two evaluated frequencies h radians apart a
//            transform is at most the larger end plus V h^2/8, V the second moment of the list about its mean;
//            beyond some frequency it is at most atoms + (total variation)/(2 sin(omega/2)), by summation by
//            parts.
// Domain:    lists of unit mass (upper) or about that (lower), N a power of two, c > 0, 0 < x0.
// Guarantee: |sum - computed| <= err where valid; not valid where more than `budget` products would be needed.
// Evidence:  derivation in docs/accounting_derivations.md, "direct_spectrum"; tests/cpp/test_direct_spectrum.cpp
//            against plain convolution in long double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dpcore/interrupt.hpp"

namespace dpcore {

struct TiltedList {
    std::vector<double> upper, lower;  // equal lengths
    std::int64_t first = 0;            // index of the first entry
    double copies = 1.0;
};

// w(n) for the indices first, ..., first + count - 1; x0 is the x of the first.
struct PayoffWeights {
    double tilt, step, x0;
    std::int64_t first;
    double count;
};

struct DirectSum {
    bool valid = false;
    double upper = 0.0, lower = 0.0;
    double err = 0.0;
};

DirectSum direct_spectrum(const std::vector<TiltedList>& lists, std::size_t period, const PayoffWeights& weights,
                          double budget, StopCheck stop = {});

}  // namespace dpcore
