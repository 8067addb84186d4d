#include "list_product.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dpcore/certified.hpp"
#include "dpcore/fourier.hpp"

namespace dpcore::detail {

namespace {
constexpr double kTransformWork = 55.0;  // nanoseconds of an entry in a transform and its power
}

std::size_t transform_length(double count) {
    std::size_t n = 16;
    while (static_cast<double>(n) < count) n *= 2;
    return n;
}

void ListProduct::fold(const TiltedList& list) {
    const auto period = static_cast<std::int64_t>(size_);
    std::fill(re_.begin(), re_.end(), 0.0);
    std::fill(im_.begin(), im_.end(), 0.0);
    std::int64_t at = list.first % period;
    if (at < 0) at += period;
    for (std::size_t j = 0; j < list.upper.size(); ++j) {
        re_[static_cast<std::size_t>(at)] += list.upper[j];
        im_[static_cast<std::size_t>(at)] += list.lower[j];
        if (++at == period) at = 0;
    }
}

void ListProduct::multiply(const TiltedList& list, StopCheck stop) {
    // A single list is its own product: transformed when a second one comes.
    if (lists_ == 1.0 && !transformed_) take_powers(1.0, stop);
    fold(list);
    lists_ += list.copies;
    if (lists_ > 1.0) take_powers(list.copies, stop);
}

void ListProduct::take_powers(double copies, StopCheck stop) {
    constexpr std::size_t kRow = 1024;  // of a sum, so that few roundings add up
    double norm = 0.0, upper = 0.0, lower = 0.0;
    for (std::size_t from = 0; from < size_; from += kRow) {
        double up = 0.0, low = 0.0;
        for (std::size_t j = from; j < std::min(from + kRow, size_); ++j) {
            norm += re_[j] * re_[j] + im_[j] * im_[j];
            up += re_[j];
            low += im_[j];
        }
        upper += up;
        lower += low;
    }
    // Frequencies are at most the masses; as computed, see below.
    double largest =
        std::max(upper, lower) * (1.0 + (static_cast<double>(kRow) + static_cast<double>(size_ / kRow)) * kRound);
    stop.spend(kTransformWork * static_cast<double>(size_));
    fourier_forward(re_, im_, stop);
    spectrum_err_ += copies * transform_error(size_) * std::sqrt(norm);
    if (!transformed_) {
        up_re_.assign(size_ / 2 + 1, 1.0);
        up_im_.assign(size_ / 2 + 1, 0.0);
        low_re_ = up_re_;
        low_im_ = up_im_;
        transformed_ = true;
    }
    // Separate the two real sequences and take powers; frequencies that cannot matter are left out.
    const auto exponent = static_cast<std::uint64_t>(copies);
    const double negligible = std::exp(-120.0 / copies) * (1.0 - kLibm);  // |x|^copies < e^-60
    double most = 0.0;
    const auto power = [&](Complex x, double& out_re, double& out_im) {
        const double square = norm2(x);
        most = std::max(most, square);
        if (out_re == 0.0 && out_im == 0.0) return;
        if (square < negligible) {
            out_re = out_im = 0.0;
            return;
        }
        Complex result = {out_re, out_im};
        for (std::uint64_t k = exponent;;) {
            if ((k & 1U) != 0U) result = result * x;
            k >>= 1U;
            if (k == 0) break;
            x = x * x;
        }
        out_re = result.re;
        out_im = result.im;
    };
    for (std::size_t j = 0; j <= size_ / 2; ++j) {
        if (j % 65536 == 0) stop();
        const std::size_t mirror = (size_ - j) & (size_ - 1);
        power({0.5 * (re_[j] + re_[mirror]), 0.5 * (im_[j] - im_[mirror])}, up_re_[j], up_im_[j]);
        power({0.5 * (im_[j] + im_[mirror]), -0.5 * (re_[j] - re_[mirror])}, low_re_[j], low_im_[j]);
    }
    // An error e of x changes x^k by at most k e times the (k-1)th power of the larger of both, and what it is
    // multiplied by grows with the other lists: all but nothing for as few copies as can be answered well.
    largest = std::max({1.0, largest, std::sqrt(most) * (1.0 + 4.0 * kRound)});
    growth_ *= std::pow(largest, copies) * (1.0 + 1e-6);
    // Squarings and products: 4 roundings each, the error of a power counts its exponent; relative to the product.
    rounded_ += copies * 16.0 * kRound;
    spectrum_err_ += std::sqrt(static_cast<double>(size_)) * 1e-26;
}

void ListProduct::finish(StopCheck stop) {
    if (!transformed_) return;
    for (std::size_t j = 0; j <= size_ / 2; ++j) {
        const std::size_t mirror = (size_ - j) & (size_ - 1);
        // upper + i lower, both real sequences
        re_[j] = up_re_[j] - low_im_[j];
        im_[j] = up_im_[j] + low_re_[j];
        re_[mirror] = up_re_[j] + low_im_[j];
        im_[mirror] = -up_im_[j] + low_re_[j];
    }
    double spectrum = 0.0;
    for (std::size_t j = 0; j < size_; ++j) spectrum += re_[j] * re_[j] + im_[j] * im_[j];
    stop.spend(kTransformWork * static_cast<double>(size_));
    fourier_inverse(re_, im_, stop);
    // The forward error (its L2 norm is divided by sqrt(size) on the way back and multiplied by it on the way in),
    // and the inverse transform's own.
    err_ = (spectrum_err_ * growth_ +
            (rounded_ + transform_error(size_)) * std::sqrt(spectrum / static_cast<double>(size_))) *
           1.01;
}

}  // namespace dpcore::detail
