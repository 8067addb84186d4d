#include "dpcore/spectral.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/double_double.hpp"

namespace dpcore {

Interval from_log(const LogBounds& b) {
    constexpr double tiny = std::numeric_limits<double>::denorm_min();
    const double lower = b.log_lower == -std::numeric_limits<double>::infinity()
                             ? 0.0
                             : std::exp(b.log_lower) * (1.0 - 2.0 * kLibm) - 2.0 * tiny;
    const double upper = b.log_upper == -std::numeric_limits<double>::infinity()
                             ? 0.0
                             : std::exp(b.log_upper) * (1.0 + 2.0 * kLibm) + 2.0 * tiny;
    return {std::max(0.0, lower), upper};
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr int kMaxNodes = 8192;
// Aliasing and truncation are driven to exp(-kAim) of the result; rounding is about 1e-13.
constexpr double kAim = 33.0;
constexpr double kContent = 2e4;

// The common lattice of all terms: steps whose ratios to the smallest are exactly small integers (or all equal).
Lattice common_lattice(const std::vector<Term>& terms) {
    Lattice all;
    double smallest = kInf;
    const auto constant = [](const LossLaw& law) { return law.max_loss() == 0.0 && law.min_loss() == 0.0; };
    for (const Term& t : terms) {
        if (constant(*t.law)) continue;
        const Lattice l = t.law->lattice();
        if (!(l.step > 0.0)) return {};
        smallest = std::min(smallest, l.step);
    }
    if (!(smallest < kInf)) return {};
    DoubleDouble origin;
    const LossLaw* basis = nullptr;
    for (const Term& t : terms)
        if (t.law->lattice().step == smallest) basis = t.law.get();
    for (const Term& t : terms) {
        if (constant(*t.law)) continue;
        const Lattice l = t.law->lattice();
        const double ratio = l.step / smallest;
        const bool same = t.law.get() == basis;
        const bool exact = l.step_err == 0.0 && basis->lattice().step_err == 0.0 &&
                           ratio == std::nearbyint(ratio) && ratio < 1024.0 &&
                           std::fma(ratio, smallest, -l.step) == 0.0;
        if (!same && !exact) return {};
        origin = origin + two_prod(l.origin, t.copies);
        all.origin_err += t.copies * l.origin_err;
        all.step_err = std::max(all.step_err, l.step_err);
    }
    all.step = smallest;
    all.origin = origin.hi;
    all.origin_low = origin.lo;  // exact to 2^-100 of the sum: within lattice_offset's `noise`
    return all;
}

// First lattice point strictly above eps, less eps; and the error of that difference. A point within the error of
// eps may be taken on either side: the payoff of delta is continuous there. `tie`: a lattice point may equal eps.
struct Offset {
    double x = 0.0;
    double err = 0.0;
    bool tie = false;
    bool exact_tie = false;
};
Offset lattice_offset(const Lattice& lattice, double eps) {
    const auto at = [&](double m) {
        return (two_prod(lattice.step, m) + two_sum(lattice.origin, lattice.origin_low)) - DoubleDouble(eps);
    };
    double m = std::floor((eps - lattice.origin) / lattice.step) + 1.0;
    Offset out;
    if (!(std::fabs(m) < 0x1p51)) {  // neighbouring points are no longer distinct numbers: somewhere in the period
        out.x = 0.5 * lattice.step;
        out.err = lattice.origin_err + std::fabs(m) * lattice.step_err + lattice.step +
                  4.0 * kRound * (std::fabs(eps) + std::fabs(lattice.origin));
        out.tie = true;
        return out;
    }
    DoubleDouble x = at(m);
    while (x.hi <= 0.0) x = at(m += 1.0);
    while (x.hi > lattice.step) x = at(m -= 1.0);
    if (x.hi <= 0.0) x = DoubleDouble(lattice.step);
    out.x = static_cast<double>(x);
    const double slip = lattice.origin_err + std::fabs(m) * lattice.step_err;
    out.err = slip + 2.0 * kRound * out.x;
    const DoubleDouble gap = DoubleDouble(lattice.step) - x;
    const double noise =
        slip + 0x1p-98 * (std::fabs(eps) + std::fabs(lattice.origin) + std::fabs(m) * lattice.step);
    out.tie = gap.hi <= noise || x.hi <= noise;
    out.exact_tie = out.tie && slip == 0.0 && (gap.hi == 0.0 || x.hi == 0.0);
    out.err += noise;
    return out;
}

// sum + copies * loss; an infinite loss stays infinite.
DoubleDouble add_product(DoubleDouble sum, double copies, double loss) {
    if (!std::isfinite(sum.hi) || !std::isfinite(loss) || std::fabs(loss) > 1e250)
        return DoubleDouble(sum.hi + copies * loss);
    return sum + two_prod(copies, loss);
}

// The nearest double not on the wrong side; one further where the sum itself was not exact.
double outward(DoubleDouble sum, double direction) {
    const double rounded = static_cast<double>(sum);
    return sum.lo == 0.0 ? rounded : std::nextafter(std::nextafter(rounded, direction), direction);
}

// log x, rounded down and up; minus infinity at 0.
double log_below(double x) {
    const double l = std::log(x);
    return std::isfinite(l) ? l - kLibm * std::fabs(l) : l;
}
double log_above(double x) {
    const double l = std::log(x);
    return std::isfinite(l) ? l + kLibm * std::fabs(l) : l;
}

double log_payoff(double c) { return c * std::log(c) - (1.0 + c) * std::log1p(c); }  // log sup (1-e^-x) e^-cx

}  // namespace

Composition Composition::of(std::vector<Term> given) {
    Composition out;
    // All Gaussians are one; equal laws (same object) are one.
    double rho = 0.0;
    double rho_err = 0.0;
    std::size_t gaussians = 0;
    for (Term& t : given) {
        if (t.copies == 0.0) continue;
        // A loss that is always zero changes nothing.
        if (t.law->max_loss() == 0.0 && t.law->min_loss() == 0.0 && t.law->infinite_mass() == 0.0 &&
            t.law->log_total_mass() == 0.0)
            continue;
        if (t.law->kind() == LawKind::gaussian) {
            const double part = t.copies * gaussian_rho(*t.law);
            rho_err = std::max(rho_err, gaussian_rho_err(*t.law) + kRound);
            rho += part;
            ++gaussians;
            continue;
        }
        out.terms.push_back(std::move(t));
    }
    if (gaussians > 0 && rho > 0.0)
        out.terms.push_back({gaussian_law_of_rho(rho, rho_err + static_cast<double>(gaussians) * kRound), 1.0});
    out.atomic = true;
    DoubleDouble most, least;
    double infinite = 0.0;
    int sources = 0;
    bool exact = true;
    for (const Term& t : out.terms) {
        most = add_product(most, t.copies, t.law->max_loss());
        least = add_product(least, t.copies, t.law->min_loss());
        out.log_finite_mass += t.copies * t.law->log_finite_mass();
        out.log_total_mass += t.copies * t.law->log_total_mass();
        out.log_mass_err += t.copies * t.law->log_mass_err();
        out.log_finite_share += t.copies * t.law->log_finite_share();
        out.log_finite_share_err = std::max(out.log_finite_share_err, t.law->log_finite_share_err());
        if (t.law->infinite_mass() > 0.0) {
            infinite = t.law->infinite_mass();
            sources += t.copies == 1.0 ? 1 : 2;
        }
        exact = exact && t.law->infinite_mass_exact() && t.law->log_total_mass() == 0.0;
        const LawKind kind = t.law->kind();
        out.atomic = out.atomic && (kind == LawKind::two_point || kind == LawKind::atoms);
        out.smooth = out.smooth || kind == LawKind::gaussian || kind == LawKind::subsampled_gaussian;
    }
    const double n = static_cast<double>(out.terms.size()) + 2.0;
    out.max_loss = outward(most, kInf);
    out.min_loss = outward(least, -kInf);
    if (out.log_finite_mass > -kInf)
        out.log_mass_err += n * kRound * (std::fabs(out.log_finite_mass) + std::fabs(out.log_total_mass));
    out.log_finite_share_err += n * kRound;  // all of one sign
    if (exact && sources <= 1) out.infinite_mass = infinite;
    out.lattice = common_lattice(out.terms);
    return out;
}

Cumulants Composition::cumulants(double c) const {
    Cumulants sum;
    for (const Term& t : terms) {
        const Cumulants k = t.law->cumulants(c);
        sum.value += t.copies * k.value;
        sum.first += t.copies * k.first;
        sum.second += t.copies * k.second;
    }
    return sum;
}

namespace {
// Total mass less finite mass: -exp(log_total) expm1(log_finite_share), and its error. A relative error of x < 0
// is at most the same of expm1(x).
Interval infinite_part(const Composition& c) {
    if (c.log_finite_share == 0.0) return {0.0, 0.0};
    constexpr double tiny = std::numeric_limits<double>::min();
    const double p = -std::exp(c.log_total_mass) * std::expm1(c.log_finite_share);
    const bool all = c.log_finite_share == -kInf;
    const double rel = (all ? 0.0 : c.log_finite_share_err + 4.0 * kLibm) +
                       (c.log_total_mass != 0.0 ? 2.0 * c.log_mass_err + 2.0 * kLibm : 0.0);
    // Below the smallest normal number a rounding is absolute.
    const double lost = p < 4.0 * tiny / kRound ? 8.0 * std::numeric_limits<double>::denorm_min() : 0.0;
    const double upper = p * (1.0 + rel) + lost;
    return {std::max(0.0, p * (1.0 - rel) - lost), c.log_total_mass == 0.0 ? std::min(upper, 1.0) : upper};
}
}  // namespace

double Composition::infinite_mass_lower() const {
    return infinite_mass >= 0.0 ? infinite_mass : infinite_part(*this).lower;
}
double Composition::infinite_mass_upper() const {
    return infinite_mass >= 0.0 ? infinite_mass : infinite_part(*this).upper;
}

// K at the nodes of one line Re z = c, for any number of eps near the one it was placed for.
class Contour {
public:
    struct Sum {
        double lower, upper;  // of the integral (c > 0) or of its complement (c < 0), times exp(-scale)
        double scale;         // K(c) - eps c
        double scale_err;
        double slope;  // d(integral)/d(eps) times exp(-scale), approximate
        double middle;
    };

    // Places the contour at c for eps; usable() is false when no certificate can be had within kMaxNodes.
    Contour(const Composition& composition, Quantity quantity, double c, double second, double epsilon,
            StopCheck stop)
        : comp_(composition), quantity_(quantity), c_(c), stop_(stop) {
        usable_ = place(second, epsilon) && fill();
    }
    bool usable() const { return usable_; }
    bool complement() const { return c_ < 0.0; }
    double centre() const { return c_; }

    // ties_above: a lattice point equal to eps counts as above it (matters for tails only).
    Sum evaluate(double epsilon, bool ties_above = false) const;

private:
    struct Node {
        double t;
        double size;   // exp(Re K - K(c)), relative error in err
        double phase;  // Im K
        double err;    // of K, and of the exponential
    };
    struct Guard {
        double at;
        double log_value;  // certified upper bound of K there, plus the constant of the payoff
    };

    bool place(double second, double epsilon);
    bool fill();
    bool open_lines(double reach);
    double certified_upper(double c) const;
    double log_alias(double epsilon, double distance) const;  // relative to exp(K(c) - eps c)
    double log_envelope(double from) const;
    double tail_after(double from) const;  // sum over all later nodes of |F|, relative to exp(K(c) - eps c)
    Certified kernel(double t, const Offset& offset) const;
    double kernel_bound(double t, double x) const;
    Complex slope_kernel(double t, double x, Complex kernel_value) const;  // kernel of d delta/d eps; approximate

    const Composition& comp_;
    Quantity quantity_;
    double c_;
    StopCheck stop_;
    bool usable_ = false;
    bool lattice_ = false;
    double h_ = 0.0;
    double distance_ = 0.0;  // 2 pi / h
    double count_ = 0.0;     // lattice: nodes of one period
    double log_centre_ = 0.0, reach_ = 0.0, target_ = 0.0;
    std::vector<Guard> right_, left_;
    std::vector<std::unique_ptr<LossLine>> lines_;
    std::vector<Node> nodes_;
    double tail_ = 0.0;
};

double Contour::certified_upper(double c) const {
    double sum = 0.0;
    double size = 0.0;
    for (const Term& t : comp_.terms) {
        const Certified v = t.law->line(c, 0.0, t.copies, lattice_)->value(0.0);
        sum += t.copies * (v.value.re + v.err);
        size += t.copies * std::fabs(v.value.re);
    }
    return sum + (static_cast<double>(comp_.terms.size()) + 2.0) * kRound * size;
}

// Bound of the aliases, relative to exp(K(c) - eps c); `right_` and `left_` hold certified Chernoff points.
double Contour::log_alias(double epsilon, double distance) const {
    double right = kInf;
    double left = kInf;
    const double base = log_centre_ - epsilon * c_;
    const auto series = [&](double log_first, double rate) {  // sum over m >= 1 of exp(log_first - rate D m)
        if (!(rate > 0.0)) return kInf;
        return log_first - rate * distance - std::log1p(-std::exp(-rate * distance));
    };
    const double spread = 8.0 * kRound * (std::fabs(base) + std::fabs(log_centre_)) + 1e-12;
    for (const Guard& g : right_) right = std::min(right, series(g.log_value - g.at * epsilon - base, g.at - c_));
    for (const Guard& g : left_) left = std::min(left, series(g.log_value - g.at * epsilon - base, c_ - g.at));
    // The probability and delta never exceed the mass: on the side where e^{cDm} falls by itself.
    const double mass = comp_.log_finite_mass + comp_.log_mass_err;
    if (c_ > 0.0) left = std::min(left, series(mass - base, c_));
    if (c_ < 0.0) right = std::min(right, series(mass - base, -c_));
    const double top = std::max(right, left);
    return top + std::log1p(std::exp(std::min(right, left) - top)) + spread;
}

bool Contour::open_lines(double reach) {
    lines_.clear();
    reach_ = reach;
    for (const Term& t : comp_.terms) lines_.push_back(t.law->line(c_, reach, t.copies, lattice_));
    return true;
}

bool Contour::place(double second, double epsilon) {
    lattice_ = comp_.lattice.step > 0.0;
    log_centre_ = comp_.cumulants(c_).value;
    if (!std::isfinite(log_centre_) || !(second > 0.0) || !std::isfinite(second)) return false;
    const double kernel = quantity_ == Quantity::delta ? 1.0 / std::fabs(c_ * (1.0 + c_)) : 1.0 / std::fabs(c_);
    // log of (result relative to exp(K(c) - eps c)): saddle-point estimate.
    const double estimate = std::log(kernel) - 0.5 * std::log(2.0 * kPi * second);
    target_ = estimate - kAim;
    const bool delta = quantity_ == Quantity::delta;
    const double base = log_centre_ - epsilon * c_;
    const auto payoff = [&](double at) {
        return delta && at > 0.0 ? log_payoff(at) + 8.0 * kRound * (1.0 + at) : 0.0;
    };
    // A Chernoff point x makes the aliases on its side small enough when D >= need(x); its minimum, where K'(x) -
    // eps equals need(x), is approached from the point that would be right for a Gaussian.
    double best_need = kInf;
    const auto approach = [&](double direction, double limit, std::vector<Guard>& guards) {
        double best = kInf;
        double chosen = c_;
        double width = std::sqrt(2.0 * kAim / second);
        if (limit < kInf) width = std::min(width, 0.5 * limit);
        double near = 0.0;
        double far = limit;
        for (int i = 0; i < 12; ++i) {
            const double at = c_ + direction * width;
            const Cumulants k = comp_.cumulants(at);
            const double need = (k.value + payoff(at) - at * epsilon - base - target_ + 1.0) / width;
            const bool past = !std::isfinite(need) || direction * (k.first - epsilon) > need;
            if (std::isfinite(need) && need < best) {
                best = need;
                chosen = at;
            }
            if (std::isfinite(need) && std::fabs(direction * (k.first - epsilon) - need) < 0.15 * need) break;
            if (past)
                far = width;
            else
                near = width;
            width = past ? (near > 0.0 ? 0.5 * (near + far) : 0.6 * width)
                         : (far < kInf ? 0.5 * (near + far) : 1.5 * width);
            if (far < kInf && far - near < 0.05 * far) break;
        }
        if (chosen != c_) guards.push_back({chosen, certified_upper(chosen) + payoff(chosen)});
        best_need = best;
    };
    const double mass = comp_.log_finite_mass + comp_.log_mass_err;
    double distance = 0.0;
    approach(1.0, c_ > 0.0 ? kInf : -c_, right_);
    double need = best_need;
    if (c_ < 0.0) need = std::min(need, (mass - base - target_ + 1.0) / -c_);
    distance = need;
    approach(-1.0, c_ > 0.0 ? c_ : (delta ? 1.0 + c_ : kInf), left_);
    need = best_need;
    if (c_ > 0.0) need = std::min(need, (mass - base - target_ + 1.0) / c_);
    distance = std::max(distance, need);
    if (!(distance > 0.0 && distance < kInf)) return false;
    // The certified values may be a little above the estimates.
    for (int i = 0; i < 8 && log_alias(epsilon, distance) > target_; ++i) distance *= 1.1;
    if (!std::isfinite(log_alias(epsilon, distance))) return false;
    if (lattice_) {
        double n = std::ceil(distance / comp_.lattice.step);
        n += 1.0 - std::fmod(n, 2.0);  // odd: no node on the edge of the period
        count_ = n;
        distance_ = n * comp_.lattice.step;
        h_ = 2.0 * kPi / distance_;
    } else {
        h_ = 2.0 * kPi / distance;
        // 26 bits: j h is exact for j < 2^27.
        int exponent = 0;
        const double fraction = std::frexp(h_, &exponent);
        h_ = std::ldexp(std::floor(std::ldexp(fraction, 26)), exponent - 26);
        distance_ = 2.0 * kPi / h_ * (1.0 - 4.0 * kRound);
    }
    return open_lines(std::sqrt(2.0 * (kAim + 3.0) / second) * 1.3);
}

double Contour::log_envelope(double from) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < lines_.size(); ++i) sum += comp_.terms[i].copies * lines_[i]->log_envelope(from);
    return sum - log_centre_ +
           (static_cast<double>(lines_.size()) + 4.0) * kRound * (std::fabs(sum) + std::fabs(log_centre_));
}

// |kernel(c + it')| <= this for all t' >= t (lattice: up to pi/step).
double Contour::kernel_bound(double t, double x) const {
    if (!lattice_) return quantity_ == Quantity::delta ? 1.0 / (t * t) : 1.0 / t;
    const double d = comp_.lattice.step;
    const auto away = [&](double c) {  // |1 - exp(-(c + it) d)| grows up to t = pi/d
        const double r = std::exp(-c * d);
        const double s = std::sin(0.5 * std::min(t * d, kPi));
        return std::sqrt(std::expm1(-c * d) * std::expm1(-c * d) + 4.0 * r * s * s);
    };
    if (quantity_ == Quantity::tail)  // for c < 0 both multiplied by e^{cd}, as in kernel()
        return 1.001 * d * std::exp(c_ < 0.0 ? c_ * (d - x) : -c_ * x) / away(std::fabs(c_));
    const double bracket = -std::expm1(-x) + std::exp(-c_ * d - x) * -std::expm1(x - d);
    return 1.001 * d * std::exp(-c_ * x) * bracket / (away(c_) * away(1.0 + c_));
}

double Contour::tail_after(double from) const {
    // G non-increasing: sum over nodes after `from` <= (1/h) integral from `from`; dyadic pieces.
    double total = 0.0;
    double t = from;
    const double wanted = std::exp(target_) / h_ * 0.1;
    const double period_end = lattice_ ? kPi / comp_.lattice.step : kInf;
    const double x_worst =
        lattice_ && c_ < 0.0 ? comp_.lattice.step : 0.0;  // the offset that makes e^{-cx} largest
    for (int piece = 0; piece < 80; ++piece) {
        const double env = std::exp(std::min(log_envelope(t), 700.0));
        const double next = 2.0 * t;
        if (lattice_) {
            const double stop_at = std::min(next, period_end);
            // bracket <= 1 - e^-d + e^-cd (1 - e^-d) covers every offset
            double bound = kernel_bound(t, x_worst);
            if (quantity_ == Quantity::delta) {
                const double d = comp_.lattice.step;
                const double here = -std::expm1(-x_worst) + std::exp(-c_ * d - x_worst) * -std::expm1(x_worst - d);
                bound *= (-std::expm1(-d)) * (1.0 + std::exp(-c_ * d)) / here;
            }
            if (stop_at > t) total += env * bound * (stop_at - t) / h_;
            if (next >= period_end) return total * 1.001;
        } else if (quantity_ == Quantity::delta) {
            const double rest = env / t / h_;
            if (rest <= wanted || piece == 79) return (total + rest) * 1.001;
            total += 0.5 * rest;
        } else {
            // Out here a smooth law falls at least like 1/t after at most 2^59 times this t (see docs).
            const double rest = 60.0 * env / h_;
            if (comp_.smooth && rest <= wanted * 1e-3) return (total + rest) * 1.001;
            total += 0.6931471805599454 * env / h_;
        }
        t = next;
    }
    return kInf;
}

bool Contour::fill() {
    const double n_terms = static_cast<double>(lines_.size()) + 2.0;
    double largest = 0.0;
    const int limit = lattice_ ? static_cast<int>(std::min((count_ - 1.0) / 2.0, 64.0 * kMaxNodes)) : kMaxNodes;
    const double wanted = std::exp(target_) / h_;
    const double slip = lattice_ ? 4.0 * kRound + comp_.lattice.step_err / comp_.lattice.step : 0.0;
    // A Gaussian part makes the envelope fall like e^{-rho t^2}, however slowly the atoms of the others do.
    double rho = 0.0;
    for (const Term& t : comp_.terms)
        if (t.law->kind() == LawKind::gaussian) rho += t.copies * gaussian_rho(*t.law);
    const bool falls = rho * (kMaxNodes * h_) * (kMaxNodes * h_) > 2.0 * kAim;
    double next_check = 0.0;
    for (int j = 0; j <= limit; ++j) {
        const double t = j * h_;
        if (t > reach_) open_lines(2.0 * reach_);
        if ((j & 255) == 255) stop_();
        Complex sum;
        double err = 0.0;
        double size = 0.0;
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            const double k = comp_.terms[i].copies;
            const Certified v = lines_[i]->value(t);
            sum = sum + k * v.value;
            err += k * v.err;
            size += k * abs(v.value);
            // On a lattice the step h = 2 pi/(n d) is rounded: t is off by 4 roundings, and by the error of d.
            if (lattice_) err += k * slip * t * lines_[i]->derivative_size(t, v.value.re);
        }
        err += n_terms * kRound * size;
        Node node;
        node.t = t;
        if (err < 0.5) {
            node.size = std::exp(sum.re - log_centre_);
            node.phase = sum.im;
            node.err =
                kSlack * (std::expm1(err + 2.0 * kRound * (std::fabs(sum.re) + std::fabs(log_centre_))) + kLibm);
        } else {  // M is nearly zero here: only its size is known
            double upper = 0.0;
            for (std::size_t i = 0; i < lines_.size(); ++i) {
                const Certified v = lines_[i]->value(t);
                upper += comp_.terms[i].copies * (v.value.re + (std::isinf(v.err) ? 0.0 : v.err));
            }
            node.size = std::exp(std::min(upper - log_centre_ + 1e-9, 700.0));
            node.phase = 0.0;
            node.err = 2.0;
        }
        nodes_.push_back(node);
        largest = std::max(largest, node.size);
        if (lattice_ && j == limit) {
            if (limit < (count_ - 1.0) / 2.0) return false;
            tail_ = 0.0;
            return true;
        }
        const double shape =
            lattice_ ? comp_.lattice.step / std::fabs(c_) + 1.0 : 1.0 / (quantity_ == Quantity::delta ? t * t : t);
        if (j >= 3 && t >= next_check && node.size * shape < wanted * 16.0) {
            const double tail = tail_after(t);
            // Atoms leave a tail that falls like 1/t only: content with 1e-10 where e^-kAim would cost too much.
            const double enough = node.size * shape < wanted / 16.0 ? wanted * kContent : wanted;
            if (tail <= enough || (!lattice_ && !falls && j * (tail / (wanted * kContent)) > kMaxNodes &&
                                   node.size * shape < wanted / 256.0)) {
                tail_ = tail;
                return std::isfinite(tail);
            }
            next_check = t * 1.15;
        }
    }
    tail_ = tail_after(nodes_.back().t);
    return std::isfinite(tail_);
}

Certified Contour::kernel(double t, const Offset& offset) const {
    const Complex z = {c_, t};
    const Complex z1 = {1.0 + c_, t};
    if (!lattice_) {
        const Complex product = quantity_ == Quantity::delta ? z * z1 : z;
        const Complex v = Complex{1.0, 0.0} / product;
        return {v, 3.0 * kComplexOp * abs(v)};
    }
    const double d = comp_.lattice.step;
    const double x = offset.x;
    const double d_err = comp_.lattice.step_err + 2.0 * kRound * d;
    const double size = std::fabs(c_) + 1.0 + t;
    const auto exponential = [&](Complex at, double slip) {
        const double r = std::exp(at.re);
        return Certified{{r * std::cos(at.im), r * std::sin(at.im)},
                         r * (std::expm1(slip + 2.0 * kRound * abs(at)) + 3.0 * kLibm)};
    };
    const Certified minus_one = {{-1.0, 0.0}, 0.0};
    if (quantity_ == Quantity::tail && c_ < 0.0) {
        // exp(-z x)/(1 - exp(-z d)) = exp(z (d - x))/(exp(z d) - 1): near the smallest loss c is large and the
        // left form overflows.
        const double y = d - x;
        const Certified top = exponential({c_ * y, t * y}, size * (offset.err + d_err));
        const Certified bottom = certified_expm1({c_ * d, t * d}, size * d_err + 4.0 * kRound * size * d);
        const double bs = abs(bottom.value);
        const Complex v = top.value / bottom.value;
        if (!(bs > 2.0 * bottom.err)) return {v, kInf};
        const double err = kSlack * (top.err + abs(v) * bottom.err) / (bs - bottom.err) + kComplexOp * abs(v);
        return {d * v, d * err + kRound * d * abs(v)};
    }
    // 1 - exp(-z d) and 1 - exp(-(1+z) d)
    const Certified low = minus_one * certified_expm1({-c_ * d, -t * d}, size * d_err + 4.0 * kRound * size * d);
    const Certified head = exponential({-c_ * x, -t * x}, size * offset.err);
    const auto divide = [](const Certified& a, const Certified& b) {
        const double bs = abs(b.value);
        const Complex v = a.value / b.value;
        if (!(bs > 2.0 * b.err)) return Certified{v, kInf};
        return Certified{v, kSlack * (a.err + abs(v) * b.err) / (bs - b.err) + kComplexOp * abs(v)};
    };
    Certified out;
    if (quantity_ == Quantity::tail) {
        out = divide(head, low);
    } else {
        const Certified high =
            minus_one * certified_expm1({-z1.re * d, -t * d}, size * d_err + 4.0 * kRound * size * d);
        const double first = -std::expm1(-x);
        const double rest = d > x ? -std::expm1(x - d) : 0.0;
        const Certified mid = exponential({-c_ * d - x, -t * d}, size * d_err);
        const Certified second = mid * Certified{{rest, 0.0}, 2.0 * kLibm * rest + d_err};
        // d(bracket)/dx = e^-x (1 - e^-zd): where x is off, the two parts of the bracket nearly make up for each
        // other.
        Certified bracket = Certified{{first, 0.0}, kLibm * first} + second;
        bracket.err += kSlack * offset.err * std::exp(std::min(offset.err, 1.0)) * (abs(low.value) + low.err);
        out = divide(divide(head * bracket, low), high);
    }
    return {d * out.value, d * out.err + kRound * d * abs(out.value)};
}

Complex Contour::slope_kernel(double t, double x, Complex kernel_value) const {
    if (!lattice_ || quantity_ == Quantity::tail) return kernel_value * Complex{-c_, -t};
    // Each loss above eps contributes -exp(eps - L): the geometric series of exp(-(1+z)(x + nd)).
    const double d = comp_.lattice.step;
    const auto exponential = [&](double y) {
        const double r = std::exp(-(1.0 + c_) * y);
        return Complex{r * std::cos(t * y), -r * std::sin(t * y)};
    };
    return (-d) * (exponential(x) / (Complex{1.0, 0.0} - exponential(d)));
}

Contour::Sum Contour::evaluate(double epsilon, bool ties_above) const {
    Offset offset;
    if (lattice_) {
        offset = lattice_offset(comp_.lattice, epsilon);
        // A point within the error of eps may lie on either side. For tails the caller decides; for delta it does
        // not matter (the kernel is continuous there), but the error is to be taken where e^{-zx} is large.
        const bool above = quantity_ == Quantity::tail ? ties_above : c_ > 0.0;
        if (offset.tie) offset.x = above ? 0.0 : comp_.lattice.step;
    }
    const double turn =
        lattice_ ? std::fabs(epsilon) * (4.0 * kRound + comp_.lattice.step_err / comp_.lattice.step) : 0.0;
    double sum = 0.0, low = 0.0, slope = 0.0, err = 0.0, size = 0.0;
    for (const Node& n : nodes_) {
        const double twice = n.t > 0.0 ? 2.0 : 1.0;
        const Certified k = kernel(n.t, offset);
        const double total = twice * n.size * abs(k.value);
        if (!(n.err < 1.0)) {
            err += twice * n.size * (abs(k.value) + k.err);
            continue;
        }
        const double angle = n.phase - epsilon * n.t;
        const double cosine = std::cos(angle);
        const double sine = std::sin(angle);
        const double term = twice * n.size * (cosine * k.value.re - sine * k.value.im);
        const Complex full = Complex{cosine, sine} * slope_kernel(n.t, offset.x, k.value);
        slope += twice * n.size * full.re;
        const double y = term - low;
        const double next = sum + y;
        low = (next - sum) - y;
        sum = next;
        // eps t: two roundings, and on a lattice those of t.
        err += total * (n.err + 2.0 * kRound * (std::fabs(n.phase) + 2.0 * std::fabs(epsilon) * n.t) + turn * n.t +
                        4.0 * kLibm) +
               twice * n.size * k.err * (1.0 + n.err);
        size += std::fabs(term);
    }
    err = kSlack * (err + 4.0 * kRound * size) + 2.0 * tail_;
    const double weight = h_ / (2.0 * kPi);
    const double sign = c_ > 0.0 ? 1.0 : -1.0;
    const double alias = std::exp(std::min(log_alias(epsilon, distance_), 700.0));
    Sum out{};
    out.scale = log_centre_ - epsilon * c_;
    out.scale_err = 3.0 * kRound * (std::fabs(log_centre_) + std::fabs(epsilon * c_));
    out.middle = sign * sum * weight;
    out.slope = slope * weight;
    out.lower = out.middle - err * weight * kSlack - alias - 8.0 * kRound * std::fabs(out.middle);
    out.upper = out.middle + err * weight * kSlack + 8.0 * kRound * std::fabs(out.middle);
    // Where something left the range of double nothing is known; a NaN must not pass for a zero.
    if (!(std::isfinite(out.lower) && std::isfinite(out.upper))) {
        out.lower = 0.0;
        out.upper = kInf;
    }
    return out;
}

namespace {

// Minimum of K(c) - eps c + potential on c > 0, on -1 < c < 0, or on c < 0; Newton kept inside a bracket.
struct Saddle {
    double c;
    double second;
    double value;  // K(c) - eps c + potential
};

Saddle find_saddle(const Composition& comp, Quantity quantity, double eps, int side, double mean,
                   double variance) {
    const bool delta = quantity == Quantity::delta;
    const auto potential = [&](double c, double& first, double& second) {
        first = -1.0 / c;
        second = 1.0 / (c * c);
        double value = -std::log(std::fabs(c));
        if (delta) {
            first -= 1.0 / (1.0 + c);
            second += 1.0 / ((1.0 + c) * (1.0 + c));
            value -= std::log(std::fabs(1.0 + c));
        }
        return value;
    };
    double lo = side > 0 ? 0.0 : (delta ? -1.0 : -kInf);
    double hi = side > 0 ? kInf : 0.0;
    // Close to the last point of a lattice the minimum runs off to infinity. Where the point before it weighs
    // e^-40 of it already, nothing is gained further out, and exponentials of cd leave the range of double.
    if (comp.lattice.step > 0.0) {
        const double most = 40.0 / comp.lattice.step;
        if (side > 0)
            hi = most;
        else if (!delta)
            lo = -most;
    }
    const double gap = eps - mean;
    const double root = std::sqrt(gap * gap + 4.0 * variance);
    double c = side > 0 ? (gap >= 0.0 ? (gap + root) / (2.0 * variance) : 2.0 / (root - gap))
                        : (gap <= 0.0 ? (gap - root) / (2.0 * variance) : -2.0 / (root + gap));
    if (!(c > lo && c < hi)) c = delta && side < 0 ? -0.5 : (side > 0 ? 1.0 : -1.0);
    Saddle out{c, 1.0, kInf};
    for (int i = 0; i < 100; ++i) {
        double p1 = 0.0;
        double p2 = 0.0;
        const double p = potential(c, p1, p2);
        const Cumulants k = comp.cumulants(c);
        const double first = k.first - eps + p1;
        const double second = k.second + p2;
        const double value = k.value - eps * c + p;
        double next = c - first / second;
        if (!std::isfinite(value) || !std::isfinite(first) || !(second > 0.0)) {
            if (side > 0)
                hi = c;
            else
                lo = c;
            next = side > 0 ? 0.5 * (lo + c) : 0.5 * (hi + c);
        } else {
            out = {c, second, value};
            if (first * first <= 1e-3 * second) break;  // within 0.03 standard deviations of the minimum
            if (first > 0.0)
                hi = std::min(hi, c);
            else
                lo = std::max(lo, c);
        }
        if (side > 0)
            next = std::min(std::max(next, 0.1 * c), 10.0 * c);
        else if (!delta)
            next = std::max(std::min(next, 0.1 * c), 10.0 * c);
        if (!(next > lo)) next = 0.5 * (lo + c);
        if (!(next < hi)) next = 0.5 * (hi + c);
        c = next;
    }
    return out;
}

// What holds without any integral: the infinite mass below, and above it what bounded losses can add.
LogBounds trivial(const Composition& comp, double eps) {
    const double finite = std::exp(comp.log_finite_mass + comp.log_mass_err);
    double rest = finite;
    if (std::isfinite(comp.max_loss)) rest *= std::max(0.0, -std::expm1(eps - comp.max_loss));
    const double total = std::exp(comp.log_total_mass + comp.log_mass_err) * (1.0 + 8.0 * kLibm);
    const double p_lower = comp.infinite_mass_lower();
    return {log_below(p_lower),
            std::log(std::min((comp.infinite_mass_upper() + rest) * (1.0 + 8.0 * kLibm), total)) + 4.0 * kLibm};
}

}  // namespace

LogBounds add_infinite_mass(const Composition& comp, LogBounds finite) {
    double log_lower = finite.log_lower;
    double log_upper = finite.log_upper;
    const double p_upper = comp.infinite_mass_upper();
    if (p_upper > 0.0) {
        const double low = comp.infinite_mass_lower() + (log_lower > -745.0 ? std::exp(log_lower) : 0.0);
        const double high = p_upper + (log_upper > -745.0 ? std::exp(log_upper) : 5e-324);
        log_lower = std::log(low * (1.0 - 4.0 * kLibm));
        log_upper = std::log(high * (1.0 + 4.0 * kLibm)) + 2.0 * kLibm;
        log_upper += kLibm * std::fabs(log_upper);
        if (std::isfinite(log_lower)) log_lower -= kLibm * std::fabs(log_lower);
    }
    return {log_lower, std::min(log_upper, comp.log_total_mass + comp.log_mass_err + 4.0 * kLibm)};
}

namespace {

// Adds the infinite mass; for complements turns 1 - delta into delta. All in logs with outward rounding.
LogBounds finish(const Composition& comp, const Contour::Sum& sum, bool complement) {
    const double p_lower = comp.infinite_mass_lower();
    const double total_log = comp.log_total_mass;
    const double total_err = comp.log_mass_err + 4.0 * kLibm;
    const auto outward = [](double l) { return 4.0 * kLibm + 2.0 * kRound * std::fabs(l); };
    if (complement) {
        const double lower = sum.lower > 0.0
                                 ? std::exp(sum.scale + std::log(sum.lower) - sum.scale_err) * (1.0 - 8.0 * kLibm)
                                 : 0.0;
        const double upper = sum.upper > 0.0
                                 ? std::exp(sum.scale + std::log(sum.upper) + sum.scale_err) * (1.0 + 8.0 * kLibm)
                                 : 0.0;
        const double total = std::exp(total_log);
        const double high = std::min(total - lower + 4.0 * kRound, total) + total * total_err;
        const double low = total - upper - 4.0 * kRound - total * total_err;
        return {low > p_lower ? log_below(low) : log_below(p_lower), log_above(high)};
    }
    double log_lower = sum.lower > 0.0 ? sum.scale + std::log(sum.lower) : -kInf;
    double log_upper = sum.upper > 0.0 ? sum.scale + std::log(sum.upper) : -kInf;
    if (log_lower > -kInf) log_lower -= sum.scale_err + outward(log_lower) + outward(sum.scale);
    if (log_upper > -kInf) log_upper += sum.scale_err + outward(log_upper) + outward(sum.scale);
    return add_infinite_mass(comp, {log_lower, log_upper});
}

struct Moments {
    double mean, variance;
};
Moments moments(const Composition& comp) {
    const Cumulants k = comp.cumulants(0.0);
    return {k.first, std::max(k.second, 1e-300)};
}

int side_for(double eps, const Moments& m) { return eps < m.mean - std::sqrt(m.variance) ? -1 : 1; }

}  // namespace

Placement spectral_placement(const Composition& comp, double epsilon) {
    Placement out;
    const Moments m = moments(comp);
    const Saddle s = find_saddle(comp, Quantity::delta, epsilon, 1, m.mean, m.variance);
    if (!std::isfinite(s.value)) return out;
    const Cumulants k = comp.cumulants(s.c);
    if (!std::isfinite(k.value) || !(k.second > 0.0)) return out;
    out.c = s.c;
    out.value = k.value;
    out.mean = k.first;
    out.variance = k.second;
    constexpr double kWindow = 22.0;  // e^-22: the window's share of the width
    // The points x on either side of c with the smallest need(x) = (K(x) - K(c) - (x - c) mean + kWindow)/|x - c|.
    const auto search = [&](double direction, double& chosen) {
        double best = kInf;
        // Next to the largest loss the variance vanishes: the law is then a point, and any width of c's size will
        // do.
        double width = std::min(std::sqrt(2.0 * kWindow / k.second), 4.0 * s.c);
        for (int i = 0; i < 24; ++i, width *= 0.8) {
            const Cumulants at = comp.cumulants(s.c + direction * width);
            const double need = (at.value - k.value - direction * width * k.first + kWindow) / width;
            if (std::isfinite(need) && need < best) {
                best = need;
                chosen = s.c + direction * width;
            } else if (std::isfinite(best)) {
                break;
            }
        }
        return best;
    };
    out.distance = std::max(search(1.0, out.far), search(-1.0, out.near));
    out.valid = std::isfinite(out.distance) && out.distance > 0.0;
    return out;
}

LogBounds spectral_delta(const Composition& comp, double epsilon, StopCheck stop) {
    if (comp.terms.empty() || comp.log_finite_mass == -kInf || epsilon >= comp.max_loss)
        return {log_below(comp.infinite_mass_lower()), log_above(comp.infinite_mass_upper())};
    const Moments m = moments(comp);
    const LogBounds fallback = trivial(comp, epsilon);
    const Saddle saddle = find_saddle(comp, Quantity::delta, epsilon, side_for(epsilon, m), m.mean, m.variance);
    if (!std::isfinite(saddle.value)) return fallback;
    const Contour contour(comp, Quantity::delta, saddle.c, saddle.second, epsilon, stop);
    if (!contour.usable()) return fallback;
    const LogBounds out = finish(comp, contour.evaluate(epsilon), contour.complement());
    return {std::max(out.log_lower, fallback.log_lower), std::min(out.log_upper, fallback.log_upper)};
}

Tails spectral_tails(const Composition& comp, double at, StopCheck stop) {
    const double total = std::exp(comp.log_total_mass);
    const double slack = total * (comp.log_mass_err + 4.0 * kLibm);
    const double p_lower = comp.infinite_mass_lower();
    const double p_upper = comp.infinite_mass_upper();
    if (comp.log_finite_mass == -kInf) return {{p_lower, p_upper}, {0.0, 0.0}};
    if (comp.terms.empty())
        return {{at < 0.0 ? 1.0 : 0.0, at < 0.0 ? 1.0 : 0.0}, {at > 0.0 ? 1.0 : 0.0, at > 0.0 ? 1.0 : 0.0}};
    const double finite = std::exp(comp.log_finite_mass);
    if (at > comp.max_loss) return {{p_lower, p_upper}, {finite - slack, std::min(1.0, finite + slack)}};
    if (at < comp.min_loss) return {{total - slack, std::min(1.0, total + slack)}, {0.0, 0.0}};
    const Moments m = moments(comp);
    const Interval nothing = {0.0, 1.0};
    Tails out = {nothing, nothing};
    if (at >= comp.max_loss) out.above = {p_lower, p_upper};
    if (at <= comp.min_loss) out.below = {0.0, 0.0};
    if (at == comp.max_loss || at == comp.min_loss) return out;  // the other side is asked for by nobody
    if (comp.smooth || comp.lattice.step > 0.0) {
        const Saddle saddle = find_saddle(comp, Quantity::tail, at, at < m.mean ? -1 : 1, m.mean, m.variance);
        if (!std::isfinite(saddle.value)) return out;
        const Contour contour(comp, Quantity::tail, saddle.c, saddle.second, at, stop);
        if (!contour.usable()) return out;
        const auto interval = [&](const Contour::Sum& s) {
            const auto value = [&](double v, double sign) {
                return v > 0.0 ? v * std::exp(s.scale + sign * s.scale_err) * (1.0 + sign * 4.0 * kLibm) : 0.0;
            };
            const Interval found = {value(s.lower, -1.0), value(s.upper, 1.0)};
            // A sum that overflowed says nothing; NaN must not pass for a tail of 0.
            const bool known = !std::isnan(s.lower) && !std::isnan(s.upper) && !std::isnan(found.upper);
            return known ? found : nothing;
        };
        // strict: ties are not above; loose: they are.
        Interval strict = interval(contour.evaluate(at, false));
        Interval loose = interval(contour.evaluate(at, true));
        const Offset offset = comp.lattice.step > 0.0 ? lattice_offset(comp.lattice, at) : Offset{};
        if (offset.tie && !offset.exact_tie) {
            strict = {std::min(strict.lower, loose.lower), std::max(strict.upper, loose.upper)};
            loose = strict;
        }
        const auto other = [&](const Interval& i, double mass) {
            return Interval{std::max(0.0, mass - i.upper - slack), std::min(1.0, mass - i.lower + slack)};
        };
        if (contour.complement()) {  // the sum is Pr[L <= at] (strict) or Pr[L < at] (loose)
            out.below = loose;
            out.above = other(strict, total);
        } else {
            out.above = {strict.lower + p_lower, strict.upper + p_upper};
            out.below = other(loose, finite);
        }
        return out;
    }
    // Atoms off a lattice: delta(y) - e^-s delta(y+s) = integral over [y, y+s] of e^{y-x} Pr[L > x] dx.
    const double step = 3e-6 * std::sqrt(m.variance);
    const Interval before = from_log(spectral_delta(comp, at - step, stop));
    const Interval here = from_log(spectral_delta(comp, at, stop));
    const Interval after = from_log(spectral_delta(comp, at + step, stop));
    const double decay = std::exp(-step);
    const double width = -std::expm1(-step);
    // The infinite mass is inside delta and inside the tail alike.
    const double lower =
        std::max(0.0, ((here.lower - decay * after.upper) / width) * (1.0 - 8.0 * kLibm) - 1e-15 / width);
    const double upper =
        std::min(1.0, ((before.upper - decay * here.lower) / width) * (1.0 + 8.0 * kLibm) + 1e-15 / width);
    out.above = {lower, upper};
    out.below = {std::max(0.0, total - upper - slack), std::min(1.0, total - lower + slack)};
    return out;
}

Interval spectral_epsilon(const Composition& comp, double delta, StopCheck stop) {
    if (delta >= 1.0 || comp.terms.empty()) return {0.0, 0.0};
    const double p_lower = comp.infinite_mass_lower();
    const double p_upper = comp.infinite_mass_upper();
    if (delta < p_lower) return {kInf, kInf};
    const double top = comp.max_loss;
    if (delta <= p_upper) {
        if (p_lower != p_upper) return {0.0, kInf};
        // The largest loss itself: nothing finite lies above it, and just below it delta exceeds the infinite
        // mass.
        if (!std::isfinite(top)) return {kInf, kInf};
        // max_loss is rounded up: by the errors of the single losses (32 roundings at the most), and of their sum.
        return {std::max(0.0, top * (1.0 - 8.0 * kRound * static_cast<double>(comp.terms.size() + 8)) - 1e-300),
                std::max(top, 0.0)};
    }
    const double goal = std::log(delta);
    const double goal_low = log_below(delta);  // at most this: certainly at most delta
    const double goal_high = log_above(delta);
    const LogBounds at0 = spectral_delta(comp, 0.0, stop);
    if (at0.log_upper <= goal_low) return {0.0, 0.0};
    // Saddle-point estimate: eps as a function of c, then contours with Newton steps in log delta.
    const Moments m = moments(comp);
    double lo = 0.0;  // certified delta(lo) > delta, or 0
    double hi = std::isfinite(top) ? std::max(top, 0.0) : kInf;
    bool lo_certified = at0.log_lower > goal_high;
    const double p_mid = 0.5 * (p_lower + p_upper);
    double eps = std::max(0.0, m.mean + std::sqrt(m.variance) * std::sqrt(2.0 * std::max(0.0, -goal - 0.5)) * 0.8);
    if (p_mid < delta) {
        const double finite_goal = std::log(delta - p_mid);
        for (int i = 0; i < 60; ++i) {
            if (!(eps < hi)) eps = 0.5 * (lo + hi);
            const Saddle s = find_saddle(comp, Quantity::delta, eps, 1, m.mean, m.variance);
            if (!std::isfinite(s.value)) break;
            const double estimate = s.value - 0.5 * std::log(2.0 * kPi * s.second);
            const double step = (estimate - finite_goal) / s.c;  // d log delta / d eps is about -c
            const double limit = 3.0 * std::sqrt(m.variance) + 0.5 * std::fabs(eps);
            const double next = std::max(0.0, eps + std::max(-limit, std::min(limit, step)));
            const bool done = std::fabs(estimate - finite_goal) < 0.1 || next == eps;
            eps = next;
            if (done) break;
        }
        if (!(eps < hi)) eps = 0.5 * (lo + hi);
    }
    double best_hi = hi;
    for (int round = 0; round < 60; ++round) {
        const int side = side_for(eps, m);
        const Saddle saddle = find_saddle(comp, Quantity::delta, eps, side, m.mean, m.variance);
        std::unique_ptr<Contour> contour;
        if (std::isfinite(saddle.value))
            contour = std::make_unique<Contour>(comp, Quantity::delta, saddle.c, saddle.second, eps, stop);
        if (contour == nullptr || !contour->usable()) return {lo_certified ? lo : 0.0, best_hi};
        const auto look = [&](double e) { return finish(comp, contour->evaluate(e), contour->complement()); };
        // Newton on this contour while eps stays near.
        const double start = eps;
        bool moved_far = false;
        double last_width = kInf;
        for (int i = 0; i < 12; ++i) {
            const Contour::Sum s = contour->evaluate(eps);
            const LogBounds b = finish(comp, s, contour->complement());
            if (b.log_lower > goal_high && eps > lo) lo = eps, lo_certified = true;
            if (b.log_upper <= goal_low && eps < best_hi) best_hi = eps;
            const double value =
                0.5 * (std::exp(b.log_lower - goal) + std::exp(std::min(b.log_upper - goal, 50.0)));
            last_width = b.log_upper - b.log_lower;
            const double rate = s.slope * std::exp(s.scale - goal);  // d(delta/goal)/d eps < 0
            if (!(rate < 0.0) || !std::isfinite(value)) {
                moved_far = true;
                eps = std::isfinite(best_hi) ? 0.5 * (lo + best_hi) : 2.0 * eps + 1.0;
                break;
            }
            // Newton in log delta; for delta near 1 in delta itself.
            double step = contour->complement() ? (1.0 - value) / rate : -std::log(value) * value / rate;
            double next = eps + step;
            if (!(next > lo)) next = 0.5 * (lo + eps);
            if (!(next < best_hi)) next = 0.5 * (best_hi + eps);
            const double scale = 1.0 / std::sqrt(saddle.second);
            if (std::fabs(next - start) > 2.0 / scale * 0.5) {
                eps = next;
                moved_far = true;
                break;
            }
            const bool settled =
                std::fabs(next - eps) <= 1e-15 * std::fabs(eps) + 1e-14 * std::fabs(value / rate) ||
                std::fabs(std::log(value)) <= 2.0 * last_width;
            eps = next;
            if (settled) break;
        }
        if (moved_far) continue;
        // Finish outward: smallest steps that certify both sides.
        const Contour::Sum s = contour->evaluate(eps);
        const double rate = std::fabs(s.slope) * std::exp(s.scale - goal);
        double step = std::max(1e-15 * eps, 2.0 * std::max(last_width, 1e-15) / std::max(rate, 1e-300));
        // Bounds without a width (a contour that cannot tell) make the step infinite: nothing to look for then.
        for (double w = step; std::isfinite(w) && (best_hi > eps + w || !(best_hi < kInf)); w *= 2.0) {
            if (look(eps + w).log_upper <= goal_low) {
                best_hi = eps + w;
                break;
            }
            if (w > 1e6 * step) break;
        }
        for (double w = step; lo < eps - w; w *= 2.0) {
            if (look(eps - w).log_lower > goal_high) {
                lo = eps - w;
                lo_certified = true;
                break;
            }
            if (w > 1e6 * step) break;
        }
        return {lo_certified ? lo : 0.0, best_hi};
    }
    return {lo_certified ? lo : 0.0, best_hi};
}

}  // namespace dpcore
