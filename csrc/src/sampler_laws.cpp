#include "dpcore/sampler_laws.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "attempt_block.hpp"
#include "dpcore/fixed_point.hpp"

namespace dpcore {

using namespace attempts;

namespace {

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

}  // namespace

BinaryScale::BinaryScale(double scale) : value(scale), mantissa(0), shift(0) {
    if (!(scale >= 0x1p-10 && scale < 0x1p50))
        throw std::invalid_argument("scale must lie in [2^-10, 2^50) (in units of the grid)");
    int exponent = 0;
    const double fraction = std::frexp(scale, &exponent);
    mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
    shift = static_cast<unsigned>(53 - exponent);
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

Attempt RoundedLaplaceLaw::resolve(std::uint64_t first, std::uint64_t second, const Extension& more) const {
    const Extended x = extend(*table_, first, second, more);
    const std::uint64_t twice = exact_floor(scale_, x.place, kExponentialWidth, 1);
    return {signed_by(x.negative, rounded(twice)), exponential_accepts(x)};
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

Attempt TabledGaussianLaw::resolve(std::uint64_t first, std::uint64_t, const Extension& more) const {
    const std::uint64_t k = table_.choose_exactly(index_of(first) & (table_.size() - 1), compare_of(first),
                                                  {more.bin[0], more.bin[1], more.bin[2]});
    return {signed_by(negative_of(first), k), true};
}

}  // namespace dpcore
