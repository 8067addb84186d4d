#include "step_scales.hpp"

#include <algorithm>
#include <vector>

#include "dpcore/spectral.hpp"
#include "large_steps_law.hpp"

namespace dpcore::detail {

namespace {

// Losses of additions with so much noise have one scale.
constexpr double kMuchNoise = 1.0;
// log delta above which humps run into each other.
constexpr double kLarge = -3.0;

}  // namespace

SubsampledStep step_of(const Term& t) {
    const std::vector<double> p = t.law->parameters();
    return {p[0], p[1], p[2] != 0.0};
}

double expected_samples(const Composition& composition) {
    double sum = 0.0;
    for (const Term& t : composition.terms)
        if (t.law->kind() == LawKind::subsampled_gaussian) sum += t.copies * t.law->parameters()[1];
    return sum;
}

bool much_noise_added(const Composition& comp) {
    return std::all_of(comp.terms.begin(), comp.terms.end(), [](const Term& t) {
        return t.law->kind() != LawKind::subsampled_gaussian ||
               (!step_of(t).removal && step_of(t).sigma >= kMuchNoise);
    });
}

bool beside_atoms(const Composition& comp) {
    return std::any_of(comp.terms.begin(), comp.terms.end(), [](const Term& t) {
        return t.law->kind() != LawKind::subsampled_gaussian && t.law->kind() != LawKind::gaussian &&
               !large_steps_factors(*t.law);
    });
}

bool ends_by_itself(const Composition& comp) {
    constexpr double kMany = 64.0;
    return std::any_of(comp.terms.begin(), comp.terms.end(), [](const Term& t) {
        return t.law->kind() == LawKind::gaussian ||
               (t.law->kind() != LawKind::subsampled_gaussian && t.copies >= kMany);
    });
}

bool several_humps(const Composition& comp, double epsilon, StopCheck stop) {
    const Placement place = spectral_placement(comp, epsilon, stop);
    if (!place.valid) return true;
    for (const Term& t : comp.terms) {
        if (t.law->kind() != LawKind::subsampled_gaussian) continue;
        // (log density)'' = (-1 + p r(1 - r)/s^2)/s^2
        const SubsampledStep s = step_of(t);
        if (s.power(place.c) > 4.0 * s.sigma * s.sigma) return true;
    }
    return false;
}

bool one_scale(const Composition& comp, double epsilon, StopCheck stop) {
    if (expected_samples(comp) >= kFewSteps || much_noise_added(comp)) return true;
    return epsilon >= 0.0 &&
           (log_delta_estimate(comp, epsilon, stop) > kLarge || !several_humps(comp, epsilon, stop));
}

const Term* least_noise(const Composition& comp) {
    const Term* least = nullptr;
    int kinds = 0;
    for (const Term& t : comp.terms) {
        if (t.law->kind() != LawKind::subsampled_gaussian) continue;
        ++kinds;
        if (least == nullptr || step_of(t).sigma < step_of(*least).sigma) least = &t;
    }
    return kinds > 1 ? least : nullptr;
}

}  // namespace dpcore::detail
