// Exact samplers: discrete Laplace, geometric and discrete Gaussian on the integers, and continuous Laplace and
// Gaussian rounded exactly to a grid.
//
// Method:    attempts (sampler_laws.hpp) until one is accepted; long fills take blocks of them, from streams of a
//            key. Noise on a grid is added in integers.
// Domain:    scale in [kLeastScale, kGreatestScale]; rounded: scale/grid in [2^-10, 2^50), grid a power of two.
//            Outside: std::invalid_argument. A draw throws RandomnessError where the system gives no randomness.
// Guarantee: total variation distance from the law below 2^-150 a draw for uniform words (docs/samplers.md).
//            |result| < 128 * scale + 1, so an int64 never overflows. Attempts are independent and alike, so
//            neither their number nor the work of one depends on the value drawn, outside the undecided ones.
// Evidence:  tests/test_samplers_exact.py (mpmath, rigged words), tests/test_samplers_law.py (G-tests),
//            bench/bench_samplers.py (timing against magnitude).
#pragma once

#include <cstddef>
#include <cstdint>

#include "dpcore/interrupt.hpp"
#include "dpcore/random_stream.hpp"
#include "dpcore/sampler_laws.hpp"

namespace dpcore {

constexpr double kLeastScale = 1e-3;
constexpr double kGreatestScale = 1e15;

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
