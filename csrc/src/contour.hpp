// K of a composition at the nodes of one line Re z = c: the trapezoid rule of the spectral engine with its error
// terms.
//
// Method, Domain, Guarantee: dpcore/spectral.hpp, whose functions choose c and turn the sums into answers.
// Evidence:  derivation in docs/accounting_derivations.md, "spectral and contour"; tests/cpp/test_spectral.cpp.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "contour_kernel.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// Aliasing and truncation are driven to exp(-kAim) of the result; rounding is about 1e-13.
constexpr double kAim = 33.0;

// log sup (1-e^-x) e^-cx = c log c - (1 + c) log(1 + c), without differences of large numbers.
inline double log_payoff(double c) { return -std::log1p(c) - c * std::log1p(1.0 / c); }

// A loss that is left for the composition (epsilon less something that is known), within err, and its weight.
struct WeightedPoint {
    double x, err;
    double log_weight;
};

// K at the nodes of one line Re z = c, for any number of eps near the one it was placed for.
class Contour {
public:
    struct Sum {
        double lower, upper;  // of the integral (c > 0) or of its complement (c < 0), times exp(-scale)
        double scale;         // K(c) - eps c
        double scale_err;
        double slope;  // d(integral)/d(eps) times exp(-scale), approximate
        double middle;
    };

    // Places the contour at c for eps; usable() is false when no certificate can be had within kMaxNodes.
    Contour(const Composition& composition, Quantity quantity, double c, double second, double epsilon,
            StopCheck stop)
        : comp_(composition), quantity_(quantity), c_(c), kernel_(composition.lattice, quantity, c), stop_(stop) {
        usable_ = place(second, epsilon) && set_atoms_apart() && fill();
    }
    // Placed only: no node is evaluated.
    static ContourPlace placed(const Composition& composition, Quantity quantity, double c, double second,
                               double epsilon, StopCheck stop) {
        Contour contour(composition, quantity, c);
        contour.stop_ = stop;
        if (!contour.place(second, epsilon)) return {};
        return {true, c, contour.h_, contour.log_alias(epsilon, epsilon, contour.distance_),
                contour.target_ + kAim};
    }
    bool usable() const { return usable_; }
    // What the integral is on this line: delta or the tail itself; the mass less it; or, for c < -1, the part
    // E[(e^{eps-L} - 1)+] of delta = M(0) - e^eps M(-1) + E[(e^{eps-L} - 1)+].
    bool complement() const { return c_ < 0.0 && !beyond(); }
    bool beyond() const { return quantity_ == Quantity::delta && c_ < -1.0; }
    double centre() const { return c_; }

    // ties_above: a lattice point equal to eps counts as above it (matters for tails only).
    Sum evaluate(double epsilon, bool ties_above = false) const;
    // The sum over points, from the first to before the last, of weight times what evaluate(x) is; no lattice.
    // Weights are taken as they are.
    Sum evaluate(const WeightedPoint* first, const WeightedPoint* last) const;

private:
    Contour(const Composition& composition, Quantity quantity, double c)
        : comp_(composition), quantity_(quantity), c_(c), kernel_(composition.lattice, quantity, c) {}

    struct Node {
        double t;
        double size;   // exp(Re K - K(c)), relative error in err
        double phase;  // Im K
        double err;    // of K, and of the exponential
    };
    struct Guard {
        double at;
        double log_value;  // certified upper bound of K there, plus the constant of the payoff
    };

    bool place(double second, double epsilon);
    bool set_atoms_apart();
    bool fill();
    bool open_lines(double reach);
    double certified_upper(double c) const;
    // Relative to exp(K(c) - eps c), for every eps between the two.
    double log_alias(double lowest, double highest, double distance) const;
    double log_envelope(double from) const;
    double tail_after(double from) const;  // sum over all later nodes of |F|, relative to exp(K(c) - eps c)

    const Composition& comp_;
    Quantity quantity_;
    double c_;
    ContourKernel kernel_;
    StopCheck stop_;
    bool usable_ = false;
    bool lattice_ = false;
    double h_ = 0.0;
    double distance_ = 0.0;  // 2 pi / h
    double count_ = 0.0;     // lattice: nodes of one period
    double log_centre_ = 0.0, reach_ = 0.0, target_ = 0.0;
    std::vector<Guard> right_, left_;
    std::vector<std::unique_ptr<LossLine>> lines_;
    std::vector<Node> nodes_;
    double tail_ = 0.0;
    // Tails of compositions with atoms off a lattice: the part in which every Laplace loss is an atom, relative to
    // exp(K(c)), and how many Laplace losses there are.
    double atoms_ = 0.0;
    double laplace_ = 0.0;
};

// The integral itself, in logarithms, rounded outward. Defined in spectral.cpp.
LogBounds positive(const Contour::Sum& sum);

}  // namespace dpcore::detail
