// The exact error of a product in vector lanes without fused multiply-add: Dekker's splitting, as two_prod of
// double_double.hpp does it. Shared by the portable variants of ratio_walk.cpp and poisson_binomial.cpp.
#pragma once

// The vectors never cross a function boundary: everything that takes them is always inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define DPCORE_X86 1
#include <immintrin.h>
#endif

namespace dpcore::detail {

using Lanes = double __attribute__((vector_size(32)));

inline __attribute__((always_inline)) Lanes product_error(const Lanes& a, const Lanes& b, const Lanes& p) {
    constexpr double kSplit = 134217729.0;  // 2^27 + 1
    const Lanes ta = kSplit * a;
    const Lanes ah = ta - (ta - a);
    const Lanes al = a - ah;
    const Lanes tb = kSplit * b;
    const Lanes bh = tb - (tb - b);
    const Lanes bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
}

}  // namespace dpcore::detail
