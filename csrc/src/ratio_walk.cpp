#include "dpcore/ratio_walk.hpp"

#include <cmath>

#include "vector_two_prod.hpp"

namespace dpcore {

namespace {

struct ChunkInput {
    const double* top;
    const double* bottom;
    double k;
    DoubleDouble anchor;
    const double* forward_power;
    const double* backward_power;
    DoubleDouble block_power;
    double factor;  // power of two
};

// Ratios beyond 2^+-20 are walked in single steps: over a chunk they would leave the range in which
// double-double arithmetic is exact. They cross the whole range of double in about a hundred points.
constexpr double kLargestRatio = 0x1p20;

namespace portable {

#define DPCORE_TWO_PROD_ERROR(a, b, p) detail::product_error(a, b, p)
#define DPCORE_SCALAR_TWO_PROD(a, b) dpcore::two_prod(a, b)
#include "ratio_chunk.inc"
#undef DPCORE_TWO_PROD_ERROR
#undef DPCORE_SCALAR_TWO_PROD

}  // namespace portable

#ifdef DPCORE_X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {

#define DPCORE_TWO_PROD_ERROR(a, b, p) ((V)_mm256_fmsub_pd((__m256d)(a), (__m256d)(b), (__m256d)(p)))
#define DPCORE_SCALAR_TWO_PROD(a, b) DoubleDouble((a) * (b), __builtin_fma(a, b, -((a) * (b))))
#include "ratio_chunk.inc"
#undef DPCORE_TWO_PROD_ERROR
#undef DPCORE_SCALAR_TWO_PROD

}  // namespace avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

using ChunkFunction = void (*)(const ChunkInput&, double*, DoubleDouble*);

template <int F>
ChunkFunction chunk_function() {
#ifdef DPCORE_X86
    static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (wide) return F == 1 ? avx2::chunk_1 : avx2::chunk_2;
#endif
    return F == 1 ? portable::chunk_1 : portable::chunk_2;
}

}  // namespace

template <int F>
double RatioLaw<F>::product_ratio(double k) const {
    double numerator = 1.0;
    double denominator = 1.0;
    for (int f = 0; f < F; ++f) {
        numerator *= top[f] - k;
        denominator *= bottom[f] + k;
    }
    return numerator / denominator;
}

template <int F>
double RatioLaw<F>::ratio(double k) const {
    return std::ldexp(product_ratio(k) * odds.hi, static_cast<int>(odds_exponent));
}

template <int F>
RatioWalk<F>::RatioWalk(const RatioLaw<F>& law, double k, const Scaled& value) : law_(law), k_(k), value_(value) {
    // odds^8 within 2^+-408, the factors of a block within 2^+-424 (F = 1) or 2^848 (F = 2, odds = 1).
    by_chunk_ = law_.odds_exponent >= -50 && law_.odds_exponent <= 50;
    if (by_chunk_) {
        const double scale = std::ldexp(1.0, static_cast<int>(law_.odds_exponent));
        const DoubleDouble odds = {law_.odds.hi * scale, law_.odds.lo * scale};
        const DoubleDouble inverse = DoubleDouble(1.0) / odds;
        DoubleDouble forward = 1.0;
        DoubleDouble backward = 1.0;
        for (int i = 0; i < 5; ++i) {
            forward_power_[i] = forward.hi;
            backward_power_[i] = backward.hi;
            if (i == 4) break;
            forward = forward * odds;
            backward = backward * inverse;
        }
        block_power_ = forward * forward;
    }
    value_ = normalised(value_);
}

template <int F>
DoubleDouble RatioLaw<F>::exact_ratio(double k) const {
    if (F == 1) return DoubleDouble(top[0] - k) / DoubleDouble(bottom[0] + k);
    return two_prod(top[0] - k, top[F - 1] - k) / two_prod(bottom[0] + k, bottom[F - 1] + k);
}

template <int F>
void RatioWalk<F>::step() {
    const DoubleDouble mantissa = value_.mantissa * law_.odds * law_.exact_ratio(k_);
    value_ = normalised({mantissa, value_.exponent + law_.odds_exponent});
    k_ += 1.0;
}

// The ratios of a chunk lie between those of its ends.
template <int F>
bool RatioWalk<F>::chunk_fits() const {
    if (!by_chunk_ || k_ + kChunk > law_.last) return false;
    const double first = law_.product_ratio(k_) * forward_power_[1];
    const double final = law_.product_ratio(k_ + (kChunk - 1)) * forward_power_[1];
    return first <= kLargestRatio && final >= 1.0 / kLargestRatio;
}

template <int F>
int RatioWalk<F>::next(double* out, std::int64_t scale) {
    if (finished_) return 0;
    if (!chunk_fits()) {
        out[0] = to_double(value_, scale);
        if (at_end())
            finished_ = true;
        else
            step();
        return 1;
    }
    const std::int64_t shift = value_.exponent - scale;
    const bool plain = shift >= -1022 && shift <= 700;
    const ChunkInput in = {
        law_.top,       law_.bottom,     k_,           value_.mantissa,
        forward_power_, backward_power_, block_power_, plain ? std::ldexp(1.0, static_cast<int>(shift)) : 1.0};
    static const ChunkFunction run = chunk_function<F>();
    run(in, out, &value_.mantissa);
    if (!plain) {
        const int far = static_cast<int>(shift < -3000 ? -3000 : shift > 3000 ? 3000 : shift);
        for (int i = 0; i < kChunk; ++i) out[i] = std::ldexp(out[i], far);
    }
    k_ += kChunk;
    value_ = normalised(value_);
    return kChunk;
}

template struct RatioLaw<1>;
template struct RatioLaw<2>;
template class RatioWalk<1>;
template class RatioWalk<2>;

}  // namespace dpcore
