// Exact samplers: discrete Laplace, geometric and discrete Gaussian on the integers, and continuous Laplace and
// Gaussian rounded exactly to a grid.
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
// Domain:    scale in [kLeastScale, kGreatestScale]; rounded: scale/grid in [2^-10, 2^50), grid a power of two.
//            Outside: std::invalid_argument. A draw throws RandomnessError where the system gives no randomness.
// Guarantee: total variation distance from the law below 2^-150 a draw for uniform words (docs/samplers.md).
//            |result| < 128 * scale + 1, so an int64 never overflows. Attempts are independent and alike, so
//            neither their number nor the work of one depends on the value drawn, outside the undecided ones.
// Evidence:  tests/test_samplers_exact.py (mpmath, rigged words), tests/test_samplers_law.py (G-tests),
//            bench/bench_samplers.py (timing against magnitude).
// Reference: Karney (2016), "Sampling exactly from the normal distribution", for the bin-and-accept form; Canonne,
//            Kamath, Steinke (2020) for the discrete Gaussian as a mechanism.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dpcore/bin_table.hpp"
#include "dpcore/interrupt.hpp"
#include "dpcore/random_stream.hpp"

namespace dpcore {

constexpr double kLeastScale = 1e-3;
constexpr double kGreatestScale = 1e15;

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
// comparison; second: f. block() runs attempts on the fast path and marks the undecided ones (samplers.cpp);
// resolve() decides one of those.
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

// Draws from a law. Construction is cheap (the tables are shared); a sampler may be used by many threads at once.
template <class Law>
class Sampler {
public:
    explicit Sampler(double scale) : law_(scale) {}

    // One draw.
    std::int64_t operator()(RandomSource& source) const;

    // value + one draw, saturated at the ends of int64. Saturation is post-processing: it costs no privacy.
    std::int64_t add(RandomSource& source, std::int64_t value) const;

    // `count` draws. The words come from streams of the key, one a chunk of kChunk draws, so the result does not
    // depend on the number of threads. A key must be used for one call only: source.next_key() gives a fresh one.
    void fill(const ChaChaKey& key, std::int64_t* out, std::size_t count, StopCheck stop = {},
              unsigned threads = 0) const;

    // As above, each draw times `grid`, a power of two (exact: draws are below 2^57 in magnitude, and below 2^53
    // for the grids of grid_for).
    void fill_scaled(const ChaChaKey& key, double grid, double* out, std::size_t count, StopCheck stop = {},
                     unsigned threads = 0) const;

    // out[i] = values[i] + a draw, saturated. out and values may be the same array.
    void add(const ChaChaKey& key, const std::int64_t* values, std::int64_t* out, std::size_t count,
             StopCheck stop = {}, unsigned threads = 0) const;

    // One attempt on the fast path, for tests of its decisions.
    struct Probe {
        Attempt attempt;
        bool undecided;  // then `attempt` means nothing and law().resolve() decides
    };
    Probe probe(std::uint64_t first, std::uint64_t second) const;

    const Law& law() const { return law_; }
    static constexpr std::size_t kChunk = 32768;

private:
    Law law_;
};

using Geometric = Sampler<GeometricLaw>;
using DiscreteLaplace = Sampler<DiscreteLaplaceLaw>;
using DiscreteGaussian = Sampler<DiscreteGaussianLaw>;
using TabledGaussian = Sampler<TabledGaussianLaw>;
using RoundedLaplace = Sampler<RoundedLaplaceLaw>;    // of scale/grid
using RoundedGaussian = Sampler<RoundedGaussianLaw>;  // of sigma/grid

extern template class Sampler<GeometricLaw>;
extern template class Sampler<DiscreteLaplaceLaw>;
extern template class Sampler<DiscreteGaussianLaw>;
extern template class Sampler<TabledGaussianLaw>;
extern template class Sampler<RoundedLaplaceLaw>;
extern template class Sampler<RoundedGaussianLaw>;

// The grid for a noise scale: the power of two with scale/grid in [2^40, 2^41). It depends on the scale alone.
// scale in [1e-280, 1e280].
double grid_for(double scale);

__extension__ typedef __int128 Int128;

// Real-valued noise on a grid, added in integers. Sampler is RoundedLaplace or RoundedGaussian.
template <class Rounded>
class GridNoise {
public:
    // grid: a power of two with scale/grid in [2^-10, 2^50); 0 means grid_for(scale).
    explicit GridNoise(double scale, double grid = 0.0);

    double grid() const { return grid_; }
    double draw(RandomSource& source) const { return static_cast<double>(rounded_(source)) * grid_; }
    void fill(const ChaChaKey& key, double* out, std::size_t count, StopCheck stop = {},
              unsigned threads = 0) const {
        rounded_.fill_scaled(key, grid_, out, count, stop, threads);
    }

    // The multiple of the grid nearest to `value` (ties to even) plus a draw, as the nearest double. The value is
    // first clamped to +-limit(); NaN becomes 0. The sum is taken in 128-bit integers, so no bit of it depends on
    // the rounding of a floating-point addition.
    double add(RandomSource& source, double value) const;
    void add(const ChaChaKey& key, const double* values, double* out, std::size_t count, StopCheck stop = {},
             unsigned threads = 0) const;
    // The same for integers, by their exact value: made doubles first, two that differ by 1 may differ by 2 or
    // more beyond 2^53.
    double add(RandomSource& source, std::int64_t value) const;
    double add(RandomSource& source, int value) const { return add(source, std::int64_t{value}); }
    void add(const ChaChaKey& key, const std::int64_t* values, double* out, std::size_t count, StopCheck stop = {},
             unsigned threads = 0) const;
    double limit() const { return limit_; }  // grid * 2^120, or 2^1000 if that is less

private:
    Int128 cells(double value) const;
    Int128 cells(std::int64_t value) const;
    double combine(Int128 cells, std::int64_t draw) const { return static_cast<double>(cells + draw) * grid_; }
    template <class Value>
    void add_all(const ChaChaKey& key, const Value* values, double* out, std::size_t count, StopCheck stop,
                 unsigned threads) const;
    double grid_;
    double limit_;
    Rounded rounded_;
};

using GridLaplace = GridNoise<RoundedLaplace>;
using GridGaussian = GridNoise<RoundedGaussian>;
extern template class GridNoise<RoundedLaplace>;
extern template class GridNoise<RoundedGaussian>;

}  // namespace dpcore
