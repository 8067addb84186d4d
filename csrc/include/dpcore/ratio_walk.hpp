// Walks along a pmf whose neighbouring values have a rational ratio: binomial and hypergeometric.
//
// Method:    v(k+1) / v(k) = odds * prod_f (top_f - k) / (bottom_f + k), f < F. Every kBlock points an anchor is
// carried
//            on in double-double (exact integer factors, so one relative error of about 2^-98 a block); the points
//            of a block are anchor * odds^i * (product of tops / product of bottoms) in double. The anchor has its
//            own binary exponent, so nothing under- or overflows on the way. Blocks where odds is extreme, and the
//            last points of the support, go one by one in double-double.
// Domain:    tops and bottoms are integers below 2^54 in magnitude, bottom_f + k > 0 and top_f - k > 0 for k
// before `last`. Guarantee: a value written is within (2 F (kBlock - 1) + 4) u of anchor times ratio, u = 2^-53: F
// = 1: 18 u = 2.0e-15,
//            F = 2: 16 u = 1.8e-15 (kBlock 8 and 4), plus 2^-97 per block walked, plus the start's own error, plus
//            one rounding to the subnormal grid for results below 2^-1022.
// Evidence:  tests/test_distributions.py measures the laws built on it against exact rationals.
#pragma once

#include <cmath>
#include <cstdint>

#include "dpcore/double_double.hpp"
#include "dpcore/double_double_functions.hpp"

namespace dpcore {

template <int F>
struct RatioLaw {
    double top[F];
    double bottom[F];
    DoubleDouble odds = 1.0;         // mantissa in [1/2, 2)
    std::int64_t odds_exponent = 0;  // and exponent of the constant factor
    double last = 0.0;               // the ratio at `last` is 0: end of the support

    // v(k+1) / v(k) in double: at most 2F + 2 roundings.
    double ratio(double k) const {
        double numerator = odds.hi;
        double denominator = 1.0;
        for (int f = 0; f < F; ++f) {
            numerator *= top[f] - k;
            denominator *= bottom[f] + k;
        }
        return std::ldexp(numerator / denominator, static_cast<int>(odds_exponent));
    }
};

template <int F>
class RatioWalk {
public:
    static constexpr int kBlock = F == 1 ? 8 : 4;

    RatioWalk(const RatioLaw<F>& law, double k, const Scaled& value) : law_(law), k_(k), value_(value) {
        // Blocks only where odds^kBlock times the other factors stays in range: |log2 odds| <= 50 gives
        // magnitudes within 2^+-(8 * 50 + 8 * 53) of the anchor, which itself is within 2^+-100.
        by_block_ = law_.odds_exponent >= -50 && law_.odds_exponent <= 50;
        if (by_block_) {
            const double scale = std::ldexp(1.0, static_cast<int>(law_.odds_exponent));
            DoubleDouble power = 1.0;
            for (double& p : powers_) {
                p = power.hi;
                power = power * DoubleDouble(law_.odds.hi * scale, law_.odds.lo * scale);
            }
            block_power_ = power;
        }
        normalise();
    }

    double k() const { return k_; }
    const Scaled& value() const { return value_; }
    bool at_end() const { return !(k_ < law_.last); }

    // One step, all in double-double. Not at the end.
    void step() {
        value_.mantissa = value_.mantissa * law_.odds * (tops(k_) / bottoms(k_));
        value_.exponent += law_.odds_exponent;
        k_ += 1.0;
        normalise();
    }

    // Writes v(k), v(k+1), ... times 2^-scale, at most kBlock of them, and moves past them; the number written.
    // At the end of the support it writes the last value, and 0 values from then on.
    int next(double* out, std::int64_t scale) {
        if (finished_) return 0;
        if (!by_block_ || k_ + kBlock > law_.last) {
            out[0] = to_double(value_, scale);
            if (at_end())
                finished_ = true;
            else
                step();
            return 1;
        }
        const double anchor = value_.mantissa.hi;
        const std::int64_t shift = value_.exponent - scale;
        double numerator = 1.0;
        double denominator = 1.0;
        out[0] = anchor;
        for (int i = 1; i < kBlock; ++i) {
            for (int f = 0; f < F; ++f) {
                numerator *= law_.top[f] - (k_ + (i - 1));
                denominator *= law_.bottom[f] + (k_ + (i - 1));
            }
            out[i] = anchor * (powers_[i] * (numerator / denominator));
        }
        if (shift >= -1000 && shift <= 900) {
            const double factor = std::ldexp(1.0, static_cast<int>(shift));
            for (int i = 0; i < kBlock; ++i) out[i] *= factor;
        } else {
            const int far = static_cast<int>(shift < -3000 ? -3000 : shift > 3000 ? 3000 : shift);
            for (int i = 0; i < kBlock; ++i) out[i] = std::ldexp(out[i], far);
        }
        DoubleDouble above[kBlock];
        DoubleDouble below[kBlock];
        for (int i = 0; i < kBlock; ++i) {
            above[i] = tops(k_ + i);
            below[i] = bottoms(k_ + i);
        }
        for (int width = kBlock / 2; width > 0; width /= 2)
            for (int i = 0; i < width; ++i) {
                above[i] = above[i] * above[i + width];
                below[i] = below[i] * below[i + width];
            }
        DoubleDouble next = value_.mantissa * (above[0] / below[0]);
        if (F == 1) next = next * block_power_;
        value_.mantissa = next;
        k_ += kBlock;
        normalise();
        return kBlock;
    }

private:
    DoubleDouble tops(double k) const {
        if (F == 1) return law_.top[0] - k;
        return two_prod(law_.top[0] - k, law_.top[F - 1] - k);
    }
    DoubleDouble bottoms(double k) const {
        if (F == 1) return law_.bottom[0] + k;
        return two_prod(law_.bottom[0] + k, law_.bottom[F - 1] + k);
    }
    void normalise() {
        const double magnitude = value_.mantissa.hi;
        if (magnitude >= 0x1p-100 && magnitude <= 0x1p100) return;
        if (magnitude == 0.0) return;
        const int by = std::ilogb(magnitude);
        value_.mantissa = {std::ldexp(value_.mantissa.hi, -by), std::ldexp(value_.mantissa.lo, -by)};
        value_.exponent += by;
    }

    RatioLaw<F> law_;
    double k_;
    Scaled value_;
    bool by_block_ = false;
    bool finished_ = false;
    double powers_[kBlock] = {};
    DoubleDouble block_power_ = 1.0;
};

}  // namespace dpcore
