// delta of a composition by buckets: declared in buckets.hpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "large_steps.hpp"
#include "large_steps_law.hpp"
#include "refined_buckets.hpp"
#include "sampled_ends.hpp"
#include "single_delta.hpp"
#include "subsampled_step.hpp"

namespace dpcore {

using detail::Answer;
using detail::Discrete;
using detail::fitting_step;
using detail::intersected;
using detail::kFinest;
using detail::Part;
using detail::place_plan;
using detail::Plan;
using detail::Refined;
using detail::refuse;
using detail::set_step;
using detail::SubsampledStep;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Part> laws_of(const Composition& comp) {
    std::vector<Part> parts;
    for (const Term& t : comp.terms) parts.push_back({&*t.law, nullptr, t.copies});
    return parts;
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

// All of delta, from what is known of its finite part.
LogBounds with_infinite(const Composition& comp, LogBounds finite, double epsilon, double c, StopCheck stop) {
    const double all = comp.log_finite_mass + comp.log_mass_err;
    if (!(finite.log_upper < all)) finite.log_upper = all;
    const double chernoff = log_chernoff_at(comp, epsilon, c, stop);
    if (chernoff < finite.log_upper) finite.log_upper = chernoff;
    return add_infinite_mass(comp, finite);
}

// log(e^a + e^b), to a few roundings.
double log_sum(double a, double b) {
    const double top = std::max(a, b);
    return std::isinf(top) ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}

// The one kind of sampled step that has two humps under the tilt c, removed records; none where there are several.
const Term* two_humps(const Composition& comp, double c) {
    const Term* out = nullptr;
    for (const Term& t : comp.terms) {
        if (t.law->kind() != LawKind::subsampled_gaussian) continue;
        const std::vector<double> p = t.law->parameters();            // sigma, rate, whether a record is removed
        if (p[2] == 0.0 || !(1.0 + c > 4.0 * p[0] * p[0])) continue;  // log-concave
        if (out != nullptr) return nullptr;
        out = &t;
    }
    return out;
}

// Compositions whose tilted law has several humps, with epsilon in a valley between them: by the number of steps
// with outputs beyond a cut (large_steps.hpp), each of which has a tilt of its own. The finite part.
class ByLargeSteps {
public:
    ByLargeSteps(const Composition& comp, const Term& sampled, double epsilon, StopCheck stop)
        : sampled_(sampled), epsilon_(epsilon), stop_(stop), places_(comp, sampled, epsilon, stop) {
        for (const Term& t : comp.terms)
            if (&t != &sampled) others_.push_back(t);
    }

    LogBounds bounds(double width) {
        constexpr double kMostPieces = 32.0;
        constexpr std::ptrdiff_t kWorth = 24;  // pieces that are worth their time
        const double negligible = std::log(width) - 5.0;
        struct Piece {
            Plan plan;
            double estimate;
            bool nothing = false;
        };
        std::vector<Piece> pieces;
        double best = -kInf;
        for (double m = 0.0; m <= std::min(kMostPieces, sampled_.copies); m += 1.0) {
            stop_();
            if (m == 0.0 && nothing_above()) {
                pieces.push_back({{}, -kInf, true});
                continue;
            }
            const Composition about = places_.piece(static_cast<int>(m));
            pieces.push_back({place_plan(about, epsilon_, stop_), log_delta_estimate(about, epsilon_, stop_)});
            const Piece& p = pieces.back();
            if (std::isnan(p.estimate)) return {-kInf, kInf};
            best = std::max(best, p.estimate);
            // What is next to nothing need not be placed.
            if (!p.plan.valid && !(p.estimate < best + negligible)) return {-kInf, kInf};
            if (m > 0.0 && p.estimate < best + negligible && p.estimate < pieces[pieces.size() - 2].estimate)
                break;
        }
        const auto matter = [&](const Piece& p) { return !(p.estimate < best + negligible); };
        if (std::count_if(pieces.begin(), pieces.end(), matter) > kWorth) return {-kInf, kInf};
        LogBounds sum = {-kInf, -kInf};
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const int m = static_cast<int>(i);
            if (pieces[i].nothing) continue;
            const Plan& plan = pieces[i].plan;
            const double enough = best + negligible + 2.0;
            // The last one stands for all that follow.
            const bool last = i + 1 == pieces.size() && m < sampled_.copies;
            if (last || !matter(pieces[i])) {
                double most = kInf;
                for (const double c :
                     plan.valid ? std::vector<double>{plan.tilt} : std::vector<double>{0.1, 1.0, 10.0})
                    most = std::min(most, moment_bound(m, c, last));
                if (last || most < enough) {
                    sum.log_upper = log_sum(sum.log_upper, most);
                    continue;
                }
            }
            if (!plan.valid) return {-kInf, kInf};
            Refined piece(plan, epsilon_, stop_);
            piece.add(others_);
            if (m < sampled_.copies) piece.add(*sampled_.law, sampled_.copies - m, {-kInf, places_.cut()});
            if (m > 0) piece.add(*sampled_.law, m, {places_.cut(), kInf});
            const LogBounds found = piece.bounds(0.7 * width).bounds;
            const Certified choose = detail::certified_choose(sampled_.copies, m);
            const double slip = choose.err + 8.0 * kLibm * (1.0 + std::fabs(choose.value.re + found.log_upper));
            sum = {log_sum(sum.log_lower, found.log_lower + choose.value.re - slip),
                   log_sum(sum.log_upper, found.log_upper + choose.value.re + slip)};
        }
        const double slip = 8.0 * kLibm * (1.0 + std::fabs(sum.log_upper)) * static_cast<double>(pieces.size());
        return {sum.log_lower - slip, sum.log_upper + slip};
    }

private:
    // Whether no sum without a large step is above epsilon.
    bool nothing_above() const {
        const std::vector<double> p = sampled_.law->parameters();
        const SubsampledStep step = {p[0], p[1], true};
        const double each = step.lambda(places_.cut()) + step.largest_lambda_err(places_.cut(), places_.cut());
        double most = sampled_.copies * each, size = std::fabs(most);
        for (const Term& t : others_) {
            most += t.copies * t.law->max_loss();
            size += t.copies * std::fabs(t.law->max_loss());
        }
        return most + (2.0 + 2.0 * static_cast<double>(others_.size())) * kRound * size <= epsilon_;
    }

    // log of an upper bound of the moment with exponent c of some outputs.
    double log_moment(double c, const detail::Outputs& outputs) {
        Discrete list = detail::discretise(*sampled_.law, 0.1 / ((1.0 + c) * std::sqrt(sampled_.copies)), c, c, c,
                                           true, stop_, outputs);
        const double log_mass = detail::tilt(list, {c, c, c}).at;
        return log_mass + list.tail + list.buckets.mass_err + c * list.loss_err;
    }

    // log of an upper bound of the piece from one moment: C(k, m) A^{k-m} B^m and that of the others. This many or
    // more: at most the same with all outputs for A.
    double moment_bound(int m, double c, bool or_more) {
        const Certified choose = detail::certified_choose(sampled_.copies, m);
        const double large = m > 0 || or_more ? log_moment(c, {places_.cut(), kInf}) : -kInf;
        double small = log_moment(c, {-kInf, places_.cut()});
        if (or_more) small = log_sum(small, large) + 4.0 * kLibm;
        double out = c * std::log(c) - (1.0 + c) * std::log1p(c) - c * epsilon_;
        if (!others_.empty()) out = log_chernoff_at(Composition::of(others_), epsilon_, c, stop_);
        out += choose.value.re + choose.err + (sampled_.copies - m) * small + (m > 0 ? m * large : 0.0);
        return out + 16.0 * kLibm *
                         (1.0 + std::fabs(c * epsilon_) + std::fabs(out) + sampled_.copies * std::fabs(small));
    }

    const Term& sampled_;
    double epsilon_;
    StopCheck stop_;
    detail::LargeStepsPlaces places_;
    std::vector<Term> others_;
};

// log of delta, about, by the first numbers of large steps; nothing where these are many.
std::optional<double> few_large_steps(const Composition& comp, const Term& sampled, double epsilon,
                                      StopCheck stop) {
    detail::LargeStepsPlaces places(comp, sampled, epsilon, stop);
    double sum = -kInf, last = -kInf, before = -kInf;
    for (int m = 0; m < 4; ++m) {
        before = last;
        last = log_delta_estimate(places.piece(m), epsilon, stop);
        if (!std::isnan(last)) sum = log_sum(sum, last);
    }
    if (!(last < before)) return {};
    return sum;
}

// What is far below what the tilt of the whole suggests: the law, tilted so that its mean is about epsilon, has
// next to nothing there.
constexpr double kFarBelow = 5.0;  // of the logarithm

// Cuts for a width, from what delta is when they have been made: far humps of the tilted law make estimates
// without them too large. log_infinite: what infinite losses pay.
detail::SampledEnds ends_for(const Composition& comp, double epsilon, double c, double log_infinite, double width,
                             StopCheck stop) {
    constexpr int kRounds = 5;
    constexpr double kSame = 1.0;  // of the logarithm
    // Of the width that is for what lies between the bounds of what the cuts leave out.
    const double share = std::log(0.02 * width);
    double log_delta = log_delta_estimate(comp, epsilon, stop);
    if (!(log_delta < 0.0)) log_delta = 0.0;
    log_delta = log_sum(log_delta, log_infinite);
    detail::SampledEnds out;
    for (int i = 0; i < kRounds; ++i) {
        out = detail::sampled_ends(comp, epsilon, c, log_delta + share, stop);
        if (!out.valid) break;
        const double rest = log_delta_estimate(out.outline, out.epsilon, stop) + out.outline_mass;
        const double next = log_sum(log_sum(out.beyond.log_lower, log_infinite), std::isnan(rest) ? -kInf : rest);
        if (!(next < log_delta - kSame && next > -kInf)) break;
        log_delta = next;
    }
    return out;
}

// Sampled steps less the outputs that decide by themselves.
LogBounds without_ends(const Composition& comp, const detail::SampledEnds& ends, double width, StopCheck stop) {
    const Plan plan = place_plan(ends.outline, ends.epsilon, stop);
    // Nothing of it may be above epsilon.
    if (ends.max_loss <= ends.epsilon) return add_infinite_mass(comp, ends.beyond);
    if (!plan.valid) return {-kInf, kInf};
    Refined rest(plan, ends.epsilon, stop);
    std::vector<Term> whole;
    for (std::size_t i = 0; i < comp.terms.size(); ++i) {
        const Term& t = comp.terms[i];
        if (ends.outputs[i].all())
            whole.push_back(t);
        else
            rest.add(*t.law, t.copies, ends.outputs[i]);
    }
    rest.add(whole);
    // Beside what the others pay it may be little, and need not be known as well.
    constexpr double kWidest = 0.1;
    const double estimate = log_delta_estimate(ends.outline, ends.epsilon, stop) + ends.outline_mass;
    const double known = log_sum(ends.beyond.log_lower, std::log(comp.infinite_mass_lower()));
    const double share = known - estimate;
    if (share > 0.0) width = std::max(width, std::min(kWidest, 0.3 * width * std::exp(std::min(share, 100.0))));
    try {
        const LogBounds found = rest.bounds(width).bounds;
        const LogBounds sum = {log_sum(found.log_lower, ends.beyond.log_lower),
                               log_sum(found.log_upper, ends.beyond.log_upper)};
        const double slip = 8.0 * kLibm * (1.0 + std::fabs(sum.log_upper));
        return add_infinite_mass(comp, {sum.log_lower - slip, sum.log_upper + slip});
    } catch (const std::length_error&) {
        return {-kInf, kInf};
    }
}

// sampled: the one kind of step with two humps, or none; valley: whether epsilon lies between them.
LogBounds whole_delta(const Composition& comp, const Plan& plan, const Term* sampled, bool valley, double epsilon,
                      const BucketQuery& query, StopCheck stop) {
    // No saddle point, or losses next to the range of double: what holds without a grid.
    if (!plan.valid) return trivial_delta(comp, epsilon);
    LogBounds out = {-kInf, kInf};
    const auto by_pieces = [&] {
        try {
            out = intersected(out, ByLargeSteps(comp, *sampled, epsilon, stop).bounds(query.width));
        } catch (const std::length_error&) {  // what is known stands
        }
    };
    const auto narrow = [&] { return std::expm1(out.log_upper - out.log_lower) <= query.width; };
    if (valley) by_pieces();
    if (!narrow()) {
        Refined whole(plan, epsilon, stop);
        whole.add(comp.terms);
        const Answer found = whole.bounds(query.width);
        out = intersected(out, found.bounds);
        if (sampled != nullptr && !valley && !narrow() && found.floor > 0.7 * query.width) by_pieces();
    }
    return with_infinite(comp, out, epsilon, plan.tilt, stop);
}

// Whether the outputs that are cut off are what makes a grid for all of them too long, or so much under the tilt
// of all that what is left is next to its rounding. pieces: delta, about, by the number of large steps, where that
// is known.
bool ends_first(const Composition& comp, const Plan& plan, const detail::SampledEnds& ends, double epsilon,
                double log_infinite, std::optional<double> pieces, StopCheck stop) {
    if (!ends.matter(plan.tilt)) return false;
    constexpr double kShorter = 0.5;
    const double rest = log_delta_estimate(ends.outline, ends.epsilon, stop) + ends.outline_mass;
    const double about = log_sum(log_sum(ends.beyond.log_lower, log_infinite), std::isnan(rest) ? -kInf : rest);
    // A valley that the cuts leave.
    if (pieces && about > log_sum(*pieces, log_infinite) + kFarBelow) return false;
    const Placement place = spectral_placement(ends.outline, ends.epsilon, stop);
    if (place.valid && place.distance < kShorter * plan.distance) return true;
    return about < log_delta_estimate(comp, epsilon, stop) - kFarBelow;
}

LogBounds thorough_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.terms.size() == 1 && comp.terms[0].copies == 1.0 && detail::has_single_delta(*comp.terms[0].law)) {
        const LossLaw& law = *comp.terms[0].law;
        const LogBounds found = detail::single_delta_within(law, epsilon, query.width, stop);
        return intersected(trivial_delta(comp, epsilon), add_infinite_mass(comp, found));
    }
    const Plan plan = place_plan(comp, epsilon, stop);
    const auto narrow = [&](const LogBounds& b) { return std::expm1(b.log_upper - b.log_lower) <= query.width; };
    const double log_infinite = std::log(comp.infinite_mass_lower());
    const bool sampled = detail::expected_samples(comp) > 0.0;
    detail::SampledEnds ends;
    if (sampled) ends = ends_for(comp, epsilon, plan.valid ? plan.tilt : kInf, log_infinite, query.width, stop);
    LogBounds known = trivial_delta(comp, epsilon);
    const auto try_ends = [&] {
        if (ends.valid) known = intersected(known, without_ends(comp, ends, query.width, stop));
    };
    const Term* two = plan.valid ? two_humps(comp, plan.tilt) : nullptr;
    std::optional<double> pieces;
    if (two != nullptr) pieces = few_large_steps(comp, *two, epsilon, stop);
    const bool valley = pieces && *pieces < log_delta_estimate(comp, epsilon, stop) - kFarBelow;
    const bool first =
        ends.valid && (!plan.valid || ends_first(comp, plan, ends, epsilon, log_infinite, pieces, stop));
    if (first) try_ends();
    if (narrow(known)) return known;
    try {
        known = intersected(known, whole_delta(comp, plan, two, valley, epsilon, query, stop));
    } catch (const std::length_error&) {
        if (!first) try_ends();
        if (!ends.valid || !(known.log_lower > -kInf)) throw;
        return known;
    }
    if (!first && !narrow(known)) try_ends();
    return known;
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
    LogBounds out = with_infinite(comp, detail::grid_delta(laws_of(comp), epsilon, plan, stop).bounds, epsilon,
                                  plan.tilt, stop);
    if (!thorough || std::expm1(out.log_upper - out.log_lower) <= query.width) return out;
    try {
        out = intersected(out, thorough_delta(comp, epsilon, query, stop));
    } catch (const std::length_error&) {  // what is known stands
    }
    return out;
}

}  // namespace dpcore
