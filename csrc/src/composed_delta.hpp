// delta of a composition in one direction, by whichever engines it takes.
//
// Method:    a closed form, at most 64 atoms one by one, finite sums of few Laplace releases, contours (one, or
//            several where few steps are sampled), enumeration, smoothing, buckets, each where those before it
//            were wide; what they say is intersected.
// Domain:    as privacy_loss.hpp.
// Guarantee: lower <= delta <= upper. Where `stop` bounds the work, every engine has a share of it; one that does
//            not end within its share is left out, and one exponential moment stands in for it.
// Evidence:  docs/accounting_derivations.md, "composed_delta"; tests/test_accounting.py,
//            tests/test_accounting_work.py.
#pragma once

#include <algorithm>

#include "dpcore/privacy_loss.hpp"

namespace dpcore::detail {

// Relative width with which auto is content before it tries another way.
inline constexpr double kContentWidth = 1e-9;
// The same where so many releases are composed that roundings make more of it, whatever the way: copies times
// 2^-53.
double attainable_width(const Composition& composition, double content);
// And, as a share of that, what smoothing aims at: its bounds differ by more where losses crowd around epsilon.
inline constexpr double kSmoothedShare = 0.4;
// Where fewer steps than this are sampled on average, one contour for all of them is rarely enough.
inline constexpr double kFewSamples = 8.0;
// And below this never.
inline constexpr double kHardlyAny = 0.5;

// What both bounds allow. Bounds that contradict each other would show a fault in one of them: then what either
// allows.
inline LogBounds intersect(const LogBounds& a, const LogBounds& b) {
    const LogBounds both = {std::max(a.log_lower, b.log_lower), std::min(a.log_upper, b.log_upper)};
    if (both.log_lower <= both.log_upper) return both;
    return {std::min(a.log_lower, b.log_lower), std::max(a.log_upper, b.log_upper)};
}
inline Interval intersect(const Interval& a, const Interval& b) {
    const Interval both = {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
    if (both.lower <= both.upper) return both;
    return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
}

// One release, of this kind.
bool single(const Composition& composition, LawKind kind);

// Losses that an enumeration would hold; infinity where there is none.
double enumeration_size(const Composition& composition);

// delta by contours: one, or several where subsampled steps have to be told apart by their size. `content` is the
// relative width that is enough.
LogBounds contour_delta(const Composition& composition, double epsilon, double content, StopCheck stop);

LogBounds log_delta_of(const Composition& composition, double epsilon, Method method, StopCheck stop);

}  // namespace dpcore::detail
