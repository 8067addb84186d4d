// Windows and whole supports of a log-concave law with rational ratios, walked outward from a peak in both
// directions. Shared by binomial.cpp and hypergeometric.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/pmf_window.hpp"
#include "dpcore/ratio_walk.hpp"

namespace dpcore::detail {

// `up` walks k upward. `down` is the law of reflect - k, so walking it upward walks k downward.
template <int F>
struct TwoSidedLaw {
    RatioLaw<F> up;
    RatioLaw<F> down;
    std::int64_t lowest = 0;  // support
    std::int64_t highest = 0;
    std::int64_t reflect = 0;
};

constexpr std::int64_t kPollEvery = 1 << 16;  // points between two looks at the caller's wish to stop

// Upper bound of the sum of all values beyond k, where the value at k is `value`: the ratios beyond k fall, so the
// sum is below value * (r + r^2 + ...) with r the ratio at k. 2^-48 covers the value's own error and the roundings
// here.
template <int F>
double beyond_upper(const RatioLaw<F>& law, double k, double value) {
    if (!(k < law.last)) return 0.0;
    const double r = law.ratio(k) * (1.0 + 0x1p-48);
    if (!(r < 1.0)) return std::numeric_limits<double>::infinity();
    return std::nextafter(value * (r / (1.0 - r)) * (1.0 + 0x1p-48), std::numeric_limits<double>::infinity());
}

// Appends value(k), value(k+1), ... times 2^-scale while k <= most and while they are at least `least`, which must
// be where the law falls. `tail` > 0 ends it as well, at the first point whose beyond_upper is at most `tail`.
template <int F>
void walk_out(const RatioLaw<F>& law, double k, const Scaled& start, double most, double least, double tail,
              std::int64_t scale, std::vector<double>& out, StopCheck stop) {
    constexpr std::int64_t kChunk = RatioWalk<F>::kChunk;
    RatioWalk<F> walk(law, k, start);
    std::int64_t until_poll = kPollEvery;
    std::size_t size = out.size();
    for (;;) {
        const double at = walk.k();
        if (at > most) break;
        if (out.size() < size + kChunk) out.resize(size + 8 * kChunk);
        const int written = walk.next(out.data() + size, scale);
        const auto room = static_cast<std::int64_t>(std::min<double>(most - at + 1.0, written));
        std::int64_t count = room;
        while (count > 0 && !(out[size + static_cast<std::size_t>(count) - 1] >= least)) --count;
        size += static_cast<std::size_t>(count);
        if (count == 0 || count < written) break;
        const double end = out[size - 1];
        // Only worth a look when the value alone says that it may be.
        if (tail > 0.0 && end <= tail && beyond_upper(law, at + static_cast<double>(count - 1), end) <= tail)
            break;
        if ((until_poll -= count) < 0) {
            until_poll = kPollEvery;
            stop();
        }
    }
    out.resize(size);
}

// Drops points from the end of `side` while everything beyond the end, `beyond` included, stays at most `tail`;
// the new bound of what is beyond. `side` runs outward from the peak, whose own point is kept.
inline double trim(std::vector<double>& side, double beyond, double tail, std::size_t keep) {
    while (side.size() > keep) {
        const double more = (beyond + side.back()) * (1.0 + 0x1p-48);
        if (!(more <= tail)) break;
        beyond = more;
        side.pop_back();
    }
    return beyond;
}

constexpr double kMostPoints = 2.5e8;  // on each side of the peak: 2 GB

struct WindowRule {
    std::int64_t low;
    std::int64_t high;
    double least;  // smallest value kept, in units of 2^exponent
    double tail;   // 0, or the mass that may be left out on each side, in the same units
    std::int64_t exponent;
    double variance;  // of the law or larger; only the memory reserved depends on it
};

// About how many points one side of the window has: by Bernstein's inequality the log pmf has fallen by `depth`
// after t points where t^2 = 2 depth (variance + t/3), or where the ratio at the peak alone does it.
inline std::size_t side_hint(double depth, double variance, double ratio, double room) {
    double points = depth / 3.0 + std::sqrt(depth * depth / 9.0 + 2.0 * depth * variance);
    if (ratio < 1.0) points = std::min(points, depth / -std::log(ratio));
    points = std::min(points, room);
    if (!(points <= kMostPoints))
        throw std::length_error("the window would have more than 5e8 points: ask for less of it");
    return static_cast<std::size_t>(points) + 300;
}

template <int F>
PmfWindow window(const TwoSidedLaw<F>& law, std::int64_t peak, const Scaled& peak_value, const WindowRule& rule,
                 StopCheck stop) {
    PmfWindow out;
    out.exponent = rule.exponent;
    const auto reflect = [&](std::int64_t k) { return static_cast<double>(law.reflect - k); };
    // Walk to a thousandth of the tail asked, then come back: the window is then as short as its bound allows.
    const double walk_tail = rule.tail * 0x1p-10;
    const double top = to_double(peak_value, rule.exponent);
    // In a falling tail the mass beyond a point is below its value times the standard deviation, or so.
    const double floor = std::max(walk_tail / (1.0 + std::sqrt(rule.variance)), rule.least);
    // A value on the subnormal grid may be its exact value doubled by rounding: ln 2 more.
    const double depth = std::max(std::log(top) - std::log(floor), 0.0) + 0.7;

    // One vector for both sides: the lower one is written outward, turned round in place, and continued.
    const auto center = static_cast<double>(peak);
    out.value.reserve(
        side_hint(depth, rule.variance, law.down.ratio(reflect(peak)), static_cast<double>(peak - rule.low)) +
        side_hint(depth, rule.variance, law.up.ratio(center), static_cast<double>(rule.high - peak)));
    walk_out(law.down, reflect(peak), peak_value, reflect(rule.low), rule.least, walk_tail, rule.exponent,
             out.value, stop);
    if (out.value.empty()) throw std::logic_error("a window must hold its peak");
    const auto end_of = [](double from, std::size_t size) { return from + static_cast<double>(size - 1); };
    out.below_upper = beyond_upper(law.down, end_of(reflect(peak), out.value.size()), out.value.back());
    if (rule.tail > 0.0) out.below_upper = trim(out.value, out.below_upper, rule.tail, 1);

    const std::size_t below_peak = out.value.size() - 1;
    out.first = peak - static_cast<std::int64_t>(below_peak);
    std::reverse(out.value.begin(), out.value.end());
    out.value.pop_back();  // the peak, which the upper side starts with
    walk_out(law.up, center, peak_value, static_cast<double>(rule.high), rule.least, walk_tail, rule.exponent,
             out.value, stop);
    out.above_upper = beyond_upper(law.up, end_of(center, out.value.size() - below_peak), out.value.back());
    if (rule.tail > 0.0) out.above_upper = trim(out.value, out.above_upper, rule.tail, below_peak + 1);
    return out;
}

// The sum of value(k), value(k+1), ... to the end of the support, from `start` = value(k), until what is left is
// below 2^-60 of it. The 32 values of a chunk are added in pairs (5 roundings), chunks in double-double.
template <int F>
Scaled sum_outward(const RatioLaw<F>& law, double k, const Scaled& start, StopCheck stop) {
    constexpr int kChunk = RatioWalk<F>::kChunk;
    RatioWalk<F> walk(law, k, start);
    const std::int64_t scale = start.exponent;
    double block[kChunk];
    DoubleDouble sum;
    std::int64_t until_poll = kPollEvery;
    for (;;) {
        const double at = walk.k();
        const int written = walk.next(block, scale);
        if (written == 0) break;
        const double last = block[written - 1];
        for (int width = written / 2; width > 0; width /= 2)
            for (int i = 0; i < width; ++i) block[i] = block[2 * i] + block[2 * i + 1];
        sum = sum + block[0];
        if (beyond_upper(law, at + (written - 1), last) <= 0x1p-60 * sum.hi) break;
        if ((until_poll -= written) < 0) {
            until_poll = kPollEvery;
            stop();
        }
    }
    return {sum, scale};
}

// Pr[X <= k] (upper = false) or Pr[X > k] for any k, each added up from its small end; where the sum on the side
// away from the mode is at most 1/2, the other is its complement. `value_at` gives Scaled values.
template <int F, class ValueAt>
double cumulative(const TwoSidedLaw<F>& law, std::int64_t mode, std::int64_t k, bool upper, ValueAt value_at,
                  StopCheck stop) {
    if (k < law.lowest) return upper ? 1.0 : 0.0;
    if (k >= law.highest) return upper ? 0.0 : 1.0;
    const auto side = [&](bool above) {
        return above ? to_double(sum_outward(law.up, static_cast<double>(k + 1), value_at(k + 1), stop))
                     : to_double(sum_outward(law.down, static_cast<double>(law.reflect - k), value_at(k), stop));
    };
    const bool small_is_above = k >= mode;
    const double small = side(small_is_above);
    if (small_is_above == upper) return std::min(small, 1.0);
    return small <= 0.5 ? 1.0 - small : std::min(side(upper), 1.0);
}

// Values of first .. first + count - 1 as doubles; 0 where they are below the smallest one. `peak` in that range.
// `is_zero` says that `out` holds zeros already: then those are left alone.
template <int F>
void fill(const TwoSidedLaw<F>& law, std::int64_t peak, const Scaled& peak_value, std::int64_t first,
          std::int64_t count, double* out, bool is_zero, StopCheck stop) {
    double block[RatioWalk<F>::kChunk];
    const auto run = [&](const RatioLaw<F>& side, double k, std::int64_t points, auto&& put, auto&& clear) {
        RatioWalk<F> walk(side, k, peak_value);
        std::int64_t done = 0;
        std::int64_t until_poll = kPollEvery;
        while (done < points) {
            const int written = walk.next(block, 0);
            const auto use = static_cast<int>(std::min<std::int64_t>(written, points - done));
            for (int i = 0; i < use; ++i) put(done + i, block[i]);
            done += use;
            // Outward of the peak values only fall: after a 0 there is nothing else.
            if (written == 0 || block[written - 1] == 0.0) break;
            if ((until_poll -= written) < 0) {
                until_poll = kPollEvery;
                stop();
            }
        }
        while (!is_zero && done < points) {
            const std::int64_t end = std::min(points, done + (std::int64_t{1} << 20));
            clear(done, end);
            done = end;
            stop();
        }
    };
    double* const at_peak = out + (peak - first);
    run(
        law.up, static_cast<double>(peak), first + count - peak, [&](std::int64_t i, double v) { at_peak[i] = v; },
        [&](std::int64_t from, std::int64_t to) { std::fill(at_peak + from, at_peak + to, 0.0); });
    run(
        law.down, static_cast<double>(law.reflect - peak), peak - first + 1,
        [&](std::int64_t i, double v) { at_peak[-i] = v; },
        [&](std::int64_t from, std::int64_t to) { std::fill(at_peak - (to - 1), at_peak - from + 1, 0.0); });
}

}  // namespace dpcore::detail
