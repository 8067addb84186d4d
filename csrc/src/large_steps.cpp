#include "large_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "chernoff.hpp"
#include "closed_forms.hpp"
#include "dpcore/normal.hpp"
#include "large_steps_law.hpp"
#include "log_sum.hpp"
#include "loss_list.hpp"
#include "point_sums.hpp"
#include "smoothed.hpp"
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
constexpr double kMissed = 25.0;
// Moments that show a term to be negligible are looked for from this part of the exponent of the whole, the first
// that is enough being the best known, up to so many times it.
constexpr double kLeastTilt = 64.0;
constexpr double kMostTilt = 0x1p14;
// Cuts in a row that made a tail no narrower, after which no other is tried.
constexpr int kInVain = 2;
// Listed losses are one range where what is left for the steps differs by no more than this factor, and need not
// be told apart below this share of the sampled steps.
constexpr double kOneSize = 4.0;
// Relative width of delta with which the other shares need not be looked at.
constexpr double kHopeless = 1e-6;
// Width of one term of a division, of that of all; and work of a contour before it is smoothed.
constexpr double kPieceShare = 0.15;
constexpr double kContourShare = 0.2;
// Work of pieces beside whatever there is, before anything is listed.
constexpr double kWithoutLists = 0.7;
constexpr double kAlone = 0.95;  // of steps alone, which nothing can be listed of
// Width of one share of a composition, of that of all.
constexpr double kShareWidth = 0.3;
// Parts into which Laplace releases are expanded, each of which takes milliseconds; and log of the share of the
// others.
constexpr double kMostParts = 60.0;
constexpr double kLost = -60.0;
constexpr double kLessThanEstimated = 2.0;
constexpr double kEnoughBetween = 4.0;
constexpr std::size_t kManySums = 1024;
constexpr double kLeastShare = 0.1;
// A share has so many times its part of the work that is left.
constexpr double kFairShare = 2.5;
constexpr double kLeastWork = 0.6;
// log delta below which one division has to do.
constexpr double kFarBelow = -1000.0;
// Where as many steps are sampled on average, or log delta is above this, humps run into each other.
constexpr double kFewSteps = 8.0;
// Losses of additions with so much noise have one scale.
constexpr double kMuchNoise = 1.0;
constexpr double kLarge = -3.0;
// Nanoseconds of two closed forms.
constexpr double kClosedWork = 3000.0;
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

// A sum of two logarithms, rounded outward.
double outward(double sum, double direction) {
    return std::isfinite(sum) ? sum + direction * 2.0 * kRound * std::fabs(sum) : sum;
}

// A composition divided at given cuts.
class Divided {
public:
    // only: the one kind of step that is divided; none: all are.
    Divided(const Composition& comp, double epsilon, StopCheck stop, const Term* only = nullptr) : stop_(stop) {
        for (const Term& t : comp.terms)
            (t.law->kind() == LawKind::subsampled_gaussian && (only == nullptr || only == &t) ? steps_ : others_)
                .push_back(t);
        std::sort(steps_.begin(), steps_.end(), [](const Term& a, const Term& b) {
            return a.copies * a.law->parameters()[1] > b.copies * b.law->parameters()[1];
        });
        unlisted_ = others_;
        set_distance(epsilon);
    }

    // What the steps lose where it matters: outputs at which one beside unsampled ones loses as much are the
    // largest that contours of removals ask for.
    void set_distance(double loss) { distance_ = std::fabs(loss); }

    // Edges are made for cuts up to this output.
    void set_edges(double furthest) { edges_for_ = furthest; }
    double width() const { return edge_width(base(), edges_for_); }

    SubsampledStep base() const { return step_of(steps_[0]); }
    double copies() const {
        double sum = 0.0;
        for (const Term& t : steps_) sum += t.copies;
        return sum;
    }

    // The law of so many large steps between two cuts (in outputs of the first kind), the others below the lower
    // one.
    LawPtr steps(double low, double high, LargeStepsCount count, LargeStepsUse use = LargeStepsUse::bounds) {
        std::vector<LargeStepsPart> parts;
        double furthest = 0.0;
        for (const Term& t : steps_) {
            const SubsampledStep s = step_of(t);
            parts.push_back({s, t.copies, cut(s, low), cut(s, high), edge_width(s, cut(s, edges_for_))});
            if (s.removal) furthest = std::max(furthest, s.place(distance_));
        }
        return large_steps_law(std::move(parts), count, furthest, use, cache_, stop_);
    }

    // Lists the losses of others, if there are some of which that can be done; c as in LossList.
    void list(double c) {
        const LossList::Division division = LossList::divide(others_, c, stop_);
        if (!division.listed.empty()) list_ = LossList::of(division.listed, c, stop_);
        if (!list_) return;
        unlisted_ = division.others;
        choose(0, list_->size());
    }
    const std::optional<LossList>& listed() const { return list_; }
    // Pieces have those losses from the first to before the last from now on, their mass made 1.
    void choose(std::size_t first, std::size_t last) {
        first_ = first;
        last_ = last;
        outline_ = list_->outline(first, last);
    }
    // What is left of epsilon for the others, weighted by the masses of those losses.
    std::vector<WeightedPoint> points(double epsilon) const { return list_->points(first_, last_, epsilon); }
    double points_err() const { return list_->points_err(first_, last_); }

    // A piece: such steps (or all of them, as they are) and everything else, but for the listed losses.
    Composition bare(std::vector<Term> steps) const {
        steps.insert(steps.end(), unlisted_.begin(), unlisted_.end());
        return finite(std::move(steps));
    }
    // With them, about.
    Composition outline(std::vector<Term> steps) const {
        steps.insert(steps.end(), unlisted_.begin(), unlisted_.end());
        if (list_) steps.push_back({outline_, 1.0});
        return finite(std::move(steps));
    }
    // Whether contours of pieces are given up soon, and pieces smoothed instead.
    void set_smoothed(bool smoothed) { smoothed_ = smoothed; }
    bool smoothed() const { return smoothed_; }
    bool all_listed() const { return list_ && unlisted_.empty(); }
    const std::vector<Term>& all_steps() const { return steps_; }
    // The steps beside what is not listed.
    Composition alone() const {
        std::vector<Term> terms = steps_;
        terms.insert(terms.end(), unlisted_.begin(), unlisted_.end());
        return Composition::of(std::move(terms));
    }

private:
    static Composition finite(std::vector<Term> terms) {
        Composition out = Composition::of(std::move(terms));
        // Infinite losses of the others are added at the end, once.
        out.log_total_mass = out.log_finite_mass;
        out.log_finite_share = 0.0;
        out.infinite_mass = 0.0;
        return out;
    }
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

    std::vector<Term> steps_, others_, unlisted_;
    std::optional<LossList> list_;
    std::size_t first_ = 0, last_ = 0;
    LawPtr outline_;
    StopCheck stop_;
    double distance_ = 0.0, edges_for_ = 0.0;
    bool smoothed_ = false;
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

// Estimate of the logarithm of a piece's delta or tail, at most its mass; and an exponent whose moment shows that
// it is below `floor`, if one of a few does.
struct Estimate {
    double value;
    double moment;            // 0: none
    double chernoff = -kInf;  // as if from one moment: too large where there are several humps
};
Estimate piece_estimate(Divided& divided, double low, double high, LargeStepsCount count, Quantity quantity,
                        double epsilon, double c, double floor, StopCheck stop) {
    const Composition comp = divided.outline({{divided.steps(low, high, count, LargeStepsUse::placing), 1.0}});
    const double mass = comp.log_finite_mass;
    const Cumulants at = comp.cumulants(0.0, stop);
    if (at.first > epsilon) {
        const double payoff = quantity == Quantity::tail ? 0.0 : std::log(-std::expm1(epsilon - at.first));
        return {count.at_least ? -kInf : mass + payoff, 0.0, mass + payoff};
    }
    double least = kInf;
    for (double at_c = c / kLeastTilt; at_c < kMostTilt * c; at_c *= 2.0) {
        const double value = comp.cumulants(at_c, stop).value - at_c * epsilon;
        if (value < floor - 1.0) return {value, at_c};
        if (!(value < least)) break;
        least = value;
    }
    if (count.at_least) return {-kInf, 0.0, least};
    if (quantity == Quantity::tail) return {std::min(least, mass), 0.0, std::min(least, mass)};
    const double e = log_delta_estimate(comp, epsilon, stop);
    const double chernoff = log_chernoff_estimate(comp, epsilon, stop);
    return {std::isnan(e) ? mass : std::min(e, mass), 0.0, std::isnan(chernoff) ? mass : std::min(chernoff, mass)};
}

// The terms of one division, and what is known of them: of delta, or of Pr[L > epsilon], finite losses. Cuts are
// added where that is least.
class Pieces {
public:
    // c: about where contours stand. content: the width aimed at, relative for delta, absolute for tails; floor:
    // log of what is next to nothing in any case.
    Pieces(Divided& divided, std::vector<double> cuts, Quantity quantity, double epsilon, double c, double content,
           double floor, StopCheck stop)
        : divided_(divided),
          cuts_(std::move(cuts)),
          quantity_(quantity),
          epsilon_(epsilon),
          c_(c),
          content_(content),
          floor_(floor),
          stop_(stop) {
        if (!divided_.listed()) return;
        points_ = divided_.points(epsilon);
        points_err_ = divided_.points_err();
    }

    const std::vector<double>& cuts() const { return cuts_; }

    // log of the sum of what one moment says of each term, about. Humps that the cuts do not part make it too
    // large: of two divisions the better one has the lesser estimate.
    double estimate() {
        list();
        double sum = -kInf;
        for (const Piece& p : pieces_) sum = log_add(sum, p.chernoff, 0.0);
        return sum;
    }

    // What is known without any contour.
    LogBounds without(double enough) const {
        LogBounds out = {-kInf, kInf};
        without_contour(divided_.all_steps(), 0.0, true, enough, out);
        return out;
    }
    // And without cuts.
    LogBounds whole(double enough) const {
        const std::vector<Term>& steps = divided_.all_steps();
        LogBounds out = {-kInf, kInf};
        if (without_contour(steps, 0.0, true, enough, out)) return out;
        const double about =
            quantity_ == Quantity::delta ? log_delta_estimate(divided_.outline(steps), epsilon_, stop_) : 0.0;
        by_contour(steps, std::max(enough, next_to_nothing(about) + 2.0), kPieceShare * content_, out);
        return out;
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

    // log of a term that is next to nothing beside what is wanted of a sum exp(log_sum).
    double next_to_nothing(double log_sum) const {
        return std::max(floor_ - 2.0,
                        (quantity_ == Quantity::tail ? 0.0 : log_sum) + std::log(content_) - kNegligibleShare);
    }

    // All terms for the cuts, with what is known of them already.
    void list() {
        std::vector<Piece> before;
        before.swap(pieces_);
        best_ = -kInf;
        const auto piece = [&](double low, double high, LargeStepsCount count) {
            for (const Piece& p : before)
                if (p.low == low && p.high == high && p.count.large == count.large &&
                    p.count.at_least == count.at_least)
                    return p;
            stop_();
            const double floor = next_to_nothing(std::max(best_, lower_)) - (count.at_least ? 3.0 : 23.0);
            const Estimate about =
                piece_estimate(divided_, low, high, count, quantity_, epsilon_, c_, floor, stop_);
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
                if (m > kMostLarge || (p.estimate < last && p.estimate < next_to_nothing(best_) - 3.0)) {
                    pieces_.push_back(piece(cuts_[i], high, {m, true}));
                    // A loose bound, unless it is so far above that terms must have been missed.
                    if (m <= kMostLarge && pieces_.back().chernoff < best_ + kMissed)
                        pieces_.back().chernoff = -kInf;
                    break;
                }
                pieces_.push_back(p);
                last = p.estimate;
            }
        }
    }

    // What is needed of it; more than before if the sum has turned out to be smaller.
    void look(Piece& p) {
        const double enough = next_to_nothing(best_) + 2.0;
        if (p.done || (p.looked && p.bounds.log_upper < enough)) return;
        const std::vector<Term> steps = {{divided_.steps(p.low, p.high, p.count), 1.0}};
        if (!p.looked) p.bounds = {-kInf, kInf};
        p.looked = true;
        if (without_contour(steps, p.moment, p.estimate < enough, enough, p.bounds)) return;
        p.done = true;
        if (p.count.at_least) return;
        // Of what is wanted of the sum, so much is left to this term.
        const double share = kPieceShare * content_ * std::exp(std::clamp(best_ - p.estimate, 0.0, 700.0));
        by_contour(steps, enough, std::min(share, 0.1), p.bounds);
    }

    static void tighten(LogBounds& bounds, const LogBounds& found) {
        if (found.log_lower > bounds.log_lower) bounds.log_lower = found.log_lower;
        if (found.log_upper < bounds.log_upper) bounds.log_upper = found.log_upper;
    }

    // Whether that is next to nothing; or, of a tail, what it lacks of all mass. `moment` is an exponent that may
    // show it (0: none), `search` for one if it does not.
    bool without_contour(const std::vector<Term>& steps, double moment, bool search, double enough,
                         LogBounds& bounds) const {
        const Composition comp = divided_.bare(steps);
        if (divided_.listed()) return points_without_contour(comp, steps, moment, search, enough, bounds);
        if (comp.max_loss <= epsilon_) {
            bounds = {-kInf, -kInf};
            return true;
        }
        if (quantity_ == Quantity::delta) {
            tighten(bounds, trivial_delta(comp, epsilon_));
            if (moment > 0.0 && !(bounds.log_upper < enough))
                tighten(bounds, {-kInf, log_chernoff_at(comp, epsilon_, moment, stop_)});
            if (search && !(bounds.log_upper < enough))
                tighten(bounds, {-kInf, log_chernoff_above(comp, epsilon_, stop_)});
            return bounds.log_upper < enough;
        }
        const double slip = 4.0 * kRound * std::fabs(comp.log_finite_mass);
        const double most = comp.log_finite_mass + comp.log_mass_err + slip;
        tighten(bounds, {-kInf, most});
        if (bounds.log_upper < enough) return true;
        const bool all = comp.min_loss > epsilon_;
        const int side = all || comp.cumulants(0.0, stop_).first > epsilon_ ? -1 : 1;
        const double other = all ? -kInf : log_chernoff_tail(comp, epsilon_, side, enough, stop_);
        if (side > 0) {
            tighten(bounds, {-kInf, other});
            return bounds.log_upper < enough;
        }
        const double least = comp.log_finite_mass - comp.log_mass_err - slip;
        const double share = std::exp(std::min(other - least, 0.0)) * (1.0 + 4.0 * kLibm);
        if (share < 0.5) tighten(bounds, {least + std::log1p(-share) * (1.0 + kLibm), most});
        return log_width(bounds) < enough;
    }

    // The same with listed losses.
    bool points_without_contour(const Composition& comp, const std::vector<Term>& steps, double moment,
                                bool search, double enough, LogBounds& bounds) const {
        if (comp.max_loss <= points_.front().x - points_.front().err) {
            bounds = {-kInf, -kInf};
            return true;
        }
        const double slip = points_err_ + 4.0 * kRound * std::fabs(comp.log_finite_mass);
        tighten(bounds, {-kInf, comp.log_finite_mass + comp.log_mass_err + slip});
        const auto by_moment = [&](double c) {
            tighten(bounds, {-kInf, log_point_moment(comp, quantity_, points_, c, stop_) + points_err_});
        };
        if (moment > 0.0 && !(bounds.log_upper < enough)) by_moment(moment);
        if (search && !(bounds.log_upper < enough)) {
            const Placement place = spectral_placement(divided_.outline(steps), epsilon_, stop_);
            if (place.c > 0.0) by_moment(place.c);
        }
        return bounds.log_upper < enough;
    }

    // width: relative, of delta, that is enough.
    void by_contour(const std::vector<Term>& steps, double enough, double width, LogBounds& bounds) const {
        const Composition comp = divided_.bare(steps);
        if (divided_.listed()) {
            const LogBounds sum = point_sums(comp, quantity_, points_, enough, stop_);
            tighten(bounds,
                    {outward(sum.log_lower - points_err_, -1.0), outward(sum.log_upper + points_err_, 1.0)});
        } else if (quantity_ == Quantity::delta) {
            const auto contour = [&](StopCheck stop) {
                tighten(bounds, comp.cumulants(0.0, stop).first > epsilon_
                                    ? mostly_above(comp, epsilon_, enough, stop)
                                    : spectral_delta(comp, epsilon_, stop));
            };
            if (!divided_.smoothed()) return contour(stop_);
            within(stop_, kContourShare, contour);
            if (log_width(bounds) < enough || bounds.log_upper - bounds.log_lower <= width || epsilon_ < 0.0)
                return;
            if (const auto smooth = smoothed_delta(comp, epsilon_, width, Effort::if_enough, stop_))
                tighten(bounds, *smooth);
        } else {
            const Interval above = spectral_tails(comp, epsilon_, stop_).above;
            const double low = std::log(above.lower);
            const double high = std::log(above.upper);
            tighten(bounds, {low - kLibm * std::fabs(low), high + kLibm * std::fabs(high)});
        }
    }

    Divided& divided_;
    std::vector<double> cuts_;
    Quantity quantity_;
    double epsilon_, c_, content_, floor_;
    StopCheck stop_;
    std::vector<WeightedPoint> points_;
    double points_err_ = 0.0;
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
    const auto total = [&](double cut) {
        return Pieces(divided, {cut}, Quantity::delta, epsilon, c, 0.1, -kInf, stop).estimate();
    };
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

bool one_scale(const Composition& comp, double epsilon, StopCheck stop) {
    if (expected_samples(comp) >= kFewSteps || much_noise_added(comp)) return true;
    return epsilon >= 0.0 &&
           (log_delta_estimate(comp, epsilon, stop) > kLarge || !several_humps(comp, epsilon, stop));
}

double tilt_for(const Composition& comp, double epsilon, StopCheck stop) {
    const Placement place = spectral_placement(comp, epsilon, stop);
    return place.c > 0.0 ? place.c : 1.0;
}
}  // namespace

namespace {

bool narrow(const LogBounds& bounds, Quantity quantity, double content) {
    if (quantity == Quantity::delta) return bounds.log_upper - bounds.log_lower <= content;
    return std::exp(bounds.log_upper) - std::exp(bounds.log_lower) <= content;
}

// Bounds for the listed losses that have been chosen, of about the distance x of the steps' losses from where they
// matter, their mass being 1. enough: log of what is next to nothing.
LogBounds over_range(Divided& divided, Quantity quantity, double at, double x, double content, double enough,
                     StopCheck stop) {
    const bool removal = divided.base().removal;
    divided.set_distance(x);
    const Composition alone = divided.alone();
    const double c = tilt_for(alone, x < 0.0 ? std::min(-x, 0.5 * alone.max_loss) : x, stop);
    LogBounds best = {-kInf, kInf};
    const auto done = [&] {
        return narrow(best, quantity, content) || log_width(best) < enough + kNegligibleShare - 2.0;
    };
    // Towards the end of their losses the steps have one scale, and so they have where humps run into each other.
    const bool bounded = (x < 0.0) == removal;
    if (divided.listed()) {
        const Pieces all(divided, {}, quantity, at, c, content, enough, stop);
        best = bounded || one_scale(alone, x, stop) ? all.whole(enough) : all.without(enough);
        if (done()) return best;
    }
    std::vector<double> cuts = first_cuts(divided, at - x + std::fabs(x), c, stop);
    // The heavy tail of additions is at small losses: where a step loses a third of -x.
    if (!removal && x < 0.0) cuts = {divided.base().place(-x / 3.0)};
    Pieces pieces(divided, std::move(cuts), quantity, at, c, content, enough, stop);
    try {
        for (int in_vain = 0;;) {
            const LogBounds found = pieces.bounds();
            const double before = std::exp(best.log_upper) - std::exp(best.log_lower);
            best = {std::max(best.log_lower, found.log_lower), std::min(best.log_upper, found.log_upper)};
            const double width = std::exp(best.log_upper) - std::exp(best.log_lower);
            in_vain = quantity == Quantity::delta || width < 0.9 * before ? 0 : in_vain + 1;
            if (done() || in_vain == kInVain || !(best.log_upper > kFarBelow) || !pieces.refine()) break;
        }
    } catch (const OutOfWork&) {  // what has been found holds
    }
    return best;
}

// One of several laws that make up a composition.
struct Share {
    LogBounds mass;   // of the law, as a logarithm
    double estimate;  // of what it adds, likewise
};

// The sum over all of them: ask(i, content, enough, stop) gives bounds for the i-th, its mass made 1, of a width
// that is relative for delta and absolute for tails. enough: log of what is next to nothing.
// known: a lower bound of the logarithm of the sum.
template <class Ask>
LogBounds over_shares(const std::vector<Share>& shares, Quantity quantity, double content, double known,
                      StopCheck stop, const Ask& ask) {
    const bool tail = quantity == Quantity::tail;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < shares.size(); ++i) order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return shares[a].estimate > shares[b].estimate; });
    LogBounds sum = {-kInf, -kInf};
    const double count = static_cast<double>(shares.size());
    for (std::size_t done = 0; done < order.size(); ++done) {
        const Share& s = shares[order[done]];
        // Without a lower bound of the sum nothing is known to be next to nothing.
        const double least = tail ? 0.0 : std::max(known, sum.log_lower);
        const double wanted = std::log(content / count) + least;
        const double own = std::exp(std::min(wanted - (tail ? s.mass.log_upper : s.estimate), 0.0));
        LogBounds found = {-kInf, 0.0};
        const auto left = static_cast<double>(order.size() - done);
        const bool ended = within(stop, std::clamp(kFairShare / left, kLeastWork, 1.0), [&](StopCheck part) {
            const LogBounds b = ask(order[done], std::clamp(own, kShareWidth * content, 0.5),
                                    wanted - s.mass.log_upper - kNegligibleShare + 2.0, part);
            found = {std::max(found.log_lower, b.log_lower), std::min(found.log_upper, b.log_upper)};
        });
        sum = {log_add(sum.log_lower, outward(found.log_lower + s.mass.log_lower, -1.0), -1.0),
               log_add(sum.log_upper, outward(found.log_upper + s.mass.log_upper, 1.0), 1.0)};
        // Other engines have more use for the work that is left.
        if (!tail && !ended && sum.log_upper - sum.log_lower > kHopeless) return {sum.log_lower, 0.0};
    }
    return sum;
}

// What one law adds, at most and about: nothing where all of its losses are below.
double share_estimate(const Composition& comp, Quantity quantity, double at, double log_mass, StopCheck stop) {
    const double about = quantity == Quantity::tail ? 0.0 : log_chernoff_estimate(comp, at, stop);
    return log_mass + (about < 0.0 ? about : 0.0);
}

// One step beside listed losses, and nothing else: a closed form for each of these.
bool comp_is_one_step(const Divided& divided) {
    return divided.all_listed() && divided.all_steps().size() == 1 && divided.all_steps()[0].copies == 1.0;
}
LogBounds one_step_over(const Divided& divided, const LossList& list, double at, StopCheck stop) {
    const SubsampledStep step = divided.base();
    // delta at x, which is exact; below 0, 1 - e^x + e^x times that of the other direction at -x, all positive.
    const auto delta = [&](double x) {
        if (x >= 0.0) return one_subsampled(step.sigma, step.q, step.removal, x);
        const LogBounds other = one_subsampled(step.sigma, step.q, !step.removal, -x);
        const double without = std::log(-std::expm1(x));
        const double off = 2.0 * kLibm * (1.0 + std::fabs(without));
        return LogBounds{log_add(without - off, outward(other.log_lower + x, -1.0), -1.0),
                         log_add(without + off, outward(other.log_upper + x, 1.0), 1.0)};
    };
    const LogBounds mass = list.log_mass(0, list.size());
    LogBounds sum = {-kInf, -kInf};
    std::size_t done = 0;
    for (const WeightedPoint& p : divided.points(at)) {
        if (done++ % 64 == 0) stop();
        stop.spend(kClosedWork);
        sum = {log_add(sum.log_lower, outward(p.log_weight + delta(p.x + p.err).log_lower, -1.0), -1.0),
               log_add(sum.log_upper, outward(p.log_weight + delta(p.x - p.err).log_upper, 1.0), 1.0)};
    }
    const double off = divided.points_err();
    return {outward(sum.log_lower + mass.log_lower - off, -1.0),
            outward(sum.log_upper + mass.log_upper + off, 1.0)};
}

// Bounds of delta or Pr[L > at], finite losses.
LogBounds sorted_bounds(const Composition& comp, Quantity quantity, double at, double content, StopCheck stop) {
    Divided divided(comp, at, stop);
    const bool tail = quantity == Quantity::tail;
    const double tilt = tail ? 0.0 : tilt_for(comp, at, stop);
    divided.list(tilt);
    if (!divided.listed()) return over_range(divided, quantity, at, at, content, -kInf, stop);
    const LossList& list = *divided.listed();
    const auto with_lost = [&](LogBounds sum) {
        const double lost = std::log(list.lost()) + (tail ? 0.0 : log_chernoff_at(comp, at, tilt, stop));
        for (const double more : {lost, std::log(list.underflow())})
            sum.log_upper = log_add(sum.log_upper, more + 1e-9, 1.0);
        return sum;
    };
    if (!tail && comp_is_one_step(divided)) return with_lost(one_step_over(divided, list, at, stop));
    // Many sums may lie so close that every contour ends by itself.
    LogBounds plain = {-kInf, kInf};
    if (list.size() > kManySums && expected_samples(comp) < kFewSteps) {
        within(stop, 0.3, [&](StopCheck part) {
            Divided all(comp, at, part);
            plain = over_range(all, quantity, at, at, content, -kInf, part);
        });
        if (narrow(plain, quantity, content)) return plain;
    }
    // The steps may have one scale for all of them.
    LogBounds once = {-kInf, kInf};
    if (expected_samples(comp) >= kFewSteps || much_noise_added(comp))
        within(stop, 0.3, [&](StopCheck part) {
            const LogBounds mass = list.log_mass(0, list.size());
            const LogBounds found = Pieces(divided, {}, quantity, at, tilt, content, -kInf, part).whole(-kInf);
            once = with_lost(
                {outward(found.log_lower + mass.log_lower, -1.0), outward(found.log_upper + mass.log_upper, 1.0)});
        });
    if (narrow(once, quantity, content)) return once;
    // delta of a composition is at least that of the listed losses alone: (1 - e^x)+ for each.
    double alone = 0.0;
    if (!tail)
        for (std::size_t i = 0; i < list.size(); ++i)
            if (list.loss(i) > at) alone -= std::exp(list.log_mass_about(i)) * std::expm1(at - list.loss(i));
    const double known = tail ? 0.0 : std::max(once.log_lower, std::log(alone) - 0.1);
    // Losses are taken together where what is left for the steps is of one sign and about one size.
    struct Range {
        std::size_t first, last;
        double x;  // the least
    };
    const double least = kLeastShare * expected_samples(comp);
    const auto size = [&](std::size_t i) { return std::max(std::fabs(at - list.loss(i)), least); };
    std::vector<Range> ranges;
    std::vector<Share> shares;
    for (std::size_t first = 0; first < list.size();) {
        const bool below = list.loss(first) > at;
        double low = size(first), high = low;
        std::size_t last = first + 1;
        for (; last < list.size() && (list.loss(last) > at) == below; ++last) {
            low = std::min(low, size(last));
            high = std::max(high, size(last));
            if (high > kOneSize * low) break;
        }
        divided.choose(first, last);
        const LogBounds mass = list.log_mass(first, last);
        ranges.push_back({first, last, at - (below ? list.loss(first) : list.loss(last - 1))});
        shares.push_back(
            {mass, share_estimate(divided.outline(divided.all_steps()), quantity, at, mass.log_upper, stop)});
        first = last;
    }
    LogBounds sum = over_shares(shares, quantity, content, known, stop,
                                [&](std::size_t i, double own, double enough, StopCheck part) {
                                    divided.choose(ranges[i].first, ranges[i].last);
                                    return over_range(divided, quantity, at, ranges[i].x, own, enough, part);
                                });
    sum = with_lost(sum);
    return {std::max({sum.log_lower, once.log_lower, plain.log_lower}),
            std::min({sum.log_upper, once.log_upper, plain.log_upper})};
}

// How many of some equal Laplace losses lie between the ends, tilted by c: up to which number that is to be looked
// at, and log of the share of the others, by Chernoff's bound of a binomial law: for every s > 1, Pr[j > J] <= (1
// - p + ps)^k s^-(J+1).
struct BetweenTheEnds {
    int most;
    double log_lost;
};
BetweenTheEnds between_the_ends(const Term& laplace, double c, StopCheck stop) {
    const double e = laplace.law->parameters()[0];
    const double k = laplace.copies;
    const double ends = std::log(0.5 * (1.0 + std::exp(-e))) + two_point_law(e, 0.0)->cumulants(c, stop).value;
    const double inner = std::log(-0.5 * std::expm1(-e)) + laplace_interior_law(e)->cumulants(c, stop).value;
    // Rounded up: the odds are good to much more than that.
    const double p = std::min(1.0, (1.0 + 1e-9) / (1.0 + std::exp(ends - inner)));
    for (int most = static_cast<int>(std::min(k * p, kMostParts)); most < k && most <= kMostParts; ++most) {
        const double f = (most + 1.0) / k;
        if (!(f > p)) continue;
        const double log_s = f < 1.0 ? std::log(f * (1.0 - p) / (p * (1.0 - f))) : 50.0;
        const double log_lost = k * std::log1p(p * std::expm1(log_s)) - (most + 1.0) * log_s;
        if (log_lost < kLost) return {most, log_lost + 1e-6 * (1.0 + k * p)};
    }
    if (k <= kMostParts) return {static_cast<int>(k), -kInf};
    return {static_cast<int>(kMostParts) + 1, 0.0};
}

// The same with few Laplace releases. A loss of one of them is at an end with probability a = (1 + e^-e)/2, and
// then that of a randomised response: k of them are, with probability C(k, j) a^(k-j) (1-a)^j, k - j responses and
// j losses between the ends, whose transforms fall.
double between_ends(const Composition& comp) {
    double count = 0.0;
    for (const Term& t : comp.terms)
        if (t.law->kind() == LawKind::part) count += t.copies;
    return count;
}

LogBounds without_laplace(const Composition& comp, Quantity quantity, double at, double content, StopCheck stop) {
    const bool tail = quantity == Quantity::tail;
    const double tilt = tail ? 0.0 : tilt_for(comp, at, stop);
    std::vector<Composition> parts = {comp};
    std::vector<Share> shares = {{{0.0, 0.0}, 0.0}};
    double lost = -kInf;  // log of the tilted share of what is left out
    for (std::size_t i = 0; i < parts.size();) {
        const auto& terms = parts[i].terms;
        BetweenTheEnds between{};
        const auto laplace = std::find_if(terms.begin(), terms.end(), [&](const Term& t) {
            if (t.law->kind() != LawKind::laplace) return false;
            between = between_the_ends(t, tilt, stop);
            return static_cast<double>(parts.size()) + between.most <= kMostParts;
        });
        if (laplace == terms.end()) {
            ++i;
            continue;
        }
        const Term one = *laplace;
        std::vector<Term> others = terms;
        others.erase(others.begin() + (laplace - terms.begin()));
        const LogBounds before = shares[i].mass;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        shares.erase(shares.begin() + static_cast<std::ptrdiff_t>(i));
        // Of every part that is divided on: at most that share of all.
        lost = log_add(lost, between.log_lost, 1.0);
        const double e = one.law->parameters()[0];
        const double log_ends = std::log(0.5 * (1.0 + std::exp(-e)));
        const double log_between = std::log(-0.5 * std::expm1(-e));
        for (int j = 0; j <= between.most; ++j) {
            std::vector<Term> own = others;
            own.push_back({two_point_law(e, 0.0), one.copies - j});
            own.push_back({laplace_interior_law(e), static_cast<double>(j)});
            const Certified choose = certified_choose(one.copies, j);
            const double ends = (one.copies - j) * log_ends;
            const double inner = j * log_between;
            const double log_mass = choose.value.re + ends + inner;
            const double off = choose.err + one.copies * 2.0 * kLibm +
                               (kLibm + 4.0 * kRound) * (choose.value.re + std::fabs(ends) + std::fabs(inner));
            parts.push_back(Composition::of(std::move(own)));
            shares.push_back({{outward(before.log_lower + log_mass - off, -1.0),
                               outward(before.log_upper + log_mass + off, 1.0)},
                              0.0});
        }
    }
    if (parts.size() == 1) return sorted_bounds(comp, quantity, at, content, stop);
    for (std::size_t i = 0; i < parts.size(); ++i)
        shares[i].estimate = parts[i].max_loss > at
                                 ? share_estimate(parts[i], quantity, at, shares[i].mass.log_upper, stop)
                                 : -kInf;
    // The estimate of all of them, which is not far off where Laplace losses are most of it.
    const double known = tail ? 0.0 : log_delta_estimate(comp, at, stop) - kLessThanEstimated;
    LogBounds sum = over_shares(
        shares, quantity, content, known, stop, [&](std::size_t i, double own, double enough, StopCheck part) {
            // Some losses between the ends are enough for one contour; with fewer of them others go before it.
            LogBounds best = {-kInf, kInf};
            const auto done = [&] { return best.log_upper < enough || narrow(best, quantity, own); };
            const auto tighter = [&](const LogBounds& b) {
                best = {std::max(best.log_lower, b.log_lower), std::min(best.log_upper, b.log_upper)};
            };
            const auto one_contour = [&](StopCheck check) {
                Divided divided(parts[i], at, check);
                tighter(Pieces(divided, {}, quantity, at, 1.0, own, enough, check).whole(enough));
            };
            const bool first = between_ends(parts[i]) >= kEnoughBetween;
            if (first) one_contour(part);
            if (!done())
                within(part, first ? 1.0 : 0.9,
                       [&](StopCheck check) { tighter(sorted_bounds(parts[i], quantity, at, own, check)); });
            if (!done() && !first) one_contour(part);
            return best;
        });
    if (lost > -kInf)
        sum.log_upper =
            log_add(sum.log_upper, lost + (tail ? 0.0 : log_chernoff_at(comp, at, tilt, stop)) + 1e-9, 1.0);
    return sum;
}

// The kind of step with the least noise, where there are several: its losses have the most scales. Pieces of one
// kind can be smoothed, whatever is beside them.
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

LogBounds finite_bounds(const Composition& comp, Quantity quantity, double at, double content, StopCheck stop) {
    LogBounds plain = {-kInf, kInf};
    const bool atoms = beside_atoms(comp);
    const auto divide = [&](const Term* only, bool smoothed) {
        within(stop, atoms ? kWithoutLists : kAlone, [&](StopCheck part) {
            Divided divided(comp, at, part, only);
            divided.set_smoothed(smoothed);
            const LogBounds found = over_range(divided, quantity, at, at, content, -kInf, part);
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
    const LogBounds listed = without_laplace(comp, quantity, at, content, stop);
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
    Divided divided;
};

LargeStepsPlaces::LargeStepsPlaces(const Composition& composition, const Term& step, double epsilon,
                                   StopCheck stop)
    : division_(new Division{Divided(composition, epsilon, stop, &step)}) {
    cut_ = first_cuts(division_->divided, epsilon, tilt_for(composition, epsilon, stop), stop)[0];
}
LargeStepsPlaces::~LargeStepsPlaces() = default;

Composition LargeStepsPlaces::piece(int large) {
    Divided& divided = division_->divided;
    return divided.outline({{divided.steps(cut_, kInf, {large, false}, LargeStepsUse::placing), 1.0}});
}

}  // namespace dpcore::detail
