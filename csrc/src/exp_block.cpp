#include "dpcore/exp_block.hpp"

#include <cstdint>
#include <cstring>

#include "clones.hpp"

namespace dpcore {

DPCORE_CLONES void exp_block(const double* x, double* out, std::size_t count) {
    constexpr double kInverseLn2 = 1.4426950408889634;
    constexpr double kLn2High = 0x1.62e42fefa38p-1;  // 41 bits
    constexpr double kLn2Low = 0x1.ef35793c7673p-45;
    constexpr double kShift = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
    for (std::size_t i = 0; i < count; ++i) {
        const double shifted = x[i] * kInverseLn2 + kShift;
        const double n = shifted - kShift;
        const double r = (x[i] - n * kLn2High) - n * kLn2Low;
        double p = 1.0 / 6227020800.0;
        p = p * r + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r + 1.0;
        p = p * r + 1.0;
        std::uint64_t bits;
        std::memcpy(&bits, &shifted, sizeof bits);
        bits = (bits + 1023) << 52;
        double scale;
        std::memcpy(&scale, &bits, sizeof scale);
        out[i] = p * scale;
    }
}

}  // namespace dpcore
