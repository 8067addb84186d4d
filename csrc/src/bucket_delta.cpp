// delta of a composition by buckets: declared in buckets.hpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bucket_ladder.hpp"
#include "bucket_lists.hpp"
#include "dpcore/direct_spectrum.hpp"

namespace dpcore {

using detail::AtomBlock;
using detail::Discrete;
using detail::discretise;
using detail::ListProduct;
using detail::Powers;
using detail::refuse;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Nanoseconds of a bucket when its law is tabulated and tilted.
constexpr double kBucketWork = 45.0;

constexpr double kFinest = 0.99 * static_cast<double>(kMaxBuckets);  // what a finer grid may take

// Where a query is answered: tilt, step and length of the transform.
struct Plan {
    double tilt = 0.0, far = 0.0, near = 0.0, step = 0.0, mean = 0.0, sd = 0.0, value = 0.0;
    double distance = 0.0;
    double count = kInf;
    bool valid = false;
};

// A law, or copies of it that have been composed (to atoms, or to a list on a grid of its own), and how often it
// occurs.
struct Part {
    const LossLaw* law = nullptr;
    const AtomBlock* block = nullptr;
    double copies = 1.0;
    const Discrete* list = nullptr;
};

std::vector<Part> laws_of(const Composition& comp) {
    std::vector<Part> parts;
    for (const Term& t : comp.terms) parts.push_back({&*t.law, nullptr, t.copies});
    return parts;
}

Plan place_plan(const Composition& comp, double epsilon, StopCheck stop) {
    Plan plan;
    const Placement place = spectral_placement(comp, epsilon, stop);
    if (!place.valid) return plan;
    plan.tilt = place.c;
    plan.mean = place.mean;
    plan.sd = std::sqrt(place.variance);
    plan.value = place.value;
    plan.far = place.far;
    plan.near = place.near;
    plan.distance = place.distance;
    plan.valid = true;
    return plan;
}

void set_step(Plan& plan, double step) {
    plan.step = step;
    plan.count = (2.0 * plan.distance + 8.0 * step) / step;
    // A law wider than that on its own still has to be tabulated; discretise() refuses beyond the limit.
}

// The step for a width, among those on which the atoms of one law lie.
double fitting_step(const Plan& plan, const std::vector<Part>& parts, double width, bool thorough) {
    const double finest = thorough ? 2.0 * plan.distance / (kFinest - 16.0) : 0.0;
    double copies = 0.0;
    for (const Part& t : parts) copies += t.copies;
    // Upper adds about step^2/6 to the variance of each loss, lower takes step^2/12 away; delta changes by
    // c(1+c)/2 times that.
    double step = std::sqrt(2.0 * width / (copies * plan.tilt * (1.0 + plan.tilt)));
    step = std::min(step, plan.sd / 4.0);
    if (step > 0.5 * finest) step = std::max(step, finest);
    // Atoms of the Laplace law of the most copies lie on the grid.
    double largest = 0.0, most = 0.0;
    for (const Part& t : parts)
        if (t.law && t.law->kind() == LawKind::laplace && t.copies > most)
            most = t.copies, largest = t.law->parameters()[0];
    // Atoms off the grid are merged or rounded down in the lower list, by half a step on average: first order.
    double loose = 0.0;
    bool anchored = false;
    for (const Part& t : parts) {
        if (!t.law) continue;  // mostly dense: a finer grid follows where they are not
        const LawKind kind = t.law->kind();
        if (kind == LawKind::laplace) {
            if (t.law->parameters()[0] != largest) loose += t.copies;
        } else if (kind != LawKind::gaussian && kind != LawKind::subsampled_gaussian) {
            if (anchored || largest > 0.0 || !(t.law->lattice().step > 0.0))
                loose += t.copies;
            else {
                step = t.law->lattice().step / std::ceil(t.law->lattice().step / step);
                anchored = true;
            }
        }
    }
    if (loose > 0.0 && !thorough)
        step = std::min(step, std::max(3.0 * width / (loose * plan.tilt), 2.0 * plan.distance / 2e6));
    // Of composed atoms on lattices those that would cost the most between the points.
    double lattice = 0.0, costs = 0.0;
    for (const Part& t : parts)
        if (t.block && t.block->step > 2.0 * step && t.block->step * detail::spread_share(*t.block) > costs) {
            lattice = t.block->step;
            costs = lattice * detail::spread_share(*t.block);
        }
    if (largest == 0.0 && lattice > 0.0) step = lattice / std::ceil(lattice / step);
    if (largest > 0.0) {
        // The two atoms of the others are 2 epsilon apart: of the steps down to half as long the one of which that
        // is nearly a multiple, from below, so that the lower atom is rounded down by little.
        const double least = std::max(1.0, std::ceil(2.0 * largest / step));
        const double most_cells = std::min(2.0 * least, std::floor(2.0 * largest / finest));
        double k = std::max(1.0, std::min(least, most_cells));
        double best = kInf;
        for (double cells = k; thorough && loose > 0.0 && cells <= std::min(most_cells, least + 2e4);
             cells += 1.0) {
            double off = 0.0;
            for (const Part& t : parts)
                if (t.law && t.law->kind() == LawKind::laplace) {
                    const double apart = t.law->parameters()[0] / largest * cells;
                    off += t.copies * std::exp(-t.law->parameters()[0]) *
                           (std::ceil(apart - 4.0 * kRound * cells) - apart) / cells;
                }
            if (off < best) best = off, k = cells;
        }
        step = 2.0 * largest / k;
    }
    return step;
}

Plan make_plan(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    Plan plan = place_plan(comp, epsilon, stop);
    if (!plan.valid) return plan;
    if (query.step > 0.0)
        set_step(plan, query.step);
    else if (comp.lattice.step > 0.0)
        set_step(plan, comp.lattice.step);
    else
        set_step(plan, fitting_step(plan, laws_of(comp), query.width, query.thorough));
    return plan;
}

// Where a sum left the range of double: no statement but Chernoff's.
LogBounds nothing_known(const Composition& comp, double epsilon, double c, StopCheck stop) {
    const double chernoff = log_chernoff_at(comp, epsilon, c, stop);
    const double all = comp.log_finite_mass + comp.log_mass_err;
    return add_infinite_mass(comp, {-kInf, chernoff < all ? chernoff : all});
}

// One release needs no transform: delta straight from the tilted lists.
LogBounds single_delta(const Composition& comp, const LossLaw& law, double epsilon, double step, double c,
                       StopCheck stop) {
    const Discrete d = discretise(law, step, c, c, c, true, stop);
    const Buckets& b = d.buckets;
    const std::size_t n = b.upper.mass.size();
    double top = -kInf;
    for (std::size_t i = 0; i < n; ++i)
        if (b.upper.mass[i] > 0.0 && (i % 16 == 0 || n < 4096))
            top = std::max(top, c * b.loss(i) + std::log(b.upper.mass[i]));
    if (!std::isfinite(top)) return nothing_known(comp, epsilon, c, stop);
    // mass (1 - e^{eps - l}) for l > eps, relative to e^{top - c eps}: mass e^{c eps - top} times the payoff.
    const double scale = c * epsilon - top;
    if (!(scale < 650.0)) return nothing_known(comp, epsilon, c, stop);
    const double slip = d.loss_err + 8.0 * kRound *
                                         (std::fabs(epsilon) + std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) +
                                          std::fabs(b.offset));
    double upper = 0.0, lower = 0.0, mass = 0.0;
    const double factor = std::exp(scale);
    Powers here(c, top, b);
    // 1 - e^-x from the start of a block on: (1 - e^-y) + e^-y (1 - e^{-step j}), nothing cancels where y >= 0.
    // Below 0, and where a block straddles it, one by one.
    double fallen[Powers::kBlock];
    for (std::size_t j = 0; j < Powers::kBlock; ++j) fallen[j] = -std::expm1(-step * static_cast<double>(j));
    for (std::size_t from = 0; from < n; from += Powers::kBlock) {
        const std::size_t count = std::min(Powers::kBlock, n - from);
        here.start(from);
        double sum = 0.0;
        for (std::size_t j = 0; j < count; ++j) sum += here.times(b.upper.mass[from + j], j);
        mass += sum;
        const double y = b.loss(from) - epsilon;
        if (b.loss(from + count - 1) - epsilon + slip <= 0.0) continue;
        const double whole = y >= 0.0 ? -std::expm1(-y) : 0.0;
        const double rest = y >= 0.0 ? std::exp(-y) : 0.0;
        double high = 0.0, low = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            double pay = whole + rest * fallen[j];
            if (y < 0.0) {
                const double x = b.loss(from + j) - epsilon;
                if (x + slip <= 0.0) continue;
                pay = x > 0.0 ? -std::expm1(-x) : 0.0;
            }
            high += b.upper.mass[from + j] * factor * (pay + 1.01 * slip);
            low += b.lower.mass[from + j] * factor * std::max(0.0, pay - 1.01 * slip);
        }
        upper += high;
        lower += low;
    }
    // Tabulated range: all but d.tail of the tilted law.
    const double pay = std::exp(c * std::log(c) - (1.0 + c) * std::log1p(c));
    const double outside =
        (d.tail * 1.01 * mass +
         static_cast<double>(n) * std::exp(std::max(c * b.loss(n - 1), c * b.loss(0)) - top - 744.0)) *
        pay;
    const double slack = b.mass_err * 2.0 + (static_cast<double>(n) + 64.0) * kRound +
                         8.0 * kLibm * (1.0 + std::fabs(scale)) + 4.0 * kRound * d.log_scale;
    const double base = top - d.log_scale - c * epsilon;
    const double high = (upper + outside) * (1.0 + slack);
    const double low = (lower - outside) * (1.0 - slack);
    if (!(std::isfinite(high) && std::isfinite(base))) return nothing_known(comp, epsilon, c, stop);
    return add_infinite_mass(comp, {low > 0.0 ? base + std::log(low) - 4.0 * kRound * std::fabs(base) : -kInf,
                                    base + std::log(high) + 4.0 * kRound * std::fabs(base)});
}

// Bounds, and the share of their width that no finer grid would change.
struct Answer {
    LogBounds bounds;
    double floor = 0.0;
};

Answer delta_on_grid(const Composition& comp, const std::vector<Part>& parts, double epsilon, const Plan& plan,
                     StopCheck stop) {
    const double c = plan.tilt;
    const std::size_t size = detail::transform_length(plan.count);
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
        Discrete d = t.list    ? detail::regrid(*t.list, plan.step)
                     : t.block ? discretise(*t.block, plan.step, c)
                               : discretise(*t.law, plan.step, c_left, c, c_right, true, stop);
        Buckets& b = d.buckets;
        const std::size_t n = b.upper.mass.size();
        stop.spend(kBucketWork * static_cast<double>(n));
        const detail::Tilts log_mass = detail::tilt(d, {c_left, c, c_right});
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
                      t.copies * 4.0 * kRound *
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
        if (!in_range) return {nothing_known(comp, epsilon, c, stop), kInf};
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
    // The weight e^{-cx}(1 - e^{-x}) moves by at most slip (1+c) e^{-cx} e^{c slip} when x is off by slip.
    const auto drift_now = [&] { return 1.01 * slip_now() * (1.0 + c) * std::exp(c * slip_now()); };
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
        // All tilted mass, 1, under a weight that drifts by at most drift e^{-cx}, x > -slip.
        upper = few.upper + 1.01 * drift_now();
        lower = few.lower - 1.01 * drift_now();
        noise = few.err;
    } else {
        ListProduct product(size);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const TiltedList list = i < lists.size() ? std::move(lists[i]) : prepare(parts[i]);
            if (!in_range) return {nothing_known(comp, epsilon, c, stop), kInf};
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
        double weight2 = 0.0;
        for (std::size_t j = 0; j < size; ++j) {
            double n = static_cast<double>(j) - start;  // relative to the centre, in [-half, half)
            while (n >= half) n -= static_cast<double>(size);
            while (n < -half) n += static_cast<double>(size);
            const double x = (offset - epsilon) + plan.step * (centre + n);
            if (x <= -slip) continue;
            const double fall = std::exp(-c * x);
            const double middle = x > 0.0 ? fall * -std::expm1(-x) : 0.0;
            const double w = middle + fall * drift;
            upper += std::max(0.0, re[j]) * w;
            weight2 += w * w;
            lower += std::max(0.0, im[j]) * std::max(0.0, middle - fall * drift);
        }
        noise = l2 * std::sqrt(weight2);
    }
    const double centre = centre_now();
    const double slip = slip_now();
    const double pay = std::exp(c * std::log(c) - (1.0 + c) * std::log1p(c));
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
    const double outside = (beyond * 1.01 + tail) * pay * (1.0 + 1e-6) + scattered;
    const double base = log_scale - c * epsilon;
    const double slack = rel * 2.0 + 2.0 * c * slip + 8.0 * kLibm +
                         4.0 * kRound * (std::fabs(log_scale) + std::fabs(c * epsilon)) +
                         2.0 * static_cast<double>(size) * kRound;
    const double high = (upper + noise + outside) * (1.0 + slack);
    const double low = (lower - noise - outside) * (1.0 - slack);
    // First-order bounds hold while they are small.
    if (!(std::isfinite(high) && std::isfinite(low) && std::isfinite(base)) || !(slack < 0.1) ||
        !(transform_err < 0.1))
        return {nothing_known(comp, epsilon, c, stop), kInf};
    LogBounds finite = {low > 0.0 ? base + std::log(low) : -kInf, base + std::log(high)};
    return {add_infinite_mass(comp, finite), 2.0 * ((noise + outside) / high + slack)};
}

Answer answer(const Composition& comp, const std::vector<Part>& parts, double epsilon, const Plan& plan,
              StopCheck stop) {
    if (parts.size() == 1 && parts[0].copies == 1.0 && parts[0].law) {
        const LawKind kind = parts[0].law->kind();
        if (kind == LawKind::gaussian || kind == LawKind::subsampled_gaussian)
            return {single_delta(comp, *parts[0].law, epsilon, plan.step, plan.tilt, stop), 0.0};
    }
    return delta_on_grid(comp, parts, epsilon, plan, stop);
}

constexpr int kFinerGrids = 6;
constexpr double kOneGrid = 131072.0;  // buckets up to which one grid for all copies is the shorter way
constexpr double kSeveral = 8.0;       // copies from which on grids may grow with them
constexpr double kCoarsest = 64.0;     // times the step that is right, where one law alone is too wide for that

// Copies composed on grids that grow with them.
Discrete composed_list(const Part& part, const Plan& plan, double width, StopCheck stop) {
    const double c = plan.tilt;
    const bool laplace = part.law && part.law->kind() == LawKind::laplace;
    const double apart = laplace ? 2.0 * part.law->parameters()[0] : 0.0;
    const detail::LadderPlan ladder = detail::ladder_plan(part.copies, c, width, apart);
    double step = ladder.step(part.copies);
    Discrete list;
    if (part.block) {
        // Atoms lie between the points, which costs to first order: more points than that.
        const double range = part.block->loss.back() - part.block->loss.front();
        const bool lattice = part.block->step > 0.7 * step;
        step = lattice ? part.block->step : std::max(0.25 * step, range / 1e6);
        list = discretise(*part.block, step, c);
    } else {
        for (const double right = step;; step *= 2.0) {
            if (laplace) step = apart / std::ceil(apart / step);
            try {
                list = discretise(*part.law, step, c, c, c, true, stop);
                break;
            } catch (const std::length_error&) {
                if (step > kCoarsest * right) throw;
            }
        }
    }
    detail::tilt(list, {c, c, c});
    return detail::climb(std::move(list), part.copies, ladder, stop);
}

// Blocks that occur once, composed with each other as far as that goes.
void join_blocks(std::vector<AtomBlock>& blocks, const detail::Tilts& tilts, StopCheck stop) {
    const auto spread = [](const AtomBlock& b) { return detail::spread_share(b) > 1e-3; };
    for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t j = i + 1; j < blocks.size();) {
            std::optional<AtomBlock> both;
            if (blocks[i].copies == 1.0 && blocks[j].copies == 1.0 && spread(blocks[i]) && spread(blocks[j]))
                both = detail::joined(blocks[i], blocks[j], tilts, stop);
            if (!both) {
                ++j;
                continue;
            }
            blocks[i] = std::move(*both);
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(j));
        }
}

// Copies composed before they are put on a grid, which is made finer until the width is reached.
LogBounds thorough_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    Plan plan = place_plan(comp, epsilon, stop);
    if (!plan.valid) refuse(kInf);
    const detail::Tilts tilts = {plan.near, plan.tilt, plan.far};
    std::vector<AtomBlock> blocks;
    std::vector<Part> laws;
    // Gaussians are one Gaussian.
    LawPtr gaussian;
    double rho = 0.0, rho_err = 0.0;
    for (const Term& t : comp.terms)
        if (t.law->kind() == LawKind::gaussian) {
            const std::vector<double> p = t.law->parameters();
            rho += t.copies * p[0];
            rho_err = std::max(rho_err, p[1]);
        }
    if (rho > 0.0 && rho < kInf) {
        gaussian = gaussian_law_of_rho(rho, rho_err + (2.0 + static_cast<double>(comp.terms.size())) * kRound);
        laws.push_back({&*gaussian, nullptr, 1.0});
    }
    for (const Term& t : comp.terms) {
        if (gaussian && t.law->kind() == LawKind::gaussian) continue;
        std::vector<AtomBlock> made = detail::atom_blocks(*t.law, t.copies, tilts, stop);
        if (made.empty()) laws.push_back({&*t.law, nullptr, t.copies});
        for (AtomBlock& b : made) blocks.push_back(std::move(b));
    }
    const auto attempt = [&](double width, bool first) {
        std::vector<Part> parts = laws;
        for (const AtomBlock& b : blocks) parts.push_back({nullptr, &b, b.copies});
        set_step(plan, fitting_step(plan, parts, width, true));
        const auto several =
            std::count_if(parts.begin(), parts.end(), [](const Part& t) { return t.copies >= kSeveral; });
        std::vector<Discrete> lists;
        if (plan.count > kOneGrid && several > 0) {
            // Half of the width for the last grid, half for those before.
            lists.reserve(parts.size());
            for (Part& t : parts)
                if (t.copies >= kSeveral) {
                    lists.push_back(composed_list(t, plan, 0.5 * width / static_cast<double>(several), stop));
                    t = {nullptr, nullptr, 1.0, &lists.back()};
                }
            set_step(plan, fitting_step(plan, parts, 0.5 * width, true));
        }
        if (plan.count > kFinest && (!first || plan.count < 1.9 * kFinest))
            set_step(plan, 2.0 * plan.distance / (kFinest - 16.0));
        refuse(plan.count);
        return answer(comp, parts, epsilon, plan, stop);
    };
    double width = query.width;
    Answer found = attempt(width, true);
    LogBounds out = found.bounds;
    out.log_upper = std::min(out.log_upper, nothing_known(comp, epsilon, plan.tilt, stop).log_upper);
    // Finer grids while that helps: the width falls like the square of the step where laws are dense, like the
    // step where atoms lie between its points. Atoms of several laws together lie closer.
    for (int i = 0; i < kFinerGrids && plan.count < 0.9 * kFinest; ++i) {
        const double now = std::expm1(out.log_upper - out.log_lower);
        if (now <= query.width || found.floor > 0.7 * query.width) break;
        if (i == 0) join_blocks(blocks, tilts, stop);
        const double ratio = std::max(0.01, 0.6 * query.width / now);
        width *= i == 0 ? ratio : ratio * ratio;
        try {
            found = attempt(width, false);
        } catch (const std::length_error&) {
            break;
        }
        out = {std::max(out.log_lower, found.bounds.log_lower), std::min(out.log_upper, found.bounds.log_upper)};
        if (i > 0 && std::expm1(out.log_upper - out.log_lower) > 0.8 * now) break;
    }
    return out;
}

}  // namespace

double bucket_count(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.terms.empty() || epsilon >= comp.max_loss || comp.log_finite_mass == -kInf) return 0.0;
    return make_plan(comp, epsilon, query, stop).count;
}

LogBounds bucket_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.log_finite_mass == -kInf || comp.terms.empty() || epsilon >= comp.max_loss)
        return spectral_delta(comp, epsilon, stop);
    const bool on_lattice = comp.lattice.step > 0.0 && query.step == 0.0;
    const bool thorough = query.thorough && query.step == 0.0;
    if (thorough && comp.infinite_mass_lower() > 0.0) {
        // Beside infinite mass the rest may be nothing.
        const double rest = log_chernoff_above(comp, epsilon, stop);
        const LogBounds out = add_infinite_mass(comp, {-kInf, rest});
        if (std::expm1(out.log_upper - out.log_lower) < 0.01 * query.width) return out;
    }
    if (thorough && !on_lattice) return thorough_delta(comp, epsilon, query, stop);
    const Plan plan = make_plan(comp, epsilon, query, stop);
    if (thorough && plan.valid && !(plan.count <= kFinest)) return thorough_delta(comp, epsilon, query, stop);
    refuse(plan.count);
    LogBounds out = answer(comp, laws_of(comp), epsilon, plan, stop).bounds;
    if (!thorough || std::expm1(out.log_upper - out.log_lower) <= query.width) return out;
    try {
        const LogBounds next = thorough_delta(comp, epsilon, query, stop);
        out = {std::max(out.log_lower, next.log_lower), std::min(out.log_upper, next.log_upper)};
    } catch (const std::length_error&) {  // what is known stands
    }
    return out;
}

}  // namespace dpcore
