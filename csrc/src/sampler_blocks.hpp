// What each law does with a block of attempts: Law::block() of dpcore/sampler_laws.hpp, inlined where blocks are
// run.
//
// Method, Guarantee, Evidence: those of dpcore/sampler_laws.hpp and attempt_block.hpp.
#pragma once

#include "attempt_block.hpp"
#include "dpcore/sampler_laws.hpp"

namespace dpcore {

template <class Block>
[[gnu::always_inline]] inline void GeometricLaw::block(Block& b) const {
    using namespace attempts;
    choose_bins(*table_, b);
    accept_exponentials(b);
    for (std::size_t i = 0; i < b.stride; ++i) {
        const Floor k = scaled_floor<kExponentialWidth, 0>(scale_, b.bin[i], b.second()[i]);
        b.value[i] = static_cast<std::int64_t>(k.value);
        b.undecided[i] |= k.undecided;
    }
}

template <class Block>
[[gnu::always_inline]] inline void DiscreteLaplaceLaw::block(Block& b) const {
    using namespace attempts;
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

template <class Block>
[[gnu::always_inline]] inline void RoundedLaplaceLaw::block(Block& b) const {
    using namespace attempts;
    choose_bins(*table_, b);
    accept_exponentials(b);
    round_to_values<kExponentialWidth>(scale_, b);
}

template <class Block>
[[gnu::always_inline]] inline void RoundedGaussianLaw::block(Block& b) const {
    using namespace attempts;
    choose_bins(*table_, b);
    accept_normals(b);
    round_to_values<kNormalWidth>(scale_, b);
}

template <class Block>
[[gnu::always_inline]] inline void DiscreteGaussianLaw::block(Block& b) const {
    using namespace attempts;
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

template <class Block>
[[gnu::always_inline]] inline void TabledGaussianLaw::block(Block& b) const {
    using namespace attempts;
    choose_bins(table_, b);
    for (std::size_t i = 0; i < b.stride; ++i) {
        b.value[i] = signed_by(negative_of(b.words[i]), b.bin[i]);
        b.accepted[i] = One::mask(true);
    }
}

}  // namespace dpcore
