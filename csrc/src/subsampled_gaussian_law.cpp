// The loss of the Poisson-subsampled Gaussian mechanism; declared in loss_law.hpp.
//
// Method:    sums over the outputs of one step (subsampled_step.hpp). Contours are placed by a plain sum: over all
//            outputs or, where these are many, over the humps of the tilted density.
// Domain:    0.05 <= sigma <= 1e6, 0 < rate < 1, sensitivity 1.
// Guarantee: as loss_law.hpp.
// Evidence:  docs/accounting_derivations.md, "subsampled_step"; tests/cpp/test_spectral.cpp,
//            tests/test_accounting_subsampled.py.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "dpcore/loss_law.hpp"
#include "subsampled_step.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// |log M| from which on M itself is summed, and not M - 1.
constexpr double kFarFromOne = 5.0;
// Outputs beyond which a sum that places contours looks at the humps of the density only; nanoseconds of one.
constexpr double kManyOutputs = 8192.0;
constexpr double kOutputWork = 40.0;
constexpr double kMostOutputs = 0x1p40;

using detail::StepSum;
using detail::SubsampledStep;
using detail::Window;

class SubsampledLine final : public LossLine {
public:
    SubsampledLine(const SubsampledStep& step, double c, double reach, double copies, bool near_one,
                   StopCheck stop)
        : sum_(step, Window{}, c, reach, copies, near_one, stop) {}

    void expect(double spacing) override { sum_.expect(spacing); }
    Certified value(double t) const override { return sum_.log_value(t); }
    double log_envelope(double from) const override { return sum_.log_envelope(from); }
    double derivative_size(double, double) const override { return 0.0; }
    double cost() const override { return static_cast<double>(sum_.nodes().size()); }

private:
    StepSum sum_;
};

class SubsampledLaw final : public LossLaw {
public:
    explicit SubsampledLaw(SubsampledStep model) : m_(model) {}
    LawKind kind() const override { return LawKind::subsampled_gaussian; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        const double p = m_.power(c);
        const double step = std::min(0.5 * m_.sigma, 0.5 * m_.sigma * m_.sigma) * 0.9;
        const double low = m_.lowest(p, 9.0);
        const double high = m_.highest(p, 9.0);
        // So far out neighbouring outputs are hardly told apart: not where a contour stands.
        if (!((high - low) / step < kMostOutputs)) return {kInf, kInf, kInf};
        // Outputs from which the tilted density is summed, and up to which.
        std::vector<std::pair<double, double>> spans = {{low, high}};
        if ((high - low) / step > kManyOutputs) {
            // For a large power it has a hump at the least root of x = p r(x) and one at the largest, of a width
            // of sigma or so: only these.
            const double wide = 40.0 * m_.sigma;
            const auto root = [&](double x) {
                for (int i = 0; i < 200; ++i) {
                    const double next = p * m_.posterior(x);
                    if (std::fabs(next - x) < 0.1 * m_.sigma) break;
                    x = next;
                }
                return x;
            };
            const double first = std::clamp(root(0.0), low, high);
            const double last = std::clamp(root(p), low, high);
            spans = {{std::max(low, first - wide), std::min(high, first + wide)}};
            const double from = std::max(last - wide, spans[0].second + step);
            if (from < high) spans.emplace_back(from, std::min(high, last + wide));
        }
        double less = 0.0, mass = 0.0, first = 0.0, second = 0.0, top = -kInf;
        const double scale = m_.log_norm() + std::log(step);
        // Two passes only where the tilted mass would overflow.
        double shift = 0.0;
        for (int pass = 0; pass < 2; ++pass) {
            less = mass = first = second = 0.0;
            for (const auto& [start, end] : spans) {
                stop.spend(kOutputWork * (end - start) / step);
                for (double i = 0.0; i <= (end - start) / step; i += 1.0) {
                    const double x = start + i * step;
                    const double l = m_.lambda(x);
                    const double e = m_.log_density(x, l, p) + scale;
                    top = std::max(top, e);
                    const double w = std::exp(e - shift);
                    const double loss = m_.sign() * l;
                    less += c * loss > 0.0 ? -w * std::expm1(-c * loss)
                                           : std::exp(e - shift - c * loss) * std::expm1(c * loss);
                    mass += w;
                    first += w * loss;
                    second += w * loss * loss;
                }
            }
            if (top < 600.0) break;
            shift = top;
        }
        const double mean = first / mass;
        const double value = shift == 0.0 && std::fabs(less) < 0.5 ? std::log1p(less) : std::log(mass) + shift;
        return {value, mean, std::max(second / mass - mean * mean, 1e-300)};
    }
    std::unique_ptr<LossLine> line(double c, double reach, double copies, bool, StopCheck stop) const override {
        // Next to the largest loss M may be beyond the range of double; M - 1 is wanted where M is near 1.
        const bool near_one = std::fabs(cumulants(c, stop).value) < kFarFromOne;
        return std::make_unique<SubsampledLine>(m_, c, reach, copies, near_one, stop);
    }
    double max_loss() const override { return m_.removal ? kInf : -std::log1p(-m_.q) * (1.0 + 2.0 * kLibm); }
    double min_loss() const override { return m_.removal ? std::log1p(-m_.q) * (1.0 + 2.0 * kLibm) : -kInf; }
    std::vector<double> parameters() const override { return {m_.sigma, m_.q, m_.removal ? 1.0 : 0.0}; }

private:
    SubsampledStep m_;
};

}  // namespace

LawPtr subsampled_gaussian_law(double sigma, double rate, bool removal) {
    return std::make_shared<SubsampledLaw>(SubsampledStep{sigma, rate, removal});
}

}  // namespace dpcore
