#include "grid_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/direct_spectrum.hpp"
#include "list_product.hpp"
#include "single_delta.hpp"

namespace dpcore::detail {

void set_step(Plan& plan, double step) {
    plan.step = step;
    plan.count = (2.0 * plan.distance + 8.0 * step) / step;
    // A law wider than that on its own still has to be tabulated; discretise() refuses beyond the limit.
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr LogBounds kNothing = {-kInf, kInf};

// More than all terms of a sum together that have underflowed: the largest weights are next to 1.
constexpr double kLost = 1e-300;

// Nanoseconds of a bucket when its law is tabulated and tilted.
constexpr double kBucketWork = 45.0;

Answer lists_delta(const std::vector<Part>& parts, double epsilon, const Plan& plan, StopCheck stop) {
    const double c = plan.tilt;
    const std::size_t size = transform_length(plan.count);
    refuse(static_cast<double>(size));

    // Tilted lists of unit mass.
    double log_scale = 0.0;  // log of the product of the tilted masses (upper lists)
    double tail = 0.0;       // relative mass of left-out tails
    double scatter = 0.0;    // errors of lists that were composed on other grids
    double rel = 0.0;        // relative error of masses, summed over copies
    double offset = 0.0, offset_err = 0.0;
    const double c_right = plan.far;
    const double c_left = plan.near;
    double log_right = 0.0, log_left = 0.0;
    double list_top = 0.0, list_bottom = 0.0;  // extremes of the composed lists
    bool in_range = true;
    const auto prepare = [&](const Part& t) {
        stop();
        Discrete d = t.list    ? regrid(*t.list, plan.step)
                     : t.block ? discretise(*t.block, plan.step, c)
                               : discretise(*t.law, plan.step, c_left, c, c_right, true, stop);
        Buckets& b = d.buckets;
        const std::size_t n = b.upper.mass.size();
        stop.spend(kBucketWork * static_cast<double>(n));
        const Tilts log_mass = tilt(d, {c_left, c, c_right});
        in_range =
            in_range && std::isfinite(log_mass.near) && std::isfinite(log_mass.at) && std::isfinite(log_mass.far);
        log_scale += t.copies * log_mass.at;
        log_right += t.copies * (log_mass.far + d.tail);
        log_left += t.copies * (log_mass.near + d.tail);
        tail += t.copies * d.tail;
        scatter += t.copies * d.scatter;
        rel += t.copies * b.mass_err;
        std::size_t last = n - 1;
        std::size_t lowest = 0;
        while (last > 0 && b.upper.mass[last] == 0.0 && b.lower.mass[last] == 0.0) --last;
        while (lowest < last && b.upper.mass[lowest] == 0.0 && b.lower.mass[lowest] == 0.0) ++lowest;
        list_top += t.copies * b.loss(last);
        list_bottom += t.copies * b.loss(lowest);
        offset += t.copies * b.offset;
        offset_err += t.copies * d.loss_err +
                      t.copies * 12.0 * kRound *
                          (std::fabs(b.offset) +
                           plan.step * (std::fabs(static_cast<double>(b.first)) + static_cast<double>(n)));
        return TiltedList{std::move(b.upper.mass), std::move(b.lower.mass), b.first, t.copies};
    };
    // The few frequencies that matter first, as long as all lists together are not much longer than a transform's
    // arrays. What has been prepared is kept: its sums are in the totals. A product costs about a thirtieth of
    // what a transform there and back takes for an entry.
    constexpr double kProductsOfEntry = 40.0;
    const bool single_release = parts.size() == 1 && parts[0].copies == 1.0;
    std::vector<TiltedList> lists;
    std::size_t kept = 0;
    for (const Part& t : parts) {
        lists.push_back(prepare(t));
        if (!in_range) return {kNothing, kInf};
        kept += lists.back().upper.size();
        if (kept > 2 * size) break;
    }
    const bool all_kept = lists.size() == parts.size();
    // delta = exp(log_scale - c eps) sum over n of tilted mass * exp(-c x)(1 - exp(-x)), x = loss - eps > 0. The
    // window is one period around the centre; eps is somewhere inside or below.
    const double half = static_cast<double>(size / 2);
    const auto centre_now = [&] { return std::nearbyint((plan.mean - offset) / plan.step); };
    const auto slip_now = [&] {
        return offset_err +
               4.0 * kRound *
                   (std::fabs(epsilon) + std::fabs(offset) + plan.step * (std::fabs(centre_now()) + half));
    };
    // The weight w = e^{-cx}(1 - e^{-x}), 0 below 0, moves by at most slip when x is off by that: its slope is 1
    // at 0, falls to -e^{-cx} c/(1+c) where e^{-x} = (c/(1+c))^2 and rises to 0 from there. And by at most slip
    // (1+c) e^{-cx} e^{c slip}. Masses are tilted at x as it is taken for, which below 0 adds a factor of e^{c
    // slip}.
    const auto drift_now = [&] { return 1.01 * slip_now() * std::exp(std::min(c * slip_now(), 700.0)); };
    double upper = 0.0, lower = 0.0, noise = 0.0;
    DirectSum few;
    if (all_kept && !single_release) {
        const double bottom = centre_now() - half;
        double from = std::max(bottom, std::floor((epsilon - offset) / plan.step));
        double x0 = (offset - epsilon) + plan.step * from;
        for (int i = 0; i < 3 && !(x0 > 0.0); ++i) {
            from += 1.0;
            x0 = (offset - epsilon) + plan.step * from;
        }
        if (std::fabs(from) < 9e15)
            few = direct_spectrum(lists, size,
                                  {c, plan.step, x0, static_cast<std::int64_t>(from), bottom + 2.0 * half - from},
                                  kProductsOfEntry * static_cast<double>(size * (lists.size() + 1)), stop);
    }
    double transform_err = 0.0;  // L2, relative to unit lists
    if (few.valid) {
        // All tilted mass, 1, under a weight that drifts by at most that.
        upper = few.upper + 1.01 * drift_now();
        lower = few.lower - 1.01 * drift_now();
        noise = few.err;
    } else {
        ListProduct product(size);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const TiltedList list = i < lists.size() ? std::move(lists[i]) : prepare(parts[i]);
            if (!in_range) return {kNothing, kInf};
            product.multiply(list, stop);
        }
        product.finish(stop);
        const std::vector<double>& re = product.upper();
        const std::vector<double>& im = product.lower();
        transform_err = product.spectrum_error();
        const double l2 = product.error();

        // Indices are known modulo the period; the window of one period around the tilted mean decides.
        const double centre = centre_now();
        const double start = std::fmod(centre, static_cast<double>(size));
        const double slip = slip_now();
        const double drift = drift_now();
        const double far = (1.0 + c) * std::exp(c * slip);
        double weight2 = 0.0;
        for (std::size_t j = 0; j < size; ++j) {
            double n = static_cast<double>(j) - start;  // relative to the centre, in [-half, half)
            while (n >= half) n -= static_cast<double>(size);
            while (n < -half) n += static_cast<double>(size);
            const double x = (offset - epsilon) + plan.step * (centre + n);
            if (x <= -slip) continue;
            const double fall = std::exp(-c * x);
            const double middle = x > 0.0 ? fall * -std::expm1(-x) : 0.0;
            const double moves = drift * std::min(1.0, fall * far);
            const double w = middle + moves;
            upper += std::max(0.0, re[j]) * w;
            weight2 += w * w;
            lower += std::max(0.0, im[j]) * std::max(0.0, middle - moves);
        }
        noise = l2 * std::sqrt(weight2);
    }
    const double centre = centre_now();
    const double slip = slip_now();
    const double pay = std::exp(-c * std::log1p(1.0 / c)) / (1.0 + c);
    // Outside the window: tilted mass by Chernoff at c_right and c_left, each relative to exp(log_scale).
    const double window_top = offset + plan.step * (centre + half - 1.0);
    const double window_bottom = offset + plan.step * (centre - half);
    const double above =
        list_top <= window_top - plan.step ? 0.0 : std::exp(log_right - log_scale - (c_right - c) * window_top);
    const double under = list_bottom >= window_bottom + plan.step
                             ? 0.0
                             : std::exp(log_left - log_scale + (c - c_left) * window_bottom);
    const double beyond = above + under;
    // Errors of masses e at x: sum of e w(x) <= ||e||_2 (sum of w(x)^2)^1/2 over points h apart, and that sum is
    // at most the integral over h, 1/(2c(1+c)(1+2c)h), and the largest of its terms (which the tail holds),
    // wherever the rest of the composition moves them.
    const double scattered = 1.01 * scatter / std::sqrt(2.0 * c * (1.0 + c) * (1.0 + 2.0 * c));
    // Tails of many lists multiply: (1 + t)^k - 1.
    const double together = std::expm1(tail) * (1.0 + 1e-6);
    const double outside =
        (beyond * 1.01 * (1.0 + together) + together) * pay + scattered * (1.0 + together) + kLost;
    const double base = log_scale - c * epsilon;
    const double slack = rel * 2.0 + 2.0 * c * slip + 8.0 * kLibm +
                         4.0 * kRound * (std::fabs(log_scale) + std::fabs(c * epsilon)) +
                         2.0 * static_cast<double>(size) * kRound;
    const double high = (upper + noise + outside) * (1.0 + slack);
    const double low = (lower - noise - outside) * (1.0 - slack);
    // First-order bounds hold while they are small.
    if (!(std::isfinite(high) && std::isfinite(low) && std::isfinite(base)) || !(slack < 0.1) ||
        !(transform_err < 0.1))
        return {kNothing, kInf};
    LogBounds finite = {low > 0.0 ? base + std::log(low) : -kInf, base + std::log(high)};
    return {finite, 2.0 * ((noise + outside) / high + slack), 2.0 * beyond * pay / high};
}

}  // namespace

Answer grid_delta(const std::vector<Part>& parts, double epsilon, const Plan& plan, StopCheck stop) {
    if (parts.size() == 1 && parts[0].copies == 1.0 && parts[0].law && parts[0].outputs.all() &&
        has_single_delta(*parts[0].law)) {
        const LogBounds found = single_delta(*parts[0].law, epsilon, plan.step, stop);
        return {found, found.log_upper < kInf ? 0.0 : kInf};
    }
    return lists_delta(parts, epsilon, plan, stop);
}

}  // namespace dpcore::detail
