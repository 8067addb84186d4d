#include "dpcore/buckets.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "bucket_lists.hpp"

namespace dpcore {

using detail::Discrete;
using detail::discretise;
using detail::refuse;

double BucketList::total() const {
    double sum = 0.0;
    for (const double m : mass) sum += m;
    return sum + infinite + above + below;
}

Buckets Buckets::of(const LossLaw& law, double step, double low, double high, StopCheck stop) {
    Discrete d = discretise(law, step, 0.0, 0.0, 0.0, false, stop);
    Buckets b = std::move(d.buckets);
    b.upper.above += d.tail;
    b.lower.below += d.tail;
    // Cut to the window; what is cut keeps its name.
    std::size_t from = 0;
    std::size_t to = b.upper.mass.size();
    while (from + 1 < to && b.loss(from + 1) <= low) {
        b.upper.below += b.upper.mass[from];
        b.lower.below += b.lower.mass[from];
        ++from;
    }
    while (to - 1 > from && b.loss(to - 2) >= high) {
        --to;
        b.upper.above += b.upper.mass[to];
        b.lower.above += b.lower.mass[to];
    }
    for (BucketList* list : {&b.upper, &b.lower})
        list->mass.assign(list->mass.begin() + static_cast<std::ptrdiff_t>(from),
                          list->mass.begin() + static_cast<std::ptrdiff_t>(to));
    b.first += static_cast<std::int64_t>(from);
    return b;
}

Buckets Buckets::convolve(const Buckets& other, StopCheck stop) const {
    if (step != other.step)
        throw std::invalid_argument("buckets of different steps cannot be convolved; coarsen one of them");
    const std::size_t size = upper.mass.size() + other.upper.mass.size() - 1;
    refuse(static_cast<double>(size));
    Buckets out;
    out.step = step;
    out.offset = offset + other.offset;
    out.first = first + other.first;
    const double n = static_cast<double>(std::min(upper.mass.size(), other.upper.mass.size()));
    out.mass_err = mass_err + other.mass_err + (n + 4.0) * kRound;
    const auto join = [&](const BucketList& a, const BucketList& b, bool pessimistic) {
        BucketList r;
        r.mass.assign(size, 0.0);
        // Masses beyond the ends count where their list says.
        std::vector<double> x = a.mass;
        std::vector<double> y = b.mass;
        if (pessimistic) {
            x.front() += a.below;
            y.front() += b.below;
        } else {
            x.back() += a.above;
            y.back() += b.above;
        }
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (x[i] == 0.0) continue;
            if ((i & 63) == 0) stop();
            const double xi = x[i];
            double* to = r.mass.data() + i;
            for (std::size_t j = 0; j < y.size(); ++j) to[j] += xi * y[j];
        }
        const double ta = a.total();
        const double tb = b.total();
        r.infinite = a.infinite * tb + b.infinite * (ta - a.infinite);
        if (pessimistic)
            r.above = a.above * (tb - b.infinite) + b.above * (ta - a.infinite - a.above);
        else
            r.below = a.below * (tb - b.infinite) + b.below * (ta - a.infinite - a.below);
        return r;
    };
    out.upper = join(upper, other.upper, true);
    out.lower = join(lower, other.lower, false);
    return out;
}

Buckets Buckets::self_compose(std::uint64_t copies, StopCheck stop) const {
    Buckets out;
    out.step = step;
    out.upper.mass = out.lower.mass = {1.0};
    if (copies == 0) return out;
    // All of them, before the first product.
    const double most = std::floor((static_cast<double>(kMaxBuckets) - 1.0) /
                                   std::max(1.0, static_cast<double>(upper.mass.size()) - 1.0));
    if (!(static_cast<double>(copies) <= most))
        throw std::length_error("copies must be at most " + std::to_string(static_cast<std::uint64_t>(most)) +
                                " for lists of " + std::to_string(upper.mass.size()) + " buckets, got " +
                                std::to_string(copies) + ": the bucket engine would need more than its limit of " +
                                std::to_string(kMaxBuckets) + "; coarsen them, or ask for a wider step");
    Buckets power = *this;
    bool started = false;
    while (true) {
        if ((copies & 1U) != 0U) {
            out = started ? out.convolve(power, stop) : power;
            started = true;
        }
        copies >>= 1U;
        if (copies == 0) return out;
        power = power.convolve(power, stop);
    }
}

Buckets Buckets::coarsen() const {
    Buckets out;
    out.step = 2.0 * step;
    out.offset = offset;
    out.mass_err = mass_err + 8.0 * kLibm;
    const std::int64_t last = first + static_cast<std::int64_t>(upper.mass.size()) - 1;
    const auto floor_half = [](std::int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); };
    out.first = floor_half(first);
    const auto size = static_cast<std::size_t>(floor_half(last) - out.first) + 2;
    out.upper = {std::vector<double>(size, 0.0), upper.infinite, upper.above, 0.0};
    out.lower = {std::vector<double>(size, 0.0), lower.infinite, 0.0, lower.below};
    const double share = 1.0 / (1.0 + std::exp(-step));  // (1 - e^-d)/(1 - e^-2d)
    for (std::size_t i = 0; i < upper.mass.size(); ++i) {
        const std::int64_t n = first + static_cast<std::int64_t>(i);
        const auto at = static_cast<std::size_t>(floor_half(n) - out.first);
        // The ends of the new grid lie outside the old one: masses that count as an end go there now.
        const double low = lower.mass[i] + (i + 1 == upper.mass.size() ? lower.above : 0.0);
        const double high = upper.mass[i] + (i == 0 ? upper.below : 0.0);
        out.lower.mass[at] += low;
        if (n % 2 == 0) {
            out.upper.mass[at] += high;
        } else {
            out.upper.mass[at + 1] += high * share;
            out.upper.mass[at] += high * (1.0 - share);
        }
    }
    return out;
}

Interval Buckets::delta(double epsilon) const {
    double up = upper.infinite + upper.above;
    double down = lower.infinite;
    const double slip = 8.0 * kRound *
                        (std::fabs(epsilon) + std::fabs(offset) + step * static_cast<double>(upper.mass.size()) +
                         std::fabs(loss(0)));
    for (std::size_t i = 0; i < upper.mass.size(); ++i) {
        const double l = loss(i);
        double high = upper.mass[i];
        double low = lower.mass[i];
        if (i == 0) high += upper.below;
        if (i + 1 == upper.mass.size()) low += lower.above;
        if (l + slip > epsilon) up -= high * std::expm1(epsilon - l - slip);
        if (l - slip > epsilon) down -= low * std::expm1(epsilon - l + slip);
    }
    const double rel = mass_err + (static_cast<double>(upper.mass.size()) + 8.0) * kRound;
    return {std::max(0.0, down * (1.0 - rel)), std::min(1.0, up * (1.0 + rel))};
}

}  // namespace dpcore
