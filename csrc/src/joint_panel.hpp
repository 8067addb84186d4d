// The sums behind many cells of a joint release at once, for z in one interval (a panel).
//
// Notation:  that of joint_law.hpp. A panel has a centre c and z = c + tau h, |tau| <= 1; n_k = x_k - mu, mu an
//            integer. Every sum of theorem 10 is, but for a factor common to all of them, one of
//                g(tau) = sum of w_k e^(tau H n_k),  H = h / beta^2,  w_k > 0 not depending on tau,
//            over the k on one side of j and of one sign.
// Method:    at 22 nodes tau_i all g of all cells are prefix sums over k: one pass for every j. Between the nodes
// g
//            is interpolated. H tau_i n_k is exact (6, 21 and 25 bits), so that each exponential is good to
//            exp_block's error; prefix sums are compensated, without any product that would drift.
// Guarantee: |Signed::sum - exact| <= Signed::error. Interpolation: g is entire and |g(tau)| <= g(Re tau), which
// is
//            convex, so on the ellipse of sum of semiaxes 8 it is at most the larger of its values at +-65/16,
//            which the pass computes too; by Hermite's formula the error is at most
//                2 (65/49) / (8^22 - 8^-22) of that for Chebyshev's nodes, below 4 8^-22 for these, which are
//            rounded to 2^-18. Errors of the weights are the same for every node: they are summed up beside the
//            weights and interpolated, not multiplied by Lebesgue's constant. Points left out of the pass are
//            below e^-60 of one that is in, over the whole ellipse.
// Evidence:  tests/test_joint_delta.py; docs/partial_knowledge.md, theorem 10 (d).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "joint_law.hpp"

namespace dpcore::detail {

// exp(top) (sum +- error), a difference of two sums that add up to `absolute`.
struct Difference {
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0.0;
    double error = 0.0;
    double absolute = 0.0;
};

class JointPanel {
public:
    static constexpr std::size_t kNodes = 22;

    // Values of Lagrange's polynomials at one tau.
    struct Basis {
        double tau = 0.0;
        std::array<double, kNodes> share{};
    };
    // At one tau and in one cell j, in units that lack exp(log_common): -A, B, S, and D at y = x_j by sign.
    enum class Kind { below, above, rest };

    explicit JointPanel(const JointLaw& law) : law_(law) {}

    // A panel with z at tau = `at` (about), for the cells from j on in the direction of `step`, as many as lie in
    // it if they are `width` wide. False where it is not worth it.
    bool build(double z, double at, std::ptrdiff_t j, std::ptrdiff_t step, double width, StopCheck stop);

    std::ptrdiff_t first() const { return first_; }
    std::ptrdiff_t last() const { return last_; }
    double centre() const { return centre_; }
    double half() const { return half_; }  // h, to 2 u
    double rate() const { return rate_; }  // H
    double tau(double z) const { return (z - centre_) / half_; }

    static Basis basis(double tau);
    Difference value(Kind kind, std::ptrdiff_t j, const Basis& at) const;
    // The positive and the negative terms of D(x_j, z).
    std::array<Difference, 2> density(std::ptrdiff_t j, const Basis& at) const;

    // ln of the common factor at tau, the magnitudes of its parts, and H (mu - z): what e^(tau H n_k) lacks to the
    // slope of the normal density in tau.
    double log_common(double tau) const;
    double common_parts(double tau) const;
    double lean(double tau) const { return rate_ * ((mean_ - centre_) - tau * half_); }

private:
    static constexpr std::size_t kLanes = 24;  // the nodes, and both ends of the ellipse
    struct Lanes {
        double top;
        double outer;  // the largest value on the ellipse
        std::array<double, kNodes> value;
        std::array<double, kNodes> slip;
    };
    // Sums of the points of one sign, with a factor exp(shift); none if `lanes` < 0.
    struct View {
        std::ptrdiff_t lanes = -1;
        double shift = 0.0;
    };
    struct Cell {
        std::array<View, 2> below, above, rest;  // positive terms, negative terms
    };
    class Accumulator;

    bool choose_rate(double z, std::ptrdiff_t j);
    void fill(double z);
    Difference one(const View& view, const Basis& at) const;
    static Difference subtract(const Difference& positive, const Difference& negative);

    const JointLaw& law_;
    std::ptrdiff_t first_ = 0;
    std::ptrdiff_t last_ = -1;
    double centre_ = 0.0;
    double half_ = 0.0;
    double rate_ = 0.0;
    double mean_ = 0.0;  // mu
    double left_out_ = 0.0;
    std::vector<double>
        exponent_;  // ln of |c_k| times the normal density at the centre, but for the common factor
    std::vector<Lanes> lanes_;
    std::vector<Cell> cells_;
    mutable std::vector<double> scratch_;
};

}  // namespace dpcore::detail
