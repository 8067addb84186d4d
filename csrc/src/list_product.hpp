// Tilted lists of buckets multiplied in the frequency domain (private to the core).
//
// Method:    upper and lower list are packed as real and imaginary part of one complex transform; powers by
//            squaring frequency by frequency; one transform back. Indices are known modulo the length.
// Domain:    lists of unit mass (upper) or about that (lower), lengths that are powers of two up to kMaxBuckets.
// Guarantee: error() bounds the L2 norm of the error of both lists together, by theorem 24.2 of Higham.
// Evidence:  docs/accounting_derivations.md, "grid_delta"; tests/cpp/test_bucket_ladder.cpp,
//            tests/test_accounting.py.
#pragma once

#include <cstddef>
#include <vector>

#include "dpcore/direct_spectrum.hpp"
#include "dpcore/interrupt.hpp"

namespace dpcore::detail {

// The smallest power of two that is at least that, and 16.
std::size_t transform_length(double count);

class ListProduct {
public:
    explicit ListProduct(std::size_t size) : size_(size), re_(size), im_(size) {}

    // list.copies times; a list that is longer than the product is folded.
    void multiply(const TiltedList& list, StopCheck stop);
    void finish(StopCheck stop);

    // After finish(), entry j is that of all indices that are j modulo the length.
    const std::vector<double>& upper() const { return re_; }
    const std::vector<double>& lower() const { return im_; }
    double spectrum_error() const { return spectrum_err_ * growth_ + rounded_; }
    double error() const { return err_; }

private:
    void fold(const TiltedList& list);
    void take_powers(double copies, StopCheck stop);

    std::size_t size_;
    double lists_ = 0.0;                     // how many have been multiplied
    double spectrum_err_ = 0.0, err_ = 0.0;  // L2, relative to unit lists
    double growth_ = 1.0;                    // of errors by the powers of frequencies above 1
    double rounded_ = 0.0;                   // relative to the product
    std::vector<double> re_, im_;            // the list at hand, then the product
    std::vector<double> up_re_, up_im_, low_re_, low_im_;
    bool transformed_ = false;
};

}  // namespace dpcore::detail
