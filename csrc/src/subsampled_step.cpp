#include "subsampled_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "dpcore/normal.hpp"
#include "step_envelope.hpp"
#include "turning.hpp"

namespace dpcore::detail {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr double kMaxWindowNodes = 20000.0;
constexpr double kTolerance = 1e-14;
// Nanoseconds: of a node with its share of the certificate, and of a sine and a cosine.
constexpr double kNodeWork = 250.0;
constexpr double kAngleWork = 15.0;
// log of what the window of least sharpness may fall short of one of sharpness b, over b: 1/b near two close
// edges.
constexpr double kSharper = 0.35;
// A step of 26 bits: its multiples are exact up to this one.
constexpr double kMostMultiple = 0x1p27;
// And beyond this one neighbours are hardly told apart.
constexpr double kMostCells = 0x1p46;
double rounded_step(double h) {
    int exponent = 0;
    const double fraction = std::frexp(h, &exponent);
    return std::ldexp(std::floor(std::ldexp(fraction, 26)), exponent - 26);
}

// log(e^x - 1), also where e^x is beyond the range of double.
double log_expm1(double x) { return x > 30.0 ? x + std::log1p(-std::exp(-x)) : std::log(std::expm1(x)); }
}  // namespace

double SubsampledStep::lambda_err(double x, double lambda_value, double x_err) const {
    const double y = exponent(x);
    const double share = posterior(x);
    // y: two differences and a quotient, and what x is off.
    const double y_err = 3.0 * kRound * std::fabs(y) + x_err / (sigma * sigma);
    if (y >= 30.0)
        // log q, and log(1 + (1-q)/q e^-y), which is at most that: 8 roundings each; then sums and the quotient.
        return 3.0 * kLibm * (1.0 + std::fabs(lambda_value)) + y_err +
               kRound * (4.0 * std::fabs(y) + 20.0 * std::fabs(std::log(q)));
    // log(1 + w), w = q expm1(y): errors of w over 1 + w, where q e^y/(1 + w) is the share; 1 % for what is not of
    // the first order. Where w < -1/2, log((1 - q) + q e^y): those of q e^y, and of the sum. Either where w is
    // -1/2 but for rounding.
    const double w = q * std::expm1(y);
    const double own = (kLibm + 2.0 * kRound) * std::fabs(std::expm1(std::clamp(-y, -700.0, 700.0)));
    const double relative = w < -0.5 ? share * (kLibm + 2.0 * kRound) + 2.0 * kRound : share * own;
    return 1.01 * (relative + share * y_err) + kLibm * std::fabs(lambda_value);
}

double SubsampledStep::largest_lambda_err(double low, double high) const {
    // lambda_err with the share, which rises with x, at its largest. share |y| rises with y from 1 on; for y < 0
    // it is at most 1 where q <= 1/2, and else -log(1 - q) + 1: with e^y = (1 - q) e^-u the share is at most e^-u.
    const double y = exponent(high);
    const double share = posterior(high);
    const double loss = std::max(std::fabs(lambda(low)), std::fabs(lambda(high)));
    double err = share * (32.0 + 8.0 * std::max(1.0, std::fabs(y))) + 32.0 * loss;
    if (y >= 30.0) err += 32.0 + 8.0 * y + 20.0 * std::fabs(std::log(q));  // as lambda_err, whatever the share
    if (q > 0.5) err += 16.0 - 4.0 * std::log1p(-q);
    return err * kRound;
}

double SubsampledStep::mode(double p) const {
    // x - p r(x) rises through its root, which lies between p r(0) and 0.
    double low = p * posterior(0.0);
    double high = 0.0;
    for (int i = 0; i < 200 && high - low > 1e-3 * sigma; ++i) {
        const double middle = 0.5 * (low + high);
        (middle > p * posterior(middle) ? high : low) = middle;
    }
    return low;
}

double SubsampledStep::log_turned(double p, double share, double v) {
    return 0.5 * p * std::log1p(-2.0 * share * (1.0 - share) * versine(v));
}

double SubsampledStep::curvature(double p) const {
    const double s2 = sigma * sigma;
    if (!(p < 0.0)) return 1.0 / s2;
    const double r = posterior(mode(p));
    return 1.0 / s2 - p * r * (1.0 - r) / (s2 * s2);
}

namespace {
// sinh where it and its square are numbers; beyond, nothing is left of a window.
double steep(double u) { return std::sinh(std::clamp(u, -300.0, 300.0)); }
}  // namespace

double Window::log_most(double first, double last, double sharpness) const {
    // Four widths inside of both edges the weight is 1 less 1e-80.
    if (std::max((low - last) / width, (first - high) / width) < -4.0) return 0.0;
    if (above_open()) return log_normal_tail(sharpness * steep((low - last) / width));
    if (below_open()) return log_normal_tail(sharpness * steep((first - high) / width));
    // From the side on which both terms are tails: the larger is then far above the smaller.
    const bool left = 0.5 * (first + last) < 0.5 * (low + high);
    const double near = sharpness * steep(left ? (low - last) / width : (first - high) / width);
    const double far = sharpness * steep(left ? (high - first) / width : (last - low) / width);
    const double most = log_normal_tail(near);
    const double rest = log_normal_tail(far) - most;
    return most + (rest < 0.0 ? std::log(-std::expm1(std::max(rest, -700.0))) : -kInf);
}

double Window::missing(double x) const { return normal_tail(steep((high - x) / width)); }

double Window::weight_err(double x, double x_err) const {
    if (open()) return 0.0;
    // normal_tail: 12 roundings. u has 3 and the error of x; s = sinh u has cosh u times as many, and its own;
    // they move the tail by at most s + 1 times that. Taken as a logarithm, at most s^2/2 + 5, it has as many
    // roundings again.
    const double u = std::clamp(std::max((low - x) / width, (x - high) / width), 0.0, 300.0);
    const double s = std::sinh(u);
    const double one =
        kRound * (128.0 + (s + 1.0) * (s + 1.0) * (32.0 + 4.0 * u)) + (s + 1.0) * (s + 1.0) * 1.01 * x_err / width;
    // Edges closer to each other than their width, or than its share 1/u: the smaller term is at least this much
    // below the larger one, because the tail falls at least like exp(-s d - d^2/2), and like 1 - d/3 near 0, and
    // the two arguments differ by at least d.
    if (below_open() || above_open()) return one;
    const double d = (high - low) / width;
    return one * 2.0 / -std::expm1(-d * std::max(s, 0.3));
}

StepSum::StepSum(const SubsampledStep& step, const Window& window, double c, double reach, double copies,
                 bool less_one, StopCheck stop)
    : m_(step),
      window_(window),
      stop_(stop),
      c_(c),
      reach_(reach),
      copies_(std::max(1.0, copies)),
      tolerance_(kTolerance / copies_),
      less_one_wanted_(less_one) {
    const double p = m_.power(c);
    const double deviations = std::sqrt(2.0 * std::log(1.0 / tolerance_)) + 1.0;
    double& left = left_;
    double& right = right_;
    left = m_.lowest(p, deviations);
    right = m_.highest(p, deviations);
    const double s = m_.sigma;
    // Below an edge the window falls like exp(-b^2 sinh^2(u)/2), while the density grows at most like exp(slope
    // |x|).
    if (!window_.below_open()) {
        const double slope = (std::max(window_.low, 0.0) + std::max(-p, 0.0) * m_.posterior(window_.low) + 1.0) /
                             (s * s) * window_.width;
        double u = 1.0;
        while (0.25 * std::sinh(u) * std::sinh(u) - slope * u < 0.5 * deviations * deviations) u += 0.125;
        const double end = window_.low - u * window_.width;
        left = window_.above_open() ? std::max(left, end) : end;
        right = std::max(right, window_.low + 4.0 * window_.width);
    }
    if (!window_.above_open()) right = far_end(p, deviations, reach);
    // All of the mass is summed as well, where the sum less 1 is wanted.
    if (less_one) right = std::max(right, m_.highest(m_.removal ? 1.0 : 0.0, deviations));
    double h = std::min(0.5 * s, 0.5 * s * s);
    if (window_.open()) {
        // A law narrower than the noise: e^{-2 pi a/h} against e^{a^2 curvature/2} at the best a.
        h = std::min(h, 1.5 * kPi * std::sqrt(4.0 / (deviations * deviations * m_.curvature(p))));
    } else {
        // The rule of the strip: 2 pi a/h above the digits wanted, and above t theta, theta = posterior * a/s^2.
        const double edge = window_.above_open() ? window_.low : window_.high;
        const double digits = 0.5 * deviations * deviations / (Window::kMostAngle * window_.width);
        h = std::min(h, 2.0 * kPi / (digits + reach * m_.posterior(edge) / (s * s)));
    }
    // Smaller steps until the certificate holds. Powers of a fixed factor keep the choice deterministic.
    double before = kInf;
    for (int attempt = 0;; ++attempt) {
        if (!(right > left) ||
            !((right - left) / h <= (window_.open() ? SubsampledStep::kMaxNodes : kMaxWindowNodes)) ||
            !(std::max(std::fabs(left), std::fabs(right)) < kMostCells * h)) {
            quadrature_ = kInf;
            break;
        }
        stop();
        h = rounded_step(h);
        work_ += (right - left) / h;
        stop.spend(kNodeWork * (right - left) / h);
        build(left, right, h);
        const Strip strip = strip_error(h, reach);
        quadrature_ = strip.error + tail_;
        // A smaller step does not help against what lies beyond the nodes.
        const double wanted = 0.5 * std::max(tolerance_ * mass_, tail_);
        if (strip.error <= wanted || attempt > (window_.open() ? 18 : 8)) break;
        if (attempt >= 4 && strip.error > 0.5 * before) break;  // nor where it has no strip to work in
        before = strip.error;
        // The error is about e^{-2 pi a/h}: the step that makes it small enough, a little less for what the
        // others of its factors do.
        const double more = std::log(strip.error / wanted) / (2.0 * kPi * strip.height);
        h = std::isfinite(more) ? std::max(0.25 * h, std::min(0.95 * h, 0.98 / (1.0 / h + more))) : 0.5 * h;
    }
}

// The last output of a window that matters: the mass beyond is bounded cell by cell, each factor at the end of the
// cell where it is largest, up to where the window's fall outweighs the density's power for good. It is taken with
// the growth e^{t theta} on the edge of the widest strip (see strip_error), so that it counts there as it is.
double StepSum::far_end(double p, double deviations, double reach) {
    const double s2 = m_.sigma * m_.sigma;
    const double width = window_.width;
    const double most = std::max({p, m_.removal ? 1.0 : 0.0, 0.0});
    const double start = window_.high;
    const double angle = std::min(Window::kMostAngle * width / s2, 1.5);
    // From here on the window's rate, b^2 sinh(u) cosh(u)/tau, exceeds that of the density and of the growth by at
    // least 1/tau.
    const double needed = 4.0 * (width * (most + reach * angle + std::max(-start, 0.0) + 1.0) / s2 + 1.0);
    const double end = start + width * (0.5 * std::asinh(needed) + std::asinh(2.0 * deviations) + 1.0);
    const double cell = 0.125 * width;
    // So far out that cells are no longer distinct numbers nothing is known.
    if (!(std::fabs(start) + end - start < kMostCells * cell)) {
        beyond_ = kInf;
        return start;
    }
    std::vector<double> bound;  // log of the mass of each cell
    double top = -kInf;
    for (double x = start; x < end; x += cell) {
        const double near = x > 0.0 ? x : (x + cell < 0.0 ? x + cell : 0.0);
        const double lambda = m_.lambda(x + cell);
        // |1 - q + q e^{y+iv}|^p, p < 0, falls with x and rises with v: that of the widest strip.
        const double tilted = p > 0.0 ? p * lambda : p * m_.lambda(x) + m_.log_turned(p, m_.posterior(x), angle);
        // The nodes in a cell weigh at most (cell + h) times its maximum, h <= 0.12 widths <= a cell.
        const double plain = m_.log_norm() - near * near / (2.0 * s2) + tilted +
                             window_.log_most(x, x + cell, Window::kLeastSharpness) + std::log(2.0 * cell) +
                             kSharper + 1e-6 + 16.0 * kRound * (near * near / s2 + std::fabs(tilted));
        const double rise = m_.q * std::exp(std::min(m_.exponent(x + cell), 700.0));
        bound.push_back(plain + reach * std::min(angle, rise * std::sin(angle) / std::max(1.0 - m_.q, 1e-300)));
        top = std::max(top, plain);
    }
    // Beyond all cells: at most the last of them times 1/(cell/tau), geometrically.
    double rest = bound.back() + std::log1p(width / cell);
    std::size_t i = bound.size();
    const double wanted = top - 0.5 * deviations * deviations;
    while (i > 0) {
        const double more = std::max(rest, bound[i - 1]) + std::log1p(std::exp(-std::fabs(rest - bound[i - 1])));
        if (more > wanted) break;
        rest = more;
        --i;
    }
    beyond_ = rest;
    return start + cell * static_cast<double>(i);
}

void StepSum::expect(double spacing) const {
    turning_ = {};
    turning_.spacing = spacing;
    const std::size_t n = losses_.size();
    turning_.cosine.resize(n);
    turning_.sine.resize(n);
    turning_.step_cosine.resize(n);
    turning_.step_sine.resize(n);
    const double part = less_one_wanted_ ? 0.5 : 1.0;
    stop_.spend(kAngleWork * static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
        turning_.step_cosine[i] = std::cos(part * spacing * losses_[i]);
        turning_.step_sine[i] = std::sin(part * spacing * losses_[i]);
    }
}

// Brings the angles to t; the error of each sine, and of each cosine relative to 1, is at most this times min(1,
// |angle|).
double StepSum::turn_to(double t) const {
    Turning& turn = turning_;
    const std::size_t n = losses_.size();
    const double part = less_one_wanted_ ? 0.5 : 1.0;
    if (turn.t >= 0.0 && turn.turns < kMostTurns && t == turn.t + turn.spacing) {
        turn_on(turn.cosine.data(), turn.sine.data(), turn.step_cosine.data(), turn.step_sine.data(), n);
        ++turn.turns;
    } else if (t != turn.t) {
        for (std::size_t i = 0; i < n; ++i) {
            turn.cosine[i] = std::cos(part * t * losses_[i]);
            turn.sine[i] = std::sin(part * t * losses_[i]);
        }
        turn.turns = 0;
    }
    turn.t = t;
    return turned_error(turn.turns);
}

Certified StepSum::value(double t) const {
    if (!(t <= reach_)) return {{0.0, 0.0}, kInf};  // the rule is certified up to there
    if (turning_.spacing > 0.0) {
        const double slip = turn_to(t);
        const std::size_t n = losses_.size();
        const TurnedSums sums =
            weigh(weights_.data(), turning_.cosine.data(), turning_.sine.data(), n, less_one_wanted_);
        const double add = (static_cast<double>(n) / 8.0 + 20.0) * kRound;  // roundings along one partial sum
        if (!less_one_wanted_) {
            const double err = error_real_ + t * error_slope_ + quadrature_ + (slip + add) * 2.0 * mass_;
            return {{sums.first, sums.second}, kSlack * err};
        }
        const Complex w = {less_one_ - 2.0 * sums.first, 2.0 * sums.second};
        const double most = std::min(2.0 * mass_, t * spread_);  // of 2 W |sin|
        const double err = error_real_ + t * error_slope_ + quadrature_ + (3.0 * slip + 2.0 * add) * most +
                           4.0 * kRound * (std::fabs(less_one_) + std::fabs(w.im));
        return {w, kSlack * err};
    }
    if (!less_one_wanted_) {
        double re = 0.0, im = 0.0;
        for (const Node& n : nodes_) {
            const double angle = t * n.loss;
            re += n.weight * std::cos(angle);
            im += n.weight * std::sin(angle);
        }
        const double count = static_cast<double>(nodes_.size());
        const double err = error_real_ + t * error_slope_ + quadrature_ + 2.0 * (count + 4.0) * kRound * mass_;
        return {{re, im}, kSlack * err};
    }
    // M - 1 = sum w (exp(cL) - 1) - 2 sum W sin^2(tL/2) + 2i sum W sin(tL/2) cos(tL/2), compensated sums.
    double fall = 0.0, fall_low = 0.0, turn = 0.0, turn_low = 0.0;
    for (const Node& n : nodes_) {
        const double half = 0.5 * t * n.loss;
        const double sine = std::sin(half);
        const double swing = n.weight * sine;
        const double a = swing * sine - fall_low;
        const double fa = fall + a;
        fall_low = (fa - fall) - a;
        fall = fa;
        const double b = swing * std::cos(half) - turn_low;
        const double tb = turn + b;
        turn_low = (tb - turn) - b;
        turn = tb;
    }
    const Complex w = {less_one_ - 2.0 * fall, 2.0 * turn};
    const double err = error_real_ + t * error_slope_ + quadrature_ +
                       4.0 * kRound * (std::fabs(less_one_) + 2.0 * fall + std::fabs(w.im));
    return {w, kSlack * err};
}

StepSum::~StepSum() = default;

Certified StepSum::log_value(double t) const {
    if (less_one_wanted_) return certified_log1p(value(t));
    Certified out = certified_log(value(t));
    out.value.re += log_scale_;
    const double slip = 2.0 * kRound * (std::fabs(out.value.re) + std::fabs(log_scale_));
    if (std::isinf(out.err)) out.value.re += slip;  // an upper bound then, and to stay one
    out.err += slip;
    return out;
}

double StepSum::log_mass_upper() const {
    const double slip = quadrature_ + error_real_ + 4.0 * kRound * std::fabs(less_one_);
    if (!less_one_wanted_ || !(less_one_ + slip > -0.5))
        return std::log(mass_ * (1.0 + 1e-9) + slip) + log_scale_ + 1e-9;
    // From M - 1, because the plain sum of the weights has a rounding error for each of them.
    const double log_mass = std::log1p(less_one_ + slip);
    return log_mass + 2.0 * kLibm * (std::fabs(log_mass) + std::fabs(less_one_));
}

void StepSum::build(double left, double right, double h) {
    nodes_.clear();
    profile_.clear();
    losses_.clear();
    weights_.clear();
    spread_ = 0.0;
    log_ends_[0] = log_ends_[1] = kInf;
    const double p = m_.power(c_);
    const double scale = m_.log_norm() + std::log(h);
    const auto first = static_cast<std::int64_t>(std::floor(left / h));
    const auto last = static_cast<std::int64_t>(std::ceil(right / h));
    // A node's place in the window is that close; see rounded_step.
    const double most = static_cast<double>(std::max(std::abs(first), std::abs(last)));
    const double place_err = most < kMostMultiple ? 0.0 : kRound * most * h;
    mass_ = 0.0;
    std::vector<Node> all;
    std::vector<double> exponents, raw, missing;
    all.reserve(static_cast<std::size_t>(last - first + 1));
    double largest = -kInf;
    for (std::int64_t i = first; i <= last; ++i) {
        const double x = static_cast<double>(i) * h;
        const double l = m_.lambda(x);
        const double exponent = m_.log_density(x, l, p) + scale;
        all.push_back({x, m_.sign() * l, window_.log_weight(x), m_.q * std::exp(std::min(m_.exponent(x), 700.0))});
        exponents.push_back(exponent);
        largest = std::max(largest, exponent + all.back().weight);
    }
    log_scale_ = less_one_wanted_ || !std::isfinite(largest) ? 0.0 : largest;
    double top = 0.0, log_end[2] = {-kInf, -kInf};
    for (std::size_t i = 0; i < all.size(); ++i) {
        Node& n = all[i];
        const double log_weight = n.weight;
        n.weight = std::exp(exponents[i] + log_weight - log_scale_);
        profile_.push_back({n.at, exponents[i] - log_scale_, n.rise});
        if (less_one_wanted_) {
            const double plain = std::exp(exponents[i] - c_ * n.loss);  // mass before tilting
            missing.push_back(window_.open() ? 0.0 : plain * window_.missing(n.at));
            raw.push_back(plain * std::exp(log_weight));
        }
        // Outward of an edge the window falls, so what it weighs at the end counts; else it is at most 1.
        if (i == 0)
            log_end[0] =
                exponents[i] - log_scale_ +
                (window_.below_open() ? 0.0 : window_.log_most(n.at, n.at, Window::kLeastSharpness) + kSharper);
        if (i + 1 == all.size()) log_end[1] = exponents[i] - log_scale_;
        top = std::max(top, n.weight);
    }
    // Nodes that cannot matter are left out and their mass goes to the error.
    const double cut = top * 1e-3 * tolerance_ / static_cast<double>(all.size());
    double dropped = 0.0, real = 0.0, real_low = 0.0, bound = 0.0, slope = 0.0;
    double gone = 0.0, gone_low = 0.0, gone_err = 0.0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Node& n = all[i];
        const double plain = less_one_wanted_ ? raw[i] : 0.0;
        const double x = n.at;
        const double loss_err = m_.lambda_err(x, n.loss, place_err);
        // x^2/2s^2: three roundings, two more in the sum, and twice that of x itself.
        const double size = kRound * (8.0 * x * x / (2.0 * m_.sigma * m_.sigma) +
                                      4.0 * (std::fabs(scale) + std::fabs(log_scale_)));
        if (less_one_wanted_ && missing[i] > 0.0) {
            const double a = missing[i] - gone_low;
            const double sum = gone + a;
            gone_low = (sum - gone) - a;
            gone = sum;
            gone_err +=
                missing[i] *
                (4.0 * kLibm + size + 4.0 * kRound * (1.0 + std::fabs(p) + std::fabs(c_)) * std::fabs(n.loss) +
                 2.0 * loss_err +
                 window_.weight_err(2.0 * window_.high - x, place_err + 2.0 * kRound * std::fabs(window_.high)));
        }
        if (n.weight < cut && plain < cut) {
            dropped += n.weight + plain;
            continue;
        }
        mass_ += n.weight;
        // Relative error of the weight: exponent -x^2/2s^2 + p Lambda + scale, one exp, the window.
        const double first_order = kLibm * 2.0 + size + 4.0 * kRound * std::fabs(p * n.loss) +
                                   std::fabs(p) * loss_err + window_.weight_err(x, place_err);
        const double weight_err = first_order < 1e-6 ? first_order : std::expm1(std::min(first_order, 700.0));
        if (less_one_wanted_) {
            // w (exp(cL) - 1) = W (1 - exp(-cL)), taken from the larger of the two.
            const double lift =
                n.weight >= plain ? -n.weight * std::expm1(-c_ * n.loss) : plain * std::expm1(c_ * n.loss);
            const double a = lift - real_low;
            const double sum = real + a;
            real_low = (sum - real) - a;
            real = sum;
            bound += std::fabs(lift) * (weight_err + 3.0 * kLibm) +
                     std::max(n.weight, plain) * std::fabs(c_) * (loss_err + kRound * std::fabs(n.loss));
            slope += n.weight * (std::fabs(n.loss) * (weight_err + 4.0 * kLibm) + loss_err);
        } else {
            bound += n.weight * (weight_err + 4.0 * kLibm);
            slope += n.weight * (std::fabs(n.loss) * 4.0 * kRound + loss_err);
        }
        nodes_.push_back(n);
        losses_.push_back(n.loss);
        weights_.push_back(n.weight);
        spread_ += n.weight * std::fabs(n.loss) * (1.0 + 1e-9);
    }
    less_one_ = real - gone;
    error_real_ = kSlack * (bound + gone_err + 2.0 * kRound * (std::fabs(real) + gone));
    error_slope_ = kSlack * slope;
    // What lies beyond the ends, for exponents p and p - (c or 0): it falls at least at these rates there, by the
    // normal density or by the window, whichever is faster.
    const double s2 = m_.sigma * m_.sigma;
    const double p_plain = less_one_wanted_ ? (m_.removal ? 1.0 : 0.0) : p;
    const double p_most = std::max({p, p_plain, 0.0});
    const double p_least = std::min({p, p_plain, 0.0});
    const double x_right = all.back().at, x_left = all.front().at;
    const double gap_right = window_.above_open() ? (x_right - p_most) / s2 : 1.0;
    double gap_left = (-x_left + p_least * m_.posterior(x_left)) / s2;  // the posterior falls to the left
    if (!window_.below_open()) {
        const double u = std::min((window_.low - x_left) / window_.width, 300.0);
        // b^2 sinh(u) cosh(u)/tau for one edge; two of them fall at that less tanh(u)/tau at the least.
        const double fall = (0.25 * std::sinh(2.0 * u) - 1.0) / window_.width;
        gap_left = std::max(gap_left, fall - (std::max(x_left, 0.0) - p_least * m_.posterior(x_left)) / s2);
    }
    if (!(gap_right > 0.0) || !(gap_left > 0.0)) {
        tail_ = kInf;
        return;
    }
    const double plain_left = less_one_wanted_ ? raw.front() + missing.front() : 0.0;
    const double gap_plain =
        (x_right - std::max(p_plain, 0.0)) / s2;  // the mass left out does not fall by a window
    const double left_out = less_one_wanted_ ? missing.back() * (1.0 + 1.0 / (gap_plain * h)) : 0.0;
    if (less_one_wanted_ && !(gap_plain > 0.0)) {
        tail_ = kInf;
        return;
    }
    log_ends_[0] = log_end[0] + std::log1p(1.0 / (gap_left * h)) + 1e-9;
    // Beyond a window's upper edge: far_end.
    log_ends_[1] =
        window_.above_open() ? log_end[1] + std::log1p(1.0 / (gap_right * h)) + 1e-9 : beyond_ - log_scale_;
    // The plain density, where it counts.
    const double plain_right = less_one_wanted_ ? raw.back() * (1.0 + 1.0 / (gap_plain * h)) : 0.0;
    const double plain = plain_left * (1.0 + 1.0 / (gap_left * h)) + plain_right + left_out;
    tail_ = 2.0 * (dropped + std::exp(log_ends_[0]) + std::exp(log_ends_[1]) + plain);
}

// Trapezoid rule for f analytic in a strip of half width a: the error is at most 2/(e^{2 pi a/h} - 1) times the
// integral of |f(x + ia)|. With v = a/s^2 <= pi/2: |N(x + ia)| = N(x) e^{a^2/2s^2}, the window as its header says;
// |e^{p Lambda}| = (1-q+q e^y)^p (1 - 2 r(1-r)(1 - cos v))^{p/2} e^{t theta(x)}, theta(x) <= min(v, q e^y sin
// v/(1-q)).
StepSum::Strip StepSum::strip_error(double h, double t) const {
    const double s2 = m_.sigma * m_.sigma;
    const double p = m_.power(c_);
    if (!std::isfinite(tail_)) return {kInf, 0.0};
    const double furthest = std::max(std::fabs(profile_.front().at), std::fabs(profile_.back().at));
    // Lambda with its own error: at small rates far below that of y.
    const double slip = 1e-9 + 16.0 * kRound * furthest * furthest / s2 +
                        2.0 * std::fabs(p) * m_.largest_lambda_err(profile_.front().at, profile_.back().at);
    const double growth = std::exp(h / s2);  // of q e^y over a step
    const auto share = [&](double rise) { return rise / (1.0 - m_.q + rise); };
    // The largest r(1 - r) between two outputs.
    const auto spread = [&](double low, double high) {
        if (low < 0.5 && high > 0.5) return 0.25;
        return std::max(low * (1.0 - low), high * (1.0 - high));
    };
    const auto along = [&](double a) {
        const double angle = a / s2;
        const double alpha = window_.open() ? 0.0 : a / window_.width;
        const double sharpness = Window::sharpness(alpha);
        const double lead = 0.5 * a * a / s2 + Window::log_lead(alpha) - log_expm1(2.0 * kPi * a / h);
        const double bend = versine(angle);
        const auto negative = [&](double most) {
            return p < 0.0 ? 0.5 * p * std::log1p(-2.0 * most * bend) : 0.0;  // >= 0
        };
        const auto turn = [&](double rise) {
            return t * std::min(angle, rise * std::sin(angle) / std::max(1.0 - m_.q, 1e-300));
        };
        double sum = 0.0;
        for (std::size_t i = 0; i + 1 < profile_.size(); ++i) {
            const Profile& here = profile_[i];
            const Profile& next = profile_[i + 1];
            // Over the cell the logarithm of the tilted density bends by at most this times h^2/8, so that a
            // maximum inside is at most as much above the larger end.
            const double most = spread(share(here.rise), std::min(share(here.rise * growth), 1.0));
            const double over = 0.125 * h * h * (1.0 / s2 + std::fabs(p) * most / (s2 * s2)) + slip;
            const double all = std::max(here.log_density, next.log_density) + over + lead + negative(most) +
                               turn(here.rise * growth);
            // The window is at most 1: where that is enough it is not asked for.
            sum += std::exp(all > -80.0 ? all + window_.log_most(here.at, next.at, sharpness) : all);
        }
        // Before the first node r(1 - r) is below its value there if that is on its side of 1/2. From the last one
        // on |1 - q + q e^{y+iv}|^p falls for p < 0 (v < pi/2), and so does it times e^{t theta} where t sin v <=
        // -p (cos v + rho), rho = q e^y/(1 - q): d/d rho of log|1 + rho e^{iv}| is (cos v + rho)/|1 + rho
        // e^{iv}|^2, of theta it is sin v/|1 + rho e^{iv}|^2. Beyond a window's edge far_end has both.
        const double first = share(profile_.front().rise), last = share(profile_.back().rise);
        const double odds = profile_.back().rise / (1.0 - m_.q);
        const bool falls = t * std::sin(angle) * (1.0 + 1e-9) <= -p * (std::cos(angle) + odds);
        const double beyond = !window_.above_open() ? 0.0
                                                    : negative(last * (1.0 - last)) +
                                                          (falls ? turn(profile_.back().rise) : turn(kInf));
        sum += std::exp(log_ends_[0] + lead + negative(first < 0.5 ? first * (1.0 - first) : 0.25) +
                        turn(profile_.front().rise)) +
               std::exp(log_ends_[1] + lead + beyond);
        // The "- 1" of exp(zL) - 1, and the mass left out: without exp(itL).
        if (less_one_wanted_) sum += (window_.open() ? 1.0 : 2.0) * std::exp(lead);
        return 2.0 * kSlack * sum;
    };
    Strip best = {kInf, 0.0};
    const auto look = [&](double a) {
        const double error = along(a);
        if (error < best.error) best = {error, a};
    };
    // e^{a^2 curvature/2} is worth it up to some units, but not beyond a window's strip; e^{t theta} may outgrow
    // the density from v = atan(|p|/t) on. From there up, until it gets worse.
    const double unit = 1.0 / std::sqrt(m_.curvature(p));
    const double top = std::min(window_.open() ? 60.0 * unit : Window::kMostAngle * window_.width, 1.5 * s2);
    double a = window_.open() ? 0.2 * unit : 0.4 * top;
    if (t > 0.0) a = std::min(a, 0.3 * s2 * std::atan2(std::fabs(p) + 1.0, t));
    for (int worse = 0; worse < 2; a *= 1.5) {
        const double before = best.error;
        look(std::min(a, top));
        worse = best.error < before || std::isinf(best.error) ? 0 : worse + 1;
        if (a >= top) break;
    }
    return best;
}

double StepSum::log_envelope(double from) const {
    if (envelope_ == nullptr) envelope_ = std::make_unique<StepEnvelope>(*this);
    return envelope_->log_bound(from) + log_scale_;
}

}  // namespace dpcore::detail
