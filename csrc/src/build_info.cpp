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

BuildInfo build_info() noexcept {
    return {DPCORE_VERSION,     DPCORE_COMPILER,       DPCORE_BUILD_TYPE,
            DPCORE_BUILD_FLAGS, DPCORE_BUILD_SANITIZE, LDBL_MANT_DIG >= 64};
}

}  // namespace dpcore
