#include "single_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "bin_masses.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLogRootTwoPi = 0.91893853320467274178;
constexpr double kInverseRootTwoPi = 0.39894228040143267794;
// Cells below epsilon: as many as a group of the lower list reaches down.
constexpr double kCellsBelow = 66.0;
// Standard deviations down to which losses are tabulated: the mass below is charged.
constexpr double kLowest = 10.0;
// Mass beyond the last cell, over delta.
constexpr double kLogBeyond = -33.0;
// More than all masses together that have underflowed, relative to the largest density.
constexpr double kLost = 1e-290;

// log of an upper bound of the mass of a standard normal law beyond z: Mills, phi(z)/z; 0.5 (and less) from 0 on.
double log_tail(double z) {
    if (!(z > 0.0)) return 0.0;
    return std::min(-0.69, -0.5 * z * z - std::log(z) - kLogRootTwoPi + 1e-9 + 1e-14 * z * z);
}

// The grid of a step on which epsilon lies, but for a rounding: the upper list's delta is exact at its points.
struct Grid {
    Grid(double at, double width) : epsilon(at), step(width) {
        const double cells = std::floor(at / width);
        if (!(std::fabs(cells) < 4e15)) refuse(kInf);  // indices are exact
        offset = at - width * cells;
        first_cell = cells - kCellsBelow;
    }
    double first() const { return offset + step * first_cell; }

    double epsilon, step, offset, first_cell;
};

// Losses from some cells below epsilon on, densities e^lift times the true ones.
struct Above {
    Buckets buckets;
    double lift = 0.0;
    double log_missing = -kInf;  // mass beyond the last cell, and where losses are not tabulated above epsilon
    double loss_err = 0.0;
};

Above gaussian_above(const LossLaw& law, const Grid& grid, StopCheck stop) {
    const double epsilon = grid.epsilon;
    const double step = grid.step;
    const double first = grid.first();
    const std::vector<double> p = law.parameters();  // rho and its relative error
    const double rho = p[0];
    const double sd = std::sqrt(2.0 * rho);
    // In x = (L - rho)/sd the law is standard normal.
    const double at = (epsilon - rho) / sd;
    const double low = std::max((first - rho) / sd, -kLowest);
    const double start = std::max(at, 0.0);
    // delta is about phi(start) min(1, sd)/(1 + start^2).
    const double fall = std::log1p(start * start) - std::log(std::min(1.0, sd)) - kLogBeyond;
    const double high = std::max(low, std::sqrt(start * start + 2.0 * fall));
    Above out;
    out.lift = 0.5 * start * start;
    out.log_missing = log_tail(high);
    if (low == -kLowest) out.log_missing = std::log(std::exp(log_tail(kLowest)) + std::exp(out.log_missing));
    out.log_missing += 1e-9;
    const double longest = sd * kPanelTurn / (std::max(-low, high) + 3.2);
    const double bottom = low == -kLowest ? rho + sd * low : first;
    Collector collect(step, grid.offset, bottom, rho + sd * high, true);
    const double lift = out.lift;
    integrate_linear(
        collect, step, bottom, rho + sd * high, longest, kInverseRootTwoPi / sd,
        [=](double l) {
            const double x = (l - rho) / sd;
            return lift - 0.5 * x * x;
        },
        stop);
    out.buckets = collect.finish();
    // rho is rounded: the exponent of the density moves by x^2/2 times that; its own roundings.
    const double most = std::max(high, -low);
    out.buckets.mass_err += (p[1] + 8.0 * kRound) * (most * most + 4.0 * most * std::sqrt(rho) + 4.0);
    return out;
}

SubsampledStep step_of(const LossLaw& law) {
    const std::vector<double> p = law.parameters();  // sigma, rate, whether a record is removed
    return {p[0], p[1], p[2] != 0.0};
}

Above sampled_above(const LossLaw& law, const Grid& grid, StopCheck stop) {
    const SubsampledStep sampled = step_of(law);
    const double s = sampled.sigma;
    const double q = sampled.q;
    const double s2 = s * s;
    const double sign = sampled.sign();
    const bool removal = sampled.removal;
    const auto lambda = [=](double x) { return sampled.lambda(x); };
    const double epsilon = grid.epsilon;
    const double step = grid.step;
    const double first = grid.first();
    const auto log_density = [&](double x) {
        return (removal ? lambda(x) : 0.0) - x * x / (2.0 * s2) - std::log(s) - kLogRootTwoPi;
    };
    // log of the mass that is farther out than x.
    const auto log_beyond = [&](double x) {
        const double out = log_tail(sign * x / s);
        return removal ? std::max(out, log_tail((x - 1.0) / s)) : out;
    };
    // From the output at which the loss is `first`, outwards, until what is left is nothing beside delta.
    const double piece = 0.125 * s;
    const double edge = kLowest * s + 1.0;
    const double from =
        sign * std::max(-edge, sign * sampled.place(sign * first));  // may lie beyond the other end
    const double farthest = std::max(sign * from, removal ? 1.0 : 0.0) + 14.0 * s;
    Above out;
    // No output has such a loss, but for roundings: nothing is known then.
    if (!std::isfinite(from)) {
        out.log_missing = kInf;
        return out;
    }
    refuse((farthest - sign * from) / piece);
    double top = -kInf, sum = 0.0, peak = -kInf;  // delta is about e^top sum
    double to = from;
    for (double t = sign * from; t < farthest;) {
        t += piece;
        to = sign * t;
        const double height = log_density(to);
        peak = std::max(peak, height);
        const double pays = -std::expm1(epsilon - sign * lambda(to));
        if (!(pays > 0.0)) continue;
        const double term = height + std::log(pays * piece);
        if (term > top) sum *= std::exp(top - term), top = term;
        sum += std::exp(term - top);
        if (log_beyond(to) < top + std::log(sum) + kLogBeyond) break;
    }
    peak = std::max(peak, log_density(from));
    out.log_missing = log_beyond(to);
    if (sign * from == -edge) out.log_missing = std::log(std::exp(out.log_missing) + std::exp(log_tail(kLowest)));
    out.log_missing += 1e-9;
    const double low = std::min(from, to);
    const double high = std::max(from, to);
    const double far = std::max(-low, high);
    const double loss_low = sign * lambda(from);
    const double loss_high = sign * lambda(to);
    const double longest = std::min(s * kPanelTurn / (far / s + (removal ? 1.0 / s : 0.0) + 3.2), 0.25 * s2);
    out.lift = peak > -600.0 ? 0.0 : -peak;
    // The short way costs a few roundings of 1 in the loss: too many for losses that are small themselves.
    const bool brief =
        out.lift == 0.0 && step >= 1e-6 && (far + 0.5) / s2 < 600.0 && far * far / (2.0 * s2) < 690.0;
    Collector collect(step, grid.offset, loss_low, loss_high, true);
    if (brief) {
        integrate_mixture(collect, step, low, high, longest, s2, q, removal, loss_low, loss_high, stop);
        out.loss_err = kMixtureLoss + 4.0 * kRound * std::max(std::fabs(loss_low), std::fabs(loss_high));
    } else {
        out.loss_err = sampled.largest_lambda_err(low, high);
        const double lift = out.lift;
        integrate(
            collect, step, low, high, longest, [=](double x) { return sign * lambda(x); },
            [=](double l) { return std::min(high, std::max(low, sampled.place(sign * l))); },
            [=](double x, double loss) {
                return std::exp(lift - x * x / (2.0 * s2) + (removal ? loss : 0.0)) * kInverseRootTwoPi / s;
            },
            stop);
    }
    out.buckets = collect.finish();
    // Exponents with a few roundings each; of removals the loss is part of them.
    out.buckets.mass_err += 1e-13 + 8.0 * kRound * (out.lift + far * far / (2.0 * s2)) +
                            (removal ? 2.0 * kLibm * (1.0 + (far + 0.5) / s2) : 0.0);
    return out;
}

// Sums of masses times 1 - e^{epsilon - loss}, of both lists. slip: how far losses may be off.
struct Sums {
    double upper = 0.0, lower = 0.0;
};

Sums pays(const Buckets& b, double epsilon, double slip) {
    constexpr std::size_t kBlock = 64;
    const std::size_t n = b.upper.mass.size();
    // From the start of a block on: (1 - e^-y) + e^-y (1 - e^{-step j}), nothing cancels where y >= 0. Below 0,
    // and where a block straddles it, one by one.
    double fallen[kBlock];
    for (std::size_t j = 0; j < kBlock; ++j) fallen[j] = -std::expm1(-b.step * static_cast<double>(j));
    Sums out;
    for (std::size_t from = 0; from < n; from += kBlock) {
        const std::size_t count = std::min(kBlock, n - from);
        const double* up = b.upper.mass.data() + from;
        const double* low = b.lower.mass.data() + from;
        const double y = b.loss(from) - epsilon;
        double high_sum = 0.0, low_sum = 0.0;
        if (y >= 0.0) {
            const double rest = std::exp(-y);
            const double more = -std::expm1(-y) + 1.01 * slip;
            const double less = -std::expm1(-y) - 1.01 * slip;
            for (std::size_t j = 0; j < count; ++j) {
                high_sum += up[j] * (more + rest * fallen[j]);
                low_sum += low[j] * std::max(0.0, less + rest * fallen[j]);
            }
        } else {
            for (std::size_t j = 0; j < count; ++j) {
                const double x = b.loss(from + j) - epsilon;
                if (x + slip <= 0.0) continue;
                const double pay = x > 0.0 ? -std::expm1(-x) : 0.0;
                high_sum += up[j] * (pay + 1.01 * slip);
                low_sum += low[j] * std::max(0.0, pay - 1.01 * slip);
            }
        }
        out.upper += high_sum;
        out.lower += low_sum;
    }
    return out;
}

}  // namespace

LogBounds single_delta(const LossLaw& law, double epsilon, double step, StopCheck stop) {
    const Grid grid(epsilon, step);
    const Above above =
        law.kind() == LawKind::gaussian ? gaussian_above(law, grid, stop) : sampled_above(law, grid, stop);
    const Buckets& b = above.buckets;
    const std::size_t n = b.upper.mass.size();
    if (n == 0) return {-kInf, kInf};
    const double slip =
        above.loss_err + 8.0 * kRound * (std::fabs(epsilon) + std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)));
    const Sums sums = pays(b, epsilon, slip);
    const double missing = std::exp(above.log_missing + above.lift) * (1.0 + 1e-9) + kLost;
    const double slack = b.mass_err * 2.0 + (static_cast<double>(n) + 64.0) * kRound + 8.0 * kLibm;
    const double high = (sums.upper + missing) * (1.0 + slack);
    const double low = sums.lower * (1.0 - slack) - kLost;
    if (!(std::isfinite(high) && slack < 0.1)) return {-kInf, kInf};
    const auto round = [&](double log_value) {
        return 4.0 * kRound * (above.lift + 1.0) + 2.0 * kLibm * (1.0 + std::fabs(log_value));
    };
    const double log_high = std::log(high);
    const double log_low = low > 0.0 ? std::log(low) : -kInf;
    return {low > 0.0 ? log_low - above.lift - round(log_low) : -kInf, log_high - above.lift + round(log_high)};
}

bool has_single_delta(const LossLaw& law) {
    return law.kind() == LawKind::gaussian || law.kind() == LawKind::subsampled_gaussian;
}

LogBounds single_delta_within(const LossLaw& law, double epsilon, double width, StopCheck stop) {
    // A first step from how fast the density falls there; then the width falls like its square.
    double scale = 0.0;
    if (law.kind() == LawKind::gaussian) {
        const double rho = law.parameters()[0];
        const double sd = std::sqrt(2.0 * rho);
        scale = sd / std::max(1.0, (epsilon - rho) / sd);
    } else {
        const SubsampledStep sampled = step_of(law);
        const double sign = sampled.sign();
        const double x = std::max(-kLowest * sampled.sigma, sign * sampled.place(sign * epsilon));
        const double next = x + sampled.sigma / std::max(1.0, x / sampled.sigma);
        scale = sign * sampled.lambda(sign * next) - sign * sampled.lambda(sign * x);
    }
    constexpr double kFirst = 8.0;
    constexpr int kFiner = 4;
    double step = std::min(1.0, scale / kFirst);
    LogBounds out = {-kInf, kInf};
    for (int i = 0; i <= kFiner && step > 0.0; ++i) {
        LogBounds found;
        try {
            found = single_delta(law, epsilon, step, stop);
        } catch (const std::length_error&) {
            // A coarser one, unless something is known.
            if (out.log_upper < kInf) break;
            step *= 16.0;
            continue;
        }
        const LogBounds both = {std::max(out.log_lower, found.log_lower),
                                std::min(out.log_upper, found.log_upper)};
        // Bounds that contradict each other would show a fault: then nothing is known.
        if (!(both.log_lower <= both.log_upper)) return {-kInf, kInf};
        out = both;
        const double now = std::expm1(out.log_upper - out.log_lower);
        if (now <= width) break;
        step *= std::max(1.0 / 64.0, std::sqrt(0.4 * width / now));
    }
    return out;
}

}  // namespace dpcore::detail
