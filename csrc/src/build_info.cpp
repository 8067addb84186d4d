#include "dpcore/build_info.hpp"

#include <cfloat>

#include "dpcore/version.hpp"

#ifdef __FAST_MATH__
#error "dpcore's error bounds do not hold under -ffast-math: remove it from CXXFLAGS"
#endif

#if defined(__clang__)
#define DPCORE_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define DPCORE_COMPILER "gcc " __VERSION__
#else
#define DPCORE_COMPILER "unknown"
#endif

namespace dpcore {

namespace {

// What the error bounds assume, tried on this file's own code (compiled like all of the core) and on the state of
// the processor: another library linked with -ffast-math may have changed that.
bool sound_arithmetic() {
    const volatile double one = 1.0;
    const volatile double tiny = 0x1p-53;
    const volatile double least = DBL_MIN;
    const volatile double third = 1.0 / 3.0;
    const double x = one;
    const double u = tiny;
    const double y = third;
    const bool in_order = (x + u) - x == 0.0 && (u + x) - x == 0.0;  // reassociation would leave u
    const bool separate = y * 3.0 - 1.0 == 0.0;                      // contraction would leave -2^-54
    const bool nearest = x + 3.0 * u == 1.0 + 0x1p-51 && -x - u == -1.0;
    const bool subnormal = least * 0.5 > 0.0 && least * 0.5 * 2.0 == least;
    const volatile double zero = 0.0;
    const double nan = zero / zero;
    return in_order && separate && nearest && subnormal && !(nan == nan);
}

}  // namespace

BuildInfo build_info() noexcept {
    return {DPCORE_VERSION,        DPCORE_COMPILER,     DPCORE_BUILD_TYPE, DPCORE_BUILD_FLAGS,
            DPCORE_BUILD_SANITIZE, LDBL_MANT_DIG >= 64, sound_arithmetic()};
}

}  // namespace dpcore
