// Windows and whole supports of a log-concave law with rational ratios, walked outward from a peak in both
// directions. Shared by binomial.cpp and hypergeometric.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

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
    constexpr int kBlock = RatioWalk<F>::kBlock;
    RatioWalk<F> walk(law, k, start);
    double block[kBlock];
    std::int64_t until_poll = kPollEvery;
    for (;;) {
        const double at = walk.k();
        if (at > most) return;
        const int count = walk.next(block, scale);
        if (count == 0) return;
        for (int i = 0; i < count; ++i) {
            if (at + i > most || !(block[i] >= least)) return;
            out.push_back(block[i]);
        }
        // Only worth a look now and then: at the end of a block, after the value alone says that it may be.
        if (tail > 0.0 && block[count - 1] <= tail &&
            beyond_upper(law, at + (count - 1), block[count - 1]) <= tail)
            return;
        if ((until_poll -= count) < 0) {
            until_poll = kPollEvery;
            stop();
        }
    }
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

struct WindowRule {
    std::int64_t low;
    std::int64_t high;
    double least;  // smallest value kept, in units of 2^exponent
    double tail;   // 0, or the mass that may be left out on each side, in the same units
    std::int64_t exponent;
};

template <int F>
PmfWindow window(const TwoSidedLaw<F>& law, std::int64_t peak, const Scaled& peak_value, const WindowRule& rule,
                 StopCheck stop) {
    PmfWindow out;
    out.exponent = rule.exponent;
    const auto reflect = [&](std::int64_t k) { return static_cast<double>(law.reflect - k); };
    // Walk to a thousandth of the tail asked, then come back: the window is then as short as its bound allows.
    const double walk_tail = rule.tail * 0x1p-10;
    std::vector<double> left;
    walk_out(law.down, reflect(peak), peak_value, reflect(rule.low), rule.least, walk_tail, rule.exponent, left,
             stop);
    walk_out(law.up, static_cast<double>(peak), peak_value, static_cast<double>(rule.high), rule.least, walk_tail,
             rule.exponent, out.value, stop);
    if (left.empty() || out.value.empty()) throw std::logic_error("a window must hold its peak");
    const auto left_end = [&] { return reflect(peak) + static_cast<double>(left.size() - 1); };
    const auto right_end = [&] { return static_cast<double>(peak) + static_cast<double>(out.value.size() - 1); };
    out.below_upper = beyond_upper(law.down, left_end(), left.back());
    out.above_upper = beyond_upper(law.up, right_end(), out.value.back());
    if (rule.tail > 0.0) {
        // The peak may lie in what is trimmed when tail is near 1; one side at a time keeps at least one point.
        out.below_upper = trim(left, out.below_upper, rule.tail, 1);
        out.above_upper = trim(out.value, out.above_upper, rule.tail, 1);
    }
    const std::size_t below_peak = left.size() - 1;
    out.first = peak - static_cast<std::int64_t>(below_peak);
    out.value.insert(out.value.begin(), left.rbegin(), left.rend() - 1);
    return out;
}

// Values of first .. first + count - 1 as doubles; 0 where they are below the smallest one. `peak` in that range.
template <int F>
void fill(const TwoSidedLaw<F>& law, std::int64_t peak, const Scaled& peak_value, std::int64_t first,
          std::int64_t count, double* out, StopCheck stop) {
    constexpr int kBlock = RatioWalk<F>::kBlock;
    double block[kBlock];
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
        while (done < points) {
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
