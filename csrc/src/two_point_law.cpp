// The loss of randomised response, beside an infinite one; declared in loss_law.hpp.
//
// Method:    log M = log1p(2 sinh(e(z+1)/2) sinh(ez/2)/cosh(e/2)) where the loss is small, else
//            ez + log1p(exp(-e(1+2z))) - log1p(exp(-e)); plus log(1 - delta). c < -1/2 by symmetry: M(z) is
//            M(-1-z).
// Domain:    epsilon >= 0, 0 <= delta <= 1.
// Guarantee: as loss_law.hpp; on a lattice |M| falls for half a period, being |cosh(e(z + 1/2))| up to a factor.
// Evidence:  docs/accounting_derivations.md, "loss_law"; tests/cpp/test_spectral.cpp, tests/test_accounting.py.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/loss_law.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

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

}  // namespace

LawPtr two_point_law(double epsilon, double delta) { return std::make_shared<TwoPointLaw>(epsilon, delta); }

}  // namespace dpcore
