// Privacy buckets: a loss distribution on a grid, from above and from below, and the certified delta of their
// composition.
//
// Method:    Two lists on the points offset + step * n. The upper list splits every loss between its two
//            neighbours so that the mass under both P and Q is kept ("connect the dots"): delta of it, and of
//            every composition with it, is at least the true one. The lower list merges the losses around each
//            point so that the merged ratio is the point's own (never above it): merging outputs is
//            post-processing, so its delta is at most the true one. Copies are composed before they are put on the
//            last grid: atoms exactly (atom_blocks.hpp), others on grids that grow with them (bucket_ladder.hpp).
//            Bin masses are integrals of positive functions (Gauss-Legendre rules), never differences. On one grid
//            (grid_delta.hpp): both lists tilted by exp(theta L), theta at the saddle point; the few frequencies
//            that matter summed directly (direct_spectrum.hpp), or, where they are many, both packed into one
//            complex transform, powers in the frequency domain, one inverse transform; untilted inside the sum for
//            delta.
// Domain:    grids of up to kMaxBuckets points; a request beyond is refused (std::length_error) before any
//            allocation.
// Guarantee: lower <= delta <= upper: discretisation by construction; truncation by tilted tail masses;
//            wrap-around by Chernoff bounds; rounding of the transform by theorem 24.2 of Higham; all in
//            docs/accounting_derivations.md, "buckets".
// Evidence:  tests/test_accounting.py, tests/test_accounting_buckets.py, tests/cpp/test_bucket_ladder.cpp,
//            tests/cpp/test_spectral.cpp, tests/cpp/test_direct_spectrum.cpp.
// Reference: Meiser and Mohammadi 2018 (privacy buckets); Doroshenko et al. 2022 (connect the dots).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore {

inline constexpr std::size_t kMaxBuckets = std::size_t{1} << 22;  // 120 bytes each at the most: 500 MB

// One direction of a pair of distributions on a grid. Masses that have no bucket are named, not dropped.
struct BucketList {
    std::vector<double> mass;  // of the loss offset + step * (first + i)
    double infinite = 0.0;     // truly infinite loss
    double above =
        0.0;  // cut off at the top: counts as infinite in an upper list, as the top bucket in a lower one
    double below =
        0.0;  // cut off at the bottom: counts as the bottom bucket in an upper list, as nothing in a lower one

    double total() const;
};

struct Buckets {
    double step = 0.0;
    double offset = 0.0;
    std::int64_t first = 0;
    BucketList upper, lower;
    double mass_err = 0.0;  // relative error of every mass

    double loss(std::size_t i) const {
        return offset + step * static_cast<double>(first + static_cast<std::int64_t>(i));
    }

    // Losses of `law` between low and high (both may be infinite where the law is bounded).
    static Buckets of(const LossLaw& law, double step, double low, double high, StopCheck stop = {});
    // Independent losses added; same step. Direct convolution: every product is positive, so small masses stay
    // relatively exact.
    Buckets convolve(const Buckets& other, StopCheck stop = {}) const;
    Buckets self_compose(std::uint64_t copies, StopCheck stop = {}) const;  // by squaring
    // Twice the step: upper by connecting the dots, lower by rounding down.
    Buckets coarsen() const;
    Interval delta(double epsilon) const;
};

struct BucketQuery {
    double width = 1e-4;    // relative width aimed at when step is 0
    double step = 0.0;      // 0: chosen from the width
    bool thorough = false;  // copies composed first; finer grids until the width is reached
};

// Number of buckets a query would use; infinity when it cannot be answered.
double bucket_count(const Composition& composition, double epsilon, const BucketQuery& query, StopCheck stop = {});
LogBounds bucket_delta(const Composition& composition, double epsilon, const BucketQuery& query,
                       StopCheck stop = {});

}  // namespace dpcore
