#include "divided_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "step_scales.hpp"

namespace dpcore::detail {

namespace {

// Width of the edges of cuts up to `furthest`. Where contours stand p r(x) is about x, so that the tilt grows by
// e^{x/s^2} a unit of output, for removals: by less than e^3 over a width, which the window's fall makes up for at
// once. Wide edges need fewer nodes.
double edge_width(const SubsampledStep& s, double furthest) {
    const double share = s.removal ? std::clamp(3.0 / std::max(furthest, 1e-300), 0.15, 0.5) : 0.5;
    return std::min(0.5 * s.sigma, share * s.sigma * s.sigma);
}

Composition finite(std::vector<Term> terms) {
    Composition out = Composition::of(std::move(terms));
    // Infinite losses of the others are added at the end, once.
    out.log_total_mass = out.log_finite_mass;
    out.log_finite_share = 0.0;
    out.infinite_mass = 0.0;
    return out;
}

}  // namespace

DividedSteps::DividedSteps(const Composition& comp, double epsilon, StopCheck stop, const Term* only)
    : stop_(stop) {
    for (const Term& t : comp.terms)
        (t.law->kind() == LawKind::subsampled_gaussian && (only == nullptr || only == &t) ? steps_ : others_)
            .push_back(t);
    std::sort(steps_.begin(), steps_.end(), [](const Term& a, const Term& b) {
        return a.copies * a.law->parameters()[1] > b.copies * b.law->parameters()[1];
    });
    unlisted_ = others_;
    set_distance(epsilon);
}

void DividedSteps::set_distance(double loss) { distance_ = std::fabs(loss); }

double DividedSteps::width() const { return edge_width(base(), edges_for_); }

SubsampledStep DividedSteps::base() const { return step_of(steps_[0]); }

double DividedSteps::copies() const {
    double sum = 0.0;
    for (const Term& t : steps_) sum += t.copies;
    return sum;
}

LawPtr DividedSteps::steps(double low, double high, LargeStepsCount count, LargeStepsUse use) {
    std::vector<LargeStepsPart> parts;
    double furthest = 0.0;
    for (const Term& t : steps_) {
        const SubsampledStep s = step_of(t);
        parts.push_back({s, t.copies, cut(s, low), cut(s, high), edge_width(s, cut(s, edges_for_))});
        if (s.removal) furthest = std::max(furthest, s.place(distance_));
    }
    return large_steps_law(std::move(parts), count, furthest, use, cache_, stop_);
}

void DividedSteps::list(double c) {
    const LossList::Division division = LossList::divide(others_, c, stop_);
    if (!division.listed.empty()) list_ = LossList::of(division.listed, c, stop_);
    if (!list_) return;
    unlisted_ = division.others;
    choose(0, list_->size());
}

void DividedSteps::choose(std::size_t first, std::size_t last) {
    first_ = first;
    last_ = last;
    outline_ = list_->outline(first, last);
}

Composition DividedSteps::bare(std::vector<Term> steps) const {
    steps.insert(steps.end(), unlisted_.begin(), unlisted_.end());
    return finite(std::move(steps));
}

Composition DividedSteps::outline(std::vector<Term> steps) const {
    steps.insert(steps.end(), unlisted_.begin(), unlisted_.end());
    if (list_) steps.push_back({outline_, 1.0});
    return finite(std::move(steps));
}

Composition DividedSteps::alone() const {
    std::vector<Term> terms = steps_;
    terms.insert(terms.end(), unlisted_.begin(), unlisted_.end());
    return Composition::of(std::move(terms));
}

double DividedSteps::cut(const SubsampledStep& step, double at) const {
    const SubsampledStep first = base();
    if (std::isinf(at) || (step.sigma == first.sigma && step.q == first.q)) return at;
    // At the same loss, or, below all losses of the other step, at its lowest outputs; a little apart in any
    // case, so that rounding does not change the order of two cuts.
    const double rise = std::expm1(first.lambda(at)) / step.q;
    const double floor = -9.0 * step.sigma - 1.0;
    const double same = rise > -1.0 + 1e-6 ? std::max(floor, step.place(first.lambda(at))) : floor;
    return same + 1e-4 * std::min(step.sigma, step.sigma * step.sigma) * at / first.sigma;
}

}  // namespace dpcore::detail
