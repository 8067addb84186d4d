#include "dpcore/samplers.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "dpcore/bulk.hpp"
#include "dpcore/fast_exp.hpp"

// 32-byte vectors are passed between functions that are all inlined: how a call would pass them does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace dpcore {

namespace {

constexpr unsigned kUniformBits = 26;
constexpr std::uint64_t kUniformMask = (std::uint64_t{1} << kUniformBits) - 1;
constexpr double kUniformScale = 0x1p26;
// Slack of a comparison with U, in units of U's last bit: the probability's error is below kFastExpError (2^-34)
// plus that of its argument and of p0 (below 2^-40, see docs/samplers.md), together well below 2^-30.
constexpr double kSlack = 0x1p-30 * kUniformScale;

std::uint64_t index_of(std::uint64_t first) { return first & ((1U << BinTable::kAliasBits) - 1); }
std::uint64_t negative_of(std::uint64_t first) { return (first >> BinTable::kAliasBits) & 1; }
std::uint64_t uniform_of(std::uint64_t first) { return (first >> (BinTable::kAliasBits + 1)) & kUniformMask; }
std::uint64_t compare_of(std::uint64_t first) { return first >> (64 - BinTable::kCompareBits); }
std::int64_t signed_by(std::uint64_t negative, std::uint64_t magnitude) {
    const auto mask = -static_cast<std::int64_t>(negative);
    return (static_cast<std::int64_t>(magnitude) ^ mask) - mask;
}

// round(x) = floor((floor(2 x) + 1)/2).
std::uint64_t rounded(std::uint64_t twice) { return (twice + 1) >> 1; }

// ---- one attempt on the fast path, without a branch
//
// Masks are all ones for true. Comparisons of probabilities run on four attempts at once (Lanes) or on one (One);
// both give the same bits.

struct One {
    using Real = double;
    using Word = std::uint64_t;
    static constexpr std::size_t kSize = 1;
    static Word mask(bool b) { return b ? ~std::uint64_t{0} : 0; }
};

struct Lanes {
    typedef double Real __attribute__((vector_size(32)));
    typedef std::uint64_t Word __attribute__((vector_size(32)));
    typedef std::int64_t Mask __attribute__((vector_size(32)));
    static constexpr std::size_t kSize = 4;
    [[gnu::always_inline]] static Word mask(const Mask& m) { return reinterpret_cast<const Word&>(m); }
};

template <class To, class From>
[[gnu::always_inline]] inline To load(const From* from) {
    static_assert(sizeof(To) % sizeof(From) == 0);
    To out;
    std::memcpy(&out, from, sizeof out);
    return out;
}

template <class To, class From>
[[gnu::always_inline]] inline To same_bits(const From& from) {
    To out;
    static_assert(sizeof out == sizeof from);
    std::memcpy(&out, &from, sizeof out);
    return out;
}

// The first 52 bits of f, put under the exponent of [1, 2). The error, below 2^-52, is far inside kSlack.
template <class V>
[[gnu::always_inline]] inline typename V::Real position_of(const typename V::Word& second) {
    const typename V::Word bits = (second >> 12) | 0x3FF0000000000000U;
    return same_bits<typename V::Real>(bits) - 1.0;
}

// Integers below 2^51 as doubles by the same trick, because x86-64 before AVX-512 converts no vectors of them.
template <class V>
[[gnu::always_inline]] inline typename V::Real small_to_real(const typename V::Word& value) {
    const typename V::Word bits = value | 0x4330000000000000U;  // 2^52 + value
    return same_bits<typename V::Real>(bits) - 0x1p52;
}

template <class V>
[[gnu::always_inline]] inline typename V::Real uniform_as_real(const typename V::Word& first) {
    return small_to_real<V>((first >> (BinTable::kAliasBits + 1)) & kUniformMask);
}

// U < p for every U that starts with the 26 bits known, p given as 2^26 times an approximation.
template <class V>
struct Comparison {
    typename V::Word below;
    typename V::Word undecided;
};
template <class V>
[[gnu::always_inline]] inline Comparison<V> uniform_below(const typename V::Real& uniform,
                                                          const typename V::Real& scaled_probability) {
    const typename V::Real d = scaled_probability - uniform;
    const typename V::Word below = V::mask(d >= 1.0 + kSlack);
    const typename V::Word above = V::mask(d <= -kSlack);
    return {below, ~(below | above)};
}

template <class V>
[[gnu::always_inline]] inline typename V::Real probability_of(const typename V::Real& exponent) {
    typename V::Real p;
    exp_negative_fast<typename V::Real, typename V::Word>(exponent, p);
    return p;
}

constexpr unsigned kExponentialWidth = 4;  // bins of 1/16
constexpr unsigned kNormalWidth = 6;       // bins of 1/64

template <class V>
[[gnu::always_inline]] inline Comparison<V> accept_exponential(const typename V::Word& first,
                                                               const typename V::Word& second) {
    const typename V::Real p = probability_of<V>(position_of<V>(second) * 0x1p-4);
    return uniform_below<V>(uniform_as_real<V>(first), p * kUniformScale);
}

template <class V>
[[gnu::always_inline]] inline Comparison<V> accept_normal(const typename V::Word& first,
                                                          const typename V::Word& second,
                                                          const typename V::Word& bin) {
    const typename V::Real f = position_of<V>(second);
    const typename V::Real p = probability_of<V>(f * (small_to_real<V>(bin + bin) + f) * 0x1p-13);
    return uniform_below<V>(uniform_as_real<V>(first), p * kUniformScale);
}

// floor(2^extra * scale * (i + f) / 2^width) for every f that starts with the 64 bits known: the product with the
// lowest such f and with the next f above. Twice the scale (extra = 1) serves rounding.
struct Floor {
    std::uint64_t value;
    std::uint64_t undecided;  // not zero: undecided
};
template <unsigned width, unsigned extra>
[[gnu::always_inline]] inline Floor scaled_floor(const BinaryScale& scale, std::uint64_t bin,
                                                 std::uint64_t position) {
    const Uint128 fraction = static_cast<Uint128>(scale.mantissa) * position;
    // mantissa * bin < 2^53 * 2^11, and the whole product stays below mantissa * (bin + 1) <= 2^64.
    const std::uint64_t high = scale.mantissa * bin + static_cast<std::uint64_t>(fraction >> 64);
    const auto low = static_cast<std::uint64_t>(fraction);
    const std::uint64_t carry = low + scale.mantissa < low ? 1 : 0;
    const unsigned shift = scale.shift - extra;
    const std::uint64_t value = (high >> width) >> shift;
    return {value, (((high + carry) >> width) >> shift) ^ value};
}

// Attempts of a block, one array a quantity. words: `stride` first words, then `stride` second words.
template <std::size_t size>
struct AttemptBlock {
    static constexpr std::size_t kSize = size;
    std::size_t stride;  // the number of attempts rounded up to whole lanes
    std::uint64_t words[2 * size];
    std::uint64_t bin[size];
    std::uint64_t accepted[size];   // mask
    std::uint64_t undecided[size];  // not zero: undecided
    std::int64_t value[size];
    double ratio[size];  // k/sigma, for the discrete Gaussian
    const std::uint64_t* second() const { return words + stride; }
};
using WideBlock = AttemptBlock<128>;  // 7 kB: with the 16 kB table it stays in the first-level cache
using SingleBlock = AttemptBlock<1>;
template <class Block>
using LanesOf = std::conditional_t<Block::kSize == 1, One, Lanes>;

template <class Block>
[[gnu::always_inline]] inline void choose_bins(const BinTable& table, Block& b) {
    const std::uint64_t mask = table.size() - 1;
    for (std::size_t i = 0; i < b.stride; ++i) {
        const BinTable::Choice c = table.choose(index_of(b.words[i]) & mask, compare_of(b.words[i]));
        b.bin[i] = c.bin;
        b.undecided[i] = c.undecided ? 1 : 0;
    }
}

template <class V, class Block>
[[gnu::always_inline]] inline void note(Block& b, std::size_t i, const Comparison<V>& u) {
    using Word = typename V::Word;
    const Word undecided = load<Word>(b.undecided + i) | u.undecided;
    std::memcpy(b.accepted + i, &u.below, sizeof(Word));
    std::memcpy(b.undecided + i, &undecided, sizeof(Word));
}

// Two outcomes of one U: 0 when it is below `zero`, the signed value when it is below `either`, else rejected.
template <class V, class Block>
[[gnu::always_inline]] inline void zero_or_signed(Block& b, std::size_t i, const typename V::Real& zero,
                                                  const typename V::Real& either) {
    using Word = typename V::Word;
    const Word first = load<Word>(b.words + i);
    const typename V::Real u = uniform_as_real<V>(first);
    const Comparison<V> none = uniform_below<V>(u, zero);
    Comparison<V> any = uniform_below<V>(u, either);
    any.undecided |= none.undecided;
    note<V>(b, i, any);
    const Word sign = -((first >> BinTable::kAliasBits) & 1);
    const Word value = ((load<Word>(b.value + i) ^ sign) - sign) & ~none.below;
    std::memcpy(b.value + i, &value, sizeof value);
}

template <class Block>
[[gnu::always_inline]] inline void accept_exponentials(Block& b) {
    using V = LanesOf<Block>;
    using Word = typename V::Word;
    for (std::size_t i = 0; i < b.stride; i += V::kSize)
        note<V>(b, i, accept_exponential<V>(load<Word>(b.words + i), load<Word>(b.second() + i)));
}

template <class Block>
[[gnu::always_inline]] inline void accept_normals(Block& b) {
    using V = LanesOf<Block>;
    using Word = typename V::Word;
    for (std::size_t i = 0; i < b.stride; i += V::kSize)
        note<V>(b, i,
                accept_normal<V>(load<Word>(b.words + i), load<Word>(b.second() + i), load<Word>(b.bin + i)));
}

template <unsigned width, class Block>
[[gnu::always_inline]] inline void round_to_values(const BinaryScale& scale, Block& b) {
    for (std::size_t i = 0; i < b.stride; ++i) {
        const Floor twice = scaled_floor<width, 1>(scale, b.bin[i], b.second()[i]);
        b.value[i] = signed_by(negative_of(b.words[i]), rounded(twice.value));
        b.undecided[i] |= twice.undecided;
    }
}

// ---- the undecided attempt

// The attempt in full: bin, i + f and U with 256 fraction bits.
struct Extended {
    std::uint64_t bin;
    Fixed256 place;     // i + f
    Fixed256 position;  // f
    Fixed256 uniform;
    std::uint64_t negative;
};
Extended extend(const BinTable& table, std::uint64_t first, std::uint64_t second, const Extension& more) {
    Extended out;
    out.bin = table.choose_exactly(index_of(first) & (table.size() - 1), compare_of(first),
                                   {more.bin[0], more.bin[1], more.bin[2]});
    out.position.limb = {more.position[2], more.position[1], more.position[0], second, 0};
    out.place = out.position;
    out.place.limb[4] = out.bin;
    Fixed256 lower;
    lower.limb = {0, more.uniform[2], more.uniform[1], more.uniform[0], 0};
    out.uniform = shift_right(lower, kUniformBits);
    out.uniform.limb[3] |= uniform_of(first) << (64 - kUniformBits);
    out.negative = negative_of(first);
    return out;
}

std::uint64_t exact_floor(const BinaryScale& scale, const Fixed256& place, unsigned width, unsigned extra) {
    return shift_right(place * scale.mantissa, width + scale.shift - extra).integer_part();
}

bool exponential_accepts(const Extended& x) { return x.uniform < exp_negative(shift_right(x.position, 4)); }

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

}  // namespace

BinaryScale::BinaryScale(double scale) : value(scale), mantissa(0), shift(0) {
    if (!(scale >= 0x1p-10 && scale < 0x1p50))
        throw std::invalid_argument("scale must lie in [2^-10, 2^50) (in units of the grid)");
    int exponent = 0;
    const double fraction = std::frexp(scale, &exponent);
    mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
    shift = static_cast<unsigned>(53 - exponent);
}

// ---- laws: block() on the fast path, resolve() for an attempt that it left undecided

template <class Block>
[[gnu::always_inline]] inline void GeometricLaw::block(Block& b) const {
    choose_bins(*table_, b);
    accept_exponentials(b);
    for (std::size_t i = 0; i < b.stride; ++i) {
        const Floor k = scaled_floor<kExponentialWidth, 0>(scale_, b.bin[i], b.second()[i]);
        b.value[i] = static_cast<std::int64_t>(k.value);
        b.undecided[i] |= k.undecided;
    }
}

Attempt GeometricLaw::resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const {
    const Extended x = extend(*table_, first, second, more);
    return {static_cast<std::int64_t>(exact_floor(scale_, x.place, kExponentialWidth, 0)), exponential_accepts(x)};
}

DiscreteLaplaceLaw::DiscreteLaplaceLaw(double scale)
    : scale_(scale), table_(&BinTable::exponential()), zero_(0.0) {
    // Attempts at +-k are accepted with probability A = E exp(-f/16) = 16 (1 - exp(-1/16)), and the law wants
    // Pr[0] : Pr[not 0] = (1 - q) : 2 q with q = exp(-1/scale). Hence p0 : (1 - p0) A is that ratio.
    const double accepted = -16.0 * std::expm1(-1.0 / 16);
    const double zero = -accepted * std::expm1(-1.0 / scale);
    zero_ = zero / (zero + 2.0 * std::exp(-1.0 / scale));
}

template <class Block>
[[gnu::always_inline]] inline void DiscreteLaplaceLaw::block(Block& b) const {
    using V = LanesOf<Block>;
    using Real = typename V::Real;
    using Word = typename V::Word;
    choose_bins(*table_, b);
    for (std::size_t i = 0; i < b.stride; ++i) {
        const Floor below = scaled_floor<kExponentialWidth, 0>(scale_, b.bin[i], b.second()[i]);
        b.value[i] = static_cast<std::int64_t>(below.value + 1);
        b.undecided[i] |= below.undecided;
    }
    const Real zero = Real{} + zero_ * kUniformScale;
    const Real rest = Real{} + (1.0 - zero_) * kUniformScale;
    for (std::size_t i = 0; i < b.stride; i += V::kSize) {
        const Real p = probability_of<V>(position_of<V>(load<Word>(b.second() + i)) * 0x1p-4);
        zero_or_signed<V>(b, i, zero, zero + rest * p);
    }
}

Attempt DiscreteLaplaceLaw::resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const {
    const Extended x = extend(*table_, first, second, more);
    const Fixed256 one = Fixed256::integer(1);
    // 1/scale = 2^shift / mantissa
    const Fixed256 q = exp_negative(Fixed256::integer(std::uint64_t{1} << scale_.shift) / scale_.mantissa);
    const Fixed256 accepted = shift_left(one - exp_negative(from_scaled(1, -4)), 4);
    const Fixed256 share = accepted * (one - q);
    const Fixed256 zero = share * reciprocal(share + q + q);
    if (x.uniform < zero) return {0, true};
    const Fixed256 either = zero + (one - zero) * exp_negative(shift_right(x.position, 4));
    const std::uint64_t k = exact_floor(scale_, x.place, kExponentialWidth, 0) + 1;
    return {signed_by(x.negative, k), x.uniform < either};
}

template <class Block>
[[gnu::always_inline]] inline void RoundedLaplaceLaw::block(Block& b) const {
    choose_bins(*table_, b);
    accept_exponentials(b);
    round_to_values<kExponentialWidth>(scale_, b);
}

Attempt RoundedLaplaceLaw::resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const {
    const Extended x = extend(*table_, first, second, more);
    const std::uint64_t twice = exact_floor(scale_, x.place, kExponentialWidth, 1);
    return {signed_by(x.negative, rounded(twice)), exponential_accepts(x)};
}

template <class Block>
[[gnu::always_inline]] inline void RoundedGaussianLaw::block(Block& b) const {
    choose_bins(*table_, b);
    accept_normals(b);
    round_to_values<kNormalWidth>(scale_, b);
}

Attempt RoundedGaussianLaw::resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const {
    const Extended x = extend(*table_, first, second, more);
    const std::uint64_t twice = exact_floor(scale_, x.place, kNormalWidth, 1);
    // f (2 i + f) / 8192
    const Fixed256 exponent = shift_right(x.position * (x.place + Fixed256::integer(x.bin)), 13);
    return {signed_by(x.negative, rounded(twice)), x.uniform < exp_negative(exponent)};
}

DiscreteGaussianLaw::DiscreteGaussianLaw(double sigma)
    : scale_(sigma), table_(&BinTable::half_normal()), inverse_(1.0 / sigma) {
    const Fixed256& sum = table_->total();
    const double mass = static_cast<double>(sum.integer_part()) + static_cast<double>(sum.limb[3]) * 0x1p-64;
    zero_ = 1.0 / (1.0 + sigma * (mass / 32.0));
}

template <class Block>
[[gnu::always_inline]] inline void DiscreteGaussianLaw::block(Block& b) const {
    using V = LanesOf<Block>;
    using Real = typename V::Real;
    using Word = typename V::Word;
    choose_bins(*table_, b);
    for (std::size_t i = 0; i < b.stride; ++i) {
        const Floor below = scaled_floor<kNormalWidth, 0>(scale_, b.bin[i], b.second()[i]);
        const auto k = static_cast<std::int64_t>(below.value + 1);
        b.value[i] = k;
        b.ratio[i] = static_cast<double>(k) * inverse_;
        b.undecided[i] |= below.undecided;
    }
    const Real nothing = {};
    const Real zero = nothing + zero_ * kUniformScale;
    const Real rest = nothing + (1.0 - zero_) * kUniformScale;
    for (std::size_t i = 0; i < b.stride; i += V::kSize) {
        // k/sigma >= bin/64, so the exponent (k/sigma)^2/2 - (bin/64)^2/2 is not negative but for rounding.
        const Real r = load<Real>(b.ratio + i);
        const Real c = small_to_real<V>(load<Word>(b.bin + i)) * 0x1p-6;
        const Real exponent = 0.5 * (r - c) * (r + c);
        const Real p = probability_of<V>(exponent > nothing ? exponent : nothing);
        zero_or_signed<V>(b, i, zero, zero + rest * p);
    }
}

Attempt DiscreteGaussianLaw::resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const {
    const Extended x = extend(*table_, first, second, more);
    const Fixed256 one = Fixed256::integer(1);
    // 2 sigma H = sigma * total / 32, at most 2^50 * 81 / 32.
    const Fixed256 both_sides = shift_right(table_->total() * scale_.mantissa, scale_.shift + 5);
    const Fixed256 zero = reciprocal(one + both_sides);
    if (x.uniform < zero) return {0, true};
    const std::uint64_t k = exact_floor(scale_, x.place, kNormalWidth, 0) + 1;
    // k 2^shift <= 16 * 2^53 + 2^62: fits.
    const Fixed256 r = Fixed256::integer(k << scale_.shift) / scale_.mantissa;
    const Fixed256 square = r * r;
    const Fixed256 bin_square = from_scaled(x.bin * x.bin, -12);
    const Fixed256 exponent = square < bin_square ? Fixed256() : shift_right(square - bin_square, 1);
    const Fixed256 either = zero + (one - zero) * exp_negative(exponent);
    return {signed_by(x.negative, k), x.uniform < either};
}

// ---- the discrete Gaussian of a small sigma

namespace {

// Weights 1, 2 r, 2 r^4, 2 r^9, ... with r = exp(-1/(2 sigma^2)), padded with zeros to a power of two. The ratio
// of neighbours is a geometric sequence; truncation errors add up to less than 2^-220.
std::vector<Fixed256> magnitudes(double sigma) {
    const BinaryScale scale(sigma);
    const Fixed256 inverse = Fixed256::integer(std::uint64_t{1} << scale.shift) / scale.mantissa;
    const Fixed256 r = exp_negative(shift_right(inverse * inverse, 1));
    const Fixed256 step = r * r;
    const auto reach = static_cast<std::size_t>(std::ceil(16.0 * sigma)) + 1;
    std::vector<Fixed256> weights{Fixed256::integer(1)};
    Fixed256 ratio = r;
    Fixed256 w = Fixed256::integer(2);
    for (std::size_t k = 1; k <= reach; ++k) {
        w = w * ratio;
        ratio = ratio * step;
        weights.push_back(w);
    }
    std::size_t size = 2;
    while (size < weights.size()) size *= 2;
    weights.resize(size);
    return weights;
}

}  // namespace

TabledGaussianLaw::TabledGaussianLaw(double sigma) : scale_(sigma), table_(magnitudes(sigma)) {
    if (!(sigma <= kGreatestSigma)) throw std::invalid_argument("the table is for sigma <= 8");
}

template <class Block>
[[gnu::always_inline]] inline void TabledGaussianLaw::block(Block& b) const {
    choose_bins(table_, b);
    for (std::size_t i = 0; i < b.stride; ++i) {
        b.value[i] = signed_by(negative_of(b.words[i]), b.bin[i]);
        b.accepted[i] = One::mask(true);
    }
}

Attempt TabledGaussianLaw::resolve(std::uint64_t first, std::uint64_t, const Extension& more) const {
    const std::uint64_t k = table_.choose_exactly(index_of(first) & (table_.size() - 1), compare_of(first),
                                                  {more.bin[0], more.bin[1], more.bin[2]});
    return {signed_by(negative_of(first), k), true};
}

// ---- blocks of attempts

namespace {

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
