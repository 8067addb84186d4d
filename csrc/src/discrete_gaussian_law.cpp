// The loss of discrete Gaussian noise; declared in loss_law.hpp.
//
// Method:    K = rho z (1 + z) + log(Theta(shift z)/Theta(0)), Theta the sum of exp(-(x+a)^2/(2 s^2)) over the
//            integers: directly for s < 1/2; else by Poisson's formula, where Theta(0) - Theta(a) is a sum of
//            squared sines.
// Domain:    sigma >= 0.01, whole shifts.
// Guarantee: as loss_law.hpp; on a lattice |M| falls for half a period, like every factor of the triple product.
// Evidence:  docs/accounting_derivations.md, "loss_law"; tests/cpp/test_spectral.cpp, tests/test_accounting.py.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/loss_law.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

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

}  // namespace

LawPtr discrete_gaussian_law(double sigma, double shift) {
    return std::make_shared<DiscreteGaussianLaw>(sigma, shift);
}

}  // namespace dpcore
