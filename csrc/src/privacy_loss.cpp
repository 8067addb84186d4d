#include "dpcore/privacy_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "chernoff.hpp"
#include "closed_forms.hpp"
#include "composed_delta.hpp"
#include "dpcore/enumeration.hpp"
#include "dpcore/validation.hpp"
#include "epsilon_search.hpp"
#include "few_sums.hpp"
#include "laplace_mixture.hpp"
#include "large_steps.hpp"
#include "near_lattice.hpp"
#include "smoothed.hpp"
#include "step_scales.hpp"
#include "work.hpp"

namespace dpcore {

using detail::all_gaussian_confidence;
using detail::contour_delta;
using detail::discrete_laplace_confidence;
using detail::enumeration_size;
using detail::epsilon_of;
using detail::intersect;
using detail::kContentWidth;
using detail::kFewSamples;
using detail::kHardlyAny;
using detail::kSmoothedShare;
using detail::log_delta_of;
using detail::one_subsampled_confidence;
using detail::single;
using detail::within;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMaxCopies = 9007199254740992.0;  // 2^53
// The work of one answer, in nanoseconds of an ordinary machine.
constexpr double kDeltaWork = 2.5e9;
constexpr double kEpsilonWork = 5e9;

// Bounds the work of an answer, unless the caller has; buckets asked for by name are what was asked for.
class Bounded {
public:
    Bounded(StopCheck stop, double work) : work_{work}, stop_(stop) {
        if (stop_.work == nullptr) stop_.work = &work_;
    }
    Bounded(const Bounded&) = delete;
    Bounded& operator=(const Bounded&) = delete;
    StopCheck check(const Method& method = {}) const {
        StopCheck out = stop_;
        if (method.engine == Engine::buckets) out.work = nullptr;
        return out;
    }

private:
    Work work_;
    StopCheck stop_;
};

// Of two directions the first leaves half of the work to the other.
double first_share(bool symmetric) { return symmetric ? 1.0 : 0.5; }

// Where the estimate of log delta is so much below a level, delta mostly is.
constexpr double kClearlyBelow = 0.1;

// Width of a tail probability above which Chernoff's bound is asked as well: far from the mean contours may fail.
constexpr double kWideTail = 1e-6;

// What smoothing aims at, and what shows that it has found something.
constexpr double kSmoothedTail = 1e-9;
constexpr double kSomething = 0.5;

// Tails from delta alone, where contours do not decay for them: delta(y) - e^-s delta(y+s) is the integral over
// [y, y+s] of e^{y-x} Pr[L > x] dx, and Pr[L > x] falls.
Tails difference_tails(const Composition& comp, double at, StopCheck stop) {
    const double content = detail::attainable_width(comp, kContentWidth);
    const auto delta = [&](double eps) {
        LogBounds b = contour_delta(comp, eps, content, stop);
        if (b.log_upper - b.log_lower > content)
            if (const auto smooth =
                    detail::smoothed_delta(comp, eps, kSmoothedShare * content, detail::Effort::all, stop))
                b = intersect(b, *smooth);
        return from_log(b);
    };
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    // The roundings' share, 1e-10/step, and the tail's own fall over a step are then about the same.
    const double step = 1e-5 * std::sqrt(std::max(comp.cumulants(0.0, stop).second, 1e-300));
    const Interval before = delta(at - step);
    const Interval here = delta(at);
    const Interval after = delta(at + step);
    const double decay = std::exp(-step);
    const double width = -std::expm1(-step);
    // The infinite mass is inside delta and inside the tail alike.
    const double lower = ((here.lower - decay * after.upper) / width) * (1.0 - 8.0 * kLibm) - 1e-15 / width;
    const double upper = ((before.upper - decay * here.lower) / width) * (1.0 + 8.0 * kLibm) + 1e-15 / width;
    const Interval above = {std::max(0.0, lower), std::min(1.0, upper)};
    return {above, {std::max(0.0, total - above.upper - slack), std::min(1.0, total - above.lower + slack)}};
}

bool narrower(const Tails& tails, double width) {
    return tails.above.upper - tails.above.lower <= width && tails.below.upper - tails.below.lower <= width;
}

Tails intersect(const Tails& a, const Tails& b) {
    return {intersect(a.above, b.above), intersect(a.below, b.below)};
}

// Tails by contours, with sampled steps: one, or several.
Tails sampled_tails(const Composition& comp, double at, double width, StopCheck stop) {
    Tails out = {{0.0, 1.0}, {0.0, 1.0}};
    const auto one = [&] {
        within(stop, 0.4, [&](StopCheck own) { out = intersect(out, spectral_tails(comp, at, own)); });
    };
    // Towards the end of the losses they have one scale.
    const bool first =
        std::isfinite(at < 0.0 ? comp.min_loss : comp.max_loss) || detail::expected_samples(comp) >= kHardlyAny;
    if (first) one();
    if (narrower(out, width)) return out;
    within(stop, 0.6,
           [&](StopCheck own) { out = intersect(out, detail::large_steps_tails(comp, at, width, own)); });
    if (!first && !narrower(out, width)) one();
    return out;
}

Tails tails_of(const Composition& comp, double at, StopCheck stop) {
    if (single(comp, LawKind::laplace)) {
        // L = e0 - 2 clip(x, 0, e0) for x ~ Laplace(1).
        const double e0 = comp.terms[0].law->parameters()[0];
        const double half = 0.5 * std::exp(0.5 * (at - e0));
        const double err = 4.0 * kLibm;
        Tails out = {{0.0, 0.0}, {0.0, 0.0}};
        if (at < -e0)
            out.above = {1.0, 1.0};
        else if (at < e0)
            out.above = {1.0 - half * (1.0 + err), 1.0 - half * (1.0 - err)};
        if (at > e0)
            out.below = {1.0, 1.0};
        else if (at > -e0)
            out.below = {half * (1.0 - err), half * (1.0 + err)};
        return out;
    }
    if (!comp.smooth && !(comp.lattice.step > 0.0) && enumeration_size(comp) <= kMaxEnumeration) {
        Tails out = {{0.0, 1.0}, {0.0, 1.0}};
        within(stop, 0.5, [&](StopCheck own) {
            const Enumeration all(comp, own);
            const Interval above = all.above(at);
            out = {{above.lower + comp.infinite_mass_lower(), above.upper + comp.infinite_mass_upper()},
                   all.below(at)};
        });
        return out;
    }
    const double samples = detail::expected_samples(comp);
    const bool few = samples > 0.0 && samples < kFewSamples;
    const bool inside = at > comp.min_loss && at < comp.max_loss;
    const double enough = detail::attainable_width(comp, kSmoothedTail);
    const auto narrow = [&](const Tails& tails) { return narrower(tails, enough); };
    Tails out = {{0.0, 1.0}, {0.0, 1.0}};
    if (inside && samples > 0.0) {
        out = sampled_tails(comp, at, enough, stop);
    } else {
        within(stop, 0.4, [&](StopCheck own) { out = spectral_tails(comp, at, own); });
    }
    if (!inside || narrow(out)) return out;
    if (const auto near = detail::near_lattice(comp)) {
        Tails found = {{0.0, 1.0}, {0.0, 1.0}};
        within(stop, 0.5, [&](StopCheck own) { found = detail::near_lattice_tails(*near, at, own); });
        out = intersect(out, found);
        within(stop, 0.3, [&](StopCheck own) { out = intersect(out, detail::chernoff_tails(comp, at, own)); });
        // Wide where a sum of losses is `at` but for its last digits: nothing else would decide that.
        if (narrower(found, kSomething)) return out;
    }
    within(stop, 0.3, [&](StopCheck own) { out = intersect(out, detail::chernoff_tails(comp, at, own)); });
    if (narrow(out) || comp.lattice.step > 0.0) return out;
    std::optional<Tails> listed;
    within(stop, 0.4, [&](StopCheck own) { listed = detail::listed_sums_tails(comp, at, own); });
    if (listed) return intersect(out, *listed);
    std::optional<Tails> smooth;
    within(stop, 0.6, [&](StopCheck own) { smooth = detail::smoothed_tails(comp, at, enough, own); });
    if (smooth) {
        out = intersect(out, *smooth);
        // Differences of deltas see no finer.
        if (narrower(*smooth, kSomething)) return out;
    }
    if (narrower(out, kWideTail)) return out;
    if (comp.smooth && !few) return out;
    // Next to the largest or smallest loss contours fail, but tails are monotone: what holds nearer to 0 bounds
    // them.
    for (const double nearer : {0.9, 0.6}) {
        Tails other = {{0.0, 1.0}, {0.0, 1.0}};
        within(stop, 0.2, [&](StopCheck own) {
            other = detail::chernoff_tails(comp, nearer * at, own);
            if (samples >= kHardlyAny) other = intersect(other, spectral_tails(comp, nearer * at, own));
        });
        if (at < 0.0)
            out = intersect(out, {{other.above.lower, 1.0}, {0.0, other.below.upper}});
        else
            out = intersect(out, {{0.0, other.above.upper}, {other.below.lower, 1.0}});
        if (narrow(out)) return out;
    }
    within(stop, 1.0, [&](StopCheck own) { out = intersect(out, difference_tails(comp, at, own)); });
    return out;
}

// 1 - Pr[L > eps] - Pr[L < -eps] with Pr[L < -eps] = e^-eps (Pr[L > eps] - delta(eps)).
Interval outside_confidence(const Interval& above, const Interval& delta, double epsilon) {
    if (above.upper == 0.0) return {1.0, 1.0};
    const double slip = 4.0 * kLibm;  // the roundings of products and sums of numbers up to 2
    const double shrink = std::exp(-epsilon);
    const Interval below = {shrink * std::max(0.0, above.lower - delta.upper) * (1.0 - slip),
                            shrink * std::max(0.0, above.upper - delta.lower) * (1.0 + slip)};
    const double low = 1.0 - above.upper - below.upper - slip * (above.upper + below.upper);
    const double high = 1.0 - above.lower - below.lower + slip * (above.upper + below.upper);
    return {std::max(0.0, low - 2.0 * kRound), std::min(1.0, high + 2.0 * kRound)};
}

// Under Q the loss of Laplace releases and randomised responses has the law of -L under P: Pr[L < -eps] = Pr_Q[L >
// eps], and delta(eps) is Pr[L > eps] - e^eps Pr_Q[L > eps].
std::optional<Interval> laplace_confidence(const Composition& comp, double epsilon, StopCheck stop) {
    const auto tail = detail::laplace_mixture_above(comp, epsilon, stop);
    const auto delta = detail::laplace_mixture_delta(comp, epsilon, stop);
    if (!tail || !delta) return std::nullopt;
    return outside_confidence(from_log(*tail), from_log(*delta), epsilon);
}

// One discrete Laplace release: parameters (-1, scale, shift) of a law of atoms.
bool one_discrete_laplace(const Composition& comp) {
    if (!single(comp, LawKind::atoms)) return false;
    const std::vector<double> p = comp.terms[0].law->parameters();
    return p.size() == 3 && p[0] == -1.0;
}

// What a contour leaves open of a probability near 1.
constexpr double kNearlyCertain = 1e-12;

Interval confidence_of(const Composition& comp, double epsilon, StopCheck stop) {
    if (single(comp, LawKind::laplace)) {
        const double e0 = comp.terms[0].law->parameters()[0];
        if (epsilon >= e0) return {1.0, 1.0};
        if (epsilon == 0.0) return {0.0, 0.0};
        // exp(-e0/2) sinh(epsilon/2), as a product of two numbers below 1: neither factor of the first form fits
        // into a double at a large e0. The difference is rounded once, and the least number covers what
        // underflows.
        const double gap = e0 - epsilon;
        const double value = -0.5 * std::expm1(-epsilon) * std::exp(-0.5 * gap);
        const double off = value * (4.0 * kLibm + kRound * gap) + 4.0 * std::numeric_limits<double>::denorm_min();
        return {std::max(value - off, 0.0), std::min(value + off, 1.0)};
    }
    if (comp.terms.empty()) return {1.0, 1.0};
    if (comp.log_finite_mass == -kInf) return {0.0, 0.0};
    if (single(comp, LawKind::gaussian)) return all_gaussian_confidence(comp, epsilon);
    if (one_discrete_laplace(comp)) {
        const std::vector<double> p = comp.terms[0].law->parameters();
        return discrete_laplace_confidence(p[1], p[2], epsilon);
    }
    if (single(comp, LawKind::subsampled_gaussian)) {
        const std::vector<double> p = comp.terms[0].law->parameters();
        return one_subsampled_confidence(p[0], p[1], p[2] != 0.0, epsilon);
    }
    if (comp.terms.size() == 1 && comp.terms[0].law->kind() == LawKind::subsampled_gaussian) {
        // All losses are within epsilon together where each is within its share of it. Where that is nearly
        // certain, a contour would take seconds to say less.
        const double copies = comp.terms[0].copies;
        const std::vector<double> p = comp.terms[0].law->parameters();
        const double share = epsilon / copies * (1.0 - 2.0 * kRound);
        const double each = 1.0 - one_subsampled_confidence(p[0], p[1], p[2] != 0.0, share).lower;
        const double missed = copies * each * (1.0 + 4.0 * kRound);
        if (missed <= kNearlyCertain) return {1.0 - missed - kRound, 1.0};
    }
    const bool sum_exists = detail::has_laplace_sum(comp);
    const bool few = sum_exists && detail::laplace_mixture_first(comp, epsilon);
    std::optional<Interval> sum;
    const auto laplace = [&](StopCheck own) { sum = laplace_confidence(comp, epsilon, own); };
    if (few) within(stop, 0.4, laplace);
    if (sum) return *sum;
    Interval above = {0.0, 1.0};
    Interval below = {0.0, 1.0};
    within(stop, 0.45, [&](StopCheck own) { above = tails_of(comp, epsilon, own).above; });
    within(stop, 0.8, [&](StopCheck own) { below = tails_of(comp, -epsilon, own).below; });
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    if (above.upper == 0.0 && below.upper == 0.0) return {1.0, 1.0};
    // Masses of a pmf may miss 1 by rounding, and by that times the copies in all. Tails are cut off at 1 here and
    // are what another leaves of the total there: each may be off by as much as is missed.
    const double missed = 2.0 * std::fabs(total - 1.0);
    const Interval out = {
        std::max(0.0, std::min(total, 1.0) - above.upper - below.upper - slack - missed),
        std::max(0.0, std::min(1.0, std::max(total, 1.0) - above.lower - below.lower + slack + missed))};
    if (sum_exists && !few && out.upper - out.lower > kContentWidth) within(stop, 1.0, laplace);
    return sum ? intersect(out, *sum) : out;
}

// One exponential moment, which costs little, keeps delta of this direction at or below exp(level).
bool dominated(const Composition& comp, double epsilon, double level, StopCheck stop) {
    if (detail::expected_samples(comp) == 0.0 || comp.infinite_mass_upper() > 0.0) return false;
    if (epsilon >= comp.max_loss) return true;
    bool below = false;
    within(stop, 0.2, [&](StopCheck own) { below = log_chernoff_above(comp, epsilon, own, level) <= level; });
    return below;
}

// delta itself does: worth asking where it is expected, since a search for epsilon takes several of them.
bool below_goal(const Composition& comp, double epsilon, double level, Method method, StopCheck stop) {
    bool below = false;
    within(stop, 0.3, [&](StopCheck own) {
        below = log_delta_estimate(comp, epsilon, own) <= level - kClearlyBelow &&
                log_delta_of(comp, epsilon, method, own).log_upper <= level;
    });
    return below;
}

}  // namespace

namespace {
// Beyond 2^53 some of them would be lost: sums and products of doubles are exact up to there.
[[noreturn]] void too_many() { throw std::invalid_argument("more than 2^53 copies of one mechanism"); }
double more_copies(double a, double b) {
    if (!(a <= kMaxCopies - b)) too_many();
    return a + b;
}
double times_copies(double a, double b) {
    const double product = a * b;
    if (!(product <= kMaxCopies && std::fma(a, b, -product) == 0.0)) too_many();
    return product;
}
}  // namespace

PrivacyLoss::PrivacyLoss(std::vector<Entry> entries) {
    auto state = std::make_shared<State>();
    state->entries = std::move(entries);
    for (const Entry& e : state->entries) {
        if (!(e.copies >= 0.0 && e.copies <= kMaxCopies)) too_many();
        state->symmetric = state->symmetric && e.mechanism->forward == e.mechanism->backward;
    }
    state_ = std::move(state);
}

const PrivacyLoss::State& PrivacyLoss::composed() const {
    const State& s = *state_;
    if (s.composed.load(std::memory_order_acquire)) return s;
    const std::lock_guard<std::mutex> lock(s.composing);
    if (s.composed.load(std::memory_order_relaxed)) return s;
    // Equal mechanisms share one law, also when they were made apart.
    std::vector<const Entry*> order;
    for (const Entry& e : s.entries) order.push_back(&e);
    const auto before = [](const Entry* a, const Entry* b) {
        const Mechanism& x = *a->mechanism;
        const Mechanism& y = *b->mechanism;
        if (x.name != y.name) return x.name < y.name;
        if (x.parameters != y.parameters) return x.parameters < y.parameters;
        return x.p != y.p ? x.p < y.p : x.q < y.q;
    };
    std::stable_sort(order.begin(), order.end(), before);
    std::vector<Term> forward, backward;
    const Mechanism* last = nullptr;
    for (const Entry* e : order) {
        if (e->copies == 0.0) continue;
        if (last != nullptr && last->same(*e->mechanism)) {
            forward.back().copies = more_copies(forward.back().copies, e->copies);
            backward.back().copies = forward.back().copies;
            continue;
        }
        last = e->mechanism.get();
        forward.push_back({e->mechanism->forward, e->copies});
        backward.push_back({e->mechanism->backward, e->copies});
    }
    s.forward = Composition::of(std::move(forward));
    if (!s.symmetric) s.backward = Composition::of(std::move(backward));
    s.composed.store(true, std::memory_order_release);
    return s;
}

PrivacyLoss PrivacyLoss::compose(const PrivacyLoss& other) const {
    std::vector<Entry> all;
    all.reserve(entries().size() + other.entries().size());
    all = entries();
    for (const Entry& e : other.entries()) {
        if (!all.empty() && all.back().mechanism->same(*e.mechanism))
            all.back().copies = more_copies(all.back().copies, e.copies);
        else
            all.push_back(e);
    }
    return PrivacyLoss(std::move(all));
}

PrivacyLoss PrivacyLoss::times(double copies) const {
    need_whole(copies, 0.0, kMaxCopies, "copies");
    std::vector<Entry> all = entries();
    for (Entry& e : all) e.copies = times_copies(e.copies, copies);
    return PrivacyLoss(std::move(all));
}

PrivacyLoss PrivacyLoss::compose_all(const std::vector<PrivacyLoss>& losses) {
    std::vector<Entry> all;
    for (const PrivacyLoss& l : losses) {
        for (const Entry& e : l.entries()) {
            if (!all.empty() && all.back().mechanism->same(*e.mechanism))
                all.back().copies = more_copies(all.back().copies, e.copies);
            else
                all.push_back(e);
        }
    }
    return PrivacyLoss(std::move(all));
}

LogBounds PrivacyLoss::log_delta(double epsilon, Method method, StopCheck stop) const {
    need_non_negative(epsilon, "epsilon");
    const State& s = composed();
    const Bounded bounded(stop, kDeltaWork);
    const StopCheck own = bounded.check(method);
    LogBounds out = {-kInf, kInf};
    within(own, first_share(s.symmetric),
           [&](StopCheck part) { out = log_delta_of(s.forward, epsilon, method, part); });
    if (!s.symmetric && !dominated(s.backward, epsilon, out.log_lower, own)) {
        LogBounds other = {-kInf, kInf};
        within(own, 1.0, [&](StopCheck part) { other = log_delta_of(s.backward, epsilon, method, part); });
        out = {std::max(out.log_lower, other.log_lower), std::max(out.log_upper, other.log_upper)};
    }
    // Masses that miss 1 by rounding stand for masses that do not: no delta exceeds 1.
    out = {std::min(out.log_lower, 0.0), std::min(out.log_upper, 0.0)};
    return out;
}

Interval PrivacyLoss::delta(double epsilon, Method method, StopCheck stop) const {
    Interval out = from_log(log_delta(epsilon, method, stop));
    out = {std::min(out.lower, 1.0), std::min(out.upper, 1.0)};
    return out;
}

Interval PrivacyLoss::epsilon(double delta, Method method, StopCheck stop) const {
    need_probability(delta, "delta");
    const State& s = composed();
    const Bounded bounded(stop, kEpsilonWork);
    const StopCheck own = bounded.check(method);
    // At the largest loss delta is the infinite mass: no epsilon beyond is needed.
    const auto direction = [&](const Composition& comp, StopCheck part) {
        Interval found = epsilon_of(comp, delta, method, part);
        if (comp.infinite_mass_upper() <= delta) found.upper = std::min(found.upper, std::max(comp.max_loss, 0.0));
        return Interval{std::min(found.lower, found.upper), found.upper};
    };
    Interval out = {0.0, kInf};
    within(own, first_share(s.symmetric), [&](StopCheck part) { out = direction(s.forward, part); });
    // Where the other direction is below delta already at the lower end, its epsilon is smaller.
    const double level = std::log(delta) - kLibm * std::fabs(std::log(delta));
    if (!s.symmetric && !(delta > 0.0 && out.lower > 0.0 && std::isfinite(out.lower) &&
                          (dominated(s.backward, out.lower, level, own) ||
                           below_goal(s.backward, out.lower, level, method, own)))) {
        Interval other = {0.0, kInf};
        within(own, 1.0, [&](StopCheck part) { other = direction(s.backward, part); });
        out = {std::max(out.lower, other.lower), std::max(out.upper, other.upper)};
    }
    return out;
}

Interval PrivacyLoss::confidence(double epsilon, StopCheck stop) const {
    need_non_negative(epsilon, "epsilon");
    const State& s = composed();
    const Bounded bounded(stop, kDeltaWork);
    Interval out = {0.0, 1.0};
    within(bounded.check(), first_share(s.symmetric),
           [&](StopCheck part) { out = confidence_of(s.forward, epsilon, part); });
    if (!s.symmetric) {
        Interval other = {0.0, 1.0};
        within(bounded.check(), 1.0, [&](StopCheck part) { other = confidence_of(s.backward, epsilon, part); });
        out = {std::min(out.lower, other.lower), std::min(out.upper, other.upper)};
    }
    return out;
}

double PrivacyLoss::mean() const {
    const State& s = composed();
    const auto of = [](const Composition& c) {
        if (c.terms.empty()) return 0.0;
        return c.infinite_mass_upper() > 0.0 ? kInf : c.cumulants(0.0).first;
    };
    return s.symmetric ? of(s.forward) : std::max(of(s.forward), of(s.backward));
}

double PrivacyLoss::variance() const {
    const State& s = composed();
    const auto of = [](const Composition& c) {
        if (c.terms.empty()) return 0.0;
        return c.infinite_mass_upper() > 0.0 ? kInf : c.cumulants(0.0).second;
    };
    if (s.symmetric) return of(s.forward);
    const bool forward = s.forward.cumulants(0.0).first >= s.backward.cumulants(0.0).first;
    return std::max(forward ? of(s.forward) : of(s.backward), 0.0);
}

double PrivacyLoss::max_loss() const {
    const State& s = composed();
    const auto of = [](const Composition& c) { return c.infinite_mass_upper() > 0.0 ? kInf : c.max_loss; };
    return s.symmetric ? of(s.forward) : std::max(of(s.forward), of(s.backward));
}

Interval PrivacyLoss::infinite_mass() const {
    const State& s = composed();
    Interval out = {s.forward.infinite_mass_lower(), s.forward.infinite_mass_upper()};
    if (!s.symmetric)
        out = {std::max(out.lower, s.backward.infinite_mass_lower()),
               std::max(out.upper, s.backward.infinite_mass_upper())};
    return out;
}

}  // namespace dpcore
