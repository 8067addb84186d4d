#include "step_pieces.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "chernoff.hpp"
#include "log_sum.hpp"
#include "point_sums.hpp"
#include "smoothed.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Terms of one window; more than that are bounded together.
constexpr int kMostLarge = 80;
constexpr double kMissed = 25.0;
// Moments that show a term to be negligible are looked for from this part of the exponent of the whole, the first
// that is enough being the best known, up to so many times it.
constexpr double kLeastTilt = 64.0;
constexpr double kMostTilt = 0x1p14;
// Width of one term of a division, of that of all; and work of a contour before it is smoothed.
constexpr double kPieceShare = 0.15;
constexpr double kContourShare = 0.2;
// The least window, in widths of its edges.
constexpr double kLeastWindow = 0.2;

// Estimate of the logarithm of a piece's delta or tail, at most its mass; and an exponent whose moment shows that
// it is below `floor`, if one of a few does.
struct Estimate {
    double value;
    double moment;            // 0: none
    double chernoff = -kInf;  // as if from one moment: too large where there are several humps
};
Estimate piece_estimate(DividedSteps& divided, double low, double high, LargeStepsCount count, Quantity quantity,
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

void tighten(LogBounds& bounds, const LogBounds& found) {
    if (found.log_lower > bounds.log_lower) bounds.log_lower = found.log_lower;
    if (found.log_upper < bounds.log_upper) bounds.log_upper = found.log_upper;
}

}  // namespace

StepPieces::StepPieces(DividedSteps& divided, std::vector<double> cuts, Quantity quantity, double epsilon,
                       double c, double content, double floor, StopCheck stop)
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

double StepPieces::estimate() {
    list();
    double sum = -kInf;
    for (const Piece& p : pieces_) sum = log_add(sum, p.chernoff, 0.0);
    return sum;
}

LogBounds StepPieces::without(double enough) const {
    LogBounds out = {-kInf, kInf};
    without_contour(divided_.all_steps(), 0.0, true, enough, out);
    return out;
}

LogBounds StepPieces::whole(double enough) const {
    const std::vector<Term>& steps = divided_.all_steps();
    LogBounds out = {-kInf, kInf};
    if (without_contour(steps, 0.0, true, enough, out)) return out;
    const double about =
        quantity_ == Quantity::delta ? log_delta_estimate(divided_.outline(steps), epsilon_, stop_) : 0.0;
    by_contour(steps, std::max(enough, next_to_nothing(about) + 2.0), kPieceShare * content_, out);
    return out;
}

LogBounds StepPieces::bounds() {
    list();
    LogBounds sum = {-kInf, -kInf};
    for (Piece& p : pieces_) {
        stop_();
        look(p);
        sum = {log_add(sum.log_lower, p.bounds.log_lower, -1.0), log_add(sum.log_upper, p.bounds.log_upper, 1.0)};
    }
    lower_ = std::max(lower_, sum.log_lower);
    return sum;
}

bool StepPieces::refine() {
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

// log of a term that is next to nothing beside what is wanted of a sum exp(log_sum).
double StepPieces::next_to_nothing(double log_sum) const {
    return std::max(floor_ - 2.0,
                    (quantity_ == Quantity::tail ? 0.0 : log_sum) + std::log(content_) - kNegligibleShare);
}

// All terms for the cuts, with what is known of them already.
void StepPieces::list() {
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
        const Estimate about = piece_estimate(divided_, low, high, count, quantity_, epsilon_, c_, floor, stop_);
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
                if (m <= kMostLarge && pieces_.back().chernoff < best_ + kMissed) pieces_.back().chernoff = -kInf;
                break;
            }
            pieces_.push_back(p);
            last = p.estimate;
        }
    }
}

// What is needed of it; more than before if the sum has turned out to be smaller.
void StepPieces::look(Piece& p) {
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

// Whether that is next to nothing; or, of a tail, what it lacks of all mass. `moment` is an exponent that may
// show it (0: none), `search` for one if it does not.
bool StepPieces::without_contour(const std::vector<Term>& steps, double moment, bool search, double enough,
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
bool StepPieces::points_without_contour(const Composition& comp, const std::vector<Term>& steps, double moment,
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
void StepPieces::by_contour(const std::vector<Term>& steps, double enough, double width, LogBounds& bounds) const {
    const Composition comp = divided_.bare(steps);
    if (divided_.listed()) {
        const LogBounds sum = point_sums(comp, quantity_, points_, enough, stop_);
        tighten(bounds, {outward(sum.log_lower - points_err_, -1.0), outward(sum.log_upper + points_err_, 1.0)});
    } else if (quantity_ == Quantity::delta) {
        const auto contour = [&](StopCheck stop) {
            tighten(bounds, comp.cumulants(0.0, stop).first > epsilon_ ? mostly_above(comp, epsilon_, enough, stop)
                                                                       : spectral_delta(comp, epsilon_, stop));
        };
        if (!divided_.smoothed()) return contour(stop_);
        within(stop_, kContourShare, contour);
        if (log_width(bounds) < enough || bounds.log_upper - bounds.log_lower <= width || epsilon_ < 0.0) return;
        if (const auto smooth = smoothed_delta(comp, epsilon_, width, Effort::if_enough, stop_))
            tighten(bounds, *smooth);
    } else {
        const Interval above = spectral_tails(comp, epsilon_, stop_).above;
        const double low = std::log(above.lower);
        const double high = std::log(above.upper);
        tighten(bounds, {low - kLibm * std::fabs(low), high + kLibm * std::fabs(high)});
    }
}

}  // namespace dpcore::detail
