// The transform of a composition without a common lattice at many nodes of a line Re z = c, for integrals that end
// after a million of them.
//
// Method:    M(c + it)/M(c) of every law, multiplied. Atoms and Laplace losses are sums of oscillators, turned by
//            tables from a block's first node. Discrete Gaussian, discrete Laplace and two-point losses lie on a
//            lattice each: |M| has the period 2 pi/step, falls on half of it, and after many copies is alive only
//            next to its multiples. t is reduced to one period, where the law's own line knows M; outside the
//            windows an envelope bounds it. Subsampled Gaussian steps are sums along shifted paths (far_step.hpp),
//            asked last: only where the others leave something.
// Domain:    Laplace, Gaussian, two points, atoms (up to 8192 in all; 10^6 copies), discrete Gaussian and discrete
//            Laplace, subsampled Gaussian (10^6 copies); c > 0; nodes j h with j h exact.
// Guarantee: values are within their err; a product that is left out is at most what is returned for it.
// Evidence:  docs/accounting_derivations.md, "smoothed"; tests/test_accounting_smoothed.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "dpcore/spectral.hpp"
#include "far_step.hpp"
#include "periodic_line.hpp"

namespace dpcore::detail {

class LineProduct {
public:
    static constexpr std::size_t kBlock = FarStep::kStride * FarStep::kStrides;
    static bool accepts(const Composition& composition);

    LineProduct(const Composition& composition, double c, double spacing, StopCheck stop);

    bool known() const { return known_; }  // of all laws; nothing else is to be asked otherwise
    // Values are relative to exp(log_scale()), which is known to log_scale_err().
    double log_scale() const { return log_scale_; }
    double log_scale_err() const { return scale_err_; }
    // The aliases of a contour, which are relative to the composition's own K(c), relative to exp(log_scale()).
    double log_alias(const Composition& composition, const ContourPlace& place) const {
        return place.log_alias + (composition.cumulants(c_).value - log_scale_) +
               8.0 * kRound * std::fabs(log_scale_);
    }
    double rho() const { return rho_; }  // |value| <= exp(-rho t^2) (1 + 1e-9)
    double weight() const;               // what a node takes, in nodes with few atoms

    // The nodes that may matter: all, or those within `half` of a multiple of `period`; at the others the product
    // is at most `outside`.
    struct Windows {
        double period = 0.0;  // 0: no windows
        double half = 0.0;
        double share = 1.0;  // of all nodes
    };
    Windows windows(double outside) const;

    // At least the product at every node from t on, by the factors that fall: Gaussian noise and sampled steps.
    double falling(double t, StopCheck stop);
    bool falls() const { return !steps_.empty(); }

    // The product at nodes first ... first + count - 1 (count <= kBlock). Where it is at most `negligible` at all
    // of them nothing is computed, and a bound is returned; otherwise -1.
    double evaluate(double first, std::size_t count, double negligible, StopCheck stop);
    Complex value(std::size_t j) const { return {re_[j], im_[j]}; }
    double err(std::size_t j) const { return err_of_[j]; }

private:
    // One loss value: weight * exp(i t loss), the weight (at Re z = c, relative to exp(K(c))) times (1 +- u),
    // u = 1/(1 + 2z), for the two ends of a Laplace loss.
    struct Oscillator {
        double loss;
        double weight;
        double end;                  // 0 for an atom, 1 and -1 for the ends of a Laplace loss
        std::vector<double> re, im;  // exp(i j h loss), j in a block
    };
    struct Periodic {  // a law on a lattice of its own
        PeriodicLine line;
        double copies;
        double log_envelope(double from) const;         // of |M/M(c)|^copies on [from, period/2]
        double distance(double from, double to) const;  // to the nearest multiple of the period; rounded down
    };
    struct Factor {
        std::vector<Oscillator> parts;
        double copies;
        double err = 0.0;    // of the transform, absolute, at t = 0
        double slope = 0.0;  // and its growth with t
        // For the first block, where the kernels are large, of many copies: the law as the spectral engine has it.
        std::unique_ptr<Periodic> exact;
        std::unique_ptr<LossLine> near;
        double log_mass = 0.0;  // of one copy
        bool better_known() const { return exact != nullptr || near != nullptr; }
    };
    struct Steps {
        std::unique_ptr<FarStep> one;
        double copies;
    };
    static Factor factor_of(const Term& term, double c, double log_mass);  // relative to exp(log_mass)
    static bool better_turned(const LossLaw& law, const Periodic& periodic);
    static Factor atoms_of(const LossLaw& law, const Periodic& periodic, double c);
    double add_steps(const SubsampledStep& step, const Window& window, double copies, bool less_one,
                     StopCheck stop);
    void multiply_by(const Factor& factor, double start, std::size_t count);
    void multiply_by(const Periodic& law, double start, std::size_t count);
    void multiply_near(const Factor& factor, std::size_t count);
    void multiply_by(const Steps& steps, double start, const bool* wanted);
    void multiply_power(std::size_t j, const Certified& one, double slip, double log_mass, double copies);
    void raise(double copies, std::size_t count);
    static double power_bound(const Steps& steps, double one);
    static bool by_logarithm(double copies);

    double c_, h_;
    double log_scale_ = 0.0, scale_err_ = 0.0;
    double rho_ = 0.0, rho_rel_ = 0.0;
    bool laplace_ = false;
    std::vector<Factor> few_, many_;  // the strongest first
    std::vector<Periodic> periodic_;
    std::vector<Steps> steps_;
    double drift_ = 0.0, drift_size_ = 0.0;  // exp(it drift) is a factor of theirs
    bool known_ = true;
    double err_ = 0.0, slope_ = 0.0;  // of the product of all oscillators where they are 1, and its growth with t
    // Relative, of the powers and products of what is turned; of those in the first block.
    double power_err_ = 0.0, near_power_err_ = 0.0;
    // re, im: the product; rel, bound: relative error and modulus of the periodic factors; turned, turned_rel: the
    // same of the oscillators; m, u, b: of one factor.
    std::vector<double> re_, im_, err_of_, rel_, bound_, turned_, turned_rel_, m_re_, m_im_, u_re_, u_im_, b_;
};

constexpr double kNodeWork = 50.0;  // nanoseconds of a node that is summed
constexpr double kLook = 16.0;      // blocks after which the end is looked for

// Visits the nodes j h from 0 to `end`, in windows where there are such: use(t, value, err) at a node,
// left_out(t, count, bound) for a block from t on whose values are at most `bound`, given what is negligible at t.
// Where all that follows is, that may be many nodes at once.
template <class Negligible, class Use, class LeftOut>
void visit_nodes(LineProduct& product, const LineProduct::Windows& windows, double h, double end, StopCheck stop,
                 Negligible&& negligible, Use&& use, LeftOut&& left_out) {
    const double last = std::ceil(end / h);
    double next = 0.0;  // node
    for (double m = 0.0, blocks = 0.0; next <= last; m += 1.0) {
        double stop_at = last;
        if (windows.period > 0.0) {
            const double centre = m * windows.period;
            const double half = windows.half + 8.0 * kRound * centre;
            next = std::max(next, std::ceil((centre - half) / h - 1e-6));
            stop_at = std::min(last, std::floor((centre + half) / h + 1e-6));
        }
        while (next <= stop_at) {
            if (std::fmod(blocks += 1.0, 64.0) == 0.0) stop();
            const auto count =
                static_cast<std::size_t>(std::min(static_cast<double>(LineProduct::kBlock), stop_at - next + 1.0));
            const double t = next * h;
            if (std::fmod(blocks, kLook) == 0.0 && product.falls() && next > 0.0) {
                const double rest = product.falling(t, stop);
                if (rest <= negligible(t)) {
                    // The sum of 1/j^2 from j = n on is at most that of n (1 + 1/n) terms of its first.
                    left_out(t, next + 1.0, rest);
                    return;
                }
            }
            const double bound = product.evaluate(next, count, next == 0.0 ? 0.0 : negligible(t), stop);
            if (!(bound >= 0.0)) stop.spend(kNodeWork * static_cast<double>(count));
            if (bound >= 0.0) {
                left_out(t, static_cast<double>(count), bound);
            } else {
                for (std::size_t j = 0; j < count; ++j)
                    use(t + static_cast<double>(j) * h, product.value(j), product.err(j));
            }
            next += static_cast<double>(count);
        }
    }
}

// Sums in twice the precision.
struct Compensated {
    double sum = 0.0, low = 0.0;
    void add(double term) {
        const double y = term - low;
        const double next = sum + y;
        low = (next - sum) - y;
        sum = next;
    }
};

}  // namespace dpcore::detail
