// One step of the Poisson-subsampled Gaussian mechanism: its loss, and certified sums over its outputs.
//
// With y = (2x - 1)/(2 s^2) and r(x) = q e^y / (1 - q + q e^y): Lambda(x) = log(1 - q + q e^y), Lambda' = r/s^2.
// Removal: L = Lambda under N(x; 0, s^2) e^Lambda. Addition: L = -Lambda under N(x; 0, s^2).
// Tilted by c both have the density N(x; 0, s^2) exp(p Lambda) with p = 1 + c (removal) or -c (addition).
//
// Method:    E[w(x) exp(zL)] by the trapezoid rule in x, w a smooth window: the difference of two edges
//            Phi(sinh((edge - x)/tau)), which fall so fast that no power of the density outweighs them far out.
//            The error of the rule is bounded in a strip of the plane, where, with alpha = a/tau and b^2 = cos 2
//            alpha, |w(x + ia)| <= e^{sin^2(alpha)/2}/b times the window with edges Phi(b sinh((edge - x)/tau)):
//            the density of an edge, cosh(u) phi(sinh u), has the modulus of that one there, and integrates over
//            the edges.
// Domain:    sigma in [0.05, 1e6], rate in (0, 1); t >= 0 up to the reach asked for.
// Guarantee: StepSum::value is within its err of the truth (infinite where no rule with kMaxNodes nodes will do);
//            envelope(T) >= |sum(c + it)| for every t >= T.
// Evidence:  docs/accounting_derivations.md, "subsampled_step"; tests/test_accounting.py,
//            tests/cpp/test_spectral.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "dpcore/certified.hpp"
#include "dpcore/interrupt.hpp"

namespace dpcore::detail {

// 1 - cos v.
inline double versine(double v) {
    const double half = std::sin(0.5 * v);
    return 2.0 * half * half;
}

struct SubsampledStep {
    static constexpr double kMaxNodes = 200000.0;

    double sigma, q;
    bool removal;

    double exponent(double x) const { return (x - 0.5) / (sigma * sigma); }
    double lambda(double x) const {
        const double y = exponent(x);
        if (!(y < 30.0)) return y + std::log(q) + std::log1p((1.0 - q) / q * std::exp(-y));
        const double less_one = q * std::expm1(y);
        // Next to a rate of 1 that is -1 but for its last digits; 1 - q is exact there.
        return less_one < -0.5 ? std::log((1.0 - q) + q * std::exp(y)) : std::log1p(less_one);
    }
    // The output at which Lambda is `level`, also where e^level is beyond the range of double; minus infinity
    // where that is not above log(1 - q). Its roundings are like those of a level that is off by some roundings
    // of 1.
    double place(double level) const {
        double y = level - std::log(q) + std::log1p((q - 1.0) * std::exp(-level));
        if (level < 30.0) {
            // As in lambda: next to a rate of 1 the first form would cancel, and 1 - q is exact.
            const double rise = std::expm1(level) / q;
            const bool near_one = q > 0.5 && rise < -0.5;
            y = near_one ? std::log(std::max(0.0, (std::exp(level) - (1.0 - q)) / q))
                         : std::log1p(std::max(-1.0, rise));
        }
        return 0.5 + sigma * sigma * y;
    }
    // Absolute error of lambda as computed above; x itself is off by x_err.
    double lambda_err(double x, double lambda_value, double x_err) const;
    // That of every lambda, and of levels for `place`, at outputs from low to high.
    double largest_lambda_err(double low, double high) const;
    double posterior(double x) const {
        return 1.0 / (1.0 + (1.0 - q) / q * std::exp(std::min(-exponent(x), 700.0)));
    }
    double power(double c) const { return removal ? 1.0 + c : -c; }
    double sign() const { return removal ? 1.0 : -1.0; }
    double log_density(double x, double lambda_value, double p) const {
        return p * lambda_value - x * x / (2.0 * sigma * sigma);
    }
    // The largest value of the tilted density for p < 0, which is log-concave then: x = p r(x), approximately.
    double mode(double p) const;
    // That of the logarithm of the tilted density at its only maximum; for p > 0, of the noise alone.
    double curvature(double p) const;
    // log |1 - q + q e^{y+iv}|^p less its value at v = 0, where the share is r(x).
    static double log_turned(double p, double share, double v);
    double log_norm() const { return -std::log(sigma) - 0.91893853320467274178; }

    // Ends beyond which the tilted density falls at least like a Gaussian of `deviations` standard deviations.
    double lowest(double p, double deviations) const {
        return -deviations * sigma - 1.0 + (p < 0.0 ? mode(p) : 0.0);
    }
    double highest(double p, double deviations) const { return deviations * sigma + (p > 0.0 ? p : 0.0); }
};

// Phi(sinh((high - x)/width)) - Phi(sinh((low - x)/width)): outputs between two soft edges, either of which may be
// infinite.
struct Window {
    // The strip in which windows are used: alpha <= pi/6, so that b^2 = cos 2 alpha >= 1/2.
    static constexpr double kMostAngle = 0.5235987755982988;
    static constexpr double kLeastSharpness = 0.70710678118654752;

    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    double width = 1.0;

    bool below_open() const { return std::isinf(low); }
    bool above_open() const { return std::isinf(high); }
    bool open() const { return below_open() && above_open(); }
    double log_weight(double x) const { return log_most(x, x, 1.0); }
    // log of the largest weight between two outputs, edges Phi(sharpness * sinh(.)), rounding aside: no more than
    // the upper edge at the first and the lower edge at the last allow.
    double log_most(double first, double last, double sharpness) const;
    double missing(double x) const;                   // 1 less the upper edge
    double weight_err(double x, double x_err) const;  // relative, also of `missing`; x is off by x_err
    // log of what multiplies the window of sharpness b = sqrt(cos 2 alpha) in the bound on |w(x + i alpha width)|.
    static double log_lead(double alpha) {
        return 0.5 * std::sin(alpha) * std::sin(alpha) - 0.5 * std::log(std::cos(2.0 * alpha));
    }
    static double sharpness(double alpha) { return std::sqrt(std::cos(2.0 * alpha)); }
};

class StepEnvelope;

// The sum of w(x) exp(zL) on the line Re z = c.
class StepSum {
public:
    // less_one: the sum less 1 is wanted (where it is near 1); otherwise it may be tiny, and comes with a scale.
    // copies: how often the sum is a factor; a relative error of 1e-14 in all is aimed at.
    StepSum(const SubsampledStep& step, const Window& window, double c, double reach, double copies, bool less_one,
            StopCheck stop);
    ~StepSum();
    StepSum(const StepSum&) = delete;
    StepSum& operator=(const StepSum&) = delete;

    // The sum less 1, or the sum times exp(-log_scale()). Values at multiples of a spacing, asked for in order,
    // are cheaper once that is known: the nodes are turned on instead of asking for their sines and cosines.
    Certified value(double t) const;
    void expect(double spacing) const;
    double log_scale() const { return log_scale_; }
    // log of the sum at t = 0, rounded up.
    double log_mass_upper() const;
    // log of the sum: K(c + it), or part of it.
    Certified log_value(double t) const;
    // log of a bound on |sum(c + it)| for all t >= from; see StepEnvelope.
    double log_envelope(double from) const;

    struct Node {
        double at;
        double loss;    // L, sign included
        double weight;  // tilted mass: step * density * window * exp(c L), times exp(-log_scale)
        double rise;    // q e^y
    };
    const std::vector<Node>& nodes() const { return nodes_; }
    double mass() const { return mass_; }
    double work() const { return work_; }  // nodes looked at to find the step
    bool known() const { return quadrature_ < mass_; }

    const SubsampledStep& step() const { return m_; }
    const Window& window() const { return window_; }
    double centre() const { return c_; }
    double reach() const { return reach_; }
    double copies() const { return copies_; }
    StopCheck check() const { return stop_; }
    double first() const { return profile_.empty() ? left_ : std::min(left_, profile_.front().at); }
    double last() const { return profile_.empty() ? right_ : std::max(right_, profile_.back().at); }
    double log_beyond(int end) const {
        return log_ends_[end];
    }  // of what lies before the first node, after the last
    double relative_quadrature() const { return quadrature_ / mass_; }

private:
    struct Profile {  // of all nodes, those left out of the sums as well
        double at;
        double log_density;  // tilted mass without the window, times exp(-log_scale)
        double rise;
    };

    double far_end(double p, double deviations, double reach);
    void build(double left, double right, double h);
    struct Strip {
        double error, height;
    };
    Strip strip_error(double h, double t) const;
    double turn_to(double t) const;

    SubsampledStep m_;
    Window window_;
    StopCheck stop_;
    double c_;
    double reach_;
    double copies_;
    double tolerance_;
    bool less_one_wanted_;
    std::vector<Node> nodes_;
    double left_ = 0.0, right_ = 0.0, log_scale_ = 0.0;
    std::vector<Profile> profile_;
    // log of the tilted mass beyond the first and the last node; of which nothing is known before they are.
    double log_ends_[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    double beyond_ = 0.0;                   // log of the mass beyond a window's last node
    std::vector<double> losses_, weights_;  // of the nodes, for the sums
    double spread_ = 0.0;                   // sum of weight |loss|
    double mass_ = 1.0, less_one_ = 0.0, error_real_ = 0.0, error_slope_ = 0.0;
    double tail_ = std::numeric_limits<double>::infinity();
    double work_ = 0.0;
    double quadrature_ = std::numeric_limits<double>::infinity();
    mutable std::unique_ptr<StepEnvelope> envelope_;
    struct Turning {
        double spacing = 0.0;
        double t = -1.0;
        int turns = 0;
        std::vector<double> cosine, sine, step_cosine, step_sine;
    };
    mutable Turning turning_;  // a sum belongs to one thread
};

}  // namespace dpcore::detail
