#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/double_double.hpp"
#include "line_product.hpp"
#include "smoothed.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kMostNodes = 3e6;  // half a second
constexpr double kFirstNodes = 2e5;
constexpr double kMoreNodes = 8.0;      // of one try over the one before
constexpr double kMostWindows = 1.5e6;  // to look into
constexpr double kMostIndex = 0x1p32;   // the spacing is cut to 20 bits: j h is exact below 2^33
constexpr double kEnd = 6.5;            // the integral ends at about this over eta

// e^{-i at t}: the product of both has twice the digits, and its low part turns on by a series; lo^3/6 is left
// out.
Complex turned_back(double at, double t) {
    const DoubleDouble angle = two_prod(at, t);
    const double cosine = std::cos(angle.hi);
    const double sine = std::sin(angle.hi);
    const double near = 1.0 - 0.5 * angle.lo * angle.lo;
    return {cosine * near - sine * angle.lo, -(sine * near + cosine * angle.lo)};
}

// e^{x + iy} - 1 from expm1(x): to a few roundings of |e^x - 1| + |y| (1 + e^x).
Complex less_one(double expm1_x, double y) {
    double less, sine;  // cos y - 1, sin y
    if (std::fabs(y) < 0x1p-6) {
        const double s = y * y;
        less = -s * (0.5 - s * (1.0 / 24.0 - s / 720.0));
        sine = y * (1.0 - s * (1.0 / 6.0 - s * (1.0 / 120.0 - s / 5040.0)));
    } else {
        const double half = std::sin(0.5 * y);
        less = -2.0 * half * half;
        sine = std::sin(y);
    }
    return {expm1_x + less * (1.0 + expm1_x), sine * (1.0 + expm1_x)};
}

// The transforms of the two differences of smoothed deltas, over that of Pr[L > at] with its 1/z taken in: for u
// and w the factors of smoothing above and below,
//     (u e^{za} - e^-a w)/((1 - e^-a) z (1+z))   and   (w - e^{-a(1+z)} u)/((1 - e^-a) z (1+z)).
// With u - 1, w - 1 and e^{a(1+z)} - 1 nothing cancels where z is small.
class Differences {
public:
    Differences(double eta, double c)
        : eta2_(eta * eta),
          a_(std::sqrt(3.0) * eta),
          c_(c),
          width_(-std::expm1(-a_)),
          most_(3.0 * std::exp(0.5 * eta2_ * (1.0 + 2.0 * c) * (1.0 + 2.0 * c)) * (1.0 + 1e-9)) {}

    struct Node {
        Complex above, below;
        double size;  // errors of the two are at most 128 roundings of it: functions, products, the kernel
    };
    Node at(double t) const {
        const double falling = -0.5 * eta2_ * t * t;
        // eta^2 (shift + scale z)^2/2: real part less its fall, and the angle.
        const auto power = [&](double shift, double scale, double less) {
            const double x = shift + scale * c_;
            return less_one(std::expm1(scale * scale * falling + 0.5 * eta2_ * (x * x - less)),
                            eta2_ * x * scale * t);
        };
        const Complex u = power(0.5, 1.0, 0.25);
        const Complex w0 = power(0.0, 1.0, 0.0);
        const Complex w1 = power(1.0, 1.0, 0.0);
        const Complex w2 = power(1.0, 2.0, 0.0);
        const Complex w = w0 + w1 - w2;
        const Complex step = less_one(std::expm1(a_ * (1.0 + c_)), a_ * t);    // e^{a(1+z)} - 1
        const Complex back = less_one(std::expm1(-a_ * (1.0 + c_)), -a_ * t);  // e^{-a(1+z)} - 1
        const double shrink = 1.0 - width_;
        const Complex one = {1.0, 0.0};
        const Complex above = shrink * ((step + one) * u + step - w);
        const Complex below = w - back - (back + one) * u;
        const Complex kernel = Complex{c_, t} * Complex{1.0 + c_, t};
        const double scale = 1.0 / width_;
        const double rise = std::exp(a_ * (1.0 + c_));
        const double parts = rise * abs(u) + rise * a_ * (1.0 + c_ + t) + abs(w0) + abs(w1) + abs(w2) +
                             (1.0 + rise) * eta2_ * (1.0 + 2.0 * c_) * (1.0 + 2.0 * c_ + 2.0 * t);
        return {scale * (above / kernel), scale * (below / kernel), scale * parts / abs(kernel)};
    }
    double fall(double t) const { return std::exp(-0.5 * eta2_ * t * t); }
    // Both are at most this from t on: |u|, |w| <= most fall(t).
    double bound(double t) const {
        return 1.01 * (std::exp(a_ * (1.0 + c_)) + 1.0) * most_ * fall(t) / (width_ * t * t);
    }

private:
    double eta2_, a_, c_, width_, most_;
};

// The finite part of Pr[L > at] and of Pr[L >= at].
struct Finite {
    double lower, upper;
};

struct Question {
    double at, c, h, log_alias;
};

Finite tail_with(const Composition& comp, const Question& q, double eta, double width, LineProduct& product,
                 StopCheck stop) {
    const double c = q.c;
    const double h = q.h;
    const Differences differences(eta, c);
    const double rho = product.rho();
    const double log_scale = product.log_scale() - q.at * c;
    const double scale = std::exp(log_scale);
    const double scale_err = product.log_scale_err() +
                             4.0 * kRound * (std::fabs(product.log_scale()) + std::fabs(q.at * c)) + 8.0 * kLibm;
    const double total = width / scale * 2.0 * kPi / h;  // what the sum over all nodes may be off by
    // Beyond t the bound falls faster than 1/t^2.
    const auto rest = [&](double t) {
        return 2.0 * differences.bound(t) * std::exp(-rho * t * t) * t / h * 1.001;
    };
    double end = 3.0 / std::sqrt(eta * eta + 2.0 * rho);
    while (rest(end) > 0.02 * total) end *= 1.05;
    // Between windows, from 4 h on, 2 bound(t) adds up to less than bound(h).
    const double outside = 1e-3 * total / differences.bound(h);
    const LineProduct::Windows windows = product.windows(outside);
    Compensated above, below;
    double error = 0.0, sizes = 0.0;
    visit_nodes(
        product, windows, h, end, stop,
        [&](double t) { return 1e-3 * total * h / (2.0 * differences.bound(t) * t); },
        [&](double t, Complex value, double err) {
            const double twice = t > 0.0 ? 2.0 : 1.0;
            const Differences::Node d = differences.at(t);
            const Complex f = twice * (value * turned_back(q.at, t));
            above.add((f * d.above).re);
            below.add((f * d.below).re);
            const double kernel = std::max(abs(d.above), abs(d.below));
            const double size = twice * abs(value);
            sizes += size * kernel;
            const double low = kRound * std::fabs(q.at) * t;  // at least the low part of at t
            error +=
                twice * err * (kernel + 128.0 * kRound * d.size) * kSlack +
                size * (128.0 * kRound * d.size + kernel * (4.0 * kComplexOp + 4.0 * kLibm + low * low * low));
        },
        [&](double t, double count, double bound) {
            error += 2.0 * bound * count * differences.bound(t) * kSlack;
        });
    if (windows.period > 0.0) error += outside * differences.bound(h);
    error += 8.0 * kRound * (sizes + std::fabs(above.sum) + std::fabs(below.sum)) + rest(end);
    const double share = h / (2.0 * kPi);
    const double off = 8.0 * kRound + 2.0 * scale_err;
    const double finite = std::exp(comp.log_finite_mass + comp.log_mass_err) * (1.0 + 4.0 * kLibm);
    // Aliases of the upper one are positive; those of the lower one are at most the tail's own.
    const double upper = (above.sum + error) * share * scale * (1.0 + off);
    const double lower =
        ((below.sum - error) * share - std::exp(std::min(q.log_alias, 700.0))) * scale * (1.0 - off);
    Finite out = {0.0, finite};
    if (std::isfinite(upper) && upper >= 0.0) out.upper = std::min(finite, upper);
    if (std::isfinite(lower) && lower >= 0.0) out.lower = lower;
    return out;
}

}  // namespace

std::optional<Tails> smoothed_tails(const Composition& comp, double at, double width, StopCheck stop) {
    if (!smoothable(comp)) return std::nullopt;
    const ContourPlace place = spectral_place(comp, at, Quantity::tail, stop);
    if (!place.valid) return std::nullopt;
    // A smaller spacing makes aliases smaller.
    int exponent = 0;
    const double fraction = std::frexp(place.spacing, &exponent);
    const double h = std::ldexp(std::floor(std::ldexp(fraction, 20)), exponent - 20);
    LineProduct product(comp, place.c, h, stop);
    if (!product.known()) return std::nullopt;
    const Question q = {at, place.c, h, product.log_alias(comp, place)};
    const double scale = std::exp(product.log_scale() - at * q.c);
    if (!(scale > 0.0 && scale < 1e6)) return std::nullopt;
    const LineProduct::Windows windows = product.windows(1e-13 * width / scale);
    const double each = product.weight() * windows.share;
    double most_nodes = std::min(kMostNodes / each, kMostIndex);
    if (windows.period > 0.0) most_nodes = std::min(most_nodes, kMostWindows * windows.period / h);
    double nodes = std::min(kFirstNodes / each, most_nodes);
    // A Gaussian part that ends the integral by itself leaves nothing to smooth.
    const double rho = product.rho();
    const bool ends = rho > 0.0 && 7.0 / std::sqrt(2.0 * rho) <= most_nodes * h;
    if (ends) nodes = most_nodes;
    const double least = 1e-3 * width * std::sqrt(std::max(comp.cumulants(0.0, stop).second, 1e-300));
    Finite finite = {0.0, std::exp(comp.log_finite_mass + comp.log_mass_err) * (1.0 + 4.0 * kLibm)};
    for (bool last = false; !last && finite.upper - finite.lower > width; nodes *= kMoreNodes) {
        last = nodes >= most_nodes;
        const double eta = ends ? least : kEnd / (h * std::min(nodes, most_nodes));
        if (eta * (1.0 + 2.0 * q.c) > 1.0) continue;
        Finite found = finite;
        if (!within(stop, 1.0, [&](StopCheck own) { found = tail_with(comp, q, eta, width, product, own); }))
            break;
        finite = {std::max(finite.lower, found.lower), std::min(finite.upper, found.upper)};
    }
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    const double mass = std::exp(comp.log_finite_mass);
    return Tails{{finite.lower + comp.infinite_mass_lower(),
                  std::min(1.0, finite.upper + comp.infinite_mass_upper() + slack)},
                 {std::max(0.0, mass - finite.upper - slack), std::min(1.0, mass - finite.lower + slack)}};
}

}  // namespace dpcore::detail
