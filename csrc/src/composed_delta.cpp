#include "composed_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "closed_forms.hpp"
#include "dpcore/buckets.hpp"
#include "dpcore/enumeration.hpp"
#include "few_sums.hpp"
#include "laplace_mixture.hpp"
#include "large_steps.hpp"
#include "mirrored.hpp"
#include "near_lattice.hpp"
#include "smoothed.hpp"
#include "step_scales.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Buckets that auto is willing to use when the contour decays too slowly.
constexpr double kAutoBuckets = 4194304.0;
// And where the work for those is too much: a tenth as many, for a hundred times the width.
constexpr double kCoarser = 100.0;
// log delta from which on few sampled steps are sorted before one contour is tried.
constexpr double kSmall = -3.0;
// Epsilons below so many times the expected number of sampled steps, and e^eps - 1 below so many times an
// estimate of delta, are about as small as delta, or smaller.
constexpr double kNextToZero = 100.0;
// log delta below which little is spent on sorting.
constexpr double kFarBelow = -1000.0;

LogBounds with_infinite(const Composition& comp, const Interval& finite) {
    const double low = (finite.lower + comp.infinite_mass_lower()) * (1.0 - kLibm);
    const double high = (finite.upper + comp.infinite_mass_upper()) * (1.0 + kLibm);
    const auto widen = [](double l, double sign) {
        return std::isfinite(l) ? l + sign * 2.0 * kLibm * (1.0 + std::fabs(l)) : l;
    };
    return {widen(std::log(low), -1.0), widen(std::log(high), 1.0)};
}

// The finite sum of a few Laplace releases is part of the spectral engine. It goes first where contours are slow.
std::optional<LogBounds> few_laplace_delta(const Composition& comp, double epsilon, StopCheck stop) {
    if (!has_laplace_sum(comp) || !laplace_mixture_first(comp, epsilon)) return std::nullopt;
    const auto sum = laplace_mixture_delta(comp, epsilon, stop);
    const bool narrow = sum && (sum->log_upper == -kInf || sum->log_upper - sum->log_lower <= kContentWidth);
    return narrow ? sum : std::nullopt;
}

// delta of what few sums are set apart from, by contours and finite sums; epsilon is negative for pairs of
// distributions only.
LogBounds rest_by_contour(const Composition& comp, double epsilon, double width, StopCheck stop) {
    if (epsilon >= 0.0 && epsilon < comp.max_loss) {
        if (single(comp, LawKind::laplace)) return one_laplace(comp.terms[0].law->parameters()[0], epsilon);
        if (const auto sum = few_laplace_delta(comp, epsilon, stop)) return *sum;
    }
    const LogBounds out = spectral_delta(comp, epsilon, stop);
    if (out.log_upper - out.log_lower <= width || out.log_upper == -kInf) return out;
    if (epsilon < 0.0 || !has_laplace_sum(comp)) return out;
    const auto sum = laplace_mixture_delta(comp, epsilon, stop);
    return sum ? intersect(out, *sum) : out;
}
// And by smoothing.
LogBounds rest_delta(const Composition& comp, double epsilon, double width, StopCheck stop) {
    const LogBounds out = rest_by_contour(comp, epsilon, width, stop);
    if (out.log_upper - out.log_lower <= width || out.log_upper == -kInf || epsilon < 0.0) return out;
    const auto smooth = smoothed_delta(comp, epsilon, width, Effort::all, stop);
    return smooth ? intersect(out, *smooth) : out;
}
}  // namespace

bool single(const Composition& comp, LawKind kind) {
    return comp.terms.size() == 1 && comp.terms[0].copies == 1.0 && comp.terms[0].law->kind() == kind;
}

double attainable_width(const Composition& comp, double content) {
    double copies = 0.0;
    for (const Term& t : comp.terms) copies += t.copies;
    return std::max(content, kRound * copies);
}

double enumeration_size(const Composition& comp) {
    return comp.atomic && !comp.terms.empty() && comp.log_finite_mass > -kInf ? Enumeration::size(comp) : kInf;
}

LogBounds contour_delta(const Composition& comp, double epsilon, double content, StopCheck stop) {
    const double samples = expected_samples(comp);
    LogBounds out = {-kInf, kInf};
    const auto narrow = [&] { return out.log_upper - out.log_lower <= content; };
    const auto one = [&](StopCheck own) { out = intersect(out, spectral_delta(comp, epsilon, own)); };
    if (samples == 0.0) {
        within(stop, 0.5, one);
        return out;
    }
    const auto sorted = [&](StopCheck own) {
        out = intersect(out, large_steps_delta(comp, epsilon, content, own));
    };
    // A law of several humps is for the pieces, one of a single hump for one contour. Where delta is not small, or
    // many steps are sampled, humps run into each other.
    const double about = log_delta_estimate(comp, epsilon, stop);
    // Few removals next to 0 have losses of several scales, their mirror images have not. The estimate is mostly
    // above delta: where e^eps - 1 is far above it too, little would be left of a difference.
    const auto any_removal = [](const Term& t) {
        return t.law->kind() == LawKind::subsampled_gaussian && !std::isfinite(t.law->max_loss());
    };
    const bool image = epsilon < kNextToZero * samples && std::log(std::expm1(epsilon) / kNextToZero) < about &&
                       std::any_of(comp.terms.begin(), comp.terms.end(), any_removal);
    const auto mirror = [&] {
        if (!image || narrow()) return;
        within(stop, 0.4,
               [&](StopCheck own) { out = intersect(out, mirrored_delta(comp, epsilon, content, own)); });
    };
    const bool few = samples < kFewSamples;
    if (few) mirror();
    if (narrow()) return out;
    const bool later =
        few && !std::isfinite(comp.max_loss) && about < kSmall && several_humps(comp, epsilon, stop);
    const bool atoms = beside_atoms(comp);
    const auto smooth = [&] {
        if (narrow() || about < kFarBelow) return;
        within(stop, 0.5, [&](StopCheck own) {
            if (const auto bounds =
                    smoothed_delta(comp, epsilon, kSmoothedShare * content, Effort::if_enough, own))
                out = intersect(out, *bounds);
        });
    };
    if (later && !atoms) within(stop, about < kFarBelow ? 0.1 : 0.7, sorted);
    // Beside atoms hardly any contour of few steps ends by itself; nor does one of few additions, whose losses
    // crowd at the largest, nor of steps with little noise, of which those that are not sampled are next to an
    // atom.
    const bool first = atoms && few && !ends_by_itself(comp);
    if (first) smooth();
    if (!narrow() && !first) within(stop, atoms ? 0.3 : 0.5, one);
    if (!few) mirror();
    if (!first && (atoms || !few || std::isfinite(comp.max_loss))) smooth();
    if (!narrow() && !(later && !atoms) && !(about < kFarBelow)) within(stop, 0.9, sorted);
    if (!narrow() && first) within(stop, 0.5, one);
    return out;
}

LogBounds log_delta_of(const Composition& comp, double epsilon, Method method, StopCheck stop) {
    const Engine engine = method.engine;
    if (comp.terms.empty() || comp.log_finite_mass == -kInf || epsilon >= comp.max_loss)
        return spectral_delta(comp, epsilon, stop);  // nothing finite lies above epsilon
    if (engine == Engine::buckets) {
        // All finite losses are one: no step is right for a grid of it, and none is needed.
        if (enumeration_size(comp) == 1.0) return with_infinite(comp, Enumeration(comp, stop).delta(epsilon));
        BucketQuery query;
        query.step = method.step;
        query.thorough = true;
        return bucket_delta(comp, epsilon, query, stop);
    }
    if (engine == Engine::automatic) {
        if (single(comp, LawKind::gaussian)) return all_gaussian(comp, epsilon);
        if (single(comp, LawKind::laplace)) return one_laplace(comp.terms[0].law->parameters()[0], epsilon);
        if (single(comp, LawKind::subsampled_gaussian)) {
            const std::vector<double> p = comp.terms[0].law->parameters();
            return one_subsampled(p[0], p[1], p[2] != 0.0, epsilon);
        }
    }
    method.content = attainable_width(comp, method.content);
    LogBounds out = trivial_delta(comp, epsilon);
    const auto content = [&](double width) {
        return out.log_upper - out.log_lower <= width || out.log_upper == -kInf;
    };
    // An engine with its share of the work that is left; what it finds is in `out` in any case.
    const auto attempt = [&](double share, auto&& engine_bounds) {
        return within(stop, share, [&](StopCheck own) { out = intersect(out, engine_bounds(own)); });
    };
    const auto kept = [&](const std::optional<LogBounds>& bounds) { return bounds ? *bounds : out; };
    const auto enumeration = [&](StopCheck own) {
        return with_infinite(comp, Enumeration(comp, own).delta(epsilon));
    };
    if (engine == Engine::automatic && enumeration_size(comp) <= 64.0) {
        attempt(0.5, enumeration);
        // Next to an atom the rounding of its loss is everything; a contour on a lattice knows better, and so do
        // sums of twice the digits.
        if (!content(kContentWidth))
            attempt(0.5, [&](StopCheck own) { return spectral_delta(comp, epsilon, own); });
        if (!content(kContentWidth))
            attempt(1.0, [&](StopCheck own) { return kept(listed_sums_delta(comp, epsilon, own)); });
        return out;
    }
    bool found = false;
    within(stop, 0.4, [&](StopCheck own) {
        if (const auto narrow = few_laplace_delta(comp, epsilon, own)) {
            out = *narrow;
            found = true;
        }
    });
    if (found) return out;
    const auto near = near_lattice(comp);
    const auto near_delta = [&](StopCheck own) { return near_lattice_delta(*near, epsilon, own); };
    if (near && near->points <= kFewPoints) attempt(0.5, near_delta);
    if (content(method.content)) return out;
    // Subsampled steps alone have nothing but these and buckets.
    attempt(expected_samples(comp) > 0.0 ? (beside_atoms(comp) ? 0.75 : 0.95) : 0.5,
            [&](StopCheck own) { return contour_delta(comp, epsilon, method.content, own); });
    if (content(method.content)) return out;
    if (!(out.log_lower > -kInf))
        attempt(0.2, [&](StopCheck own) {
            const double most = log_chernoff_above(comp, epsilon, own);
            return add_infinite_mass(comp, {-kInf, most});
        });
    if (has_laplace_sum(comp))
        attempt(0.5, [&](StopCheck own) {
            const auto sum = laplace_mixture_delta(comp, epsilon, own);
            return sum ? *sum : out;
        });
    if (content(method.content)) return out;
    if (engine == Engine::automatic && enumeration_size(comp) <= kMaxEnumeration) {
        attempt(0.5, enumeration);
        if (content(method.content)) return out;
    }
    // Sums of losses: all of them, or some and contours for the rest; then a little noise; then some sums and
    // that.
    const double aim = kSmoothedShare * method.content;
    attempt(0.3, [&](StopCheck own) { return kept(listed_sums_delta(comp, epsilon, own)); });
    if (content(method.content)) return out;
    attempt(0.3,
            [&](StopCheck own) { return kept(few_sums_delta(comp, epsilon, aim, rest_by_contour, true, own)); });
    if (content(method.content)) return out;
    // Sampled steps alone, far below everything that is asked for, have had enough.
    if (!(expected_samples(comp) > 0.0) || beside_atoms(comp) || out.log_upper > kFarBelow)
        attempt(0.8, [&](StopCheck own) { return kept(smoothed_delta(comp, epsilon, aim, Effort::all, own)); });
    if (!content(method.content))
        attempt(0.7,
                [&](StopCheck own) { return kept(few_sums_delta(comp, epsilon, aim, rest_delta, false, own)); });
    if (near && near->points > kFewPoints && !content(method.content)) attempt(0.5, near_delta);
    if (engine == Engine::spectral) return out;
    BucketQuery query;
    if (method.content > 1e-6) query.width *= kCoarser;  // an epsilon far from the one sought
    const auto buckets = [&](StopCheck own) {
        if (bucket_count(comp, epsilon, query, own) > kAutoBuckets) return out;
        try {
            return bucket_delta(comp, epsilon, query, own);
        } catch (const std::length_error&) {  // one law alone is too wide for a grid: what is known stands
            return out;
        }
    };
    for (int i = 0; i < 2 && !content(1e-5); ++i, query.width *= kCoarser)
        if (attempt(0.7, buckets)) break;
    return out;
}

}  // namespace dpcore::detail
