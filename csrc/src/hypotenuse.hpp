// The length of (a, b) without over- or underflow on the way, correct to half an ulp and a little.
//
// By way of long double, because hypotl has had one symbol version from the beginning, while hypot got a new one
// in glibc 2.35 (for errno, which nothing here reads) that alone would keep a wheel off every older system.
#pragma once

#include <cmath>

namespace dpcore::detail {

inline double hypotenuse(double a, double b) {
    return static_cast<double>(std::hypot(static_cast<long double>(a), static_cast<long double>(b)));
}

}  // namespace dpcore::detail
