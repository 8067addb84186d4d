// Lists of buckets under another exponential tilt (private to the core).
//
// Method:    masses times e^{tilt loss}, relative to the largest of them: one exponential a block and a table of
//            powers, or the logarithm of the mass where the factors alone would leave the range of double.
// Domain:    lists of positive masses; sums that leave the range of double are not finite.
// Guarantee: masses within the mass_err that is added to the list, masses that underflowed within its tail.
// Evidence:  docs/accounting_derivations.md, "bucket_lists"; tests/cpp/test_bucket_ladder.cpp,
// tests/test_accounting.py.
#pragma once

#include <cstddef>

#include "bucket_lists.hpp"

namespace dpcore::detail {

// mass e^{tilt loss - top} over a list: one exponential a block and a table of e^{tilt step j}, or through the
// logarithm where the factors alone would leave the range of double.
class Powers {
public:
    static constexpr std::size_t kBlock = 64;
    Powers(double tilt, double top, const Buckets& buckets);
    void start(std::size_t from);
    double times(double mass, std::size_t j) const {
        if (plain_) return mass * (base_ * table_[j]);
        return through_logarithm(mass, j);
    }

private:
    double through_logarithm(double mass, std::size_t j) const;

    double tilt_, top_, base_ = 0.0;
    const Buckets& buckets_;
    std::size_t from_ = 0;
    bool plain_ = false;
    double table_[kBlock] = {};
};

// Brings a list to the tilt `at` and its upper masses to a sum of 1; the logarithms of their sums under the three
// tilts (of the larger of both lists' under the nearest and the farthest), not finite where one leaves the range
// of double.
Tilts tilt(Discrete& list, const Tilts& tilts);

}  // namespace dpcore::detail
