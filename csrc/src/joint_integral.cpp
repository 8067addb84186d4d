#include "joint_integral.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "joint_cell.hpp"
#include "joint_panel.hpp"
#include "joint_piece.hpp"

namespace dpcore::detail {

namespace {

using Index = std::ptrdiff_t;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 0x1p-53;

// Panels: the part of one in which t(j) may lie, and where the first is put.
constexpr double kPanelCore = 0.62;
constexpr double kPanelStart = 0.55;
constexpr double kPanelReach = 0.98;
constexpr Index kPanelSize = 256;  // points of a law from which on a panel may be worth its making,
constexpr Index kFewestCells = 8;  // and cells that it must serve

class Integrator {
public:
    Integrator(const JointLaw& law, StopCheck stop) : law_(law), stop_(stop), pieces_(law, stop) {}

    // ln of lower and upper bound of the integral, without the factor of the normal density.
    LogBounds run();

private:
    struct Break {
        double z;
        double log_error;  // ln of what a misplaced z can change
        double distance;   // bound on how far it is misplaced
    };
    struct End {
        double z;         // the last t(j) used
        double log_rest;  // ln of a bound of what lies beyond
        Index cell;       // the last one
    };
    // Takes the next t(j) in, if it is on the right side of the last one; false if not. Two found in the wrong
    // order are the same to within their errors: the exact ones are in order, so the first is no farther from the
    // second than the larger of both distances. Its ratio is then at most the sum of both, and what it can change
    // at most 4 times the larger.
    bool move(Break& here, const Break& found, Index direction) {
        const bool ordered = direction > 0 ? found.z <= here.z : found.z >= here.z;
        const double log_error =
            ordered ? found.log_error : std::max(here.log_error, found.log_error) + std::log(4.0) + 1e-6;
        log_error_ = log_plus(log_error_, log_error);
        if (ordered) here = found;
        return ordered;
    }
    Break solve(Index j, double guess) const;
    End walk(Index from, Index step, Break start, double log_reference);
    double log_beyond(Index j, Index direction, double z, const Break& last, double log_goal) const;

    // The same from the sums of a panel, in its coordinate tau. False where it cannot tell.
    struct Place {
        JointPanel panel;
        bool ready = false;
        double tau = 0.0;    // of the last t(j)
        double slope = 0.0;  // of ln of positive over negative terms, in tau
        Index cells = 0;     // done in this panel
    };
    bool solve(const Place& place, Index j, double& tau, double& slope, Break& out) const;
    bool step(Place& place, Index cell, Index next, Index direction, double width, double jump, Break& here,
              JointPiece& out);
    // A place between two pieces whose ends differ by `distance`.
    void gap(const JointPanel& panel, Index cell, double tau, double distance);
    double log_gap(Index cell, double z) const;
    double log_inner(Index cell, bool lacking, double z) const;

    const JointLaw& law_;
    StopCheck stop_;
    JointPieces pieces_;
    double log_error_ = -kInfinity;  // ln of what misplaced t(j) and gaps can change
    std::vector<JointPiece> heap_;   // pieces that may be divided,
    std::vector<JointPiece> done_;   // and pieces that need not
};

// The z at which the density at y = x_j changes sign: Newton on ln of the positive over the negative terms, whose
// slope (difference of two means over beta^2) is at least 1/beta^2.
Integrator::Break Integrator::solve(Index j, double guess) const {
    const double variance = law_.beta() * law_.beta();
    double low = -kInfinity;
    double high = kInfinity;
    double z = guess;
    Break best{guess, kInfinity, kInfinity};
    double least = kInfinity;
    for (int iteration = 0; iteration < 100; ++iteration) {
        stop_();
        const Part positive = law_.part(cell_query({law_.pivot(), law_.size() - 1}, z, j, true));
        const Part negative = law_.part(cell_query({0, law_.pivot() - 1}, z, j, true));
        const double value = (positive.top - negative.top) + std::log(positive.sum / negative.sum);
        const double noise = positive.error / positive.sum + negative.error / negative.sum +
                             kRounding * (8.0 + std::fabs(positive.top) + std::fabs(negative.top));
        const double ratio = std::fabs(value) + noise;
        if (ratio < least) {
            // Between z and the true one the density at x_j is at most (e^ratio - 1) of its negative part, W and
            // the formula used differ by half of it, and the distance is at most beta^2 ratio.
            least = ratio;
            const double distance = variance * ratio;
            const double reach = std::max(std::fabs(z - law_.x(0)), std::fabs(z - law_.x(law_.size() - 1)));
            best.z = z;
            best.distance = distance;
            best.log_error = std::log(0.51 * distance * std::expm1(std::min(ratio, 700.0))) + law_.log_common(z) +
                             negative.top + std::log(negative.sum) + ratio * (reach + distance);
        }
        if (std::fabs(value) <= std::max(1e-10, noise)) break;
        (value < 0.0 ? low : high) = z;
        const double slope = (positive.moment / positive.sum - negative.moment / negative.sum) / variance;
        double next = z - value / slope;
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (next == z || !std::isfinite(next)) break;
        z = next;
    }
    return best;
}

// The root of solve() by secants, from the sums of a panel.
bool Integrator::solve(const Place& place, Index j, double& tau, double& slope, Break& out) const {
    const JointPanel& panel = place.panel;
    const double variance = law_.beta() * law_.beta();
    const double span = law_.x(law_.size() - 1) - law_.x(0);
    double before = 0.0;
    double value_before = 0.0;
    for (int iteration = 0; iteration < 12; ++iteration) {
        if (!(std::fabs(tau) < kPanelReach)) return false;
        const std::array<Difference, 2> sides = panel.density(j, JointPanel::basis(tau));
        const auto& [positive, negative] = sides;
        if (!(positive.sum > 2.0 * positive.error && negative.sum > 2.0 * negative.error)) return false;
        const double value = (positive.top - negative.top) + std::log(positive.sum / negative.sum);
        // tau is handed on from panel to panel to within 64 u
        const double noise =
            positive.error / positive.sum + negative.error / negative.sum +
            kRounding * (8.0 + std::fabs(positive.top) + std::fabs(negative.top) + 64.0 * panel.rate() * span);
        if (std::fabs(value) <= std::max(1e-10, noise)) {
            const double ratio = std::fabs(value) + noise;
            const double distance = variance * ratio;
            out.z = panel.centre() + tau * panel.half();
            out.distance = distance;
            const double reach =
                std::max(std::fabs(out.z - law_.x(0)), std::fabs(out.z - law_.x(law_.size() - 1)));
            out.log_error = std::log(0.51 * distance * std::expm1(std::min(ratio, 700.0))) +
                            panel.log_common(tau) + negative.top + std::log(negative.sum) +
                            ratio * (reach + distance);
            return true;
        }
        if (iteration > 0 && (value - value_before) / (tau - before) > 0.0)
            slope = (value - value_before) / (tau - before);
        before = tau;
        value_before = value;
        tau -= value / std::max(slope, panel.rate());
        if (tau == before) return false;
    }
    return false;
}

void Integrator::gap(const JointPanel& panel, Index cell, double tau, double distance) {
    const Difference rest = panel.value(JointPanel::Kind::rest, cell, JointPanel::basis(tau));
    if (!(rest.absolute > 0.0)) return;
    log_error_ = log_plus(
        log_error_, upward(rest.top + std::log((rest.absolute + rest.error) * distance) + panel.log_common(tau)));
}

// The same where a panel's tau became a double z or the other way round: ln of 16 u of z and the noise, times W,
// which is the same to a factor of e on both sides of so small a gap.
double Integrator::log_gap(Index cell, double z) const {
    return upward(log_inner(cell, false, z) + std::log(16.0 * kRounding * (std::fabs(z) + law_.beta())) + 1.0);
}

// One more t(j) and the piece up to it, by a panel. `width` and `jump` are guesses of the distance between the
// last two t(j), and to the next one.
bool Integrator::step(Place& place, Index cell, Index next, Index direction, double width, double jump,
                      Break& here, JointPiece& out) {
    JointPanel& panel = place.panel;
    for (int attempt = 0; attempt < 2; ++attempt) {
        const bool inside = place.ready && panel.first() <= std::min(cell, next) &&
                            std::max(cell, next) <= panel.last() && std::fabs(place.tau) < kPanelCore;
        if (!inside || attempt > 0) {
            if (place.ready && place.cells < kFewestCells) return false;
            const bool before = place.ready;
            const double centre = panel.centre();
            const double offset = place.tau * panel.half();
            const double at = direction > 0 ? kPanelStart : -kPanelStart;
            place.cells = 0;
            place.ready = panel.build(here.z, at, direction > 0 ? cell : cell + 1, direction, width, stop_);
            if (!place.ready) return false;
            place.tau = before ? ((centre - panel.centre()) + offset) / panel.half() : panel.tau(here.z);
            if (before)
                gap(panel, cell, place.tau,
                    16.0 * kRounding * (panel.half() + std::fabs(centre - panel.centre()) + std::fabs(offset)));
            else
                log_error_ = log_plus(log_error_, log_gap(cell, here.z));
            place.slope = 0.0;
        }
        double tau = place.tau + jump / panel.half();
        if (std::fabs(tau) > kPanelCore) continue;
        Break found{};
        double slope = place.slope;
        if (!(slope > 0.0)) {  // the first in a panel: a difference instead of a derivative
            const auto value = [&](double at) {
                const auto sides = panel.density(next, JointPanel::basis(at));
                return (sides[0].top - sides[1].top) + std::log(sides[0].sum / sides[1].sum);
            };
            slope = (value(tau + 1e-4) - value(tau - 1e-4)) / 2e-4;
            if (!(slope > 0.0)) return false;
        }
        if (!solve(place, next, tau, slope, found) || std::fabs(tau) > kPanelCore) continue;
        if (direction > 0 ? tau > place.tau : tau < place.tau) tau = place.tau;
        if (tau != place.tau) {
            out = {cell, here.z, found.z};
            const double low = std::min(tau, place.tau);
            const double high = std::max(tau, place.tau);
            if (!pieces_.piece(panel, cell, low, high, out) && !pieces_.sliver(panel, cell, low, high, out))
                return false;
        } else if (direction > 0 ? found.z <= here.z : found.z >= here.z) {
            found.z = here.z;  // tau is the finer of the two
        }
        place.tau = tau;
        place.slope = slope;
        ++place.cells;
        move(here, found, direction);
        return true;
    }
    return false;
}

// ln of a bound of W at a z next to an end of the cell; `lacking`: of what the sum over all k lacks to it.
double Integrator::log_inner(Index cell, bool lacking, double z) const {
    const CellSum a = cell_sums(law_, below_cell(law_, cell), z, cell, true);
    const CellSum b = cell_sums(law_, above_cell(law_, cell), z, cell, true);
    const CellSum s = cell_sums(law_, lacking ? below_cell(law_, cell) : above_cell(law_, cell), z, cell, false);
    const double log_common = law_.log_common(z);
    const CellValue here = cell_value(s, a, b, log_common);
    // z is not quite t(j): (b)
    const double top = std::max(a.top, b.top);
    const double one = std::exp(a.top - top);
    const double two = std::exp(b.top - top);
    const double uneven = std::fabs(one * a.sum - two * b.sum) + one * a.error + two * b.error +
                          8.0 * kRounding * (one * a.absolute + two * b.absolute);
    return log_plus(here.top + std::log(std::max(0.0, here.value) + here.error),
                    top + std::log(0.5 * uneven) + log_common);
}

// ln of a bound of what the cells beyond j change. Above t of a low j the rest is the sum over all k, but for
// negative terms times the probability that y is below j; below t of a high j only positive ones count, times the
// probability that y is above j. It is all between t(j) and the last t; and W(z) over the sum of all negative
// terms at z increases with z (theorem 10 (c)), as what the sum over all k lacks to W, over the positive terms,
// falls.
// Infinite where neither bound can be below the goal: the first one needs a sum over the whole law.
double Integrator::log_beyond(Index j, Index direction, double z, const Break& last, double log_goal) const {
    double log_rest = kInfinity;
    const double width = std::fabs(z - last.z) + last.distance;
    if (width < law_.beta()) {
        const double log_here = log_inner(direction > 0 ? j - 1 : j, direction < 0, z);
        const double reach = std::max(std::fabs(z - law_.x(0)), std::fabs(z - law_.x(law_.size() - 1)));
        log_rest =
            upward(log_here + std::log(width) + width * (reach + width) / (law_.beta() * law_.beta())) + 1e-9;
    }
    if (log_rest < log_goal || !(law_.largest_tail_term(direction > 0, z, direction < 0, j) < log_goal))
        return log_rest;
    const Part tail = law_.tail(direction > 0, z, direction < 0, j);
    return std::min(log_rest, tail.top + std::log(tail.sum + tail.error));
}

// The t(j) from `from` on in one direction and the pieces between them, until what lies beyond is negligible.
Integrator::End Integrator::walk(Index from, Index step_by, Break start, double log_reference) {
    const Index end = step_by > 0 ? law_.size() - 1 : 0;
    Break here = start;
    std::array<double, 4> past{};  // the last four t(j), the last one first
    past[0] = here.z;
    Index count = 1;
    Index check = 16;
    bool fast = law_.size() >= kPanelSize;
    Place place{JointPanel(law_)};
    const Break last = solve(end, here.z);
    for (Index j = from; j != end;) {
        const Index cell = step_by > 0 ? j : j - 1;
        j += step_by;
        // Extrapolate: the t(j) are smooth where there are many.
        double guess = past[0];
        if (count >= 4)
            guess = 4.0 * past[0] - 6.0 * past[1] + 4.0 * past[2] - past[3];
        else if (count >= 2)
            guess = 2.0 * past[0] - past[1];
        JointPiece next{cell, 0.0, 0.0};
        bool done = false;
        if (fast && count >= 4) {
            done = step(place, cell, j, step_by, std::fabs(past[0] - past[1]), guess - here.z, here, next);
            if (done) {
                done_.push_back(next);
            } else {
                log_error_ = log_plus(log_error_, log_gap(cell, here.z));
                // a panel that is left early was not worth its making
                fast = place.ready && place.cells >= kFewestCells;
                place.ready = false;
                place.cells = 0;
            }
        }
        if (!done) {
            const Break found = solve(j, guess);
            const double before = here.z;
            if (move(here, found, step_by) && here.z != before) {
                next = pieces_.piece(cell, std::min(before, here.z), std::max(before, here.z));
                heap_.push_back(next);
            }
        }
        past = {here.z, past[0], past[1], past[2]};
        ++count;
        if (next.log_remainder < next.log_value - 2.0) log_reference = std::max(log_reference, next.log_value);
        if (count < check || j == end) continue;
        check = count + std::max<Index>(16, count / 8);
        const double log_goal = log_reference - kLogCut;
        const double log_rest = log_beyond(j, step_by, here.z, last, log_goal);
        if (log_rest < log_goal) return {here.z, log_rest, cell};
    }
    return {here.z, -kInfinity, step_by > 0 ? std::max(from, end - 1) : end};
}

// Pieces are divided until their remainders add up to this share of the whole,
constexpr double kAccuracy = 1e-11;
constexpr int kMostDivisions = 20000;
constexpr double kLeastPiece = 1e-13;  // or are this short beside the noise

LogBounds Integrator::run() {
    const Index start = std::clamp<Index>(law_.pivot(), 0, law_.size() - 1);
    const Break first = solve(start, 0.0);
    log_error_ = first.log_error;
    const Part gain = law_.tail(true, first.z, true, -1);
    const Part loss = law_.tail(false, first.z, true, -1);
    const CellSum both = cell_difference(gain, loss);
    const double log_reference = both.sum > 2.0 * both.error ? both.top + std::log(both.sum) : -kInfinity;
    const End high = walk(start, 1, first, log_reference);
    const End low = walk(start, -1, first, log_reference);

    // Above the last t on that side: the sum over all k. Its z is that of the last piece, but for rounding.
    const CellSum rest = cell_difference(law_.tail(true, low.z, true, -1), law_.tail(false, low.z, true, -1));
    double fixed_error = log_plus(log_plus(high.log_rest, low.log_rest), log_error_);
    if (rest.top > -kInfinity) fixed_error = log_plus(fixed_error, rest.top + std::log(rest.error));
    if (!done_.empty()) fixed_error = log_plus(fixed_error, log_gap(low.cell, low.z));
    std::vector<JointPiece>& heap = heap_;
    std::make_heap(heap.begin(), heap.end());

    double top = -kInfinity;
    double value = 0.0;
    double error = 0.0;
    for (int division = 0;;) {
        stop_();
        top = std::max(rest.top, fixed_error);
        for (const std::vector<JointPiece>* pieces : {&heap_, &done_})
            for (const JointPiece& at : *pieces) top = std::max({top, at.log_value, at.log_remainder});
        value = rest.top > -kInfinity ? rest.sum * std::exp(rest.top - top) : 0.0;
        error = std::exp(fixed_error - top);
        double divisible = 0.0;
        for (const JointPiece& at : heap) {
            value += std::exp(at.log_value - top);
            const double part = std::exp(at.log_remainder - top);
            error += part + std::exp(at.log_rounding - top);
            divisible += part;
        }
        for (const JointPiece& at : done_) {
            value += std::exp(at.log_value - top);
            error += std::exp(at.log_remainder - top) + std::exp(at.log_rounding - top);
        }
        if (!(divisible > kAccuracy * value) || division >= kMostDivisions || heap.empty()) break;
        // A sixteenth of the error is left behind at a time, so that the sums above cost little.
        bool progress = false;
        for (double left = divisible; left > 0.9375 * divisible && division < kMostDivisions; ++division) {
            std::pop_heap(heap.begin(), heap.end());
            const JointPiece old = heap.back();
            const double middle = 0.5 * (old.from + old.to);
            if (!(old.to - old.from > kLeastPiece * law_.beta()) || !(middle > old.from && middle < old.to)) {
                std::push_heap(heap.begin(), heap.end());
                break;
            }
            heap.pop_back();
            progress = true;
            for (const JointPiece& part :
                 {pieces_.piece(old.cell, old.from, middle), pieces_.piece(old.cell, middle, old.to)}) {
                left += std::exp(part.log_remainder - top);
                heap.push_back(part);
                std::push_heap(heap.begin(), heap.end());
            }
            left -= std::exp(old.log_remainder - top);
        }
        if (!progress) break;
    }
    const double count = static_cast<double>(heap.size() + done_.size()) + 16.0;
    error = error * (1.0 + 1e-9) + kRounding * (count + 8.0 * std::fabs(top)) * std::fabs(value);
    return {value > error ? top + std::log(value - error) : -kInfinity, top + std::log(value + error)};
}

}  // namespace

LogBounds joint_integral(const JointLaw& law, StopCheck stop) { return Integrator(law, stop).run(); }

}  // namespace dpcore::detail
