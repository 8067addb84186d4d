#include "bucket_lists.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "added_gap.hpp"
#include "bin_masses.hpp"
#include "dpcore/normal.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double window(double tolerance) { return std::sqrt(2.0 * std::log(1.0 / tolerance)); }

// Additions with outputs up to `cut`, losses less the largest one, under the tilt c > 0. The logarithm of the
// tilted density, -x^2/(2 s^2) - c gap(x), is concave.
Discrete added_from_top(const SubsampledStep& sampled, double step, double c, double cut, StopCheck check) {
    constexpr double kLogTail = -41.0;  // of the tilted density, where the list ends, against its largest value
    const double s = sampled.sigma;
    const double s2 = s * s;
    const AddedGap below(sampled);
    const auto height = [&](double x) { return -x * x / (2.0 * s2) - c * below.of(x); };
    const auto slope = [&](double x) { return -(x + c * sampled.posterior(x)) / s2; };
    // The output between a, where `is` holds, and b, where it does not, at which that changes.
    const auto between = [](double a, double b, auto is) {
        for (int i = 0; i < 60; ++i) (is(0.5 * (a + b)) ? a : b) = 0.5 * (a + b);
        return a;
    };
    double lowest = -s;
    while (lowest > cut || !(slope(lowest) > 0.0)) lowest *= 2.0;
    double mode = cut;
    if (slope(cut) < 0.0) mode = between(lowest, cut, [&](double x) { return slope(x) > 0.0; });
    const double end = height(mode) + kLogTail;
    while (height(lowest) > end) lowest *= 2.0;
    const double low = between(lowest, mode, [&](double x) { return height(x) < end; });
    const double high = height(cut) < end ? between(cut, mode, [&](double x) { return height(x) < end; }) : cut;
    Discrete out;
    // Beyond an end a concave exponent falls at least as it does there.
    double missing = std::exp(height(low) - end) / slope(low);
    if (high < cut) missing += std::exp(height(high) - end) / -slope(high);
    out.log_missing = end + std::log(missing * 0.4 / s) + 1e-6;
    const double lift = high < 0.0 ? high * high / (2.0 * s2) : 0.0;
    const double far = std::max(-low, std::fabs(high));
    out.log_scale = lift;
    out.underflows = !(lift - far * far / (2.0 * s2) > -650.0);
    const double longest = std::min(s * kPanelTurn / ((far + 1.0) / s + 3.2), 0.25 * s2);
    Collector collect(step, 0.0, -below.of(high), -below.of(low), true);
    integrate(
        collect, step, low, high, longest, [&](double x) { return -below.of(x); },
        [&](double l) { return std::min(high, std::max(low, l < 0.0 ? below.place(-l) : low)); },
        [&](double x, double) { return std::exp(lift - x * x / (2.0 * s2)) * 0.39894228040143267794 / s; }, check);
    out.buckets = collect.finish();
    // Of a loss, and of the outputs that belong to the ends of cells; and of the largest loss itself.
    out.loss_err =
        2.0 * below.of(high) * std::max(below.err(low), below.err(high)) - 1e-29 * std::log1p(-sampled.q);
    out.buckets.mass_err += 1e-13 + 8.0 * kRound * (lift + far * far / (2.0 * s2));
    out.smooth = true;
    return out;
}

// Where steps are hardly ever sampled nearly all of their losses are next to log(1 - q), closer than the grid:
// what they are merged to, all within half a cell of 0, so that a point of the grid may lie there. Elsewhere their
// mean would be rounded down, once a copy. (0 where they are spread over the grid.)
double unsampled_loss(const SubsampledStep& sampled, double step) {
    constexpr double kMost = 1.0;  // standard deviations of outputs that have to be within the half cell
    // A little lower than that, by more than the roundings of surpluses and deficits: what finds nothing to be
    // merged with is rounded down by a whole step, however little is missing.
    constexpr double kSurely = 1e-6;
    const double s = sampled.sigma;
    const double last = sampled.place(0.5 * step);
    if (!(last > kMost * s) || !(-std::log1p(-sampled.q) < 0.5 * step)) return 0.0;
    const double share = normal_tail((1.0 - last) / s) / normal_tail(-last / s);
    const double loss = std::log1p(sampled.q * (share - 1.0));
    return (sampled.removal ? loss : -loss) - kSurely * sampled.q - 4.0 * kSurplus * step;
}

}  // namespace

Discrete discretise(const LossLaw& law, double step, double c_near, double c, double c_far, bool tilted,
                    StopCheck check, Outputs outputs) {
    constexpr double kTail = 1e-16;
    const std::vector<double> p = law.parameters();
    Discrete out;
    switch (law.kind()) {
        case LawKind::gaussian: {
            const double rho = p[0];
            const double sd = std::sqrt(2.0 * rho);
            const double reach = window(kTail);
            // In x = (L - rho)/sd the untilted law is standard normal, the tilted one is centred at c sd.
            const double low = c_near * sd - reach;
            const double high = c_far * sd + reach;
            const double longest = sd * kPanelTurn / (std::max(-low, high) + 3.2);
            Collector collect(step, 0.0, rho + sd * low, rho + sd * high, true);
            const double lift =
                std::min(0.5 * c * c * sd * sd, 0.5 * std::max(low, 0.0) * std::max(low, 0.0) + 600.0);
            out.log_scale = lift;
            integrate_linear(
                collect, step, rho + sd * low, rho + sd * high, longest, 0.39894228040143267794 / sd,
                [=](double l) {
                    const double x = (l - rho) / sd;
                    return lift - 0.5 * x * x;
                },
                check);
            out.buckets = collect.finish();
            out.tail = 2.0 * kTail;
            out.smooth = true;
            // rho is rounded: the exponent of the density moves by x^2/2 times that.
            const double most = std::max(-low, high);
            out.buckets.mass_err += (p[1] + 4.0 * kRound) * (most * most + 4.0 * most * std::sqrt(rho) + 4.0);
            break;
        }
        case LawKind::laplace: {
            const double e = p[0];
            Collector collect(step, e - step * std::floor(e / step), -e, e, true);
            integrate_linear(collect, step, -e, e, 1.0, 0.25, [e](double l) { return 0.5 * (l - e); }, check);
            // Both lie on the grid where the step divides 2 epsilon, but for the roundings of its points.
            out.loss_err = tilted ? 16.0 * kRound * e : 0.0;
            collect.add_atom(e, 0.5, out.loss_err);
            collect.add_atom(-e, 0.5 * std::exp(-e), out.loss_err);
            out.buckets = collect.finish();
            break;
        }
        case LawKind::subsampled_gaussian: {
            const double s = p[0];
            const double q = p[1];
            const bool removal = p[2] != 0.0;
            if (outputs.from_top) return added_from_top({s, q, false}, step, c, outputs.high, check);
            const double s2 = s * s;
            // Tails are those under the tilt c: the two others bound where the lists themselves end. What they
            // would move far out of reach, and out of the range of double, need not be in them.
            const double power = removal ? 1.0 + std::max(c_far, 0.0) : std::max(-c, 0.0);
            const double reach = window(kTail);
            const double share0 = 1.0 / (1.0 + (1.0 - q) / q * std::exp(0.5 / s2));
            double low = -reach * s - 1.0 - std::max(0.0, removal ? -(1.0 + c) : c_far) * share0;
            double high = reach * s + power;
            const SubsampledStep sampled = {s, q, removal};
            const auto lambda = [=](double x) { return sampled.lambda(x); };
            out.tail = 6.0 * kTail;
            double lift = 0.0;  // of the logarithm of the density, where it would underflow
            if (!outputs.all()) {
                out.tail = 0.0;
                // Below, the ratio is below 1.
                if (outputs.low > low)
                    low = outputs.low;
                else
                    out.log_missing = -low * low / (2.0 * s2);
                // Beyond `high` the tilted density falls like e^{-reach x/s} at least; down from there, or from
                // where the outputs end, it is at most its two factors at the ends of a piece.
                const bool ends = outputs.high < high;
                high = ends ? outputs.high : std::max(high, low + reach * s);
                const double piece = 0.125 * s;
                const auto height = [&](double x) { return (1.0 + c) * lambda(x) - x * x / (2.0 * s2); };
                double peak = height(low);
                for (double x = low; x < high; x += piece) peak = std::max(peak, height(x));
                double rest = ends ? 0.0 : 0.4 / reach * std::exp(height(high) - peak + 1e-9);
                while (high - piece > low) {
                    const double x = high - piece;
                    const double next = std::max(x, std::min(0.0, high));  // to 0
                    const double more =
                        0.05 * std::exp((1.0 + c) * lambda(high) - next * next / (2.0 * s2) - peak + 1e-9);
                    if (!(rest + more < 0.01 * kTail)) break;
                    rest += more;
                    high = x;
                }
                const auto plain = [&](double x) { return lambda(x) - x * x / (2.0 * s2); };
                if (!ends)
                    lift = std::max(0.0, std::min(600.0 - plain(low), -plain(high)));
                else if (plain(high) < -650.0)
                    lift = std::min(600.0, -plain(high));
                out.log_scale = lift;
                out.underflows = !(std::min(plain(low), plain(high)) + lift > -650.0);
                const double above = peak + std::log(rest);
                const double top = std::max(above, out.log_missing);
                if (std::isfinite(top))
                    out.log_missing =
                        top + std::log(std::exp(above - top) + std::exp(out.log_missing - top)) + 1e-9;
            } else if (removal && c >= 0.0) {
                // Outputs next to 1 + c, which small rates leave nothing of. From the top, the tilted density is
                // at most its two factors at the ends of a piece; M(c) >= 1, since c >= 0 times the mean of the
                // loss.
                const double piece = 0.125 * s;
                double rest = 0.0;
                while (high - piece > 0.5) {
                    const double x = high - piece;
                    rest += 0.05 * std::exp((1.0 + c) * lambda(high) - x * x / (2.0 * s2) + 1e-9);
                    if (!(rest < kTail)) break;
                    high = x;
                }
                // A second hump that far out would underflow, and e^{c loss} times what underflows is anything.
                const double last = lambda(high) - high * high / (2.0 * s2);
                if (tilted && last < -650.0) lift = std::min(600.0, -last);
                out.log_scale = lift;
                out.underflows = !(last + lift > -650.0);
            }
            const double sign = removal ? 1.0 : -1.0;
            const double ends[2] = {std::min(sign * lambda(low), sign * lambda(high)),
                                    std::max(sign * lambda(low), sign * lambda(high))};
            const double farthest = std::max(-low, high);
            const double longest = std::min(s * kPanelTurn / ((farthest + 1.0) / s + 3.2), 0.25 * s2);
            // The short way costs a few roundings of 1 in the loss: too many for losses that are small themselves.
            constexpr double kBriefRate = 1e-3;
            const bool brief = tilted && lift == 0.0 && step >= 1e-6 && q >= kBriefRate * step &&
                               (farthest + 0.5) / s2 < 600.0 && farthest * farthest / (2.0 * s2) < 690.0;
            Collector collect(step, tilted ? unsampled_loss(sampled, step) : 0.0, ends[0], ends[1], true);
            if (brief)
                integrate_mixture(collect, step, low, high, longest, s2, q, removal, ends[0], ends[1], check);
            else
                integrate(
                    collect, step, low, high, longest, [=](double x) { return sign * lambda(x); },
                    [=](double l) { return std::min(high, std::max(low, sampled.place(sign * l))); },
                    [=](double x, double loss) {
                        return std::exp(lift - x * x / (2.0 * s2) + (removal ? loss : 0.0)) *
                               0.39894228040143267794 / s;
                    },
                    check);
            out.buckets = collect.finish();
            out.loss_err = brief ? kMixtureLoss + 4.0 * kRound * std::max(std::fabs(ends[0]), std::fabs(ends[1]))
                                 : sampled.largest_lambda_err(low, high);
            // Exponents with a few roundings each; of removals the loss is part of them.
            out.buckets.mass_err += 1e-13 + 8.0 * kRound * (lift + farthest * farthest / (2.0 * s2)) +
                                    (removal ? 2.0 * kLibm * (1.0 + (farthest + 0.5) / s2) : 0.0);
            out.smooth = true;
            break;
        }
        case LawKind::discrete_gaussian: {
            const double s = p[0];
            const double shift = p[1];
            const double slope = shift / (s * s);
            const double rho = 0.5 * shift * slope;
            const double reach = window(kTail) * s + 1.0;
            const double low = -shift * std::max(c_far, 0.0) - reach;
            const double high = reach + shift * std::max(0.0, -c_near);
            Collector collect(step, rho - step * std::floor(rho / step), rho - slope * high, rho - slope * low,
                              false);
            refuse(high - low);
            const double total = discrete_gaussian_sum(s);
            for (double x = std::ceil(low); x <= high; x += 1.0)
                collect.add_atom(rho - slope * x, std::exp(-x * x / (2.0 * s * s)) / total);
            out.buckets = collect.finish();
            // Exponents of up to 745 with three roundings, the sum, and atoms that share a bucket.
            out.buckets.mass_err += (2.0 * 745.0 * 3.0 + 8.0 + collect.most_together()) * kRound + 2.0 * kLibm;
            out.loss_err = 4.0 * kRound * (rho + slope * std::max(high, -low));
            out.tail = 4.0 * kTail;
            break;
        }
        case LawKind::part:  // a part of a composition, made and used by contours alone
            throw std::length_error("a part of a law has no buckets");
        case LawKind::two_point:
        case LawKind::atoms: {
            const std::vector<Atom> atoms = law.atoms();
            if (atoms.empty()) throw std::length_error("a law without finite losses has no buckets");
            double low = kInf, high = -kInf, heaviest = -kInf, anchor = 0.0;
            for (const Atom& a : atoms) {
                low = std::min(low, a.loss);
                high = std::max(high, a.loss);
                const double w = std::log(a.mass) + c * a.loss;
                if (w > heaviest) heaviest = w, anchor = a.loss;
            }
            Collector collect(step, anchor - step * std::floor(anchor / step), low, high, false);
            double mass_err = law.log_mass_err();
            double least = kInf;
            for (const Atom& a : atoms) {
                collect.add_atom(a.loss, a.mass);
                mass_err = std::max(mass_err, a.mass_err);
                out.loss_err = std::max(out.loss_err, a.loss_err);
                least = std::min(least, a.mass);
            }
            out.underflows = !(least > 1e-280);
            out.buckets = collect.finish();
            // Atoms that fall into one bucket are added up.
            out.buckets.mass_err += mass_err + static_cast<double>(atoms.size()) * kRound;
            out.buckets.upper.infinite = out.buckets.lower.infinite = law.infinite_mass();
            break;
        }
    }
    return out;
}

namespace {
// Relative error of tilted masses that are moved within a few cells: exponentials, at distances that are rounded.
double moving_err(double c, double low, double high, double offset) {
    return 4.0 * kLibm + 8.0 * c * kRound * (std::fabs(low) + std::fabs(high) + std::fabs(offset));
}
}  // namespace

Discrete discretise(const AtomBlock& block, double step, double c) {
    std::size_t heaviest = 0;
    for (std::size_t i = 0; i < block.mass.size(); ++i)
        if (block.mass[i] > block.mass[heaviest]) heaviest = i;
    const double anchor = block.loss[heaviest];
    const double offset = anchor - step * std::floor(anchor / step);
    Discrete out;
    Collector collect(step, offset, block.loss.front(), block.loss.back(), false, c);
    for (std::size_t i = 0; i < block.mass.size(); ++i)
        if (block.mass[i] > 0.0) collect.add_atom(block.loss[i], block.mass[i], block.loss_err);
    out.tilt = c;
    out.log_scale = -block.log_mass;
    out.tail = block.tail;
    out.loss_err = 2.0 * block.loss_err;
    out.underflows = false;
    out.buckets = collect.finish();
    // e^{cL} was taken at the rounded loss, and is again where an atom is moved onto a point.
    out.buckets.mass_err += block.mass_err + 1.01 * c * out.loss_err + 4.0 * kRound * std::fabs(block.log_mass) +
                            moving_err(c, block.loss.front(), block.loss.back(), offset) +
                            collect.most_together() * kRound;
    return out;
}

std::optional<Discrete> discretise_twice(const AtomBlock& block, double step, double c, StopCheck check) {
    constexpr double kPairWork = 30.0;  // nanoseconds
    const std::size_t n = block.mass.size();
    const double low = 2.0 * block.loss.front();
    const double high = 2.0 * block.loss.back();
    Discrete out;
    Collector collect(step, 0.0, low, high, true, c);
    std::vector<std::uint32_t> together(static_cast<std::size_t>((high - low) / step) + 4, 0);
    std::uint32_t most = 0;
    check.spend(kPairWork * 0.5 * static_cast<double>(n) * static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
        if (i % 64 == 0) check();
        const double twice = 2.0 * block.mass[i];
        for (std::size_t j = i; j < n; ++j) {
            const double loss = block.loss[i] + block.loss[j];
            const double mass = (i == j ? block.mass[i] : twice) * block.mass[j];
            if (!(mass > 0.0)) continue;
            collect.add_atom(loss, mass, 2.0 * block.loss_err);
            std::uint32_t& count = together[static_cast<std::size_t>((loss - low) / step)];
            most = std::max(most, ++count);
        }
    }
    // Their sums are good to 1e-12, as the collector takes them.
    constexpr std::uint32_t kMostTogether = 2048;
    if (most > kMostTogether) return {};
    out.tilt = c;
    out.log_scale = -2.0 * block.log_mass;
    out.tail = 2.0 * block.tail * (1.0 + block.tail);
    out.loss_err = 4.0 * block.loss_err + 8.0 * kRound * (std::fabs(low) + std::fabs(high));
    out.underflows = false;
    out.buckets = collect.finish();
    // As above; a bucket has points of two cells, which are counted by cells of the same length.
    out.buckets.mass_err += 2.0 * block.mass_err + 1.01 * c * out.loss_err +
                            8.0 * kRound * std::fabs(block.log_mass) + moving_err(c, low, high, 0.0) +
                            (6.0 * static_cast<double>(most) + collect.most_together() + 4.0) * kRound;
    return out;
}

Discrete regrid(const Discrete& list, double step) {
    const Buckets& b = list.buckets;
    const std::size_t n = b.upper.mass.size();
    const auto heaviest = static_cast<std::size_t>(std::max_element(b.upper.mass.begin(), b.upper.mass.end()) -
                                                   b.upper.mass.begin());
    const double anchor = b.loss(heaviest);
    const double offset = anchor - step * std::floor(anchor / step);
    Discrete out;
    Collector collect(step, offset, b.loss(0), b.loss(n - 1), false, list.tilt);
    for (std::size_t i = 0; i < n; ++i)
        if (b.upper.mass[i] > 0.0 || b.lower.mass[i] > 0.0)
            collect.add_point(b.loss(i), b.upper.mass[i], b.lower.mass[i]);
    out.buckets = collect.finish();
    out.tilt = list.tilt;
    out.tail = list.tail;
    out.scatter = list.scatter;
    out.log_scale = list.log_scale;
    out.underflows = list.underflows;
    out.smooth = list.smooth && step >= b.step;  // a finer grid has gaps
    // What a loss is rounded by, here and when it is moved onto a point.
    const double rounded =
        8.0 * kRound * (std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) + std::fabs(b.offset) + offset);
    out.loss_err = list.loss_err + rounded;
    out.buckets.mass_err = b.mass_err + moving_err(list.tilt, b.loss(0), b.loss(n - 1), offset) +
                           1.01 * list.tilt * rounded + collect.most_together() * kRound;
    return out;
}

}  // namespace dpcore::detail
