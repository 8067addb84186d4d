#include "dpcore/fourier.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "clones.hpp"
#include "dpcore/certified.hpp"
#include "precise_complex.hpp"

namespace dpcore {

namespace {

using detail::PreciseComplex;

// e^{2 pi i j/n}. Two of them are multiplied for a twiddle factor: a table of those needs few.
PreciseComplex root_of_unity(std::size_t j, std::size_t n) {
    const DoubleDouble two_pi = {6.28318530717958647692, 2.4492935982947064e-16};
    const double part = static_cast<double>(j) / static_cast<double>(n);  // exact
    // The product is not, unless j is a power of two: in double-double too.
    PreciseComplex out = expm1(PreciseComplex{0.0, two_pi * part, 0x1p-100});
    out.re = out.re + 1.0;
    return out;
}

// One pass of the Stockham scheme: `half` butterflies apart, groups of `stride` share a twiddle factor.
DPCORE_CLONES void pass(const double* __restrict ar, const double* __restrict ai, double* __restrict br,
                        double* __restrict bi, std::size_t half, std::size_t stride,
                        const double* __restrict cosine, const double* __restrict sine) {
    const std::size_t groups = half / stride;
    if (stride == 1) {  // the inner loop below would have one turn
        for (std::size_t g = 0; g < groups; ++g) {
            const double dr = ar[g] - ar[g + half];
            const double di = ai[g] - ai[g + half];
            br[2 * g] = ar[g] + ar[g + half];
            bi[2 * g] = ai[g] + ai[g + half];
            br[2 * g + 1] = dr * cosine[g] - di * sine[g];
            bi[2 * g + 1] = dr * sine[g] + di * cosine[g];
        }
        return;
    }
    for (std::size_t g = 0; g < groups; ++g) {
        const double c = cosine[g * stride];
        const double s = sine[g * stride];
        const std::size_t in = g * stride;
        const std::size_t out = 2 * g * stride;
        for (std::size_t q = 0; q < stride; ++q) {
            const double xr = ar[in + q];
            const double xi = ai[in + q];
            const double yr = ar[in + half + q];
            const double yi = ai[in + half + q];
            const double dr = xr - yr;
            const double di = xi - yi;
            br[out + q] = xr + yr;
            bi[out + q] = xi + yi;
            br[out + stride + q] = dr * c - di * s;
            bi[out + stride + q] = dr * s + di * c;
        }
    }
}

void transform(std::vector<double>& re, std::vector<double>& im, double sign, StopCheck stop) {
    const std::size_t n = re.size();
    if (n == 0 || (n & (n - 1)) != 0 || n > kMaxTransform || im.size() != n)
        throw std::invalid_argument("the length of a transform must be a power of two up to 2^24");
    if (n == 1) return;
    const std::size_t half = n / 2;
    std::vector<double> cosine(half), sine(half), tr(n), ti(n);
    // One eighth of the circle, the rest by symmetry. In double-double: their errors count in every pass.
    constexpr std::size_t kRow = 64;
    const std::size_t quarter = n / 4;
    PreciseComplex row[kRow];
    for (std::size_t j = 0; j < std::min(kRow, n / 8 + 1); ++j) row[j] = root_of_unity(j, n);
    for (std::size_t from = 0; from <= n / 8; from += kRow) {
        if (from % 65536 == 0) stop();
        const PreciseComplex first = root_of_unity(from, n);
        for (std::size_t j = from; j < std::min(from + kRow, n / 8 + 1); ++j) {
            const PreciseComplex& other = row[j - from];
            cosine[j] = static_cast<double>(first.re * other.re - first.im * other.im);
            sine[j] = static_cast<double>(first.re * other.im + first.im * other.re);
        }
    }
    for (std::size_t j = n / 8 + 1; j <= quarter && j < half; ++j) {
        cosine[j] = sine[quarter - j];
        sine[j] = cosine[quarter - j];
    }
    for (std::size_t j = quarter + 1; j < half; ++j) {
        cosine[j] = -sine[j - quarter];
        sine[j] = cosine[j - quarter];
    }
    for (std::size_t j = 0; j < half; ++j) sine[j] *= sign;
    for (std::size_t stride = 1; stride < n; stride *= 2) {
        stop();
        pass(re.data(), im.data(), tr.data(), ti.data(), half, stride, cosine.data(), sine.data());
        re.swap(tr);
        im.swap(ti);
    }
}

}  // namespace

void fourier_forward(std::vector<double>& re, std::vector<double>& im, StopCheck stop) {
    transform(re, im, -1.0, stop);
}

void fourier_inverse(std::vector<double>& re, std::vector<double>& im, StopCheck stop) {
    transform(re, im, 1.0, stop);
    const double scale = 1.0 / static_cast<double>(re.size());  // a power of two: exact
    for (double& x : re) x *= scale;
    for (double& x : im) x *= scale;
}

double transform_error(std::size_t length) {
    const double t = std::log2(static_cast<double>(length)) + 1.0;
    // Twiddle factors are known to 2^-98 and rounded once.
    const double mu = 1.01 * kRound;
    const double gamma4 = 4.0 * kRound * kSlack;
    const double eta = mu + gamma4 * (1.5 + mu);
    return t * eta / (1.0 - t * eta);
}

}  // namespace dpcore
