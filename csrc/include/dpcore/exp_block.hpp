// e^x over an array, in a loop that the compiler turns into vector instructions.
//
// Method:    n = round(x / ln 2), r = x - n ln 2 with ln 2 in two parts (n times the first is exact: 11 bits by
// 41),
//            Taylor polynomial of degree 13 on |r| <= 0.3466, times 2^n.
// Domain:    |x| <= 700; the caller checks.
// Guarantee: relative error below 6 * 2^-53, within kLibm. Left out: 0.3466^14/14! < 2^-57; r is off by less than
//            2^-53 |r| + 2^-86 n; the last step of Horner's scheme rounds once, the steps before add less than
//            2 |r| roundings.
// Evidence:  tests/cpp/test_direct_spectrum.cpp against long double.
#pragma once

#include <cstddef>

namespace dpcore {

// out[i] = e^{x[i]}; the arrays may be the same.
void exp_block(const double* x, double* out, std::size_t count);

}  // namespace dpcore
