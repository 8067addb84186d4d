// Checks of arguments, shared by the functions that a program calls.
//
// Method:    comparisons are written so that NaN fails them. A violation throws std::invalid_argument, whose
//            message names the argument, the rule and the value given.
// Domain:    public parameters only: a check of a value to be protected would leak it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

namespace dpcore {

[[noreturn]] inline void refuse(const char* name, const char* rule, double value) {
    char text[256];
    std::snprintf(text, sizeof text, "%s must be %s, got %.17g", name, rule, value);
    throw std::invalid_argument(text);
}

inline void need_within(double value, double low, double high, const char* name, const char* rule) {
    if (!(value >= low && value <= high)) refuse(name, rule, value);
}
inline void need_positive(double value, const char* name) {
    if (!(value > 0.0 && std::isfinite(value))) refuse(name, "a finite number > 0", value);
}
inline void need_non_negative(double value, const char* name) {
    if (!(value >= 0.0 && std::isfinite(value))) refuse(name, "a finite number >= 0", value);
}
inline void need_probability(double value, const char* name) {
    need_within(value, 0.0, 1.0, name, "a number in [0, 1]");
}
// Of a count: laws are held with exponents of 64 bits, and e^epsilon is one of their factors.
inline void need_count_epsilon(double value) {
    if (!(value > 0.0 && value <= 0x1p60)) refuse("epsilon", "a number in (0, 2**60]", value);
}
inline void need_open_probability(double value, const char* name) {
    if (!(value > 0.0 && value < 1.0)) refuse(name, "a number in (0, 1), both ends excluded", value);
}

// Integers, as themselves or as doubles.
inline void need_whole(std::int64_t value, std::int64_t low, std::int64_t high, const char* name) {
    if (value >= low && value <= high) return;
    char text[256];
    std::snprintf(text, sizeof text, "%s must be an integer in [%lld, %lld], got %lld", name,
                  static_cast<long long>(low), static_cast<long long>(high), static_cast<long long>(value));
    throw std::invalid_argument(text);
}
inline void need_whole(double value, double low, double high, const char* name) {
    if (value >= low && value <= high && value == std::floor(value)) return;
    char text[256];
    std::snprintf(text, sizeof text, "%s must be an integer in [%.0f, %.0f], got %.17g", name, low, high, value);
    throw std::invalid_argument(text);
}

}  // namespace dpcore
