#include "joint_piece.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "joint_cell.hpp"

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

// How far a disc may reach.
constexpr double kLeastStretch = 4.0;       // of the disc's radius over half the piece
constexpr double kNegligiblePiece = 1e-16;  // of the largest
constexpr double kSteepest = 4.0;           // ln of the growth of the normal density in the disc

}  // namespace

// As piece(), with a disc of radius r in tau for which theorem 10 (a) needs the sums g of magnitudes at the centre
// and at +-r only. m is the number that makes g(r) e^(-r m) and g(-r) e^(r m) equal, u_k = r (x_k - m), f the
// signed sum, p_k its terms over f(0), V = 2 (sqrt(g(r) g(-r)) - g(0)) / |f(0)|, which is the sum of |p_k| (e^u_k
// + e^-u_k - 2). That bounds the terms beyond the first order, e^|u| - 1 - |u|, and sinh u - u. The first order is
// the sum of p_k u_k: at most sqrt(V g(0) / |f(0)|), and at most |f(r) e^(-r m) - f(-r) e^(r m)| / (2 |f(0)|) + V.
bool JointPieces::piece(const JointPanel& panel, Index cell, double from, double to, JointPiece& out) {
    using Kind = JointPanel::Kind;
    const double centre = 0.5 * (from + to);
    const double half = 0.5 * (to - from) * (1.0 + 1e-9) + 4.0 * kRounding;
    const JointPanel::Basis middle_basis = JointPanel::basis(centre);
    const Difference a = panel.value(Kind::below, cell, middle_basis);
    const Difference b = panel.value(Kind::above, cell, middle_basis);
    const Difference s = panel.value(Kind::rest, cell, middle_basis);
    if (!(a.sum > 2.0 * a.error && b.sum > 2.0 * b.error && s.absolute > 2.0 * s.error)) return false;
    const double log_common = panel.log_common(centre);
    const CellValue middle = cell_value(s, a, b, log_common);
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
    const double log_largest =
        upward(log_plus(log_s, log_root) + 0.5 * deviations * deviations + log_common) + 1e-6;
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
    out.log_remainder = upward(log_first - 2.0 * kNodes[which] * log_rho);
    if (out.log_remainder > goal + 3.0) return false;

    const Rule& gauss = rule(which);
    const double top = middle.top;
    double value = 0.0;
    double error = 0.0;
    for (std::size_t i = 0; i < gauss.node.size(); ++i) {
        const double tau = centre + 0.5 * (to - from) * gauss.node[i];
        const JointPanel::Basis basis = JointPanel::basis(tau);
        const double common = panel.log_common(tau);
        const CellValue at =
            cell_value(panel.value(Kind::rest, cell, basis), panel.value(Kind::below, cell, basis),
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
    if (rounding > 0.0) out.log_rounding = upward(top + std::log(rounding));
    return true;
}

// A piece that is negligible: log_crude() is all that is asked of it.
bool JointPieces::sliver(const JointPanel& panel, Index cell, double from, double to, JointPiece& out) const {
    using Kind = JointPanel::Kind;
    const double centre = 0.5 * (from + to);
    const double half = 0.5 * (to - from) * (1.0 + 1e-9) + 4.0 * kRounding;
    double log_most = -kInfinity;
    for (const double tau : {from, to}) {  // sums of magnitudes are convex in tau
        const JointPanel::Basis at = JointPanel::basis(tau);
        for (const Kind kind : {Kind::below, Kind::rest}) {
            const Difference sum = panel.value(kind, cell, at);
            if (sum.absolute > 0.0) log_most = log_plus(log_most, sum.top + std::log(sum.absolute + sum.error));
        }
    }
    const double log_whole = upward(log_most + panel.log_common(centre) + half * std::fabs(panel.lean(centre)) +
                                    std::log(2.0 * half * panel.half())) +
                             1e-9;
    out.log_value = log_whole - std::log(2.0);
    out.log_remainder = upward(out.log_value);
    return log_whole < log_best_ + std::log(kNegligiblePiece);
}

// ln of a bound of the integral over [from, to]: W is at most the positive terms times the probability that y is
// above the cell's lower end.
double JointPieces::log_crude(Index cell, double from, double to) const {
    const double length = std::min(to - from, law_.beta() * std::exp(kLogSqrtTwoPi));
    const Part tilted = law_.part({law_.pivot(), cell, from, to, cell, true});
    const Part plain = law_.part({std::max(cell + 1, law_.pivot()), law_.size() - 1, from, to, cell, false});
    const double log_tilted = tilted.top + std::log(tilted.sum + tilted.error);
    const double log_plain = plain.top + std::log(plain.sum + plain.error);
    return log_plus(tilted.sum > 0.0 ? log_tilted : -kInfinity, plain.sum > 0.0 ? log_plain : -kInfinity) +
           std::log(length);
}

JointPiece JointPieces::piece(Index cell, double from, double to) {
    stop_();
    JointPiece out{cell, from, to};
    const double centre = 0.5 * (from + to);
    const double half = 0.5 * (to - from) * (1.0 + 1e-9) + 4.0 * kRounding * std::fabs(centre);
    const double variance = law_.beta() * law_.beta();
    const CellRanges lower = below_cell(law_, cell);
    const CellRanges upper = above_cell(law_, cell);
    const auto give_up = [&] {
        const double crude = log_crude(cell, from, to);
        out.log_value = crude - std::log(2.0);
        out.log_remainder = upward(out.log_value);
        return out;
    };
    const CellSum a = cell_sums(law_, lower, centre, cell, true);
    const CellSum b = cell_sums(law_, upper, centre, cell, true);
    if (!(a.sum > 2.0 * a.error && b.sum > 2.0 * b.error)) return give_up();
    const CellSum s = cell_sums(law_, upper, centre, cell, false);
    const double log_common = law_.log_common(centre);
    const CellValue middle = cell_value(s, a, b, log_common);

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
        const auto share = [&](const CellSum& side, const CellRanges& ranges) {
            const Part one = law_.grown(cell_query(ranges.positive, centre, cell, true), side.mean, rate, true);
            const Part two = law_.grown(cell_query(ranges.negative, centre, cell, true), side.mean, rate, true);
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
    const Part s_one = law_.grown(cell_query(upper.positive, centre, cell, false), centre, rate, false);
    const Part s_two = law_.grown(cell_query(upper.negative, centre, cell, false), centre, rate, false);
    const double log_s = log_plus(s_one.sum > 0.0 ? s_one.top + std::log(s_one.sum) : -kInfinity,
                                  s_two.sum > 0.0 ? s_two.top + std::log(s_two.sum) : -kInfinity);
    const double log_root = 0.5 * (a.top + std::log((a.sum + a.error) * (1.0 + share_a)) + b.top +
                                   std::log((b.sum + b.error) * (1.0 + share_b)) +
                                   rate * (std::fabs(a.mean - centre) + std::fabs(b.mean - centre)));
    const double log_largest = upward(log_plus(log_s, log_root) + log_gauss + log_common) + 1e-6;
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
    out.log_remainder = upward(log_first - 2.0 * kNodes[which] * log_rho);

    const Rule& gauss = rule(which);
    const double top = middle.top;
    double value = 0.0;
    double error = 0.0;
    for (std::size_t i = 0; i < gauss.node.size(); ++i) {
        const double z = centre + 0.5 * (to - from) * gauss.node[i];
        const CellSum s_at = cell_sums(law_, upper, z, cell, false);
        const CellSum a_at = cell_sums(law_, lower, z, cell, true);
        const CellSum b_at = cell_sums(law_, upper, z, cell, true);
        const double common = law_.log_common(z);
        const CellValue at = cell_value(s_at, a_at, b_at, common);
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
    if (rounding > 0.0) out.log_rounding = upward(top + std::log(rounding));
    return out;
}

}  // namespace dpcore::detail
