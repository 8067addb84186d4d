// The loss of Laplace noise, and its part between the two ends; declared in loss_law.hpp.
//
// Method:    log M = z eps0 + log1p(z expm1(-a)/(1+2z)), a = eps0 (1+2z); the part between the ends has
//            M = e^{z eps0} (1 - e^-a)/a over the same of z = 0. c < -1/2 by symmetry: M(z) = M(-1-z).
// Domain:    eps0 > 0.
// Guarantee: as loss_law.hpp; beyond a quarter turn the envelope ends at the two atoms, of which log_atoms says
//            how much they are.
// Evidence:  docs/accounting_derivations.md, "loss_law"; tests/cpp/test_spectral.cpp,
//            tests/test_accounting_laplace.py, and of the part tests/test_accounting_sampled_atoms.py.
#include <algorithm>
#include <cmath>

#include "dpcore/loss_law.hpp"
#include "loss_line_bounds.hpp"

namespace dpcore {

namespace {

constexpr double kPi = 3.14159265358979323846;

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

}  // namespace

LawPtr laplace_law(double epsilon) { return std::make_shared<LaplaceLaw>(epsilon); }
LawPtr laplace_interior_law(double epsilon) { return std::make_shared<LaplaceInteriorLaw>(epsilon); }

}  // namespace dpcore
