// Attempts of the samplers on the fast path, many at once and without a branch on what is drawn.
//
// Method:    dpcore/sampler_laws.hpp says what the two words of an attempt mean. Comparisons of probabilities run
//            on vectors of four attempts, or on one attempt; the steps of an attempt (bins, acceptance, rounding)
//            on a block of them, one array a quantity.
// Guarantee: vectors and single attempts give the same bits. An attempt is marked undecided wherever the bits
//            drawn and the approximations used here do not settle it.
// Evidence:  tests/cpp/test_samplers.cpp (blocks against single attempts), tests/test_samplers_exact.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "dpcore/bin_table.hpp"
#include "dpcore/fast_exp.hpp"
#include "dpcore/sampler_laws.hpp"

// 32-byte vectors are passed between functions that are all inlined: how a call would pass them does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace dpcore::attempts {

inline constexpr unsigned kUniformBits = 26;
inline constexpr std::uint64_t kUniformMask = (std::uint64_t{1} << kUniformBits) - 1;
inline constexpr double kUniformScale = 0x1p26;
// Slack of a comparison with U, in units of U's last bit: the probability's error is below kFastExpError (2^-34)
// plus that of its argument and of p0 (below 2^-40, see docs/samplers.md), together well below 2^-30.
inline constexpr double kSlack = 0x1p-30 * kUniformScale;

inline std::uint64_t index_of(std::uint64_t first) { return first & ((1U << BinTable::kAliasBits) - 1); }
inline std::uint64_t negative_of(std::uint64_t first) { return (first >> BinTable::kAliasBits) & 1; }
inline std::uint64_t uniform_of(std::uint64_t first) {
    return (first >> (BinTable::kAliasBits + 1)) & kUniformMask;
}
inline std::uint64_t compare_of(std::uint64_t first) { return first >> (64 - BinTable::kCompareBits); }
inline std::int64_t signed_by(std::uint64_t negative, std::uint64_t magnitude) {
    const auto mask = -static_cast<std::int64_t>(negative);
    return (static_cast<std::int64_t>(magnitude) ^ mask) - mask;
}

// round(x) = floor((floor(2 x) + 1)/2).
inline std::uint64_t rounded(std::uint64_t twice) { return (twice + 1) >> 1; }

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

inline constexpr unsigned kExponentialWidth = 4;  // bins of 1/16
inline constexpr unsigned kNormalWidth = 6;       // bins of 1/64

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

}  // namespace dpcore::attempts
