#include "large_steps.hpp"

#include <algorithm>
#include <limits>

#include "beside_laplace.hpp"
#include "divided_steps.hpp"
#include "smoothed.hpp"
#include "step_cuts.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Work of pieces beside whatever there is, before anything is listed.
constexpr double kWithoutLists = 0.7;
constexpr double kAlone = 0.95;  // of steps alone, which nothing can be listed of

LogBounds finite_bounds(const Composition& comp, Quantity quantity, double at, double content, StopCheck stop) {
    LogBounds plain = {-kInf, kInf};
    const bool atoms = beside_atoms(comp);
    const auto divide = [&](const Term* only, bool smoothed) {
        within(stop, atoms ? kWithoutLists : kAlone, [&](StopCheck part) {
            DividedSteps divided(comp, at, part, only);
            divided.set_smoothed(smoothed);
            const LogBounds found = divided_bounds(divided, quantity, at, at, content, -kInf, part);
            plain = {std::max(plain.log_lower, found.log_lower), std::min(plain.log_upper, found.log_upper)};
        });
        return narrow(plain, quantity, content);
    };
    const bool smoothed = quantity == Quantity::delta && smoothable(comp);
    const Term* one = smoothed ? least_noise(comp) : nullptr;
    if (smoothed && atoms) {
        // Hardly any contour ends by itself.
        if (one != nullptr && divide(one, true)) return plain;
        if (divide(nullptr, true)) return plain;
    } else if (!atoms || ends_by_itself(comp)) {
        if (divide(nullptr, false)) return plain;
        if (smoothed && divide(one, true)) return plain;
    }
    if (!atoms) return plain;
    const LogBounds listed = beside_laplace_bounds(comp, quantity, at, content, stop);
    return {std::max(plain.log_lower, listed.log_lower), std::min(plain.log_upper, listed.log_upper)};
}

}  // namespace

LogBounds large_steps_delta(const Composition& comp, double epsilon, double content, StopCheck stop) {
    return add_infinite_mass(comp, finite_bounds(comp, Quantity::delta, epsilon, content, stop));
}

Tails large_steps_tails(const Composition& comp, double at, double content, StopCheck stop) {
    // No sum has an atom: the steps have densities.
    return both_tails(comp, from_log(finite_bounds(comp, Quantity::tail, at, content, stop)));
}

struct LargeStepsPlaces::Division {
    DividedSteps divided;
};

LargeStepsPlaces::LargeStepsPlaces(const Composition& composition, const Term& step, double epsilon,
                                   StopCheck stop)
    : division_(new Division{DividedSteps(composition, epsilon, stop, &step)}) {
    cut_ = first_cuts(division_->divided, epsilon, tilt_for(composition, epsilon, stop), stop)[0];
}
LargeStepsPlaces::~LargeStepsPlaces() = default;

Composition LargeStepsPlaces::piece(int large) {
    DividedSteps& divided = division_->divided;
    return divided.outline({{divided.steps(cut_, kInf, {large, false}, LargeStepsUse::placing), 1.0}});
}

}  // namespace dpcore::detail
