// What this library was built from and with; for bug reports and for benchmarks that refuse debug builds.
#pragma once

namespace dpcore {

struct BuildInfo {
    const char* version;        // DPCORE_VERSION of the sources
    const char* compiler;       // name and version
    const char* build_type;     // "Release" unless asked otherwise
    const char* flags;          // compiler flags beyond the project's own
    const char* sanitize;       // sanitizers, empty for none
    bool long_double_is_wider;  // long double carries at least 64 significand bits
    bool sound_arithmetic;  // in this process, now: each operation rounds once, to nearest, subnormals included
};

BuildInfo build_info() noexcept;

}  // namespace dpcore
