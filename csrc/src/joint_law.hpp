// The signed weights behind a joint release, and sums over them at one value of the second output.
//
// Notation:  c_k = b(k-1) - e^eps b(k), the weights of count_delta.hpp; x_k = k - k0, k0 the first k with c_k > 0;
//            z the second output less k0, beta its noise, s the scale of the first. Terms are
//                c_k exp(-(z - x_k)^2 / (2 beta^2)), "tilted at j" with exp(-|x_k - x_j| / s) besides.
//            Sums at one z leave out the factor exp(-(z - x_o)^2 / (2 beta^2)), o the k nearest to z, which all
//            terms have: where sums cancel, the rounding of its logarithm must not enter.
// Method:    c_k = C B(k) (k - kappa) from the log pmf in double-double. Among the k of one sign the logarithms of
//            the terms are concave in k, so the largest and the first below exp(-kDepth) of it are found by
//            bisection, and all beyond are smaller still.
// Domain:    windows of at most kMostPoints weights; binomial laws.
// Guarantee: |Part::sum - exact| <= Part::error, for the law cut to the window: what the cut leaves out is at most
//            exp(log_left_out) of delta, absolutely (Chernoff). Rounding: each exponent is wrong by at most 8 u
//            times the sum of the magnitudes of its parts, exp_block by 6 u, sums by 34 u.
// Evidence:  docs/partial_knowledge.md, theorem 10; tests/test_joint_delta.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "count_points.hpp"
#include "dpcore/interrupt.hpp"

namespace dpcore::detail {

// exp(top) times the sums over some points of one sign.
struct Part {
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0.0;
    double error = 0.0;   // of sum
    double moment = 0.0;  // sum of the terms times x_k,
    double second = 0.0;  // and times x_k^2, to some digits
};

// Which points, and which terms: k from `first` to `last` (indices, both included; none if first > last).
struct Query {
    std::ptrdiff_t first;
    std::ptrdiff_t last;
    double from;                // z,
    double to;                  // or an interval of it: each term at its largest over it, nothing left out
    std::ptrdiff_t anchor = 0;  // j
    bool tilted = false;
};

class JointLaw {
public:
    // All k but those that Chernoff's bound leaves less than exp(-depth) to, on either side.
    JointLaw(const Problem& problem, double beta, double scale, double depth, StopCheck stop);

    std::ptrdiff_t size() const { return static_cast<std::ptrdiff_t>(log_weight_.size()); }
    std::ptrdiff_t pivot() const { return pivot_; }  // the first index with c_k > 0
    double beta() const { return beta_; }
    double scale() const { return scale_; }
    double x(std::ptrdiff_t i) const { return static_cast<double>(i - pivot_); }
    double log_unit() const { return log_unit_; }  // sums are in units of exp(log_unit)
    double unit_error() const { return unit_error_; }
    double log_left_out() const { return log_left_out_; }

    // The common factor of the sums at z: its logarithm, and x_o.
    double log_common(double z) const { return -(z - origin(z)) * (z - origin(z)) * half_precision_; }
    double origin(double z) const {
        const double nearest = z < x(0) ? x(0) : (z > x(size() - 1) ? x(size() - 1) : z);
        return static_cast<double>(static_cast<std::int64_t>(nearest));
    }

    Part part(const Query& query) const;

    // For all k: ln of the terms at z, not tilted, and the bound on the error that their weights bring.
    void exponents(double z, double* out) const;
    double slip(std::ptrdiff_t i) const { return slip_[static_cast<std::size_t>(i)]; }

    // Sum of the terms times exp(w_k), or times exp(w_k) - 1 - w_k; w_k = rate |x_k - centre|. Infinite where the
    // terms times exp(w_k) do not fall at the ends of the window.
    Part grown(const Query& query, double centre, double rate, bool second_order) const;

    // With every factor: the sum over the points of one sign of |c_k| sqrt(2 pi) beta times the probability that
    // the second output is above z (or below it), and if `anchor` >= 0 that the first is below x_anchor (or above
    // it).
    Part tail(bool positive, double z, bool above, std::ptrdiff_t anchor) const;
    // ln of the largest term of that sum; about.
    double largest_tail_term(bool positive, double z, bool above, std::ptrdiff_t anchor) const;

private:
    double exponent(const Query& query, std::ptrdiff_t i) const;
    double log_tail_term(std::ptrdiff_t i, double z, bool above, std::ptrdiff_t anchor, double& parts) const;
    double log_tail_unit() const;

    std::vector<double> log_weight_;
    std::vector<double> slip_;  // bound on the relative error of c_k, and of its part of an exponent
    std::ptrdiff_t pivot_ = 0;
    double beta_;
    double scale_;
    double half_precision_;  // 1 / (2 beta^2)
    double slope_;           // 1 / s
    double log_unit_ = 0.0;
    double unit_error_ = 0.0;
    double log_left_out_ = -std::numeric_limits<double>::infinity();
    mutable std::vector<double> exponent_;
    mutable std::vector<double> value_;
};

}  // namespace dpcore::detail
