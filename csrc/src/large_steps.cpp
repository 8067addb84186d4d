#include "large_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dpcore/normal.hpp"
#include "large_steps_law.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Terms of one window; more than that are bounded together.
constexpr int kMostLarge = 80;
// A term is worth a contour where its estimate is above this share of the width asked for, as a logarithm; below,
// one exponential moment will do.
constexpr double kNegligibleShare = 7.0;
constexpr std::size_t kMostCuts = 16;
// Moments that show a term to be negligible are looked for from this part of the exponent of the whole, the first
// that is enough being the best known, up to so many times it.
constexpr double kLeastTilt = 64.0;
constexpr double kMostTilt = 0x1p14;
// Width of one piece's tail with which the others need not be looked at.
constexpr double kLost = 1e-3;
// log delta below which one division has to do.
constexpr double kFarBelow = -1000.0;
// The odds by a factor of 3.3.
constexpr double kStride = 1.2;
// Windows of additions: a factor of 30 of the odds; what is below e^-kScale does not matter.
constexpr double kWindow = 3.4;
constexpr double kScale = 40.0;
// The least window, in widths of its edges.
constexpr double kLeastWindow = 0.2;

SubsampledStep step_of(const Term& t) {
    const std::vector<double> p = t.law->parameters();
    return {p[0], p[1], p[2] != 0.0};
}

// Width of the edges of cuts up to `furthest`. Where contours stand p r(x) is about x, so that the tilt grows by
// e^{x/s^2} a unit of output, for removals: by less than e^3 over a width, which the window's fall makes up for at
// once. Wide edges need fewer nodes.
double edge_width(const SubsampledStep& s, double furthest) {
    const double share = s.removal ? std::clamp(3.0 / std::max(furthest, 1e-300), 0.15, 0.5) : 0.5;
    return std::min(0.5 * s.sigma, share * s.sigma * s.sigma);
}

// exp(a) + exp(b), outward; where one is not known, neither is the sum.
double log_add(double a, double b, double direction) {
    if (std::isnan(a) || std::isnan(b)) return direction * kInf;
    const double top = std::max(a, b);
    if (std::isinf(top)) return top;
    const double sum = top + std::log1p(std::exp(std::min(a, b) - top));
    return sum + direction * (2.0 * kLibm + 2.0 * kRound * std::fabs(sum));
}

// A composition divided at given cuts.
class Divided {
public:
    // only: the one kind of step that is divided; none: all are.
    Divided(const Composition& comp, double epsilon, StopCheck stop, const Term* only = nullptr)
        : epsilon_(epsilon), stop_(stop) {
        for (const Term& t : comp.terms)
            (t.law->kind() == LawKind::subsampled_gaussian && (only == nullptr || only == &t) ? steps_ : others_)
                .push_back(t);
        std::sort(steps_.begin(), steps_.end(), [](const Term& a, const Term& b) {
            return a.copies * a.law->parameters()[1] > b.copies * b.law->parameters()[1];
        });
        // The output at which one step beside unsampled ones reaches epsilon: no contour of a removal asks for
        // much larger ones.
        const SubsampledStep base = step_of(steps_[0]);
        if (base.removal) furthest_ = base.place(std::fabs(epsilon));
    }

    // Edges are made for cuts up to this output.
    void set_edges(double furthest) { edges_for_ = furthest; }
    double width() const { return edge_width(base(), edges_for_); }

    SubsampledStep base() const { return step_of(steps_[0]); }
    double copies() const {
        double sum = 0.0;
        for (const Term& t : steps_) sum += t.copies;
        return sum;
    }

    // The composition with so many large steps between two cuts (in outputs of the first kind), the others below
    // the lower one.
    Composition piece(double low, double high, LargeStepsCount count, LargeStepsUse use = LargeStepsUse::bounds) {
        std::vector<LargeStepsPart> parts;
        double furthest = furthest_;
        for (const Term& t : steps_) {
            const SubsampledStep s = step_of(t);
            parts.push_back({s, t.copies, cut(s, low), cut(s, high), edge_width(s, cut(s, edges_for_))});
            if (s.removal) furthest = std::max(furthest, s.place(std::fabs(epsilon_)));
        }
        std::vector<Term> terms = others_;
        terms.push_back({large_steps_law(std::move(parts), count, furthest, use, cache_, stop_), 1.0});
        Composition out = Composition::of(std::move(terms));
        // Infinite losses of the others are added at the end, once.
        out.log_total_mass = out.log_finite_mass;
        out.log_finite_share = 0.0;
        out.infinite_mass = 0.0;
        return out;
    }

private:
    double cut(const SubsampledStep& step, double at) const {
        const SubsampledStep first = base();
        if (std::isinf(at) || (step.sigma == first.sigma && step.q == first.q)) return at;
        // At the same loss, or, below all losses of the other step, at its lowest outputs; a little apart in any
        // case, so that rounding does not change the order of two cuts.
        const double rise = std::expm1(first.lambda(at)) / step.q;
        const double floor = -9.0 * step.sigma - 1.0;
        const double same = rise > -1.0 + 1e-6 ? std::max(floor, step.place(first.lambda(at))) : floor;
        return same + 1e-4 * std::min(step.sigma, step.sigma * step.sigma) * at / first.sigma;
    }

    std::vector<Term> steps_, others_;
    double epsilon_;
    StopCheck stop_;
    double furthest_ = 0.0, edges_for_ = 0.0;
    StepSumCache cache_;
};

// Where to cut: between the two humps that the density of one step has when it is tilted by c, at the middle one
// of the three roots of x = p r(x), if there are as many; else where a step's share of the loss is even.
double valley(const SubsampledStep& step, double c) {
    const double p = step.power(c);
    const double s2 = step.sigma * step.sigma;
    const auto at_share = [&](double r) {  // r/(1 - r) = q/(1 - q) e^y
        return 0.5 + s2 * std::log(r / (1.0 - r) * (1.0 - step.q) / step.q);
    };
    if (p > 4.0 * s2) {
        // r(1 - r) = s^2/p, the slopes at which p r(x) - x turns.
        const double root = std::sqrt(0.25 - s2 / p);
        double low = at_share(s2 / p / (0.5 + root));
        double high = at_share(0.5 + root);
        if (p * step.posterior(low) < low && p * step.posterior(high) > high) {
            for (int i = 0; i < 40; ++i) {
                const double middle = 0.5 * (low + high);
                (p * step.posterior(middle) < middle ? low : high) = middle;
            }
            return low;
        }
    }
    return at_share(std::clamp(s2 / std::max(p, 4.0 * s2), 1e-3, 0.5));
}

// Estimate of the logarithm of a piece's delta, at most its mass; and an exponent whose moment shows that it is
// below `floor`, if one of a few does.
struct Estimate {
    double value;
    double moment;            // 0: none
    double chernoff = -kInf;  // as if from one moment: too large where there are several humps
};
Estimate piece_estimate(Divided& divided, double low, double high, LargeStepsCount count, double epsilon, double c,
                        double floor, StopCheck stop) {
    const Composition comp = divided.piece(low, high, count, LargeStepsUse::placing);
    const double mass = comp.log_finite_mass;
    const Cumulants at = comp.cumulants(0.0, stop);
    if (at.first > epsilon) {
        const double above = mass + std::log(-std::expm1(epsilon - at.first));
        return {count.at_least ? -kInf : above, 0.0, above};
    }
    double least = kInf;
    for (double at_c = c / kLeastTilt; at_c < kMostTilt * c; at_c *= 2.0) {
        const double value = comp.cumulants(at_c, stop).value - at_c * epsilon;
        if (value < floor - 1.0) return {value, at_c};
        if (!(value < least)) break;
        least = value;
    }
    if (count.at_least) return {-kInf, 0.0, least};
    const double e = log_delta_estimate(comp, epsilon, stop);
    const double chernoff = log_chernoff_estimate(comp, epsilon, stop);
    return {std::isnan(e) ? mass : std::min(e, mass), 0.0, std::isnan(chernoff) ? mass : std::min(chernoff, mass)};
}

// The terms of one division, and what is known of them. Cuts are added where that is least.
class Pieces {
public:
    // c: about where contours stand.
    Pieces(Divided& divided, std::vector<double> cuts, double epsilon, double c, double content, StopCheck stop)
        : divided_(divided), cuts_(std::move(cuts)), epsilon_(epsilon), c_(c), content_(content), stop_(stop) {}

    const std::vector<double>& cuts() const { return cuts_; }

    // log of the sum of what one moment says of each term, about. Humps that the cuts do not part make it too
    // large: of two divisions the better one has the lesser estimate.
    double estimate() {
        list();
        double sum = -kInf;
        for (const Piece& p : pieces_) sum = log_add(sum, p.chernoff, 0.0);
        return sum;
    }

    LogBounds bounds() {
        list();
        LogBounds sum = {-kInf, -kInf};
        for (Piece& p : pieces_) {
            stop_();
            look(p);
            sum = {log_add(sum.log_lower, p.bounds.log_lower, -1.0),
                   log_add(sum.log_upper, p.bounds.log_upper, 1.0)};
        }
        lower_ = std::max(lower_, sum.log_lower);
        return sum;
    }

    // One more cut, in the window of which least is known; whether there is one.
    bool refine() {
        const Piece* worst = nullptr;
        for (const Piece& p : pieces_)
            if (worst == nullptr || log_width(p.bounds) > log_width(worst->bounds)) worst = &p;
        if (worst == nullptr || cuts_.size() >= kMostCuts) return false;
        const SubsampledStep base = divided_.base();
        const double least = kLeastWindow * divided_.width();
        const double distance = std::min(2.0 * base.sigma, 1.5 * base.sigma * base.sigma);
        double at = 0.0;
        if (worst->count.large == 0) {
            // A factor of three of the odds where nothing is known of it.
            const bool nothing = worst->bounds.log_lower == -kInf;
            at = cuts_[0] - (nothing ? std::max(distance, kStride * base.sigma * base.sigma) : distance);
        } else if (std::isinf(worst->high)) {
            at = worst->low + distance;
        } else {
            at = 0.5 * (worst->low + worst->high);
            if (worst->high - worst->low < 2.0 * least) return false;
        }
        cuts_.push_back(at);
        std::sort(cuts_.begin(), cuts_.end());
        return true;
    }

private:
    struct Piece {
        double low, high;
        LargeStepsCount count;
        double estimate, moment, chernoff;
        bool looked, done;  // what is known is the mass or one moment; or all there is
        LogBounds bounds;
    };

    // log of (upper - lower)
    static double log_width(const LogBounds& b) {
        if (b.log_lower == -kInf) return b.log_upper;
        return b.log_upper + std::log(-std::expm1(std::min(b.log_lower - b.log_upper, 0.0)));
    }

    // All terms for the cuts, with what is known of them already.
    void list() {
        std::vector<Piece> before;
        before.swap(pieces_);
        const double negligible = kNegligibleShare - std::log(content_) + 3.0;
        best_ = -kInf;
        const auto piece = [&](double low, double high, LargeStepsCount count) {
            for (const Piece& p : before)
                if (p.low == low && p.high == high && p.count.large == count.large &&
                    p.count.at_least == count.at_least)
                    return p;
            stop_();
            const Estimate about =
                piece_estimate(divided_, low, high, count, epsilon_, c_,
                               std::max(best_, lower_) - negligible - (count.at_least ? 0.0 : 20.0), stop_);
            return Piece{low, high, count, about.value, about.moment, about.chernoff, false, false, {-kInf, kInf}};
        };
        pieces_.push_back(piece(cuts_[0], kInf, {0, false}));
        best_ = pieces_[0].estimate;
        for (std::size_t i = 0; i < cuts_.size(); ++i) {
            const double high = i + 1 < cuts_.size() ? cuts_[i + 1] : kInf;
            double last = -kInf;
            for (int m = 1; m <= divided_.copies(); ++m) {
                const Piece p = piece(cuts_[i], high, {m, false});
                best_ = std::max(best_, p.estimate);
                // From here on they fall, and are negligible together.
                if (m > kMostLarge || (p.estimate < last && p.estimate < best_ - negligible)) {
                    pieces_.push_back(piece(cuts_[i], high, {m, true}));
                    break;
                }
                pieces_.push_back(p);
                last = p.estimate;
            }
        }
    }

    // What is needed of it; more than before if the sum has turned out to be smaller.
    void look(Piece& p) {
        const double enough = best_ - kNegligibleShare + std::log(content_) + 2.0;
        if (p.done || (p.looked && p.bounds.log_upper < enough)) return;
        const Composition comp = divided_.piece(p.low, p.high, p.count);
        const auto at_most = [&](double log_value) {
            if (log_value < p.bounds.log_upper) p.bounds.log_upper = log_value;
            return p.bounds.log_upper < enough;
        };
        if (!p.looked) p.bounds = trivial_delta(comp, epsilon_);
        p.looked = true;
        if (at_most(kInf)) return;
        if (p.moment > 0.0 && at_most(log_chernoff_at(comp, epsilon_, p.moment, stop_))) return;
        if (p.estimate < enough && at_most(log_chernoff_above(comp, epsilon_, stop_))) return;
        p.done = true;
        if (p.count.at_least) return;
        const LogBounds found = comp.cumulants(0.0, stop_).first > epsilon_
                                    ? mostly_above(comp, epsilon_, enough, stop_)
                                    : spectral_delta(comp, epsilon_, stop_);
        p.bounds.log_lower = std::max(p.bounds.log_lower, found.log_lower);
        at_most(found.log_upper);
    }

    Divided& divided_;
    std::vector<double> cuts_;
    double epsilon_, c_, content_;
    StopCheck stop_;
    std::vector<Piece> pieces_;
    double best_ = -kInf;   // the largest estimate
    double lower_ = -kInf;  // log of a lower bound of the sum
};

// Additions of little noise: outputs on many scales of the loss, of which a window holds one or two. From where
// the tilted density ends, down to where all of so many steps are hardly ever below; or, of more steps, whose
// product dies out by itself, to where about two of them are above.
std::vector<double> addition_cuts(const SubsampledStep& step, double copies, double c) {
    const double s = step.sigma;
    const double p = step.power(c);
    const double mode = step.mode(p);
    const auto height = [&](double x) { return step.log_density(x, step.lambda(x), p); };
    double low = mode, high = mode + s;
    while (height(high) > height(mode) - kScale) high += s;
    for (int i = 0; i < 40; ++i) {
        const double middle = 0.5 * (low + high);
        (height(middle) > height(mode) - kScale ? low : high) = middle;
    }
    // |phi|^k ~ exp(-k s^2 log^2(t/c)/2) falls to e^-kScale within a factor of 300 where k s^2 > 2.5.
    const double away = copies * s * s > 2.5 ? normal_quantile_tail(std::min(0.5, 2.0 / copies))
                                             : -normal_quantile_tail(std::exp(-kScale / copies));
    const double bottom = mode + away / std::sqrt(step.curvature(p));
    std::vector<double> cuts;
    for (double at = high - kWindow * s * s; cuts.size() < kMostCuts; at -= kWindow * s * s) {
        cuts.push_back(at);
        if (at < bottom) break;
    }
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
}

// The best single cut, from `start`.
double best_cut(Divided& divided, double start, double epsilon, double c, StopCheck stop) {
    const SubsampledStep base = divided.base();
    const double stride = kStride * base.sigma * base.sigma;
    const auto total = [&](double cut) { return Pieces(divided, {cut}, epsilon, c, 0.1, stop).estimate(); };
    double at = start;
    double least = total(at);
    for (const double way : {-1.0, 1.0}) {
        bool moved = false;
        for (int i = 0; i < 12; ++i) {
            const double other = total(at + way * stride);
            if (!(other < least - 0.2)) break;
            at += way * stride;
            least = other;
            moved = true;
        }
        if (moved) break;
    }
    return at;
}

}  // namespace

double expected_samples(const Composition& composition) {
    double sum = 0.0;
    for (const Term& t : composition.terms)
        if (t.law->kind() == LawKind::subsampled_gaussian) sum += t.copies * t.law->parameters()[1];
    return sum;
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

namespace {
// The cuts to begin with; the edges are made for them.
std::vector<double> first_cuts(Divided& divided, double epsilon, double c, StopCheck stop) {
    const SubsampledStep base = divided.base();
    if (!base.removal) return addition_cuts(base, divided.copies(), c);
    const double start = valley(base, c);
    divided.set_edges(start);
    const double cut = best_cut(divided, start, epsilon, c, stop);
    divided.set_edges(cut);
    return {cut};
}

double tilt_for(const Composition& comp, double epsilon, StopCheck stop) {
    const Placement place = spectral_placement(comp, epsilon, stop);
    return place.c > 0.0 ? place.c : 1.0;
}
}  // namespace

LogBounds large_steps_delta(const Composition& comp, double epsilon, double content, StopCheck stop) {
    LogBounds best = {-kInf, kInf};
    Divided divided(comp, epsilon, stop);
    const double c = tilt_for(comp, epsilon, stop);
    Pieces pieces(divided, first_cuts(divided, epsilon, c, stop), epsilon, c, content, stop);
    try {
        do {
            const LogBounds found = pieces.bounds();
            best = {std::max(best.log_lower, found.log_lower), std::min(best.log_upper, found.log_upper)};
        } while (!(best.log_upper - best.log_lower <= content) && best.log_upper > kFarBelow && pieces.refine());
    } catch (const OutOfWork&) {  // what has been found holds
    }
    return add_infinite_mass(comp, best);
}

Tails large_steps_tails(const Composition& comp, double at, double content, StopCheck stop) {
    const double epsilon = std::fabs(at);
    Divided divided(comp, epsilon, stop);
    const double c = tilt_for(comp, epsilon, stop);
    std::vector<double> cuts = first_cuts(divided, epsilon, c, stop);
    // The heavy tail of additions is at small losses: where a step loses a third of -at.
    if (!divided.base().removal && at < 0.0) cuts = {divided.base().place(epsilon / 3.0)};
    Tails sum = {{0.0, 0.0}, {0.0, 0.0}};
    bool lost = false;
    const auto add = [&](double low, double high, LargeStepsCount count) {  // log of the piece's mass
        stop();
        const Composition piece = divided.piece(low, high, count);
        const double log_mass = piece.log_finite_mass + piece.log_mass_err;
        const double mass = std::min(1.0, std::exp(log_mass) * (1.0 + 4.0 * kLibm));
        Tails own = {{0.0, mass}, {0.0, mass}};
        if (mass > 1e-3 * content && !count.at_least) {
            const Tails found = spectral_tails(piece, at, stop);
            own = {{found.above.lower, std::min(found.above.upper, mass)},
                   {found.below.lower, std::min(found.below.upper, mass)}};
        }
        const auto both = [](const Interval& a, const Interval& b) {
            return Interval{(a.lower + b.lower) * (1.0 - kRound), (a.upper + b.upper) * (1.0 + 2.0 * kRound)};
        };
        sum = {both(sum.above, own.above), both(sum.below, own.below)};
        lost = lost || own.above.upper - own.above.lower > kLost;
        return log_mass;
    };
    add(cuts[0], kInf, {0, false});
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        const double high = i + 1 < cuts.size() ? cuts[i + 1] : kInf;
        double before = -kInf;
        for (int m = 1; m <= divided.copies(); ++m) {
            if (lost) return {{0.0, 1.0}, {0.0, 1.0}};
            const double log_mass = add(cuts[i], high, {m, false});
            if (m > kMostLarge || (log_mass < before && log_mass < std::log(1e-3 * content))) {
                if (m < divided.copies()) add(cuts[i], high, {m + 1, true});
                break;
            }
            before = log_mass;
        }
    }
    const Interval above = {sum.above.lower + comp.infinite_mass_lower(),
                            (sum.above.upper + comp.infinite_mass_upper()) * (1.0 + 2.0 * kRound)};
    return {{std::min(1.0, above.lower), std::min(1.0, above.upper)},
            {std::min(1.0, sum.below.lower), std::min(1.0, sum.below.upper)}};
}

struct LargeStepsPlaces::Division {
    Divided divided;
};

LargeStepsPlaces::LargeStepsPlaces(const Composition& composition, const Term& step, double epsilon,
                                   StopCheck stop)
    : division_(new Division{Divided(composition, epsilon, stop, &step)}) {
    cut_ = first_cuts(division_->divided, epsilon, tilt_for(composition, epsilon, stop), stop)[0];
}
LargeStepsPlaces::~LargeStepsPlaces() = default;

Composition LargeStepsPlaces::piece(int large) {
    return division_->divided.piece(cut_, kInf, {large, false}, LargeStepsUse::placing);
}

}  // namespace dpcore::detail
