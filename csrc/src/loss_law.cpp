#include "dpcore/loss_law.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "loss_line_bounds.hpp"
#include "precise_complex.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

// ---------------------------------------------------------------------------------------------- Gaussian

class GaussianLine final : public LossLine {
public:
    GaussianLine(double rho, double rho_err, double c) : rho_(rho), rel_(rho_err + 6.0 * kRound), c_(c) {}
    Certified value(double t) const override {
        // rho z (1 + z); the two parts of z(1+z) are bounded by |z| |1+z|.
        const Complex v = {rho_ * (c_ * (1.0 + c_) - t * t), rho_ * t * (1.0 + 2.0 * c_)};
        const double size =
            rho_ * (std::fabs(c_) * (1.0 + std::fabs(c_)) + t * t + t * (1.0 + 2.0 * std::fabs(c_)));
        return {v, rel_ * size};
    }
    double log_envelope(double from) const override {
        const Certified v = value(from);
        return v.value.re + v.err;
    }
    double derivative_size(double t, double) const override {
        return rho_ * (1.0 + 2.0 * std::fabs(c_) + 2.0 * t);
    }

private:
    double rho_, rel_, c_;
};

class GaussianLaw final : public LossLaw {
public:
    GaussianLaw(double rho, double err) : rho_(rho), err_(err) {}
    LawKind kind() const override { return LawKind::gaussian; }
    Cumulants cumulants(double c, StopCheck) const override {
        return {rho_ * c * (1.0 + c), rho_ * (1.0 + 2.0 * c), 2.0 * rho_};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool, StopCheck) const override {
        return std::make_unique<GaussianLine>(rho_, err_, c);
    }
    double max_loss() const override { return rho_ > 0.0 ? kInf : 0.0; }
    double min_loss() const override { return rho_ > 0.0 ? -kInf : 0.0; }
    std::vector<double> parameters() const override { return {rho_, err_}; }

private:
    double rho_, err_;
};

// ---------------------------------------------------------------------------------------------- Laplace

// expm1(-a)/a, with the series where a is small: -(1 - a/2 + a^2/6 - a^3/24), remainder below |a|^4/100.
Certified exponential_ratio(Complex a, double err) {
    const double size = abs(a);
    if (size < 0x1p-13) {
        const Complex a2 = a * a;
        const Complex a3 = a2 * a;
        return {{-(1.0 - a.re / 2.0 + a2.re / 6.0 - a3.re / 24.0), a.im / 2.0 - a2.im / 6.0 + a3.im / 24.0},
                4.0 * kRound + err};
    }
    const Certified e = certified_expm1({-a.re, -a.im}, err);
    const Complex v = e.value / a;
    return {v, kSlack * (e.err / size + abs(v) * (err / size + kComplexOp + 2.0 * kRound))};
}

class LaplaceLine final : public LossLine {
public:
    LaplaceLine(double epsilon, double c) : epsilon_(epsilon), mirrored_(c < -0.5) {
        c_ = mirrored_ ? -1.0 - c : c;
        const Certified at0 = value(0.0);
        log_mass_ = at0.value.re;
        err_ = at0.err;
        // A lower bound of the tilted variance that never cancels: the pairs of the upper atom and any other loss,
        // upper E[x^2] with x = epsilon - loss, of density e^{-bx}/2 beside the atom's 1, and e^{-a} at 2 epsilon.
        const double b = 0.5 + c_;
        const double a = 2.0 * epsilon_ * b;
        const double far = std::exp(-a);
        const double upper = std::exp(c_ * epsilon_ - log_mass_) / 2.0;
        const double width = 2.0 * epsilon_;
        const double even =
            a > 1.0 ? (1.0 - far * (1.0 + a + 0.5 * a * a)) / (b * b * b) : far * width * width * width / 6.0;
        variance_low_ = (even + far * width * width) * upper * upper * (1.0 - 1e-9);
    }
    Certified value(double t) const override {
        const double e = epsilon_;
        const Complex a = {e * (1.0 + 2.0 * c_), 2.0 * e * t};
        const Certified g = exponential_ratio(a, 3.0 * kRound * abs(a));
        const Complex ze = {e * c_, e * t};
        const Certified w = Certified{ze, 3.0 * kRound * abs(ze)} * g;
        const Certified l = certified_log1p(w);
        Complex v = ze + l.value;
        if (mirrored_) v.im = -v.im;
        // One rounding of each part of ze; c itself is rounded where it is mirrored.
        return {v, l.err + (mirrored_ ? 3.0 : 1.0) * kRound * abs(ze) + kRound * abs(v)};
    }
    double log_envelope(double from) const override {
        // Beyond the first quarter turn: |M| <= (E1 |1+u| + E2 |1-u|)/2 with u = 1/(1+2z); see docs.
        const double e = epsilon_;
        const double turn = kPi / (2.0 * e);
        const double far_from = std::max(from, turn);
        const double wide = (1.0 + 2.0 * c_) * (1.0 + 2.0 * c_) + 4.0 * far_from * far_from;
        const double plus = std::sqrt(((2.0 + 2.0 * c_) * (2.0 + 2.0 * c_) + 4.0 * far_from * far_from) / wide);
        const double minus = std::sqrt(std::max(1.0, (4.0 * c_ * c_ + 4.0 * far_from * far_from) / wide));
        const double beyond = e * c_ + std::log(0.5 * (plus + minus * std::exp(-e * (1.0 + 2.0 * c_)))) +
                              1e-13 * (1.0 + std::fabs(e * c_));
        if (from >= turn) return std::min(beyond, log_mass_ + err_);
        const double near = log_mass_ + err_ + bounded_range_log_decay(variance_low_, 2.0 * e, from);
        return std::max(near, std::min(beyond, log_mass_ + err_));
    }
    double derivative_size(double, double log_size) const override {
        return 2.0 * epsilon_ * std::exp(std::min(log_mass_ - log_size, 600.0));
    }
    double log_atoms() const override {  // the rest is u (e^{z eps0} - e^{-eps0(1+z)})/2, |u| <= 1/(2t)
        const double e = epsilon_;
        return e * c_ + std::log(0.5 + 0.5 * std::exp(-e * (1.0 + 2.0 * c_))) + 1e-13 * (1.0 + std::fabs(e * c_));
    }

private:
    double epsilon_, c_ = 0.0;
    bool mirrored_;
    double log_mass_ = 0.0, err_ = 0.0, variance_low_ = 0.0;
};

class LaplaceLaw final : public LossLaw {
public:
    explicit LaplaceLaw(double epsilon) : e_(epsilon) {}
    LawKind kind() const override { return LawKind::laplace; }
    Cumulants cumulants(double c, StopCheck) const override {
        if (c < -0.5) {
            const Cumulants m = cumulants(-1.0 - c, {});
            return {m.value, -m.first, m.second};
        }
        const double b = 1.0 + 2.0 * c;
        const double a = e_ * b;
        if (a < 1e-4) {
            // K = y (e^2/2 - e^3/6 + e^4/24) - y^2 e^4/12 with y = c(1+c), up to a^3 relative; below, e + w1 and
            // the two terms of w2 would cancel.
            const double y = c * (1.0 + c);
            const double square = e_ * e_;
            const double lead = square * (0.5 - e_ / 6.0 + square / 24.0);
            const double slope = lead - y * square * square / 6.0;
            return {y * (lead - y * square * square / 12.0), b * slope,
                    2.0 * slope - b * b * square * square / 6.0};
        }
        const double lead = std::expm1(-a);
        const double decay = lead + 1.0;
        const double w = c * lead / b;
        const double w1 = lead / (b * b) - 2.0 * e_ * decay * c / b;
        const double w2 = -4.0 * lead / (b * b * b) - 4.0 * e_ * decay / (b * b) + 4.0 * e_ * e_ * decay * c / b;
        const double ratio = w1 / (1.0 + w);
        return {c * e_ + std::log1p(w), e_ + ratio,
                std::max(w2 / (1.0 + w) - ratio * ratio, 1e-3 * e_ * e_ * decay)};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool, StopCheck) const override {
        return std::make_unique<LaplaceLine>(e_, c);
    }
    double max_loss() const override { return e_; }
    double min_loss() const override { return -e_; }
    std::vector<double> parameters() const override { return {e_}; }

private:
    double e_;
};

// M = e^{z eps0} (1 - e^-a)/a over the same of z = 0, a = eps0 (1 + 2z).
class LaplaceInteriorLine final : public LossLine {
public:
    LaplaceInteriorLine(double epsilon, double c)
        : epsilon_(epsilon), log_norm_(std::log(-std::expm1(-epsilon) / epsilon)), mirrored_(c < -0.5) {
        c_ = mirrored_ ? -1.0 - c : c;
        const Certified at0 = value(0.0);
        log_mass_ = at0.value.re;
        err_ = at0.err;
    }
    Certified value(double t) const override {
        const double e = epsilon_;
        const Complex a = {e * (1.0 + 2.0 * c_), 2.0 * e * t};
        const Certified g = exponential_ratio(a, 3.0 * kRound * abs(a));
        const Certified l = certified_log({{-g.value.re, -g.value.im}, g.err});
        const Complex ze = {e * c_, e * t};
        Complex v = ze + l.value;
        v.re -= log_norm_;
        if (mirrored_) v.im = -v.im;
        return {v, l.err + (mirrored_ ? 3.0 : 1.0) * kRound * abs(ze) + 2.0 * kRound * abs(v) + norm_err()};
    }
    double log_envelope(double from) const override {
        const double e = epsilon_;
        const double beyond = e * c_ + std::log1p(std::exp(-e * (1.0 + 2.0 * c_))) -
                              std::log(e * std::hypot(1.0 + 2.0 * c_, 2.0 * from)) - log_norm_ + norm_err();
        return std::min(beyond + 1e-13 * (1.0 + std::fabs(beyond) + std::fabs(e * c_)), log_mass_ + err_);
    }
    double derivative_size(double, double log_size) const override {
        return 2.0 * epsilon_ * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    double norm_err() const { return 2.0 * kLibm + kLibm * std::fabs(log_norm_); }
    double epsilon_, log_norm_, c_ = 0.0;
    bool mirrored_;
    double log_mass_ = 0.0, err_ = 0.0;
};

class LaplaceInteriorLaw final : public LossLaw {
public:
    explicit LaplaceInteriorLaw(double epsilon) : e_(epsilon) {}
    LawKind kind() const override { return LawKind::part; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        if (c < -0.5) {
            const Cumulants m = cumulants(-1.0 - c, stop);
            return {m.value, -m.first, m.second};
        }
        // g(a) = log((1 - e^-a)/a) and its derivatives
        const auto g = [](double a) { return a > 0.0 ? std::log(-std::expm1(-a) / a) : 0.0; };
        const double a = e_ * (1.0 + 2.0 * c);
        double first = -0.5 + a / 12.0;
        double second = 1.0 / 12.0 - a * a / 240.0;
        if (a > 1e-2) {
            const double rise = std::expm1(std::min(a, 700.0));
            first = 1.0 / rise - 1.0 / a;
            second = 1.0 / (a * a) - (1.0 + 1.0 / rise) / rise;
        }
        return {c * e_ + g(a) - g(e_), e_ * (1.0 + 2.0 * first), 4.0 * e_ * e_ * second};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool, StopCheck) const override {
        return std::make_unique<LaplaceInteriorLine>(e_, c);
    }
    double max_loss() const override { return e_; }
    double min_loss() const override { return -e_; }
    std::vector<double> parameters() const override { return {e_}; }

private:
    double e_;
};

// ---------------------------------------------------------------------------------------------- two points

class TwoPointLine final : public LossLine {
public:
    TwoPointLine(double epsilon, double log_keep, double keep_err, double c, bool lattice)
        : e_(epsilon), mirrored_(c < -0.5), lattice_(lattice), log_keep_(log_keep), keep_err_(keep_err) {
        c_ = mirrored_ ? -1.0 - c : c;
    }
    Certified value(double t) const override {
        const double size = e_ * (1.0 + std::fabs(c_) + t);
        Certified l;
        Complex lead;
        if (size < 1.0) {
            // M = 1 + 2 sinh(e (z+1)/2) sinh(e z/2) / cosh(e/2): nothing cancels.
            const Complex up = {0.5 * e_ * (c_ + 1.0), 0.5 * e_ * t};
            const Complex down = {0.5 * e_ * c_, 0.5 * e_ * t};
            Certified w =
                certified_sinh(up, 3.0 * kRound * abs(up)) * certified_sinh(down, 3.0 * kRound * abs(down));
            const double scale = 2.0 / std::cosh(0.5 * e_);
            w = {scale * w.value, scale * w.err + (kLibm + 3.0 * kRound) * scale * abs(w.value)};
            l = certified_log1p(w);
        } else {
            // M = exp(e z) (1 + exp(-e (1+2z))) / (1 + exp(-e)).
            const Complex a = {-e_ * (1.0 + 2.0 * c_), -2.0 * e_ * t};
            const double r = std::exp(a.re);
            const Complex w = {r * std::cos(a.im), r * std::sin(a.im)};
            l = certified_log1p({w, r * (3.0 * kLibm + std::expm1(3.0 * kRound * abs(a)))});
            const double base = std::log1p(std::exp(-e_));
            lead = {e_ * c_ - base, e_ * t};
            l.err += 3.0 * kRound * (std::fabs(e_ * c_) + e_ * t) + 3.0 * kLibm * base;
        }
        Complex v = lead + l.value;
        v.re += log_keep_;
        if (mirrored_) v.im = -v.im;
        return {v, kSlack * (l.err + 3.0 * kRound * (abs(v) + abs(lead)) + keep_err_)};
    }
    double log_envelope(double from) const override {
        if (lattice_) {  // |cosh(x + iy)|^2 = sinh^2 x + cos^2 y falls on 0 <= y <= pi/2
            if (from * e_ >= kPi / 2.0) from = kPi / (2.0 * e_);
            const double x = e_ * (c_ + 0.5);
            const double y = std::cos(std::min(e_ * from, kPi / 2.0));
            const double fall =
                0.5 *
                std::log1p(-std::min(
                    (1.0 - y * y) / (std::cosh(std::min(x, 300.0)) * std::cosh(std::min(x, 300.0))), 1.0 - 1e-30));
            const Certified v = value(0.0);
            return v.value.re + v.err + fall * (1.0 - 1e-12) + 1e-15;
        }
        const Certified v = value(0.0);
        return v.value.re + v.err;
    }
    double derivative_size(double t, double) const override {
        // e |tanh(e (z + 1/2))|
        const double x = 2.0 * e_ * (c_ + 0.5);
        const double y = 2.0 * e_ * t;
        const double cosh_x = std::cosh(std::min(x, 300.0));
        const double square = (cosh_x - std::cos(y)) / std::max(cosh_x + std::cos(y), 1e-30);
        return 2.0 * e_ * std::sqrt(square);
    }

private:
    double e_, c_ = 0.0;
    bool mirrored_, lattice_;
    double log_keep_, keep_err_;
};

class TwoPointLaw final : public LossLaw {
public:
    TwoPointLaw(double epsilon, double delta) : e_(epsilon), delta_(delta), log_keep_(std::log1p(-delta)) {}
    LawKind kind() const override { return LawKind::two_point; }
    Cumulants cumulants(double c, StopCheck) const override {
        const double x = e_ * (c + 0.5);
        const double up = std::fabs(x);
        const double value =
            up < 20.0 && e_ < 1.0 && std::fabs(e_ * c) < 1.0
                ? std::log1p(2.0 * std::sinh(0.5 * e_ * (c + 1.0)) * std::sinh(0.5 * e_ * c) / std::cosh(0.5 * e_))
                : up - 0.5 * e_ + std::log1p(std::exp(-2.0 * up)) - std::log1p(std::exp(-e_));
        const double slope = std::tanh(x);
        const double inverse = 1.0 / std::cosh(std::min(up, 350.0));
        return {value + log_keep_, e_ * slope, e_ * e_ * inverse * inverse};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool lattice, StopCheck) const override {
        return std::make_unique<TwoPointLine>(e_, log_keep_, kLibm * std::fabs(log_keep_), c, lattice);
    }
    double max_loss() const override { return delta_ < 1.0 ? e_ : -kInf; }
    double min_loss() const override { return delta_ < 1.0 ? -e_ : kInf; }
    Lattice lattice() const override { return {e_, 2.0 * e_, 0.0, 0.0}; }
    double log_finite_mass() const override { return log_keep_; }
    double infinite_mass() const override { return delta_; }
    double log_mass_err() const override { return delta_ < 1.0 ? kLibm * std::fabs(log_keep_) : 0.0; }
    double log_finite_share() const override { return log_keep_; }
    double log_finite_share_err() const override { return kLibm; }
    double atom_count() const override { return 2.0; }
    std::vector<Atom> atoms() const override {
        const double keep = 1.0 - delta_;
        const double up = keep / (1.0 + std::exp(-e_));
        return {{-e_, 0.0, keep / (1.0 + std::exp(e_)), 4.0 * kLibm}, {e_, 0.0, up, 4.0 * kLibm}};
    }
    std::vector<double> parameters() const override { return {e_, delta_}; }

private:
    double e_, delta_, log_keep_;
};

// ---------------------------------------------------------------------------------------------- discrete Gaussian

// log(Theta(a)/Theta(0)) with Theta(a) = sum over integers x of exp(-(x+a)^2/(2 s^2)).
class ThetaRatio {
public:
    explicit ThetaRatio(double sigma) : s2_(sigma * sigma), dual_(s2_ >= 0.25) {
        if (dual_) {
            for (int m = 1; m <= 6; ++m) {
                const double weight = std::exp(-2.0 * kPi * kPi * s2_ * m * m);
                weights_.push_back(weight);
                total_ += 2.0 * weight;
            }
        } else {
            for (int x = -20; x <= 20; ++x)
                total_ += x == 0 ? 0.0 : std::exp(-x * static_cast<double>(x) / (2.0 * s2_));
        }
    }
    // a = a_re + i a_im, |a_im| <= pi s^2 (half a period); err is the absolute error of a.
    Certified log_ratio(double a_re, double a_im, double err) const {
        const double re = a_re - std::nearbyint(a_re);
        if (dual_) {
            // 1 + 2 sum w_m cos(2 pi m a) over the same at 0: the difference is -4 sum w_m sin^2(pi m a).
            Certified sum;
            for (std::size_t i = 0; i < weights_.size(); ++i) {
                const double m = static_cast<double>(i + 1);
                const Complex arg = {kPi * m * re, kPi * m * a_im};
                const double log_w = -2.0 * kPi * kPi * s2_ * m * m;
                if (log_w + 2.0 * std::fabs(arg.im) < -90.0) break;
                const double exponent = 0.5 * log_w;  // spread the weight over both factors: no overflow
                const double up = std::exp(exponent + arg.im) / 2.0;
                const double down = std::exp(exponent - arg.im) / 2.0;
                const Complex sine = {std::sin(arg.re) * (up + down), std::cos(arg.re) * (up - down)};
                const double slip = 2.0 * kPi * m * err + 6.0 * kRound * (abs(arg) + std::fabs(exponent));
                const double sine_err = (up + down) * (slip + 4.0 * kLibm);
                const Certified square = Certified{sine, sine_err} * Certified{sine, sine_err};
                sum = sum + Certified{4.0 * square.value, 4.0 * square.err};
            }
            const double scale = -1.0 / (1.0 + total_);
            return certified_log1p(
                {scale * sum.value, -scale * sum.err * kSlack + 4.0 * kLibm * abs(sum.value) + 1e-38});
        }
        Certified sum;
        for (int x = -21; x <= 21; ++x) {
            const double d = x + re;
            const double exponent = -(d * d - a_im * a_im) / (2.0 * s2_);
            if (exponent < -200.0) continue;
            const double phase = -d * a_im / s2_;
            const double size = std::exp(exponent);
            const double slip = (std::fabs(d) + std::fabs(a_im)) / s2_ * err +
                                8.0 * kRound * (std::fabs(exponent) + a_im * a_im / s2_ + std::fabs(phase));
            sum = sum + Certified{{size * std::cos(phase), size * std::sin(phase)}, size * (slip + 3.0 * kLibm)};
        }
        sum.value.re -= 1.0;
        sum.err += kRound * abs(sum.value) + 1e-80;
        const Certified l = certified_log1p(sum);
        const double base = std::log1p(total_);
        return {{l.value.re - base, l.value.im}, l.err + 3.0 * kLibm * (base + std::fabs(l.value.re))};
    }

private:
    double s2_;
    bool dual_;
    std::vector<double> weights_;
    double total_ = 0.0;
};

class DiscreteGaussianLine final : public LossLine {
public:
    // mean_size: at least the mean of |loss| in the law tilted by c.
    DiscreteGaussianLine(const ThetaRatio& theta, double sigma, double shift, double c, double mean_size,
                         bool lattice)
        : theta_(theta),
          rho_(shift * shift / (2.0 * sigma * sigma)),
          shift_(shift),
          half_(kPi * sigma * sigma / shift),
          c_(c),
          mean_size_(mean_size),
          lattice_(lattice),
          log_mass_(value(0.0).value.re) {}
    Certified value(double t) const override {
        // exp(rho z(1+z)) Theta(shift z)/Theta(0) is periodic in t up to the phase of the lattice; t is reduced to
        // the first period by hand because the theta ratio is evaluated there.
        const double period = 2.0 * half_;
        const double turns = std::nearbyint(t / period);
        const double s = t - turns * period;
        const Complex g = {rho_ * (c_ * (1.0 + c_) - s * s), rho_ * s * (1.0 + 2.0 * c_)};
        const double size =
            rho_ * (std::fabs(c_) * (1.0 + std::fabs(c_)) + s * s + std::fabs(s) * (1.0 + 2.0 * std::fabs(c_)));
        const double slip = 3.0 * kRound * (std::fabs(c_) + std::fabs(t));
        const Certified l = theta_.log_ratio(shift_ * c_, shift_ * s, shift_ * slip);
        Complex v = g + l.value;
        // M(z + 2 pi i s^2/shift) = M(z) exp(i pi shift): the loss is shift/(2 s^2) (shift - 2x).
        if (turns != 0.0) v.im += turns * kPi * std::fmod(shift_, 2.0);
        return {v, l.err + 8.0 * kRound * size + rho_ * slip * (1.0 + 2.0 * std::fabs(c_) + 2.0 * std::fabs(s)) +
                       kRound * abs(v) + 4.0 * kRound * std::fabs(turns)};
    }
    double log_envelope(double from) const override {
        // By the triple product every factor of |Theta| falls on the first half period.
        const Certified v = lattice_ ? value(std::min(from, half_ * (1.0 - 1e-12))) : value(0.0);
        return v.value.re + v.err;
    }
    double derivative_size(double, double log_size) const override {  // |M'| <= E|L| M(c)
        return mean_size_ * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    const ThetaRatio& theta_;
    double rho_, shift_, half_, c_, mean_size_;
    bool lattice_;
    double log_mass_;
};

class DiscreteGaussianLaw final : public LossLaw {
public:
    DiscreteGaussianLaw(double sigma, double shift)
        : theta_(sigma), sigma_(sigma), shift_(shift), rho_(shift * shift / (2.0 * sigma * sigma)) {}
    LawKind kind() const override { return LawKind::discrete_gaussian; }
    Cumulants cumulants(double c, StopCheck) const override {
        // Weights of the tilted law around its centre -shift c.
        const double a = shift_ * c;
        const double centre = std::nearbyint(a);
        const double width = std::ceil(9.0 * sigma_) + 2.0;
        if (sigma_ > 2.0)  // corrections below exp(-2 pi^2 4)
            return {rho_ * c * (1.0 + c), rho_ * (1.0 + 2.0 * c), 2.0 * rho_};
        double sum = 0.0, mean = 0.0, square = 0.0, base = 0.0;
        for (double x = -width; x <= width; x += 1.0) {
            const double d = x + (a - centre);
            const double w = std::exp(-d * d / (2.0 * sigma_ * sigma_));
            sum += w;
            mean += w * d;
            square += w * d * d;
            base += std::exp(-x * x / (2.0 * sigma_ * sigma_));
        }
        mean /= sum;
        square /= sum;
        const double slope = shift_ / (sigma_ * sigma_);
        // L = slope (shift/2 - x) with x = d - a.
        return {rho_ * c * (1.0 + c) + std::log(sum / base), slope * (0.5 * shift_ - mean + a),
                slope * slope * (square - mean * mean)};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool lattice, StopCheck stop) const override {
        const Cumulants k = cumulants(c, stop);  // good to many digits
        const double mean_size = 1.01 * std::sqrt(k.second + k.first * k.first);
        return std::make_unique<DiscreteGaussianLine>(theta_, sigma_, shift_, c, mean_size, lattice);
    }
    double max_loss() const override { return kInf; }
    double min_loss() const override { return -kInf; }
    Lattice lattice() const override {
        const double step = shift_ / (sigma_ * sigma_);
        return {rho_, step, 3.0 * kRound * rho_, 3.0 * kRound * step};
    }
    std::vector<double> parameters() const override { return {sigma_, shift_}; }

private:
    ThetaRatio theta_;
    double sigma_, shift_, rho_;
};

// ---------------------------------------------------------------------------------------------- atoms

class AtomsLine final : public LossLine {
public:
    AtomsLine(const std::vector<Atom>& atoms, double less_one, double mass_rel, double c, bool lattice,
              double step)
        : atoms_(atoms), less_one_(less_one), mass_rel_(mass_rel), c_(c), lattice_(lattice), step_(step) {
        low_ = atoms.front().loss;
        high_ = low_;
        for (const Atom& a : atoms) {
            low_ = std::min(low_, a.loss);
            high_ = std::max(high_, a.loss);
        }
        shift_ = std::max(c * low_, c * high_);
        scaled_ = std::fabs(shift_) > 0.5;
        const Certified at0 = value(0.0);
        log_mass_ = at0.value.re;
        err_ = at0.err;
        double mean = 0.0;
        double total = 0.0;
        for (const Atom& a : atoms) {
            const double w = a.mass * std::exp(c * a.loss - log_mass_);
            mean += w * a.loss;
            total += w;
        }
        mean /= total;
        for (const Atom& a : atoms)
            variance_low_ += a.mass * std::exp(c * a.loss - log_mass_) * (a.loss - mean) * (a.loss - mean);
        variance_low_ *= 1.0 - 1e-9;
        variance_low_ = std::max(0.0, variance_low_ - 1e-14 * (high_ - low_) * (high_ - low_));
    }
    Certified value(double t) const override {
        Complex sum;
        double err = 0.0;
        double size = 0.0;
        if (!scaled_) {  // M = 1 + (mass - 1) + sum p (exp(zl) - 1)
            for (const Atom& a : atoms_) {
                const Certified e =
                    certified_expm1({c_ * a.loss, t * a.loss},
                                    (std::fabs(c_) + t) * (a.loss_err + 2.0 * kRound * std::fabs(a.loss)));
                sum = sum + a.mass * e.value;
                err += a.mass * (e.err + (2.0 * kRound + mass_rel_) * abs(e.value));
                size += a.mass * abs(e.value);
            }
            sum.re += less_one_;
            const double n = static_cast<double>(atoms_.size() + 2);
            return finish(sum, kSlack * err + n * kRound * (size + std::fabs(less_one_)), 0.0);
        }
        for (const Atom& a : atoms_) {
            const double slip = (std::fabs(c_) + t) * (a.loss_err + 3.0 * kRound * std::fabs(a.loss)) +
                                kRound * (std::fabs(c_ * a.loss) + std::fabs(shift_));
            const double w = a.mass * std::exp(c_ * a.loss - shift_);
            sum = sum + Complex{w * std::cos(t * a.loss), w * std::sin(t * a.loss)};
            err += w * (std::expm1(slip) + 3.0 * kLibm + mass_rel_);
            size += w;
        }
        sum.re -= 1.0;
        const double n = static_cast<double>(atoms_.size() + 2);
        return finish(sum, kSlack * err + n * kRound * (size + 1.0), shift_);
    }
    double log_envelope(double from) const override {
        const double width = high_ - low_;
        if (!(width > 0.0)) return log_mass_ + err_;
        if (lattice_ && width <= 1.5 * step_) {  // two atoms: |p0 + p1 exp((c+it) d)| falls up to t = pi/d
            const Certified v = value(std::min(from, kPi / step_));
            return std::min(v.value.re + v.err, log_mass_ + err_);
        }
        const double turn = kPi / width;
        if (from >= turn || !lattice_) return log_mass_ + err_;
        // On a lattice of more than two points nothing is known beyond one turn of the whole range.
        return step_ * turn >= kPi ? log_mass_ + err_ + bounded_range_log_decay(variance_low_, width, from)
                                   : log_mass_ + err_;
    }
    // An exponential, a sine and a cosine each.
    double cost() const override { return 10.0 * static_cast<double>(atoms_.size()); }
    double derivative_size(double, double log_size) const override {
        return std::max(std::fabs(low_), std::fabs(high_)) * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    static Certified finish(Complex sum, double err, double shift) {
        Certified l = certified_log1p({sum, err});
        l.value.re += shift;
        l.err += kRound * (std::fabs(l.value.re) + std::fabs(shift));
        return l;
    }
    const std::vector<Atom>& atoms_;
    double less_one_, mass_rel_, c_;
    bool lattice_;
    double step_;
    double low_ = 0.0, high_ = 0.0, shift_ = 0.0, log_mass_ = 0.0, err_ = 0.0, variance_low_ = 0.0;
    bool scaled_ = false;
};

class AtomsLaw final : public LossLaw {
public:
    AtomsLaw(std::vector<Atom> atoms, double less_one, double total_less_one, double infinite, double mass_rel,
             Lattice lattice, std::vector<double> parameters)
        : atoms_(std::move(atoms)),
          less_one_(less_one),
          infinite_(infinite),
          mass_rel_(mass_rel),
          lattice_(lattice),
          parameters_(std::move(parameters)) {
        double finite = 0.0;
        for (const Atom& a : atoms_) {
            max_ = std::max(max_, a.loss + a.loss_err);
            min_ = std::min(min_, a.loss - a.loss_err);
            finite += a.mass;
        }
        const double n = static_cast<double>(atoms_.size()) + 4.0;
        log_total_ = std::log1p(total_less_one);
        log_mass_err_ = 2.0 * kLibm * (std::fabs(less_one) + std::fabs(total_less_one));
        if (!atoms_.empty()) {
            // 1 + less_one loses the digits of a small finite mass.
            log_finite_ = less_one > -0.5 ? std::log1p(less_one) : std::log(finite);
            log_mass_err_ += 2.0 * kLibm * std::fabs(log_finite_) + (less_one > -0.5 ? 0.0 : 2.0 * n * kRound);
            const double share = infinite / (1.0 + total_less_one);
            log_share_ = share < 0.5 ? std::log1p(-share) : std::log(finite / (1.0 + total_less_one));
        }
    }
    LawKind kind() const override { return LawKind::atoms; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        stop.spend(40.0 * static_cast<double>(atoms_.size()));
        if (atoms_.empty()) return {-kInf, 0.0, 0.0};
        const double shift = std::max(c * max_, c * min_);
        double sum = 0.0, mean = 0.0;
        for (const Atom& a : atoms_) {
            const double w = a.mass * std::exp(c * a.loss - shift);
            sum += w;
            mean += w * a.loss;
        }
        mean /= sum;
        double square = 0.0;
        for (const Atom& a : atoms_)
            square += a.mass * std::exp(c * a.loss - shift) * (a.loss - mean) * (a.loss - mean);
        double value = std::log(sum) + shift;
        if (std::fabs(value) < 0.1 && std::fabs(shift) < 1.0) {
            double less = less_one_;
            for (const Atom& a : atoms_) less += a.mass * std::expm1(c * a.loss);
            value = std::log1p(less);
        }
        return {value, mean, square / sum};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool lattice, StopCheck stop) const override {
        stop.spend(150.0 * static_cast<double>(atoms_.size()));
        return std::make_unique<AtomsLine>(atoms_, less_one_, mass_rel_, c, lattice, lattice_.step);
    }
    double max_loss() const override { return max_; }
    double min_loss() const override { return min_; }
    Lattice lattice() const override { return lattice_; }
    double log_finite_mass() const override { return log_finite_; }
    double log_total_mass() const override { return log_total_; }
    double infinite_mass() const override { return infinite_; }
    bool infinite_mass_exact() const override { return infinite_ == 0.0; }
    double log_mass_err() const override { return log_mass_err_; }
    double log_finite_share() const override { return log_share_; }
    // The sum of the infinite masses has n roundings; log1p(-x) at most doubles a relative error for x < 1/2, and
    // |log x| > log 2 for the rest.
    double log_finite_share_err() const override {
        return 2.0 * (static_cast<double>(parameters_.size()) + 8.0) * kRound + 2.0 * kLibm;
    }
    std::vector<Atom> atoms() const override { return atoms_; }
    double atom_count() const override { return static_cast<double>(atoms_.size()); }
    std::vector<double> parameters() const override { return parameters_; }

private:
    std::vector<Atom> atoms_;
    double less_one_, infinite_, mass_rel_;
    Lattice lattice_;
    std::vector<double> parameters_;
    double max_ = -kInf, min_ = kInf;
    double log_finite_ = -kInf, log_total_ = 0.0, log_share_ = -kInf, log_mass_err_ = 0.0;
};

// ---------------------------------------------------------------------------------------------- discrete Laplace

// With e = 1/scale, u = exp(-e), a = e(1+2z) and r = exp(-a) the masses tanh(e/2) exp(-e|x|) of the losses
// e (shift - 2x), 0 < x < shift, are a geometric series; with both ends
//     M(z) = exp(z e shift) (1 + w),   w = u expm1(-2ze)/(1+u) * expm1(-shift a)/expm1(-a),
// a finite product without cancellation, at the same cost for every shift.
class DiscreteLaplaceLine final : public LossLine {
public:
    DiscreteLaplaceLine(double scale, double shift, double c, double copies, bool lattice, StopCheck stop)
        : e_(1.0 / scale),
          n_(shift),
          copies_(copies),
          precise_e_(DoubleDouble(1.0) / DoubleDouble(scale)),
          precise_c_(c < -0.5 ? two_sum(-1.0, -c) : DoubleDouble(c)),
          mirrored_(c < -0.5),
          lattice_(lattice),
          stop_(stop) {
        c_ = mirrored_ ? -1.0 - c : c;
        const Certified at0 = value(0.0);
        log_mass_ = at0.value.re;
        err_ = at0.err;
    }
    Certified value(double t) const override {
        const Certified plain = in_doubles(t);
        // Where the power of all copies is negligible the plain value is as good.
        if (!(copies_ * plain.err > kCopiesErr) || copies_ * (plain.value.re - log_mass_) < kNegligible)
            return plain;
        stop_.spend(kPreciseWork);
        const Certified precise = in_twice_the_precision(t);
        return precise.err < plain.err ? precise : plain;
    }

private:
    // Errors of all copies together that are not worth a second look: 1e-12, a thousandth of the width aimed at.
    static constexpr double kCopiesErr = 1e-12;
    static constexpr double kNegligible = -40.0;
    static constexpr double kPreciseWork = 5000.0;  // nanoseconds

    // M - 1 = expm1(zen) + w + expm1(zen) w. The terms are of the size of zen, their sum is of that of its square:
    // what cancels is far below the rounding of the result here.
    Certified in_twice_the_precision(double t) const {
        using detail::PreciseComplex;
        // 1/scale, 1 + 2c, n and their product: 23u^2 of what goes into a part, whether it cancels or not.
        constexpr double kParts = 0x1p-100;
        const auto times = [&](DoubleDouble re, DoubleDouble im, double size) {  // e (re + i im)
            return PreciseComplex{precise_e_ * re, precise_e_ * im, kParts * e_ * size + 1e-290};
        };
        const DoubleDouble slope = precise_c_ * 2.0 + 1.0;
        const double size = 1.0 + 2.0 * (std::fabs(c_) + t);
        const PreciseComplex a = times(-slope, -2.0 * t, size);
        const PreciseComplex all = times(slope * -n_, two_prod(-2.0 * t, n_), n_ * size);
        const PreciseComplex lead = expm1(times(precise_c_ * n_, two_prod(t, n_), n_ * size));
        const PreciseComplex turn = expm1(times(precise_c_ * -2.0, -2.0 * t, size));
        const PreciseComplex one = {1.0, 0.0, 0.0};
        const PreciseComplex u = one + expm1(times(-1.0, 0.0, 1.0));
        const PreciseComplex w = u / (one + u) * turn * (expm1(all) / expm1(a));
        const Certified less_one = (lead + w + lead * w).rounded();
        if (!(less_one.err < 0.25)) return {{}, kInf};
        Certified out = certified_log1p(less_one);
        if (mirrored_) out.value.im = -out.value.im;
        return out;
    }

    Certified in_doubles(double t) const {
        const Complex a = {e_ * (1.0 + 2.0 * c_), 2.0 * e_ * t};
        const double size = abs(a);
        // expm1(-na)/expm1(-a): a is off by 4 roundings (1/scale, the sum, two products).
        Certified ratio;
        if (n_ * size < 1e-8) {  // n (1 - (n-1) a/2), remainder below (na)^2
            const double by = 0.5 * n_ * (n_ - 1.0);
            ratio = {{n_ - by * a.re, -by * a.im},
                     n_ * (n_ * size * n_ * size + n_ * size * 4.0 * kRound + kLibm)};
        } else {
            const Certified over = certified_expm1({-n_ * a.re, -n_ * a.im}, 6.0 * kRound * n_ * size);
            const Certified under = certified_expm1({-a.re, -a.im}, 4.0 * kRound * size);
            const double small = abs(under.value);
            const Complex v = over.value / under.value;
            ratio = {v, kSlack * (over.err + abs(v) * under.err) / (small - under.err) + kComplexOp * abs(v)};
            if (!(small > 2.0 * under.err)) ratio = {{n_, 0.0}, kInf};
        }
        Certified rise;  // u expm1(-2ze)
        if (e_ < 1.0) {
            const Complex turn = {-2.0 * e_ * c_, -2.0 * e_ * t};
            const double u = std::exp(-e_);
            const Certified x = certified_expm1(turn, 4.0 * kRound * abs(turn));
            rise = {u * x.value, kSlack * u * (x.err + 2.0 * kLibm * abs(x.value))};
        } else {  // r - u
            const double r = std::exp(-a.re);
            const double u = std::exp(-e_);
            rise = {{r * std::cos(a.im) - u, -r * std::sin(a.im)},
                    r * (std::expm1(4.0 * kRound * size) + 4.0 * kLibm) + u * (2.0 * kRound * e_ + 2.0 * kLibm)};
        }
        const double scale = 1.0 / (1.0 + std::exp(-e_));
        Certified w = rise * ratio;
        w = {scale * w.value, kSlack * scale * (w.err + 2.0 * kLibm * abs(w.value))};
        const Complex lead = {e_ * n_ * c_, e_ * n_ * t};
        const Certified l = certified_log1p(w);
        Complex v = lead + l.value;
        if (mirrored_) v.im = -v.im;
        return {v, l.err + 4.0 * kRound * (std::fabs(lead.re) + std::fabs(lead.im)) + kRound * abs(v)};
    }

public:
    double log_envelope(double from) const override {
        const double none = log_mass_ + err_;
        if (!lattice_) return none;
        // |M| <= e^{c e n} (|1 - u r| + |r|^n |u - r|)/((1+u) |1 - r|). With S = sin^2(e t) both quotients are
        // Moebius in S, hence monotone on the half period; the first one falls.
        const double u = std::exp(-e_);
        const double r = std::exp(-e_ * (1.0 + 2.0 * c_));
        const double sine = std::sin(std::min(e_ * from, 0.5 * kPi));
        const auto at = [&](double x, double square) {  // |x - r e^{-2iet}|^2 = (x - r)^2 + 4 x r S
            return (x - r) * (x - r) + 4.0 * x * r * square;
        };
        const double s2 = sine * sine * (1.0 - 8.0 * kLibm);
        const double below = at(1.0, s2);
        if (!(below > 0.0)) return none;
        const double first = std::sqrt(((1.0 - u * r) * (1.0 - u * r) + 4.0 * u * r * s2) / below);
        const double second = std::sqrt(std::max(at(u, s2) / below, at(u, 1.0) / at(1.0, 1.0)));
        const double beyond = e_ * n_ * c_ +
                              std::log((first + std::exp(-e_ * n_ * (1.0 + 2.0 * c_)) * second) / (1.0 + u)) +
                              1e-13 * (1.0 + e_ * n_ * (1.0 + std::fabs(c_)));
        return std::min(none, beyond);
    }
    double derivative_size(double, double log_size) const override {
        return 2.0 * e_ * n_ * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    double e_, n_, c_ = 0.0, copies_;
    DoubleDouble precise_e_, precise_c_;
    bool mirrored_, lattice_;
    StopCheck stop_;
    double log_mass_ = -kInf, err_ = 0.0;
};

class DiscreteLaplaceLaw final : public LossLaw {
public:
    DiscreteLaplaceLaw(double scale, double shift) : scale_(scale), n_(shift), e_(1.0 / scale) {}
    LawKind kind() const override { return LawKind::atoms; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        // Fine lattices are nearly the continuous mechanism: near enough to place a contour.
        if (n_ > 4096.0 && e_ < 1e-3 && c != 0.0) return LaplaceLaw(e_ * n_).cumulants(c, stop);
        // Tilted, the masses between the ends fall like e^{-ax} from one of them: those beyond e^-45 do not
        // matter, and many are taken in cells over which they hardly change. At c = 0 the mean and the variance
        // are asked for as such: one by one.
        const double a = e_ * (1.0 + 2.0 * c);
        const double reach = std::min(n_ - 1.0, std::ceil(45.0 / std::max(std::fabs(a), 1e-300)));
        const double cell = n_ > 4096.0 && c != 0.0 ? std::ceil(reach / 1024.0) : 1.0;
        stop.spend(40.0 * reach / cell);
        const double ends = 1.0 / (1.0 + std::exp(-e_));
        const double inner = std::tanh(0.5 * e_);
        const double top = std::max(0.0, -a * n_);
        double sum = 0.0, first = 0.0, second = 0.0;
        const auto add = [&](double x, double weight) {  // losses relative to that of x = 0, or of x = n
            const double loss = 2.0 * e_ * (a < 0.0 ? n_ - x : -x);
            sum += weight;
            first += weight * loss;
            second += weight * loss * loss;
        };
        add(0.0, ends * std::exp(-top));
        add(n_, ends * std::exp(-a * n_ - top));
        for (double done = 0.0; done < reach; done += cell) {
            const double count = std::min(cell, reach - done);
            const double far = done + 0.5 * (count + 1.0);
            const double x = a < 0.0 ? n_ - far : far;
            add(x, inner * count * std::exp(-a * x - top));
        }
        const double mean = first / sum;
        return {DiscreteLaplaceLine(scale_, n_, c, 1.0, false, stop).value(0.0).value.re,
                mean + (a < 0.0 ? -e_ : e_) * n_, std::max(0.0, second / sum - mean * mean)};
    }
    std::unique_ptr<LossLine> line(double c, double, double copies, bool lattice, StopCheck stop) const override {
        return std::make_unique<DiscreteLaplaceLine>(scale_, n_, c, copies, lattice, stop);
    }
    double max_loss() const override { return e_ * n_ * (1.0 + 4.0 * kRound); }
    double min_loss() const override { return -max_loss(); }
    Lattice lattice() const override { return {e_ * n_, 2.0 * e_, 3.0 * kRound * e_ * n_, 3.0 * kRound * e_}; }
    std::vector<Atom> atoms() const override {
        std::vector<Atom> out;
        out.reserve(static_cast<std::size_t>(n_) + 1);
        for (double x = 0.0; x <= n_; x += 1.0) {
            const double loss = e_ * (n_ - 2.0 * x);
            out.push_back({loss, 3.0 * kRound * std::fabs(loss), mass(x), 5.0 * kLibm + 4.0 * kRound * e_ * x});
        }
        return out;
    }
    double atom_count() const override { return n_ + 1.0; }
    std::vector<double> parameters() const override { return {-1.0, scale_, n_}; }

private:
    // P centred at 0 against Q centred at `shift`: x <= 0 has loss shift e, x >= shift has -shift e.
    double mass(double x) const {
        const double ends = 1.0 / (1.0 + std::exp(-e_));
        if (x == 0.0) return ends;
        if (x == n_) return std::exp(-e_ * n_) * ends;
        return std::tanh(0.5 * e_) * std::exp(-e_ * x);
    }
    double scale_, n_, e_;
};

}  // namespace

LawPtr gaussian_law(double sigma, double sensitivity) {
    const double ratio = sensitivity / sigma;
    return std::make_shared<GaussianLaw>(0.5 * ratio * ratio, 4.0 * kRound);
}
LawPtr gaussian_law_of_rho(double rho, double rho_err) { return std::make_shared<GaussianLaw>(rho, rho_err); }
double gaussian_rho(const LossLaw& law) { return law.parameters().at(0); }
double gaussian_rho_err(const LossLaw& law) { return law.parameters().at(1); }

LawPtr laplace_interior_law(double epsilon) { return std::make_shared<LaplaceInteriorLaw>(epsilon); }
LawPtr laplace_law(double epsilon) { return std::make_shared<LaplaceLaw>(epsilon); }
LawPtr two_point_law(double epsilon, double delta) { return std::make_shared<TwoPointLaw>(epsilon, delta); }
LawPtr discrete_gaussian_law(double sigma, double shift) {
    return std::make_shared<DiscreteGaussianLaw>(sigma, shift);
}

LawPtr discrete_laplace_law(double scale, std::int64_t shift) {
    return std::make_shared<DiscreteLaplaceLaw>(scale, static_cast<double>(shift));
}

LawPtr atoms_law(std::vector<Atom> atoms, double mass_rel) {
    const auto count = static_cast<double>(atoms.size());
    return std::make_shared<AtomsLaw>(std::move(atoms), 0.0, 0.0, 0.0, mass_rel, Lattice{},
                                      std::vector<double>{count});
}

LawPtr pmf_law(const std::vector<double>& p, const std::vector<double>& q, StopCheck stop) {
    if (p.size() != q.size()) throw std::invalid_argument("p and q differ in length");
    std::vector<Atom> atoms;
    atoms.reserve(p.size());
    double infinite = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        if (i % 65536 == 0) stop();
        if (p[i] == 0.0) continue;
        if (q[i] == 0.0) {
            infinite += p[i];
            continue;
        }
        const double ratio = p[i] / q[i];
        double loss = std::log(ratio);
        double err = kLibm * std::fabs(loss) + 2.0 * kRound;
        if (ratio > 0.5 && ratio < 2.0) {  // p - q is exact here (Sterbenz)
            loss = std::log1p((p[i] - q[i]) / q[i]);
            err = (2.0 * kLibm) * std::fabs(loss);
        } else if (!(ratio > 0x1p-1000 && ratio < 0x1p1000)) {
            loss = std::log(p[i]) - std::log(q[i]);
            err = kLibm * (std::fabs(std::log(p[i])) + std::fabs(std::log(q[i]))) + kRound * std::fabs(loss);
        }
        atoms.push_back({loss, err, p[i], 0.0});
    }
    std::size_t compared = 0;
    std::sort(atoms.begin(), atoms.end(), [&](const Atom& a, const Atom& b) {
        if (++compared % 1048576 == 0) stop();
        return a.loss < b.loss;
    });
    // Masses less one, in twice the precision: Knuth's sum of the rounding errors.
    struct LessOne {
        double high = -1.0, low = 0.0;
        void add(double x) {
            const double s = high + x;
            const double t = s - high;
            low += (high - (s - t)) + (x - t);
            high = s;
        }
        double value() const { return high + low; }
    } finite, total;
    // Equal losses become one atom, in place: a copy of millions of atoms would take longer than a caller who
    // wants to stop may have to wait.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        if (i % 65536 == 0) stop();
        const Atom a = atoms[i];
        finite.add(a.mass);
        if (kept > 0 && atoms[kept - 1].loss == a.loss) {
            Atom& same = atoms[kept - 1];
            same.mass += a.mass;
            same.mass_err += kRound;
            same.loss_err = std::max(same.loss_err, a.loss_err);
        } else {
            atoms[kept++] = a;
        }
    }
    const double mass_rel = kept == atoms.size() && infinite == 0.0 ? 0.0 : static_cast<double>(p.size()) * kRound;
    const bool few = kept < atoms.capacity() / 2;
    atoms.resize(kept);
    if (few) atoms.shrink_to_fit();
    for (std::size_t i = 0; i < p.size(); ++i) {
        if (i % 65536 == 0) stop();
        total.add(p[i]);
    }
    Lattice lattice;
    if (atoms.size() == 2) {
        const double step = atoms[1].loss - atoms[0].loss;
        lattice = {atoms[0].loss, step, atoms[0].loss_err, atoms[0].loss_err + atoms[1].loss_err + kRound * step};
    } else if (atoms.size() == 1) {
        lattice = {atoms[0].loss, 1.0, atoms[0].loss_err, 0.0};
    }
    std::vector<double> parameters;
    parameters.reserve(2 * p.size() + 1);
    parameters.push_back(static_cast<double>(p.size()));
    parameters.insert(parameters.end(), p.begin(), p.end());
    stop();
    parameters.insert(parameters.end(), q.begin(), q.end());
    stop();
    return std::make_shared<AtomsLaw>(std::move(atoms), finite.value(), total.value(), infinite, mass_rel, lattice,
                                      std::move(parameters));
}

}  // namespace dpcore
