#include "joint_integral.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "joint_panel.hpp"

namespace dpcore::detail {

namespace {

using Index = std::ptrdiff_t;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 0x1p-53;
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

// Numbers of nodes to choose from; the remainder falls as rho^(-2 nodes).
constexpr std::array<int, 7> kNodes = {2, 3, 4, 6, 9, 14, 20};

struct Rule {
    std::vector<double> node;
    std::vector<double> weight;
};

// Gauss-Legendre on [-1, 1] by Newton on the recurrence: nodes to 2 u, weights to 16 u of themselves for 20 nodes.
Rule make_rule(int n) {
    Rule out;
    for (int i = 0; i < n; ++i) {
        double x = std::cos(M_PI * (i + 0.75) / (n + 0.5));
        double slope = 1.0;
        for (int iteration = 0; iteration < 8; ++iteration) {
            double before = 1.0;
            double value = x;
            for (int k = 2; k <= n; ++k)
                before = std::exchange(value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            slope = n * (x * value - before) / (x * x - 1.0);
            x -= value / slope;
        }
        out.node.push_back(x);
        out.weight.push_back(2.0 / ((1.0 - x) * (1.0 + x) * slope * slope));
    }
    return out;
}

const Rule& rule(std::size_t which) {
    static const std::array<Rule, kNodes.size()> rules = [] {
        std::array<Rule, kNodes.size()> out;
        for (std::size_t i = 0; i < kNodes.size(); ++i) out[i] = make_rule(kNodes[i]);
        return out;
    }();
    return rules[which];
}

// exp(top) (value +- error).
struct Scaled {
    double top = -kInfinity;
    double value = 0.0;
    double error = 0.0;
};

double log_add(double a, double b) {
    const double top = std::max(a, b);
    if (top == -kInfinity || top == kInfinity) return top;
    return top + std::log(std::exp(a - top) + std::exp(b - top));
}

double up(double value) { return value + std::fabs(value) * 1e-12; }

// positive - negative, with what a bound needs of both.
struct Signed : Difference {
    double mean = 0.0;      // of x_k under the absolute terms
    double variance = 0.0;  // absolute terms times (x_k - mean)^2, over the sum; rough
    double drift = 0.0;     // mean under the signed terms less `mean`
};

Signed combine(const Part& positive, const Part& negative) {
    Signed out;
    out.top = std::max(positive.top, negative.top);
    if (out.top == -kInfinity) return out;
    const double a = std::exp(positive.top - out.top);
    const double b = std::exp(negative.top - out.top);
    out.sum = a * positive.sum - b * negative.sum;
    out.absolute = a * positive.sum + b * negative.sum;
    // exp of the difference of two tops: their difference is exact to u, the exponential to 2 u
    const double distance = std::min(700.0, std::fabs(positive.top - negative.top));
    out.error = a * positive.error + b * negative.error + kRounding * (8.0 + distance) * out.absolute;
    const double moment = a * positive.moment + b * negative.moment;
    out.mean = moment / out.absolute;
    out.variance = (a * positive.second + b * negative.second - out.mean * moment) / out.sum;
    out.drift = (a * positive.moment - b * negative.moment) / out.sum - out.mean;
    return out;
}

// The points of cell j: k <= j with the sign of A changed, or k > j.
struct Ranges {
    std::pair<Index, Index> positive;
    std::pair<Index, Index> negative;
};
Ranges below(const JointLaw& law, Index j) { return {{0, std::min(j, law.pivot() - 1)}, {law.pivot(), j}}; }
Ranges above(const JointLaw& law, Index j) {
    return {{std::max(j + 1, law.pivot()), law.size() - 1}, {j + 1, law.pivot() - 1}};
}
Query query(std::pair<Index, Index> range, double z, Index j, bool tilted) {
    return {range.first, range.second, z, z, j, tilted};
}
Signed sums(const JointLaw& law, const Ranges& ranges, double z, Index j, bool tilted) {
    return combine(law.part(query(ranges.positive, z, j, tilted)), law.part(query(ranges.negative, z, j, tilted)));
}

// S - sqrt(a b), a = -A: W in cell j. log_common is that of the law at the same z.
Scaled inner(const Difference& s, const Difference& a, const Difference& b, double log_common) {
    Scaled out;
    const double log_root = 0.5 * (a.top + b.top);
    out.top = std::max(s.top, log_root);
    if (out.top == -kInfinity) return out;
    const double scale = std::exp(s.top - out.top);
    const double root_scale = std::exp(log_root - out.top);
    const double root = std::sqrt(std::max(0.0, a.sum) * std::max(0.0, b.sum)) * root_scale;
    const double most = std::sqrt(std::max(0.0, a.sum + a.error) * std::max(0.0, b.sum + b.error)) * root_scale;
    const double least = std::sqrt(std::max(0.0, a.sum - a.error) * std::max(0.0, b.sum - b.error)) * root_scale;
    out.value = s.sum * scale - root;
    const double exponents = std::fabs(s.top) + std::fabs(a.top) + std::fabs(b.top);
    out.error = s.error * scale + (most - least) +
                kRounding * (16.0 + 2.0 * exponents) * (s.absolute * scale + most) +
                kRounding * 8.0 * std::fabs(log_common) * std::fabs(out.value);
    out.top += log_common;
    return out;
}

// Panels: the part of one in which t(j) may lie, where the first is put, and how far a disc may reach.
constexpr double kPanelCore = 0.62;
constexpr double kPanelStart = 0.55;
constexpr double kPanelReach = 0.98;
constexpr Index kPanelSize = 256;           // points of a law from which on a panel may be worth its making,
constexpr Index kFewestCells = 8;           // and cells that it must serve
constexpr double kLeastStretch = 4.0;       // of the disc's radius over half the piece
constexpr double kNegligiblePiece = 1e-16;  // of the largest
constexpr double kSteepest = 4.0;           // ln of the growth of the normal density in the disc

// A piece of the integral over z.
struct Piece {
    Index cell;
    double from;
    double to;
    double log_value = -kInfinity;
    double log_remainder = -kInfinity;  // what division can lower
    double log_rounding = -kInfinity;   // what it cannot
    bool operator<(const Piece& other) const { return log_remainder < other.log_remainder; }
};

class Integrator {
public:
    Integrator(const JointLaw& law, StopCheck stop) : law_(law), stop_(stop) {}

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
        log_error_ = log_add(log_error_, log_error);
        if (ordered) here = found;
        return ordered;
    }
    Break solve(Index j, double guess) const;
    End walk(Index from, Index step, Break start, double log_reference);
    Piece piece(Index cell, double from, double to);
    double log_crude(Index cell, double from, double to) const;
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
    bool piece(const JointPanel& panel, Index cell, double from, double to, Piece& out);
    bool sliver(const JointPanel& panel, Index cell, double from, double to, Piece& out) const;
    bool step(Place& place, Index cell, Index next, Index direction, double width, double jump, Break& here,
              Piece& out);
    // A place between two pieces whose ends differ by `distance`.
    void gap(const JointPanel& panel, Index cell, double tau, double distance);
    double log_gap(Index cell, double z) const;
    double log_inner(Index cell, bool lacking, double z) const;

    const JointLaw& law_;
    StopCheck stop_;
    double log_best_ = -kInfinity;   // ln of the largest rough value of a piece so far
    double log_error_ = -kInfinity;  // ln of what misplaced t(j) and gaps can change
    std::vector<Piece> heap_;        // pieces that may be divided,
    std::vector<Piece> done_;        // and pieces that need not
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
        const Part positive = law_.part(query({law_.pivot(), law_.size() - 1}, z, j, true));
        const Part negative = law_.part(query({0, law_.pivot() - 1}, z, j, true));
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
    log_error_ = log_add(log_error_,
                         up(rest.top + std::log((rest.absolute + rest.error) * distance) + panel.log_common(tau)));
}

// The same where a panel's tau became a double z or the other way round: ln of 16 u of z and the noise, times W,
// which is the same to a factor of e on both sides of so small a gap.
double Integrator::log_gap(Index cell, double z) const {
    return up(log_inner(cell, false, z) + std::log(16.0 * kRounding * (std::fabs(z) + law_.beta())) + 1.0);
}

// As piece(), with a disc of radius r in tau for which theorem 10 (a) needs the sums g of magnitudes at the centre
// and at +-r only. m is the number that makes g(r) e^(-r m) and g(-r) e^(r m) equal, u_k = r (x_k - m), f the
// signed sum, p_k its terms over f(0), V = 2 (sqrt(g(r) g(-r)) - g(0)) / |f(0)|, which is the sum of |p_k| (e^u_k
// + e^-u_k - 2). That bounds the terms beyond the first order, e^|u| - 1 - |u|, and sinh u - u. The first order is
// the sum of p_k u_k: at most sqrt(V g(0) / |f(0)|), and at most |f(r) e^(-r m) - f(-r) e^(r m)| / (2 |f(0)|) + V.
bool Integrator::piece(const JointPanel& panel, Index cell, double from, double to, Piece& out) {
    using Kind = JointPanel::Kind;
    const double centre = 0.5 * (from + to);
    const double half = 0.5 * (to - from) * (1.0 + 1e-9) + 4.0 * kRounding;
    const JointPanel::Basis middle_basis = JointPanel::basis(centre);
    const Difference a = panel.value(Kind::below, cell, middle_basis);
    const Difference b = panel.value(Kind::above, cell, middle_basis);
    const Difference s = panel.value(Kind::rest, cell, middle_basis);
    if (!(a.sum > 2.0 * a.error && b.sum > 2.0 * b.error && s.absolute > 2.0 * s.error)) return false;
    const double log_common = panel.log_common(centre);
    const Scaled middle = inner(s, a, b, log_common);
    const double lean = panel.lean(centre);

    struct Disc {
        double share;   // how far the sum may be from its value at the centre, beside the factor of m
        double drift;   // ln of that factor
        double spread;  // V with the sum of magnitudes in place of the sum
        double most;    // sqrt(g(r) g(-r))
    };
    double radius = std::min({0.35, 0.999 - std::fabs(centre), 300.0 * half});
    Disc disc_a{};
    Disc disc_b{};
    Disc disc_s{};
    bool found = false;
    for (int attempt = 0; attempt < 8 && radius >= kLeastStretch * half; ++attempt) {
        const JointPanel::Basis left = JointPanel::basis(centre - radius);
        const JointPanel::Basis right = JointPanel::basis(centre + radius);
        const auto disc = [&](Kind kind, const Difference& at) {
            const Difference one = panel.value(kind, cell, left);
            const Difference two = panel.value(kind, cell, right);
            Disc result{};
            result.most = std::sqrt((one.absolute + one.error) * (two.absolute + two.error));
            const double raised = std::max(0.0, 2.0 * (result.most - (at.absolute - at.error)));
            result.spread = raised / (at.absolute - at.error);
            result.drift = 0.5 * std::log(two.absolute / one.absolute);
            const double least = std::fabs(at.sum) - at.error;
            const double grow = std::exp(result.drift);
            const double odd = std::fabs(two.sum / grow - one.sum * grow) + (two.error / grow + one.error * grow) +
                               1e-12 * (two.absolute / grow + one.absolute * grow);
            result.share =
                2.0 * raised / least + std::min(0.5 * odd, std::sqrt(raised * (at.absolute + at.error))) / least;
            return result;
        };
        disc_a = disc(Kind::below, a);
        disc_b = disc(Kind::above, b);
        disc_s = disc(Kind::rest, s);
        const double steep = std::max(std::fabs(0.5 * (disc_a.drift + disc_b.drift) + radius * lean),
                                      std::fabs(disc_s.drift + radius * lean));
        found = disc_a.share < 0.9 && disc_b.share < 0.9 && steep < kSteepest;
        if (found) break;
        radius *= steep < kSteepest ? 0.6 : std::min(0.6, 0.9 * kSteepest / steep);
    }
    if (!found) return false;
    const double deviations = radius * panel.rate() * law_.beta();
    // 1e-9: m is computed from sums that are good to that
    const double log_root = 0.5 * (a.top + std::log((a.sum + a.error) * (1.0 + disc_a.share)) + b.top +
                                   std::log((b.sum + b.error) * (1.0 + disc_b.share))) +
                            std::fabs(0.5 * (disc_a.drift + disc_b.drift) + radius * lean);
    const double log_s = s.top + std::log(2.0 * disc_s.most) + std::fabs(disc_s.drift + radius * lean);
    const double log_largest = up(log_add(log_s, log_root) + 0.5 * deviations * deviations + log_common) + 1e-6;
    if (!(log_largest < kInfinity)) return false;
    const double stretch = radius / half;
    const double log_rho = std::log(stretch + std::sqrt((stretch - 1.0) * (stretch + 1.0))) * (1.0 - 1e-12);
    const double length = 0.5 * (to - from) * panel.half();
    const double log_first =
        std::log(64.0 / 15.0 * half * panel.half() / -std::expm1(-2.0 * log_rho)) + log_largest + 1e-9;
    const double rough =
        middle.value > middle.error ? middle.top + std::log(middle.value) + std::log(2.0 * length) : -kInfinity;
    log_best_ = std::max(log_best_, rough);
    const double goal = std::max(rough + std::log(1e-13), log_best_ + std::log(1e-15));
    std::size_t which = 0;
    while (which + 1 < kNodes.size() && log_first - 2.0 * kNodes[which] * log_rho > goal) ++which;
    out.log_remainder = up(log_first - 2.0 * kNodes[which] * log_rho);
    if (out.log_remainder > goal + 3.0) return false;

    const Rule& gauss = rule(which);
    const double top = middle.top;
    double value = 0.0;
    double error = 0.0;
    for (std::size_t i = 0; i < gauss.node.size(); ++i) {
        const double tau = centre + 0.5 * (to - from) * gauss.node[i];
        const JointPanel::Basis basis = JointPanel::basis(tau);
        const double common = panel.log_common(tau);
        const Scaled at = inner(panel.value(Kind::rest, cell, basis), panel.value(Kind::below, cell, basis),
                                panel.value(Kind::above, cell, basis), common);
        const double scale = gauss.weight[i] * std::exp(at.top - top);
        value += scale * at.value;
        // 64 u: weights and the sum; 48 u: the common factor of the basis, and the length in z
        error +=
            scale * (at.error + kRounding * (112.0 + 8.0 * panel.common_parts(tau) + std::fabs(at.top - top)) *
                                    std::fabs(at.value));
    }
    // Nodes are off by 4 u. The derivative of a sum of magnitudes g is at most g (|drift| + sqrt(spread)) / r
    // beside the lean: sum of |x_k - m| <= sqrt(g sum of (x_k - m)^2), and r^2 times the latter is at most spread
    // g. Within the piece, a fourth of the disc, neither grows by more than e^(1/4 + steepness/4) < 4.
    const auto slope = [&](const Difference& at, const Disc& disc) {
        return at.absolute / std::fabs(at.sum) * (std::fabs(disc.drift + radius * lean) + std::sqrt(disc.spread)) /
               radius;
    };
    const double root = std::sqrt(a.sum * b.sum) * std::exp(0.5 * (a.top + b.top) + log_common - top);
    const double rest = std::fabs(s.sum) * std::exp(s.top + log_common - top);
    error += 2.0 * 4.0 * 4.0 * kRounding *
             (rest * slope(s, disc_s) + 0.5 * root * (slope(a, disc_a) + slope(b, disc_b)));
    out.log_value = value > 0.0 ? top + std::log(value * length) : -kInfinity;
    const double rounding = error * length + kRounding * (8.0 + 2.0 * std::fabs(top)) * std::fabs(value) * length +
                            (value > 0.0 ? 0.0 : -value * length);
    if (rounding > 0.0) out.log_rounding = up(top + std::log(rounding));
    return true;
}

// A piece that is negligible: log_crude() is all that is asked of it.
bool Integrator::sliver(const JointPanel& panel, Index cell, double from, double to, Piece& out) const {
    using Kind = JointPanel::Kind;
    const double centre = 0.5 * (from + to);
    const double half = 0.5 * (to - from) * (1.0 + 1e-9) + 4.0 * kRounding;
    double log_most = -kInfinity;
    for (const double tau : {from, to}) {  // sums of magnitudes are convex in tau
        const JointPanel::Basis at = JointPanel::basis(tau);
        for (const Kind kind : {Kind::below, Kind::rest}) {
            const Difference sum = panel.value(kind, cell, at);
            if (sum.absolute > 0.0) log_most = log_add(log_most, sum.top + std::log(sum.absolute + sum.error));
        }
    }
    const double log_whole = up(log_most + panel.log_common(centre) + half * std::fabs(panel.lean(centre)) +
                                std::log(2.0 * half * panel.half())) +
                             1e-9;
    out.log_value = log_whole - std::log(2.0);
    out.log_remainder = up(out.log_value);
    return log_whole < log_best_ + std::log(kNegligiblePiece);
}

// One more t(j) and the piece up to it, by a panel. `width` and `jump` are guesses of the distance between the
// last two t(j), and to the next one.
bool Integrator::step(Place& place, Index cell, Index next, Index direction, double width, double jump,
                      Break& here, Piece& out) {
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
                log_error_ = log_add(log_error_, log_gap(cell, here.z));
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
            if (!piece(panel, cell, low, high, out) && !sliver(panel, cell, low, high, out)) return false;
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
    const Signed a = sums(law_, below(law_, cell), z, cell, true);
    const Signed b = sums(law_, above(law_, cell), z, cell, true);
    const Signed s = sums(law_, lacking ? below(law_, cell) : above(law_, cell), z, cell, false);
    const double log_common = law_.log_common(z);
    const Scaled here = inner(s, a, b, log_common);
    // z is not quite t(j): (b)
    const double top = std::max(a.top, b.top);
    const double one = std::exp(a.top - top);
    const double two = std::exp(b.top - top);
    const double uneven = std::fabs(one * a.sum - two * b.sum) + one * a.error + two * b.error +
                          8.0 * kRounding * (one * a.absolute + two * b.absolute);
    return log_add(here.top + std::log(std::max(0.0, here.value) + here.error),
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
        log_rest = up(log_here + std::log(width) + width * (reach + width) / (law_.beta() * law_.beta())) + 1e-9;
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
        Piece next{cell, 0.0, 0.0};
        bool done = false;
        if (fast && count >= 4) {
            done = step(place, cell, j, step_by, std::fabs(past[0] - past[1]), guess - here.z, here, next);
            if (done) {
                done_.push_back(next);
            } else {
                log_error_ = log_add(log_error_, log_gap(cell, here.z));
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
                next = piece(cell, std::min(before, here.z), std::max(before, here.z));
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

// ln of a bound of the integral over [from, to]: W is at most the positive terms times the probability that y is
// above the cell's lower end.
double Integrator::log_crude(Index cell, double from, double to) const {
    const double length = std::min(to - from, law_.beta() * std::exp(kLogSqrtTwoPi));
    const Part tilted = law_.part({law_.pivot(), cell, from, to, cell, true});
    const Part plain = law_.part({std::max(cell + 1, law_.pivot()), law_.size() - 1, from, to, cell, false});
    const double log_tilted = tilted.top + std::log(tilted.sum + tilted.error);
    const double log_plain = plain.top + std::log(plain.sum + plain.error);
    return log_add(tilted.sum > 0.0 ? log_tilted : -kInfinity, plain.sum > 0.0 ? log_plain : -kInfinity) +
           std::log(length);
}

Piece Integrator::piece(Index cell, double from, double to) {
    stop_();
    Piece out{cell, from, to};
    const double centre = 0.5 * (from + to);
    const double half = 0.5 * (to - from) * (1.0 + 1e-9) + 4.0 * kRounding * std::fabs(centre);
    const double variance = law_.beta() * law_.beta();
    const Ranges lower = below(law_, cell);
    const Ranges upper = above(law_, cell);
    const auto give_up = [&] {
        const double crude = log_crude(cell, from, to);
        out.log_value = crude - std::log(2.0);
        out.log_remainder = up(out.log_value);
        return out;
    };
    const Signed a = sums(law_, lower, centre, cell, true);
    const Signed b = sums(law_, upper, centre, cell, true);
    if (!(a.sum > 2.0 * a.error && b.sum > 2.0 * b.error)) return give_up();
    const Signed s = sums(law_, upper, centre, cell, false);
    const double log_common = law_.log_common(centre);
    const Scaled middle = inner(s, a, b, log_common);

    // A disc around the centre in which A and B cannot vanish: with p_k = term / sum, m their absolute mean, m + d
    // their mean and w_k = radius |x_k - m| / beta^2,
    //     |sum of p_k e^(zeta (x_k - m) / beta^2) - 1| <= radius |d| / beta^2 + sum of |p_k| (e^w_k - 1 - w_k).
    const double extent = std::max({std::fabs(a.drift) + std::sqrt(std::max(0.0, a.variance)),
                                    std::fabs(b.drift) + std::sqrt(std::max(0.0, b.variance)), 1e-300});
    double radius = std::min(law_.beta(), 0.8 * variance / extent);
    // Far from the mean the normal density grows as e^(radius distance / beta^2), against rho^(2 nodes): beyond 30
    // a larger disc is worse.
    const double distance = std::max(std::fabs(a.mean - centre), std::fabs(b.mean - centre));
    radius = std::min(radius, std::max(2.5 * half, 30.0 * variance / std::max(distance, 1e-300)));
    double share_a = 0.0;
    double share_b = 0.0;
    bool found = false;
    for (int attempt = 0; attempt < 6 && radius >= 1.25 * half; ++attempt, radius *= 0.7) {
        const double rate = radius / variance;
        const auto share = [&](const Signed& side, const Ranges& ranges) {
            const Part one = law_.grown(query(ranges.positive, centre, cell, true), side.mean, rate, true);
            const Part two = law_.grown(query(ranges.negative, centre, cell, true), side.mean, rate, true);
            const double total = one.sum * std::exp(one.top - side.top) + two.sum * std::exp(two.top - side.top);
            // The drift is computed: it is off by the span of the points times the errors of both sums.
            const double span = law_.x(law_.size() - 1) - law_.x(0);
            return rate * std::fabs(side.drift) * (1.0 + 2.0 * side.error / side.sum) +
                   (total + 4.0 * rate * span * (side.error + 64.0 * kRounding * side.absolute)) /
                       (side.sum - side.error);
        };
        share_a = share(a, lower);
        share_b = share(b, upper);
        found = share_a < 0.9 && share_b < 0.9;
        if (found) break;
    }
    if (!found) return give_up();
    const double rate = radius / variance;
    const double log_gauss = 0.5 * radius * rate;
    const Part s_one = law_.grown(query(upper.positive, centre, cell, false), centre, rate, false);
    const Part s_two = law_.grown(query(upper.negative, centre, cell, false), centre, rate, false);
    const double log_s = log_add(s_one.sum > 0.0 ? s_one.top + std::log(s_one.sum) : -kInfinity,
                                 s_two.sum > 0.0 ? s_two.top + std::log(s_two.sum) : -kInfinity);
    const double log_root = 0.5 * (a.top + std::log((a.sum + a.error) * (1.0 + share_a)) + b.top +
                                   std::log((b.sum + b.error) * (1.0 + share_b)) +
                                   rate * (std::fabs(a.mean - centre) + std::fabs(b.mean - centre)));
    const double log_largest = up(log_add(log_s, log_root) + log_gauss + log_common) + 1e-6;
    if (!(log_largest < kInfinity)) return give_up();
    const double stretch = radius / half;
    const double log_rho = std::log(stretch + std::sqrt((stretch - 1.0) * (stretch + 1.0))) * (1.0 - 1e-12);
    // (64/15) M rho^-2n / (1 - rho^-2), times half the length.
    const double log_first = std::log(64.0 / 15.0 * half / -std::expm1(-2.0 * log_rho)) + log_largest + 1e-9;

    const double rough =
        middle.value > middle.error ? middle.top + std::log(middle.value) + std::log(2.0 * half) : -kInfinity;
    log_best_ = std::max(log_best_, rough);
    const double goal = std::max(rough + std::log(1e-13), log_best_ + std::log(1e-15));
    std::size_t which = 0;
    while (which + 1 < kNodes.size() && log_first - 2.0 * kNodes[which] * log_rho > goal) ++which;
    out.log_remainder = up(log_first - 2.0 * kNodes[which] * log_rho);

    const Rule& gauss = rule(which);
    const double top = middle.top;
    double value = 0.0;
    double error = 0.0;
    for (std::size_t i = 0; i < gauss.node.size(); ++i) {
        const double z = centre + 0.5 * (to - from) * gauss.node[i];
        const Signed s_at = sums(law_, upper, z, cell, false);
        const Signed a_at = sums(law_, lower, z, cell, true);
        const Signed b_at = sums(law_, upper, z, cell, true);
        const double common = law_.log_common(z);
        const Scaled at = inner(s_at, a_at, b_at, common);
        const double scale = gauss.weight[i] * std::exp(at.top - top);
        value += scale * at.value;
        error += scale * (at.error + kRounding * (64.0 + std::fabs(at.top - top)) * std::fabs(at.value));
        // Nodes are off by 4 u of the half length and of the centre. Beside its share of the common factor's
        // slope, the derivative of a term is its distance from the origin over beta^2 of it, that of sqrt(a b) the
        // mean of the two sides'; twice for how little either changes that near.
        const double origin = law_.origin(z);
        const double root = std::sqrt(std::max(0.0, a_at.sum) * std::max(0.0, b_at.sum)) *
                            std::exp(0.5 * (a_at.top + b_at.top) - (at.top - common));
        const double terms = s_at.absolute * std::fabs(s_at.mean - origin) +
                             std::sqrt(std::max(0.0, s_at.absolute * s_at.variance * s_at.sum));
        const double slope = std::fabs(z - origin) * std::fabs(at.value) +
                             terms * std::exp(s_at.top - (at.top - common)) +
                             root * (std::fabs(a_at.mean - origin) + std::fabs(a_at.drift) +
                                     std::fabs(b_at.mean - origin) + std::fabs(b_at.drift));
        error += scale * 2.0 * slope / variance * kRounding * 8.0 * (half + std::fabs(centre));
    }
    const double length = 0.5 * (to - from);
    out.log_value = value > 0.0 ? top + std::log(value * length) : -kInfinity;
    const double rounding = error * length + kRounding * (8.0 + 2.0 * std::fabs(top)) * std::fabs(value) * length +
                            (value > 0.0 ? 0.0 : -value * length);
    if (rounding > 0.0) out.log_rounding = up(top + std::log(rounding));
    return out;
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
    const Signed both = combine(gain, loss);
    const double log_reference = both.sum > 2.0 * both.error ? both.top + std::log(both.sum) : -kInfinity;
    const End high = walk(start, 1, first, log_reference);
    const End low = walk(start, -1, first, log_reference);

    // Above the last t on that side: the sum over all k. Its z is that of the last piece, but for rounding.
    const Signed rest = combine(law_.tail(true, low.z, true, -1), law_.tail(false, low.z, true, -1));
    double fixed_error = log_add(log_add(high.log_rest, low.log_rest), log_error_);
    if (rest.top > -kInfinity) fixed_error = log_add(fixed_error, rest.top + std::log(rest.error));
    if (!done_.empty()) fixed_error = log_add(fixed_error, log_gap(low.cell, low.z));
    std::vector<Piece>& heap = heap_;
    std::make_heap(heap.begin(), heap.end());

    double top = -kInfinity;
    double value = 0.0;
    double error = 0.0;
    for (int division = 0;;) {
        stop_();
        top = std::max(rest.top, fixed_error);
        for (const std::vector<Piece>* pieces : {&heap_, &done_})
            for (const Piece& at : *pieces) top = std::max({top, at.log_value, at.log_remainder});
        value = rest.top > -kInfinity ? rest.sum * std::exp(rest.top - top) : 0.0;
        error = std::exp(fixed_error - top);
        double divisible = 0.0;
        for (const Piece& at : heap) {
            value += std::exp(at.log_value - top);
            const double part = std::exp(at.log_remainder - top);
            error += part + std::exp(at.log_rounding - top);
            divisible += part;
        }
        for (const Piece& at : done_) {
            value += std::exp(at.log_value - top);
            error += std::exp(at.log_remainder - top) + std::exp(at.log_rounding - top);
        }
        if (!(divisible > kAccuracy * value) || division >= kMostDivisions || heap.empty()) break;
        // A sixteenth of the error is left behind at a time, so that the sums above cost little.
        bool progress = false;
        for (double left = divisible; left > 0.9375 * divisible && division < kMostDivisions; ++division) {
            std::pop_heap(heap.begin(), heap.end());
            const Piece old = heap.back();
            const double middle = 0.5 * (old.from + old.to);
            if (!(old.to - old.from > kLeastPiece * law_.beta()) || !(middle > old.from && middle < old.to)) {
                std::push_heap(heap.begin(), heap.end());
                break;
            }
            heap.pop_back();
            progress = true;
            for (const Piece& part : {piece(old.cell, old.from, middle), piece(old.cell, middle, old.to)}) {
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
