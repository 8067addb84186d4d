// The laws of the exact samplers, as what the two words of an attempt mean.
//
// Method:    one attempt takes two words (16 bytes). They give a sign, a bin i of a fixed table (the same for
//            every scale), a position f in [0, 1) inside the bin with 64 bits, and a uniform U with 26 bits.
//              exponential  E = (i + f)/16, bin weight exp(-i/16),      accepted when U < exp(-f/16)
//              half normal  Z = (i + f)/64, bin weight exp(-i^2/8192),  accepted when U < exp(-f (2 i + f)/8192)
//              geometric            floor(scale E):  Pr[>= k] = Pr[E >= k/scale] = exp(-k/scale), exactly
//              discrete Laplace     0 when U < p0; +-(floor(scale E) + 1) when U < p0 + (1 - p0) exp(-f/16);
//                                   p0 = A (1 - q)/(A (1 - q) + 2 q), q = exp(-1/scale), A = 16 (1 - exp(-1/16))
//              rounded Laplace      +-round(scale E / grid);   rounded Gaussian: +-round(sigma Z / grid)
//              discrete Gaussian    k = floor(sigma z) + 1 for the *unaccepted* z; with p0 = 1/(1 + 2 sigma H),
//                                   H = (sum of bin weights)/64: 0 when U < p0, +-k when
//                                   U < p0 + (1 - p0) exp(-k^2/(2 sigma^2) + i^2/8192);
//                                   long fills of sigma <= 8: a table of its magnitudes, no rejection
//            The scale is an integer times a power of two, so scale * (i + f) is an exact integer product. When
//            the bits drawn so far do not decide the bin, the integer or the comparison with U (probability about
//            2^-25, and scale * 2^-68 for the integer), the same f, U and bin threshold are extended to 256 bits
//            and everything is decided in 256-bit fixed point (fixed_point.hpp).
// Domain:    scale in [2^-10, 2^50), for rounded laws scale/grid. Outside: std::invalid_argument.
// Guarantee: total variation distance from the law below 2^-150 for uniform words (docs/samplers.md). |value| <
//            128 * scale + 1. Attempts are independent and alike, so neither their number nor the work of one
//            depends on the value drawn, outside the undecided ones.
// Evidence:  tests/test_samplers_exact.py (mpmath, rigged words), tests/test_samplers_law.py (G-tests).
// Reference: Karney (2016), "Sampling exactly from the normal distribution", for the bin-and-accept form; Canonne,
//            Kamath, Steinke (2020) for the discrete Gaussian as a mechanism.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dpcore/bin_table.hpp"

namespace dpcore {

// scale = mantissa * 2^-shift, mantissa in [2^52, 2^53), 2 <= shift <= 62.
struct BinaryScale {
    explicit BinaryScale(double scale);  // scale in [2^-10, 2^50), else std::invalid_argument
    double value;
    std::uint64_t mantissa;
    unsigned shift;
};

// What an attempt says.
struct Attempt {
    std::int64_t value;
    bool accepted;
};

// Words that extend an undecided attempt: lower bits of f, of U and of the bin's threshold comparison.
struct Extension {
    std::uint64_t position[3];
    std::uint64_t uniform[3];
    std::uint64_t bin[3];
};

// A law says what the two words of an attempt mean. first: bits 0-10 bin index, 11 sign, 12-37 U, 38-63 bin
// comparison; second: f. block() runs attempts on the fast path and marks the undecided ones (it is for
// csrc/src/sampler_blocks.hpp alone); resolve() decides one of those.
class GeometricLaw {
public:
    explicit GeometricLaw(double scale) : scale_(scale), table_(&BinTable::exponential()) {}
    template <class Block>
    void block(Block& attempts) const;
    Attempt resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const;
    double scale() const { return scale_.value; }

private:
    BinaryScale scale_;
    const BinTable* table_;
};

class DiscreteLaplaceLaw {
public:
    explicit DiscreteLaplaceLaw(double scale);
    template <class Block>
    void block(Block& attempts) const;
    Attempt resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const;
    double scale() const { return scale_.value; }

private:
    BinaryScale scale_;
    const BinTable* table_;
    double zero_;  // p0
};

// round(X / grid), X continuous Laplace; the argument is scale / grid.
class RoundedLaplaceLaw {
public:
    explicit RoundedLaplaceLaw(double scale) : scale_(scale), table_(&BinTable::exponential()) {}
    template <class Block>
    void block(Block& attempts) const;
    Attempt resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const;
    double scale() const { return scale_.value; }

private:
    BinaryScale scale_;
    const BinTable* table_;
};

// round(X / grid), X normal; the argument is sigma / grid.
class RoundedGaussianLaw {
public:
    explicit RoundedGaussianLaw(double sigma) : scale_(sigma), table_(&BinTable::half_normal()) {}
    template <class Block>
    void block(Block& attempts) const;
    Attempt resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const;
    double scale() const { return scale_.value; }

private:
    BinaryScale scale_;
    const BinTable* table_;
};

class DiscreteGaussianLaw {
public:
    explicit DiscreteGaussianLaw(double sigma);
    template <class Block>
    void block(Block& attempts) const;
    Attempt resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const;
    double scale() const { return scale_.value; }

private:
    BinaryScale scale_;
    const BinTable* table_;
    double inverse_;  // 1/sigma
    double zero_;     // p0
};

// The discrete Gaussian of a small sigma as one table of magnitudes, weights 1 and 2 exp(-k^2/(2 sigma^2)): every
// attempt is accepted. Long fills use it by themselves; building it would be too slow for one draw.
class TabledGaussianLaw {
public:
    static constexpr double kGreatestSigma = 8.0;               // at most 16 * 8 + 2 magnitudes
    static constexpr std::size_t kFrom = std::size_t{1} << 13;  // draws from which it pays
    explicit TabledGaussianLaw(double sigma);
    template <class Block>
    void block(Block& attempts) const;
    Attempt resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const;
    double scale() const { return scale_; }
    const BinTable& table() const { return table_; }

private:
    double scale_;
    BinTable table_;
};

}  // namespace dpcore
