#include "dpcore/poisson_binomial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dpcore/binomial.hpp"
#include "dpcore/double_double.hpp"
#include "vector_two_prod.hpp"

namespace dpcore {

namespace {

namespace portable {
#define DPCORE_TWO_PROD_ERROR(a, b, p) detail::product_error(a, b, p)
#include "convolve_block.inc"
#undef DPCORE_TWO_PROD_ERROR
}  // namespace portable

#ifdef DPCORE_X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
#define DPCORE_TWO_PROD_ERROR(a, b, p) ((V)_mm256_fmsub_pd((__m256d)(a), (__m256d)(b), (__m256d)(p)))
#include "convolve_block.inc"
#undef DPCORE_TWO_PROD_ERROR
}  // namespace avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

using BlockFunction = decltype(&portable::convolve_block);

BlockFunction block_function() {
#ifdef DPCORE_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::convolve_block;
#endif
    return portable::convolve_block;
}

constexpr std::ptrdiff_t kLanes = 8;
constexpr std::size_t kLeaf = 16;    // records that one recurrence adds up
constexpr double kBand = -80.0;      // log2 of the share of an output that its band may leave out on a side
constexpr double kTop = 0x1p400;     // where the largest value of a law is put
constexpr double kLeast = 0x1p-700;  // kTop 2^-1100: what is below is dropped
constexpr std::ptrdiff_t kPollEvery = 1024;  // blocks between two looks at the caller's wish to stop

// Puts the largest value into [2^400, 2^401) and drops what is below kLeast at both ends.
void normalise(ExtendedPmf& law) {
    const double top = *std::max_element(law.hi.begin(), law.hi.end());
    const int by = 400 - std::ilogb(top);
    for (std::size_t i = 0; i < law.hi.size(); ++i) {
        law.hi[i] = std::ldexp(law.hi[i], by);
        law.lo[i] = std::ldexp(law.lo[i], by);
    }
    law.exponent -= by;
    std::size_t first = 0;
    std::size_t last = law.hi.size();
    while (law.hi[first] < kLeast) ++first;
    while (law.hi[last - 1] < kLeast) --last;
    law.first += static_cast<std::int64_t>(first);
    const auto cut = [&](std::vector<double>& v) {
        v.resize(last);
        v.erase(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(first));
    };
    cut(law.hi);
    cut(law.lo);
}

// Which i of the terms t(i) = a[i] b[k - i] matter for a block of outputs. The laws are log-concave, so t rises to
// a peak and falls from there, and its weight moves to larger i as k grows: what may be dropped below at one k may
// be dropped at all larger ones, what may be dropped above at one k may be dropped at all smaller ones.
class Band {
public:
    Band(const std::vector<double>& a, const std::vector<double>& b)
        : a_(logarithms(a)),
          b_(logarithms(b)),
          a_size_(static_cast<std::ptrdiff_t>(a.size())),
          b_size_(static_cast<std::ptrdiff_t>(b.size())) {}

    // For outputs k .. k + kLanes - 1, with k not smaller than in the call before.
    void move_to(std::ptrdiff_t k) {
        const std::ptrdiff_t lowest = std::max<std::ptrdiff_t>(0, k - b_size_ + 1);
        from_ = std::max(from_, lowest);
        peak_ = climb(k, std::max(peak_, lowest));
        const double least = kBand + term(k, peak_);
        while (from_ < peak_ && sum_upper(from_ - lowest + 1, term(k, from_)) <= least) ++from_;
        const std::ptrdiff_t end = k + kLanes - 1;
        const std::ptrdiff_t highest = std::min(a_size_ - 1, end);
        const std::ptrdiff_t end_peak = climb(end, std::max({peak_, end - b_size_ + 1, std::ptrdiff_t{0}}));
        const double end_least = kBand + term(end, end_peak);
        to_ = std::clamp(std::max(to_, end_peak), from_, highest);
        while (to_ < highest && !(sum_upper(highest - to_, term(end, to_ + 1)) <= end_least)) ++to_;
    }
    std::ptrdiff_t from() const { return from_; }
    std::ptrdiff_t to() const { return to_; }

private:
    static std::vector<double> logarithms(const std::vector<double>& v) {
        std::vector<double> out(v.size());
        for (std::size_t i = 0; i < v.size(); ++i) out[i] = std::log2(v[i]);
        return out;
    }
    // log2 of a bound of `count` terms that are no larger than the one given: 2^ilogb(count) <= count < twice
    // that.
    static double sum_upper(std::ptrdiff_t count, double largest) {
        return largest + 1.0 + std::ilogb(static_cast<double>(count));
    }
    double term(std::ptrdiff_t k, std::ptrdiff_t i) const {
        const std::ptrdiff_t j = k - i;
        if (j < 0 || j >= b_size_) return -std::numeric_limits<double>::infinity();
        return a_[static_cast<std::size_t>(i)] + b_[static_cast<std::size_t>(j)];
    }
    std::ptrdiff_t climb(std::ptrdiff_t k, std::ptrdiff_t i) const {
        const std::ptrdiff_t highest = std::min(a_size_ - 1, k);
        i = std::min(i, highest);
        while (i < highest && term(k, i + 1) >= term(k, i)) ++i;
        return i;
    }
    std::vector<double> a_;
    std::vector<double> b_;
    std::ptrdiff_t a_size_;
    std::ptrdiff_t b_size_;
    std::ptrdiff_t from_ = 0;
    std::ptrdiff_t to_ = 0;
    std::ptrdiff_t peak_ = 0;
};

std::vector<double> padded(const std::vector<double>& v) {
    std::vector<double> out(v.size() + 2 * kLanes, 0.0);
    std::copy(v.begin(), v.end(), out.begin() + kLanes);
    return out;
}

// At most kLeaf records by the recurrence.
ExtendedPmf leaf(const double* probabilities, std::size_t count) {
    std::vector<DoubleDouble> b(count + 1);
    b[0] = kTop;
    for (std::size_t r = 0; r < count; ++r) {
        const double p = probabilities[r];
        const DoubleDouble q = two_sum(1.0, -p);
        for (std::size_t k = r + 1; k > 0; --k) b[k] = b[k] * q + b[k - 1] * p;
        b[0] = b[0] * q;
    }
    ExtendedPmf out;
    out.exponent = -400;
    for (const DoubleDouble& x : b) {
        out.hi.push_back(x.hi);
        out.lo.push_back(x.lo);
    }
    normalise(out);
    return out;
}

ExtendedPmf tree(const double* probabilities, std::size_t count, const StopCheck& stop) {
    if (count <= kLeaf) return leaf(probabilities, count);
    // Halves in multiples of a leaf.
    const std::size_t half = (count / kLeaf + 1) / 2 * kLeaf;
    return convolve(tree(probabilities, half, stop), tree(probabilities + half, count - half, stop), stop);
}

ExtendedPmf certain(std::int64_t value) {
    ExtendedPmf out;
    out.first = value;
    out.hi = {kTop};
    out.lo = {0.0};
    out.exponent = -400;
    return out;
}

void check(const double* probabilities, std::size_t count) {
    if (count == 0) throw std::invalid_argument("at least one probability is needed");
    for (std::size_t i = 0; i < count; ++i)
        if (!(probabilities[i] >= 0.0 && probabilities[i] <= 1.0))
            throw std::invalid_argument("probabilities must be in [0, 1]");
}

}  // namespace

ExtendedPmf convolve(const ExtendedPmf& first, const ExtendedPmf& second, StopCheck stop) {
    const bool swap = first.hi.size() > second.hi.size();
    const ExtendedPmf& a = swap ? second : first;  // the shorter one is walked through
    const ExtendedPmf& b = swap ? first : second;
    const std::vector<double> bh = padded(b.hi);
    const std::vector<double> bl = padded(b.lo);
    const double* b_hi = bh.data() + kLanes;
    const double* b_lo = bl.data() + kLanes;
    const auto size = static_cast<std::ptrdiff_t>(a.hi.size() + b.hi.size() - 1);
    ExtendedPmf out;
    out.first = a.first + b.first;
    out.exponent = a.exponent + b.exponent;
    out.hi.resize(static_cast<std::size_t>(size + kLanes));
    out.lo.resize(static_cast<std::size_t>(size + kLanes));
    Band band(a.hi, b.hi);
    static const BlockFunction block = block_function();
    std::ptrdiff_t until_poll = 0;
    for (std::ptrdiff_t k = 0; k < size; k += kLanes) {
        if (until_poll-- == 0) {
            until_poll = kPollEvery;
            stop();
        }
        band.move_to(k);
        block(a.hi.data(), a.lo.data(), b_hi, b_lo, k, band.from(), band.to(), out.hi.data() + k,
              out.lo.data() + k);
    }
    out.hi.resize(static_cast<std::size_t>(size));
    out.lo.resize(static_cast<std::size_t>(size));
    normalise(out);
    return out;
}

ExtendedPmf poisson_binomial(const double* probabilities, std::size_t count, StopCheck stop) {
    check(probabilities, count);
    std::vector<double> open;
    std::int64_t ones = 0;
    open.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (probabilities[i] == 1.0)
            ++ones;
        else if (probabilities[i] > 0.0)
            open.push_back(probabilities[i]);
    }
    if (open.empty()) return certain(ones);
    ExtendedPmf out = tree(open.data(), open.size(), stop);
    out.first += ones;
    return out;
}

ExtendedPmf stratified(const std::int64_t* sizes, const double* probabilities, std::size_t count, StopCheck stop) {
    check(probabilities, count);
    // The two shortest laws first, as in a Huffman tree.
    const auto longer = [](const ExtendedPmf& x, const ExtendedPmf& y) { return x.hi.size() > y.hi.size(); };
    std::vector<ExtendedPmf> laws;
    std::int64_t fixed = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (sizes[i] < 0 || sizes[i] > (std::int64_t{1} << 53))
            throw std::invalid_argument("sizes must be integers in [0, 2^53]");
        if (probabilities[i] == 1.0)
            fixed += sizes[i];
        else if (sizes[i] > 0 && probabilities[i] > 0.0)
            laws.push_back(binomial_extended(sizes[i], probabilities[i], stop));
        if (fixed > (std::int64_t{1} << 53)) throw std::invalid_argument("sizes must add up to at most 2^53");
    }
    if (laws.empty()) return certain(fixed);
    std::make_heap(laws.begin(), laws.end(), longer);
    const auto take = [&] {
        std::pop_heap(laws.begin(), laws.end(), longer);
        ExtendedPmf out = std::move(laws.back());
        laws.pop_back();
        return out;
    };
    while (laws.size() > 1) {
        const ExtendedPmf x = take();
        const ExtendedPmf y = take();
        laws.push_back(convolve(x, y, stop));
        std::push_heap(laws.begin(), laws.end(), longer);
    }
    laws.front().first += fixed;
    return std::move(laws.front());
}

void to_doubles(const ExtendedPmf& law, std::int64_t first, std::size_t count, double* out) {
    std::fill(out, out + count, 0.0);
    const auto by = static_cast<int>(std::clamp<std::int64_t>(law.exponent, -5000, 5000));
    for (std::size_t i = 0; i < law.hi.size(); ++i) {
        const std::int64_t at = law.first + static_cast<std::int64_t>(i) - first;
        if (at >= 0 && at < static_cast<std::int64_t>(count)) out[at] = std::ldexp(law.hi[i] + law.lo[i], by);
    }
}

}  // namespace dpcore
