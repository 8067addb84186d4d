// The loss of Gaussian noise; declared in loss_law.hpp.
//
// Method:    L is normal with mean rho and variance 2 rho, so K = rho z (1 + z).
// Domain:    rho >= 0 with a relative error of its own: many Gaussian releases are one. rho = 0 loses nothing.
// Guarantee: as loss_law.hpp; |M(c + it)| = M(c) exp(-rho t^2) falls with t and is its own envelope.
// Evidence:  docs/accounting_derivations.md, "loss_law"; tests/cpp/test_spectral.cpp, tests/test_accounting.py.
#include <cmath>
#include <limits>

#include "dpcore/loss_law.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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

}  // namespace

LawPtr gaussian_law(double sigma, double sensitivity) {
    const double ratio = sensitivity / sigma;
    return std::make_shared<GaussianLaw>(0.5 * ratio * ratio, 4.0 * kRound);
}
LawPtr gaussian_law_of_rho(double rho, double rho_err) { return std::make_shared<GaussianLaw>(rho, rho_err); }
double gaussian_rho(const LossLaw& law) { return law.parameters().at(0); }
double gaussian_rho_err(const LossLaw& law) { return law.parameters().at(1); }

}  // namespace dpcore
