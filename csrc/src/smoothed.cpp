#include "smoothed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "line_product.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr double kFirstNodes = 6e6;    // half a second
constexpr double kMostNodes = 3e7;     // of later tries, where the work is not bounded
constexpr double kMostIndex = 0x1p27;  // j h is exact below
constexpr int kMostTries = 4;          // each with up to ten times the nodes
constexpr double kWorthIt = 1.4;       // or else not tried again
constexpr double kFirstLook = 64.0;    // blocks, and widths of the kernel
constexpr double kNotEnough = 2.0;     // times the width asked for
constexpr double kTooMuch = 4.0;       // likewise, of roundings alone
constexpr double kHopeless = 1e6;      // likewise
constexpr double kMostly = 0.7;        // of a width that is due to rounding
constexpr double kHardlyMore = 1.2;    // as many nodes
constexpr double kAliveWork = 80.0;    // nanoseconds of a node with sampled steps

// e^{ix}, by its series where that is shorter: the first terms left out are x^8/8! and x^9/9!, below 2^-62.
Complex turned(double x) {
    if (std::fabs(x) > 0x1p-6) return {std::cos(x), std::sin(x)};
    const double s = x * x;
    return {1.0 - s * (0.5 - s * (1.0 / 24.0 - s / 720.0)),
            x * (1.0 - s * (1.0 / 6.0 - s * (1.0 / 120.0 - s / 5040.0)))};
}

// The two factors by which smoothing multiplies the transform.
class Smoothing {
public:
    Smoothing(double eta2, double c)
        : eta2_(eta2),
          c_(c),
          above_(term(0.5, 1.0, std::exp(-0.125 * eta2))),  // z(1+z) = (z + 1/2)^2 - 1/4
          below_{term(0.0, 1.0, 1.0), term(1.0, 1.0, 1.0), term(1.0, 2.0, 1.0)},
          most_(3.0 * below_[2].size * (1.0 + 1e-9)) {}
    double eta2() const { return eta2_; }
    double fall(double t) const { return std::exp(-0.5 * eta2_ * t * t); }
    Complex upper(double t, double fall) const { return at(above_, t, fall); }
    Complex lower(double t, double fall) const {
        const double fourth = (fall * fall) * (fall * fall);
        return at(below_[0], t, fall) + at(below_[1], t, fall) - at(below_[2], t, fourth);
    }
    // Times fall(t), at least either of them in modulus, from t on.
    double most() const { return most_; }

private:
    struct Exponential {  // of eta^2 (shift + scale z)^2/2, without its fall
        double size, rate;
    };
    Exponential term(double shift, double scale, double by) const {
        const double x = shift + scale * c_;
        return {by * std::exp(0.5 * eta2_ * x * x), eta2_ * x * scale};
    }
    static Complex at(const Exponential& e, double t, double fall) { return (e.size * fall) * turned(e.rate * t); }
    double eta2_, c_;
    Exponential above_, below_[3];
    double most_;
};

// What is known before a node is evaluated.
struct Plan {
    double c, h, total;  // total: of the sum over all nodes, about
    LineProduct::Windows windows;
    double outside;    // the product between windows
    double end, rest;  // the last node, and what is beyond it
};

// Bounds, and which part of their width, relative to the result, is due to roundings.
struct Found {
    LogBounds bounds = {-kInf, kInf};
    double rounding = kInf;
};

// Where the sum may end: the factors that fall, at places a half octave apart.
class End {
public:
    End(LineProduct& product, const Plan& plan, double width, StopCheck stop)
        : product_(product), plan_(plan), goal_(0.1 * width * plan.total), stop_(stop) {}
    // At least the product from t on.
    double falling(double t) {
        if (!product_.falls()) return product_.falling(t, stop_);
        const double first = plan_.h * static_cast<double>(LineProduct::kBlock);
        if (!(t > first)) return 1.0;
        const auto step = static_cast<std::size_t>(2.0 * std::log2(t / first) * (1.0 - 1e-12));
        while (known_.size() <= step)
            known_.push_back(product_.falling(first * std::exp2(0.5 * static_cast<double>(known_.size())), stop_));
        return known_[step];
    }
    double rest(const Smoothing& s, double t) { return 2.002 * s.most() * s.fall(t) * falling(t) / (t * plan_.h); }
    double of(const Smoothing& s) {
        double end = std::min(3.0 / std::sqrt(s.eta2()), plan_.h * static_cast<double>(LineProduct::kBlock));
        while (rest(s, end) > goal_) end *= 1.1;
        return end;
    }

private:
    LineProduct& product_;
    const Plan& plan_;
    double goal_;
    StopCheck stop_;
    std::vector<double> known_;
};

Found smoothed_once(const Composition& comp, double epsilon, double width, const ContourPlace& place,
                    LineProduct& product, const Smoothing& smoothing, const Plan& plan, StopCheck stop) {
    const double c = plan.c;
    const double h = plan.h;
    Compensated above, below;
    double error = 0.0, sizes = 0.0, left_out = 0.0;
    const double most = smoothing.most();
    visit_nodes(
        product, plan.windows, h, plan.end, stop,
        // What a whole block may add without being seen: its nodes' share of 1e-4 of the width, h/t of all.
        [&](double t) { return 1e-4 * width * plan.total * h * t / (2.0 * most); },
        [&](double t, Complex value, double err) {
            const double twice = t > 0.0 ? 2.0 : 1.0;
            const double angle = epsilon * t;
            const Complex turn = {std::cos(angle), -std::sin(angle)};
            const Complex kernel = Complex{c, t} * Complex{1.0 + c, t};
            const Complex f = value * turn / kernel;
            const double fall = smoothing.fall(t);
            above.add(twice * (f * smoothing.upper(t, fall)).re);
            below.add(twice * (f * smoothing.lower(t, fall)).re);
            const double kernel_size = twice * most * fall / abs(kernel);
            sizes += kernel_size * abs(value);
            // The products above, the sine and cosine of eps t and the smoothing (four times its fall's error).
            error +=
                kernel_size *
                (err * kSlack + abs(value) * (12.0 * kComplexOp + 16.0 * kLibm +
                                              4.0 * kRound * (std::fabs(angle) + 1.0 + smoothing.eta2() * t * t)));
        },
        [&](double t, double count, double bound) {
            const double all = 2.0 * most * bound * count / (t * t) * kSlack;
            left_out += all;
            error += all;
        });
    // Between windows, from 4 h on, 2 most/t^2 adds up to less than most/h^2.
    const double rounding = 2.0 * (error - left_out);
    if (plan.windows.period > 0.0) error += plan.outside * most / (h * h);
    error += plan.rest;
    error += 8.0 * kRound * (sizes + std::fabs(above.sum) + std::fabs(below.sum));
    const double share = h / (2.0 * kPi);
    const double alias = std::exp(std::min(product.log_alias(comp, place), 700.0));
    const double log_scale = product.log_scale() - epsilon * c;
    const double scale_err = product.log_scale_err() +
                             4.0 * kRound * (std::fabs(product.log_scale()) + std::fabs(epsilon * c)) +
                             8.0 * kLibm;
    const double high = (above.sum + error) * share * (1.0 + 8.0 * kRound);
    const double low = (below.sum - error) * share * (1.0 - 8.0 * kRound) - alias;
    LogBounds out = {-kInf, kInf};
    if (high > 0.0 && std::isfinite(high)) out.log_upper = log_scale + std::log(high) + scale_err;
    if (low > 0.0 && std::isfinite(low)) out.log_lower = log_scale + std::log(low) - scale_err;
    const double outward = 4.0 * kRound * (std::fabs(log_scale) + 1e3);
    return {add_infinite_mass(comp, {out.log_lower - outward, out.log_upper + outward}),
            rounding / std::fabs(above.sum)};
}

}  // namespace

bool smoothable(const Composition& comp) { return LineProduct::accepts(comp); }

std::optional<LogBounds> smoothed_delta(const Composition& comp, double epsilon, double width, Effort effort,
                                        StopCheck stop) {
    if (!smoothable(comp)) return std::nullopt;
    const ContourPlace place = spectral_place(comp, epsilon, Quantity::delta, stop);
    if (!place.valid) return std::nullopt;
    const double c = place.c;
    const double h = place.spacing;
    LineProduct product(comp, c, h, stop);
    if (!product.known()) return std::nullopt;
    const double total = std::exp(place.log_estimate) * 2.0 * kPi / h;
    Plan plan = {c, h, total, {}, 1e-3 * width * total * h * h, 0.0, 0.0};
    plan.windows = product.windows(plan.outside);
    const double each = product.weight() * plan.windows.share;
    double most_nodes = std::min(kFirstNodes / each, 0.9 * kMostIndex);
    // Both bounds together are off by 1.5 eta^2 c(1+c). Less costs little where something else ends the sum.
    double eta2 = width / (1.5 * c * (1.0 + c));
    End end(product, plan, width, stop);
    const auto nodes = [&](double own) { return end.of(Smoothing(own, c)) / h; };
    for (int i = 0; i < 4 && nodes(0.25 * eta2) < kHardlyMore * nodes(eta2); ++i) eta2 *= 0.25;
    // One try that is enough is worth more than several.
    if (product.falls() && stop.work != nullptr)
        most_nodes = std::max(most_nodes, std::min(0.7 * stop.work->left / kAliveWork, 0.9 * kMostIndex));
    LogBounds out = {-kInf, kInf};
    for (int tries = product.falls() ? -1 : 0; tries < kMostTries; ++tries) {
        // What roundings leave of the result is seen in its first nodes.
        const bool first_look = tries < 0;
        const double most =
            first_look ? std::min(most_nodes, kFirstLook * (c / h + LineProduct::kBlock)) : most_nodes;
        double own_eta2 = eta2;
        while (nodes(own_eta2) > most) own_eta2 *= 1.2;
        if (first_look && own_eta2 == eta2) continue;
        const Smoothing smoothing(own_eta2, c);
        plan.end = end.of(smoothing);
        plan.rest = end.rest(smoothing, plan.end);
        Found found;
        const double before = stop.work == nullptr ? 0.0 : stop.work->left;
        const bool enough = within(stop, 1.0, [&](StopCheck own) {
            found = smoothed_once(comp, epsilon, width, place, product, smoothing, plan, own);
        });
        out = {std::max(out.log_lower, found.bounds.log_lower), std::min(out.log_upper, found.bounds.log_upper)};
        if (!enough) break;
        if (first_look) {
            if (found.rounding > (effort == Effort::all ? kHopeless : kTooMuch) * width) break;
            continue;
        }
        // A sum of losses next to epsilon is what makes the bounds wider than they should be: look closer, as far
        // as the work that is left allows at the rate of this try.
        if (!(out.log_upper - out.log_lower > 2.0 * width) || found.rounding > out.log_upper - out.log_lower)
            break;
        double more = kMostNodes / each * h / plan.end;
        if (stop.work != nullptr) more = 0.8 * stop.work->left / (before - stop.work->left + 1.0);
        most_nodes = std::min({more, 10.0, 0.9 * kMostIndex * h / plan.end}) * plan.end / h;
        eta2 = 0.01 * own_eta2;
        while (nodes(eta2) > most_nodes) eta2 *= 1.1;
        if (eta2 > own_eta2 / (kWorthIt * kWorthIt)) break;
    }
    return out;
}

}  // namespace dpcore::detail
