// delta of a composition by buckets: declared in buckets.hpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "bucket_lists.hpp"
#include "dpcore/direct_spectrum.hpp"
#include "dpcore/exp_block.hpp"
#include "dpcore/fourier.hpp"

namespace dpcore {

using detail::AtomBlock;
using detail::Discrete;
using detail::discretise;
using detail::refuse;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Nanoseconds of a bucket when its law is tabulated and tilted, and of an entry in a transform and its power.
constexpr double kBucketWork = 45.0;
constexpr double kTransformWork = 55.0;

constexpr double kFinest = 0.99 * static_cast<double>(kMaxBuckets);  // what a finer grid may take

// Where a query is answered: tilt, step and length of the transform.
struct Plan {
    double tilt = 0.0, far = 0.0, near = 0.0, step = 0.0, mean = 0.0, sd = 0.0, value = 0.0;
    double distance = 0.0;
    double count = kInf;
    bool valid = false;
};

// A law, or copies of it that have been composed, and how often it occurs.
struct Part {
    const LossLaw* law = nullptr;
    const AtomBlock* block = nullptr;
    double copies = 1.0;
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
        if (t.block) continue;  // mostly dense: a finer grid follows where they are not
        const LawKind kind = t.law->kind();
        if (kind == LawKind::laplace) {
            if (t.law->parameters()[0] != largest) loose += t.copies;
        } else if (kind != LawKind::gaussian && kind != LawKind::subsampled_gaussian) {
            if (anchored || largest > 0.0 || !(t.law->lattice().step > 0.0))
                loose += t.copies;
            else {
                const double lattice = t.law->lattice().step;
                step = lattice / std::ceil(lattice / step);
                anchored = true;
            }
        }
    }
    if (loose > 0.0 && !thorough)
        step = std::min(step, std::max(3.0 * width / (loose * plan.tilt), 2.0 * plan.distance / 2e6));
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

// Where a sum left the range of double: no statement but the trivial one.
LogBounds nothing_known(const Composition& comp) {
    return add_infinite_mass(comp, {-kInf, comp.log_finite_mass + comp.log_mass_err});
}

// mass e^{tilt loss - top} over a list: one exponential a block and a table of e^{tilt step j}, or through the
// logarithm where the factors alone would leave the range of double.
class Powers {
public:
    static constexpr std::size_t kBlock = 64;
    Powers(double tilt, double top, const Buckets& buckets) : tilt_(tilt), top_(top), buckets_(buckets) {
        const double low = tilt * buckets.loss(0) - top;
        const double high = tilt * buckets.loss(buckets.upper.mass.size() - 1) - top;
        const double turn = tilt * buckets.step;
        plain_ = std::fabs(low) < 600.0 && std::fabs(high) < 600.0 && std::fabs(turn) * kBlock < 40.0;
        for (std::size_t j = 0; plain_ && j < kBlock; ++j) table_[j] = std::exp(turn * static_cast<double>(j));
    }
    void start(std::size_t from) {
        from_ = from;
        if (plain_) base_ = std::exp(tilt_ * buckets_.loss(from) - top_);
    }
    double times(double mass, std::size_t j) const {
        if (plain_) return mass * (base_ * table_[j]);
        return mass > 0.0 ? std::exp(tilt_ * buckets_.loss(from_ + j) - top_ + std::log(mass)) : 0.0;
    }

private:
    double tilt_, top_, base_ = 0.0;
    const Buckets& buckets_;
    std::size_t from_ = 0;
    bool plain_ = false;
    double table_[kBlock] = {};
};

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
    if (!std::isfinite(top)) return nothing_known(comp);
    // mass (1 - e^{eps - l}) for l > eps, relative to e^{top - c eps}: mass e^{c eps - top} times the payoff.
    const double scale = c * epsilon - top;
    if (!(scale < 650.0)) return nothing_known(comp);
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
    if (!(std::isfinite(high) && std::isfinite(base))) return nothing_known(comp);
    return add_infinite_mass(comp, {low > 0.0 ? base + std::log(low) - 4.0 * kRound * std::fabs(base) : -kInf,
                                    base + std::log(high) + 4.0 * kRound * std::fabs(base)});
}

std::size_t power_of_two(double count) {
    std::size_t n = 16;
    while (static_cast<double>(n) < count) n *= 2;
    return n;
}

LogBounds delta_on_grid(const Composition& comp, const std::vector<Part>& parts, double epsilon, const Plan& plan,
                        StopCheck stop) {
    const double c = plan.tilt;
    const std::size_t size = power_of_two(plan.count);
    refuse(static_cast<double>(size));

    // Tilted lists of unit mass.
    const auto period = static_cast<std::int64_t>(size);
    double log_scale = 0.0;  // log of the product of the tilted masses (upper lists)
    double tail = 0.0;       // relative mass of left-out tails
    double rel = 0.0;        // relative error of masses, summed over copies
    double offset = 0.0, offset_err = 0.0;
    const double c_right = plan.far;
    const double c_left = plan.near;
    double log_right = 0.0, log_left = 0.0;
    double list_top = 0.0, list_bottom = 0.0;  // extremes of the composed lists
    bool in_range = true;
    const auto prepare = [&](const Part& t) {
        stop();
        Discrete d = t.block ? discretise(*t.block, plan.step, c)
                             : discretise(*t.law, plan.step, c_left, c, c_right, true, stop);
        Buckets& b = d.buckets;
        const std::size_t n = b.upper.mass.size();
        stop.spend(kBucketWork * static_cast<double>(n));
        // Largest tilted mass for each of the three tilts: sums are taken relative to it.
        // Any scale will do as long as nothing overflows: a sample of the buckets is enough where they are many
        // and vary slowly.
        const bool dense =
            t.law && (t.law->kind() == LawKind::gaussian || t.law->kind() == LawKind::subsampled_gaussian);
        const std::size_t stride = dense && n > 4096 ? 16 : 1;
        const auto largest = [&](double tilt) {
            double top = -kInf;
            for (std::size_t i = 0; i < n; i += stride)
                if (b.upper.mass[i] > 0.0) top = std::max(top, tilt * b.loss(i) + std::log(b.upper.mass[i]));
            return top;
        };
        const double top = largest(c);
        const double top_right = largest(c_right);
        const double top_left = largest(c_left);
        double upper_sum = 0.0, right = 0.0, left = 0.0;
        Powers here(c, top, b), far(c_right, top_right, b), near(c_left, top_left, b);
        for (std::size_t from = 0; from < n; from += Powers::kBlock) {
            here.start(from);
            far.start(from);
            near.start(from);
            const std::size_t count = std::min(Powers::kBlock, n - from);
            double sum = 0.0, sum_right = 0.0, sum_left = 0.0;
            for (std::size_t j = 0; j < count; ++j) {
                double& mass = b.upper.mass[from + j];
                double& low = b.lower.mass[from + j];
                sum_right += far.times(mass, j);
                sum_left += near.times(mass, j);
                low = here.times(low, j);
                mass = here.times(mass, j);
                sum += mass;
            }
            upper_sum += sum;
            right += sum_right;
            left += sum_left;
        }
        // Masses that underflowed are below the smallest double each.
        const double ends = std::max(c * b.loss(n - 1), c * b.loss(0));
        const double lost = d.underflows ? std::log(static_cast<double>(n)) - 744.0 : -kInf;
        tail += t.copies * std::exp(lost + ends - top);
        right += std::exp(lost + std::max(c_right * b.loss(n - 1), c_right * b.loss(0)) - top_right);
        left += std::exp(lost + std::max(c_left * b.loss(n - 1), c_left * b.loss(0)) - top_left);
        in_range = in_range && upper_sum > 0.0 && upper_sum < kInf && right < kInf && left < kInf;
        const double log_upper_mass = std::log(upper_sum) + top - d.log_scale;
        log_scale += t.copies * log_upper_mass;
        log_right += t.copies * (std::log(right) + top_right - d.log_scale + d.tail);
        log_left += t.copies * (std::log(left) + top_left - d.log_scale + d.tail);
        tail += t.copies * d.tail;
        std::size_t last = n - 1;
        std::size_t lowest = 0;
        while (last > 0 && b.upper.mass[last] == 0.0 && b.lower.mass[last] == 0.0) --last;
        while (lowest < last && b.upper.mass[lowest] == 0.0 && b.lower.mass[lowest] == 0.0) ++lowest;
        list_top += t.copies * b.loss(last);
        list_bottom += t.copies * b.loss(lowest);
        const double size_c = std::fabs(c) * (std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1)) + std::fabs(top));
        rel += t.copies *
               (b.mass_err + 2.0 * kLibm * (std::fabs(top) + 800.0) + 4.0 * kRound * std::fabs(d.log_scale) +
                4.0 * kRound * size_c + (static_cast<double>(n) * 2.0 + 40.0) * kRound + 4.0 * kLibm +
                kRound * (1.0 + std::fabs(log_upper_mass)));
        offset += t.copies * b.offset;
        offset_err += t.copies * d.loss_err +
                      t.copies * 4.0 * kRound *
                          (std::fabs(b.offset) +
                           plan.step * (std::fabs(static_cast<double>(b.first)) + static_cast<double>(n)));
        const double unit_mass = 1.0 / upper_sum;
        for (std::size_t i = 0; i < n; ++i) {
            b.upper.mass[i] *= unit_mass;
            b.lower.mass[i] *= unit_mass;
        }
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
        if (!in_range) return nothing_known(comp);
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
    double spectrum = 0.0;
    if (few.valid) {
        // All tilted mass, 1, under a weight that drifts by at most drift e^{-cx}, x > -slip.
        upper = few.upper + 1.01 * drift_now();
        lower = few.lower - 1.01 * drift_now();
        noise = few.err;
    } else {
        const double unit = transform_error(size);
        std::vector<double> re(size), im(size), all_re, all_im, low_re, low_im;
        bool first_law = true;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const Part& t = parts[i];
            const TiltedList list = i < lists.size() ? std::move(lists[i]) : prepare(t);
            if (!in_range) return nothing_known(comp);
            std::fill(re.begin(), re.end(), 0.0);
            std::fill(im.begin(), im.end(), 0.0);
            // Folded into the transform's period.
            std::int64_t at = list.first % period;
            if (at < 0) at += period;
            for (std::size_t j = 0; j < list.upper.size(); ++j) {
                re[static_cast<std::size_t>(at)] += list.upper[j];
                im[static_cast<std::size_t>(at)] += list.lower[j];
                if (++at == period) at = 0;
            }
            if (single_release) break;
            double norm = 0.0;
            for (std::size_t j = 0; j < size; ++j) norm += re[j] * re[j] + im[j] * im[j];
            stop.spend(kTransformWork * static_cast<double>(size));
            fourier_forward(re, im, stop);
            transform_err += t.copies * unit * std::sqrt(norm) * 1.5;
            // Separate the two real sequences and take powers; frequencies that cannot matter are left out.
            if (first_law) {
                all_re.assign(size / 2 + 1, 1.0);
                all_im.assign(size / 2 + 1, 0.0);
                low_re = all_re;
                low_im = all_im;
                first_law = false;
            }
            const auto copies = static_cast<std::uint64_t>(t.copies);
            const double negligible = std::exp(-120.0 / t.copies) * (1.0 - kLibm);  // |x|^copies < e^-60
            for (std::size_t j = 0; j <= size / 2; ++j) {
                const std::size_t mirror = (size - j) & (size - 1);
                if (j % 65536 == 0) stop();
                Complex up = {0.5 * (re[j] + re[mirror]), 0.5 * (im[j] - im[mirror])};
                Complex low = {0.5 * (im[j] + im[mirror]), -0.5 * (re[j] - re[mirror])};
                const auto power = [&](Complex x, double& out_re, double& out_im) {
                    const double square = norm2(x);
                    if (out_re == 0.0 && out_im == 0.0) return;
                    if (square < negligible) {
                        out_re = out_im = 0.0;
                        return;
                    }
                    Complex result = {out_re, out_im};
                    for (std::uint64_t k = copies;;) {
                        if ((k & 1U) != 0U) result = result * x;
                        k >>= 1U;
                        if (k == 0) break;
                        x = x * x;
                    }
                    out_re = result.re;
                    out_im = result.im;
                };
                power(up, all_re[j], all_im[j]);
                power(low, low_re[j], low_im[j]);
            }
            // Squarings and products: 4 roundings each, the error of a power counts its exponent.
            transform_err += t.copies * 16.0 * kRound + std::sqrt(static_cast<double>(size)) * 1e-26;
        }
        if (!single_release) {
            for (std::size_t j = 0; j <= size / 2; ++j) {
                const std::size_t mirror = (size - j) & (size - 1);
                // upper + i lower, both real sequences
                re[j] = all_re[j] - low_im[j];
                im[j] = all_im[j] + low_re[j];
                re[mirror] = all_re[j] + low_im[j];
                im[mirror] = -all_im[j] + low_re[j];
            }
            for (std::size_t j = 0; j < size; ++j) spectrum += re[j] * re[j] + im[j] * im[j];
            stop.spend(kTransformWork * static_cast<double>(size));
            fourier_inverse(re, im, stop);
        }
        // || error of the composed tilted masses ||_2: the forward error (its L2 norm is divided by sqrt(size) on
        // the way back and multiplied by it on the way in), and the inverse transform's own.
        const double l2 =
            (transform_err + unit * std::sqrt(spectrum) / std::sqrt(static_cast<double>(size))) * 1.01;

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
    const double outside = (beyond * 1.01 + tail) * pay * (1.0 + 1e-6);
    const double base = log_scale - c * epsilon;
    const double slack = rel * 2.0 + 2.0 * c * slip + 8.0 * kLibm +
                         4.0 * kRound * (std::fabs(log_scale) + std::fabs(c * epsilon)) +
                         2.0 * static_cast<double>(size) * kRound;
    const double high = (upper + noise + outside) * (1.0 + slack);
    const double low = (lower - noise - outside) * (1.0 - slack);
    // First-order bounds hold while they are small.
    if (!(std::isfinite(high) && std::isfinite(low) && std::isfinite(base) && std::isfinite(spectrum)) ||
        !(slack < 0.1) || !(transform_err < 0.1))
        return nothing_known(comp);
    LogBounds finite = {low > 0.0 ? base + std::log(low) : -kInf, base + std::log(high)};
    return add_infinite_mass(comp, finite);
}

LogBounds answer(const Composition& comp, const std::vector<Part>& parts, double epsilon, const Plan& plan,
                 StopCheck stop) {
    if (parts.size() == 1 && parts[0].copies == 1.0 && parts[0].law) {
        const LawKind kind = parts[0].law->kind();
        if (kind == LawKind::gaussian || kind == LawKind::subsampled_gaussian)
            return single_delta(comp, *parts[0].law, epsilon, plan.step, plan.tilt, stop);
    }
    return delta_on_grid(comp, parts, epsilon, plan, stop);
}

constexpr int kFinerGrids = 6;

// Copies composed before they are put on a grid, which is made finer until the width is reached.
LogBounds thorough_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    Plan plan = place_plan(comp, epsilon, stop);
    if (!plan.valid) refuse(kInf);
    std::vector<std::vector<AtomBlock>> blocks;
    std::vector<Part> parts;
    // Gaussians are one Gaussian.
    LawPtr gaussian;
    if (query.step == 0.0) {
        double rho = 0.0, rho_err = 0.0;
        for (const Term& t : comp.terms)
            if (t.law->kind() == LawKind::gaussian) {
                const std::vector<double> p = t.law->parameters();
                rho += t.copies * p[0];
                rho_err = std::max(rho_err, p[1]);
            }
        if (rho > 0.0 && rho < kInf) {
            gaussian = gaussian_law_of_rho(rho, rho_err + (2.0 + static_cast<double>(comp.terms.size())) * kRound);
            parts.push_back({&*gaussian, nullptr, 1.0});
        }
    }
    for (const Term& t : comp.terms) {
        if (gaussian && t.law->kind() == LawKind::gaussian) continue;
        blocks.push_back(detail::atom_blocks(*t.law, t.copies, {plan.near, plan.tilt, plan.far}, stop));
        for (const AtomBlock& b : blocks.back()) parts.push_back({nullptr, &b, b.copies});
        if (blocks.back().empty()) parts.push_back({&*t.law, nullptr, t.copies});
    }
    double width = query.width;
    set_step(plan, fitting_step(plan, parts, width, true));
    // A quarter of the width is used where nothing lies between the points: twice the step will do.
    if (plan.count > kFinest && plan.count < 1.9 * kFinest) set_step(plan, 2.0 * plan.distance / (kFinest - 16.0));
    refuse(plan.count);
    LogBounds out = answer(comp, parts, epsilon, plan, stop);
    // Finer grids while that helps: the width falls like the square of the step where laws are dense, like the
    // step where atoms lie between its points. A law that is wider than the window sets a limit of its own.
    double most = kFinest;
    for (int i = 0; i < kFinerGrids && plan.count < 0.9 * most; ++i) {
        const double found = std::expm1(out.log_upper - out.log_lower);
        if (found <= query.width) break;
        const double ratio = 0.6 * query.width / found;
        const double finer = std::max(i == 0 ? std::sqrt(ratio) : ratio, 1.01 * plan.count / most);
        const Plan before = plan;
        width = std::min(width, query.width) * finer * finer;
        set_step(plan, fitting_step(plan, parts, width, true));
        if (!(plan.step < 0.97 * before.step)) set_step(plan, before.step * finer);
        if (!(plan.count <= most)) set_step(plan, 2.0 * plan.distance / (most - 16.0));
        try {
            const LogBounds next = answer(comp, parts, epsilon, plan, stop);
            out = {std::max(out.log_lower, next.log_lower), std::min(out.log_upper, next.log_upper)};
        } catch (const std::length_error&) {
            most = std::sqrt(before.count * plan.count);
            width /= finer * finer;
            plan = before;
        }
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
    if (thorough && !on_lattice) return thorough_delta(comp, epsilon, query, stop);
    const Plan plan = make_plan(comp, epsilon, query, stop);
    refuse(plan.count);
    LogBounds out = answer(comp, laws_of(comp), epsilon, plan, stop);
    if (!thorough || std::expm1(out.log_upper - out.log_lower) <= query.width) return out;
    try {
        const LogBounds next = thorough_delta(comp, epsilon, query, stop);
        out = {std::max(out.log_lower, next.log_lower), std::min(out.log_upper, next.log_upper)};
    } catch (const std::length_error&) {  // what is known stands
    }
    return out;
}

}  // namespace dpcore
