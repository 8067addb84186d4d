#include "dpcore/samplers.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "dpcore/bulk.hpp"
#include "sampler_blocks.hpp"

namespace dpcore {

using namespace attempts;

namespace {

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
    return sum;
}

template <class Source>
Extension draw_extension(Source& source) {
    Extension more;
    for (auto* part : {more.position, more.uniform, more.bin})
        for (int i = 0; i < 3; ++i) part[i] = source.next();
    return more;
}

template <class Law>
void run_block_portable(const Law& law, WideBlock& b) {
    law.block(b);
}

#if DPCORE_DISPATCH_AVX2
// No fused multiply-add is enabled with it, so both builds give the same bits.
template <class Law>
[[gnu::target("avx2,bmi2")]] void run_block_avx2(const Law& law, WideBlock& b) {
    law.block(b);
}
#endif

template <class Law>
void run_block(const Law& law, WideBlock& b) {
#if DPCORE_DISPATCH_AVX2
    if (uses_avx2()) return run_block_avx2(law, b);
#endif
    run_block_portable(law, b);
}

template <class Law, class Block, class Source>
void settle(const Law& law, Block& b, std::size_t i, Source& source) {
    const Attempt a = law.resolve(b.words[i], b.second()[i], draw_extension(source));
    b.value[i] = a.value;
    b.accepted[i] = One::mask(a.accepted);
}

// `count` draws given to sink(index, draw), once each and in order. Accepted draws move to the front of their
// block without a branch on what was drawn.
template <class Law, class Sink>
void draw_chunk(const Law& law, KeyedStream& stream, std::size_t count, Sink sink) {
    WideBlock b;
    std::size_t done = 0;
    while (done < count) {
        const std::size_t n = count - done < b.kSize ? count - done : b.kSize;
        b.stride = (n + Lanes::kSize - 1) / Lanes::kSize * Lanes::kSize;
        stream.fill(b.words, 2 * b.stride);
        run_block(law, b);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (__builtin_expect(b.undecided[i] != 0, 0)) settle(law, b, i, stream);
            b.value[kept] = b.value[i];
            kept -= static_cast<std::size_t>(b.accepted[i]);  // the mask is -1 or 0
        }
        for (std::size_t i = 0; i < kept; ++i) sink(done + i, b.value[i]);
        done += kept;
    }
    wipe(&b, sizeof b);
    wipe_stack();  // here, where the stream was called from, and not only where it is destroyed
}

}  // namespace

// ---- samplers

template <class Law>
std::int64_t Sampler<Law>::operator()(RandomSource& source) const {
    for (;;) {
        const std::uint64_t forks = fork_count();
        SingleBlock b;
        b.stride = 1;
        b.words[0] = source.next();
        b.words[1] = source.next();
        law_.block(b);
        if (__builtin_expect(b.undecided[0] != 0, 0)) settle(law_, b, 0, source);
        // A signal handler may have forked since the first word: the child starts anew, its parent goes on.
        if (__builtin_expect(fork_count() != forks, 0)) continue;
        if (b.accepted[0] != 0) return b.value[0];
    }
}

template <class Law>
typename Sampler<Law>::Probe Sampler<Law>::probe(std::uint64_t first, std::uint64_t second) const {
    SingleBlock b;
    b.stride = 1;
    b.words[0] = first;
    b.words[1] = second;
    law_.block(b);
    return {{b.value[0], b.accepted[0] != 0}, b.undecided[0] != 0};
}

namespace {

// Calls fill(law) with the law that suits a long fill: the sampler's own, or its table.
template <class Law, class Fill>
void with_bulk_law(const Law& law, std::size_t count, Fill fill) {
    if constexpr (std::is_same_v<Law, DiscreteGaussianLaw>) {
        if (count >= TabledGaussianLaw::kFrom && law.scale() <= TabledGaussianLaw::kGreatestSigma)
            return fill(TabledGaussianLaw(law.scale()));
    }
    fill(law);
}

}  // namespace

template <class Law>
void Sampler<Law>::fill(const ChaChaKey& key, std::int64_t* out, std::size_t count, StopCheck stop,
                        unsigned threads) const {
    with_bulk_law(law_, count, [&](const auto& law) {
        for_chunks(count, kChunk, threads, stop, [&](std::size_t number, std::size_t begin, std::size_t end) {
            KeyedStream stream(key, number);
            draw_chunk(law, stream, end - begin,
                       [at = out + begin](std::size_t i, std::int64_t draw) { at[i] = draw; });
        });
    });
}

template <class Law>
void Sampler<Law>::fill_scaled(const ChaChaKey& key, double grid, double* out, std::size_t count, StopCheck stop,
                               unsigned threads) const {
    with_bulk_law(law_, count, [&](const auto& law) {
        for_chunks(count, kChunk, threads, stop, [&](std::size_t number, std::size_t begin, std::size_t end) {
            KeyedStream stream(key, number);
            draw_chunk(law, stream, end - begin, [at = out + begin, grid](std::size_t i, std::int64_t draw) {
                at[i] = static_cast<double>(draw) * grid;
            });
        });
    });
}

template <class Law>
std::int64_t Sampler<Law>::add(RandomSource& source, std::int64_t value) const {
    return saturating_add(value, (*this)(source));
}

template <class Law>
void Sampler<Law>::add(const ChaChaKey& key, const std::int64_t* values, std::int64_t* out, std::size_t count,
                       StopCheck stop, unsigned threads) const {
    with_bulk_law(law_, count, [&](const auto& law) {
        for_chunks(count, kChunk, threads, stop, [&](std::size_t number, std::size_t begin, std::size_t end) {
            KeyedStream stream(key, number);
            draw_chunk(law, stream, end - begin,
                       [from = values + begin, at = out + begin](std::size_t i, std::int64_t draw) {
                           at[i] = saturating_add(from[i], draw);
                       });
        });
    });
}

template class Sampler<GeometricLaw>;
template class Sampler<DiscreteLaplaceLaw>;
template class Sampler<DiscreteGaussianLaw>;
template class Sampler<TabledGaussianLaw>;
template class Sampler<RoundedLaplaceLaw>;
template class Sampler<RoundedGaussianLaw>;

// ---- noise on a grid

namespace {

constexpr int kGridBits = 40;
constexpr int kLimitBits = 120;  // leaves the sum with a draw (below 2^57) far from the ends of 128 bits
constexpr double kLimitInGrids = 0x1p120;
static_assert(kLimitInGrids == static_cast<double>(Int128{1} << kLimitBits));
constexpr double kGreatestLimit = 0x1p1000;

double checked_grid(double scale, double grid) {
    if (!(scale > 0.0 && scale <= std::numeric_limits<double>::max()))
        throw std::invalid_argument("scale must be a finite number > 0");
    if (grid == 0.0) return grid_for(scale);
    int exponent = 0;
    if (!(grid > 0.0 && grid <= std::numeric_limits<double>::max()) || std::frexp(grid, &exponent) != 0.5)
        throw std::invalid_argument("grid must be a power of two");
    return grid;
}

}  // namespace

double grid_for(double scale) {
    if (!(scale >= 1e-280 && scale <= 1e280)) throw std::invalid_argument("scale must lie in [1e-280, 1e280]");
    return std::ldexp(1.0, std::ilogb(scale) - kGridBits);
}

template <class Rounded>
GridNoise<Rounded>::GridNoise(double scale, double grid)
    : grid_(checked_grid(scale, grid)),
      limit_(grid_ < kGreatestLimit / kLimitInGrids ? grid_ * kLimitInGrids : kGreatestLimit),
      rounded_(scale / grid_) {}

template <class Rounded>
Int128 GridNoise<Rounded>::cells(double value) const {
    // Comparisons with NaN are false: NaN becomes 0.
    double v = value > -limit_ ? value : -limit_;
    v = v < limit_ ? v : limit_;
    v = value == value ? v : 0.0;
    // A power of two: the quotient is exact, but for values so small that they round to 0 either way. nearbyint
    // rounds to nearest, ties to even.
    return static_cast<Int128>(std::nearbyint(v / grid_));
}

template <class Rounded>
Int128 GridNoise<Rounded>::cells(std::int64_t value) const {
    const int exponent = std::ilogb(grid_);
    if (exponent > 64) return 0;  // |value| <= 2^63 is less than half a cell
    if (exponent > 0) {
        // The value as a multiple of 2^exponent, to nearest, ties to even.
        const Int128 below = static_cast<Int128>(value) >> exponent;
        const Int128 rest = value - below * (Int128{1} << exponent);
        const Int128 half = Int128{1} << (exponent - 1);
        return below + (rest > half || (rest == half && (below & 1) != 0) ? 1 : 0);
    }
    const Int128 most = Int128{1} << kLimitBits;
    const Int128 reach = -exponent > kLimitBits ? 0 : most >> -exponent;  // largest value that is not clamped
    if (value > reach) return most;
    if (value < -reach) return -most;
    return -exponent > kLimitBits ? 0 : value * (Int128{1} << -exponent);
}

template <class Rounded>
template <class Value>
void GridNoise<Rounded>::add_all(const ChaChaKey& key, const Value* values, double* out, std::size_t count,
                                 StopCheck stop, unsigned threads) const {
    for_chunks(count, Rounded::kChunk, threads, stop, [&](std::size_t number, std::size_t begin, std::size_t end) {
        KeyedStream stream(key, number);
        draw_chunk(rounded_.law(), stream, end - begin,
                   [this, from = values + begin, at = out + begin](std::size_t i, std::int64_t draw) {
                       at[i] = combine(cells(from[i]), draw);
                   });
    });
}

template <class Rounded>
double GridNoise<Rounded>::add(RandomSource& source, double value) const {
    return combine(cells(value), rounded_(source));
}

template <class Rounded>
double GridNoise<Rounded>::add(RandomSource& source, std::int64_t value) const {
    return combine(cells(value), rounded_(source));
}

template <class Rounded>
void GridNoise<Rounded>::add(const ChaChaKey& key, const double* values, double* out, std::size_t count,
                             StopCheck stop, unsigned threads) const {
    add_all(key, values, out, count, stop, threads);
}

template <class Rounded>
void GridNoise<Rounded>::add(const ChaChaKey& key, const std::int64_t* values, double* out, std::size_t count,
                             StopCheck stop, unsigned threads) const {
    add_all(key, values, out, count, stop, threads);
}

template class GridNoise<RoundedLaplace>;
template class GridNoise<RoundedGaussian>;

}  // namespace dpcore
