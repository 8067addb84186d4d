// The sums of the losses of terms with finitely many, one by one.
//
// Method:    lattice sums (lattice_sums.hpp) of the terms on a lattice of their own, every multiplicity of the
//            atoms of the others (dpcore/enumeration.hpp), all pairs of the two; sums that may be equal are one.
// Domain:    randomised response, approximate DP, discrete Gaussian, discrete Laplace, pairs of distributions; up
//            to kMostLosses sums.
// Guarantee: losses are within their err, masses within `rel`; what is left out weighs at most `lost` under the
//            law tilted by c, and `underflow` before the tilt.
// Evidence:  docs/accounting_derivations.md, "beside_listed"; tests/test_accounting_sampled_atoms.py.
#pragma once

#include <optional>
#include <vector>

#include "contour.hpp"
#include "dpcore/composition.hpp"

namespace dpcore::detail {

inline constexpr double kMostLosses = 65536.0;

class LossList {
public:
    // The terms of a composition that can be listed together, the fewest sums first; and the others.
    struct Division {
        std::vector<Term> listed, others;
    };
    static Division divide(const std::vector<Term>& terms, double c, StopCheck stop);
    // Of finite losses; nothing where there would be too many. c: the tilt under which nothing that matters may be
    // left out.
    static std::optional<LossList> of(const std::vector<Term>& terms, double c, StopCheck stop);

    std::size_t size() const { return losses_.size(); }
    double loss(std::size_t i) const { return losses_[i].low; }  // about
    double log_mass_about(std::size_t i) const { return losses_[i].log_mass; }
    // Bounds of the logarithm of the mass of the losses from the first to before the last.
    LogBounds log_mass(std::size_t first, std::size_t last) const;
    // What is left of epsilon beside each of them, rising, weighted by its mass, the mass of all made 1; weights
    // are within points_err, relative.
    std::vector<WeightedPoint> points(std::size_t first, std::size_t last, double epsilon) const;
    double points_err(std::size_t first, std::size_t last) const;
    // A law of few losses like theirs, their mass made 1: no bound, to place contours by.
    LawPtr outline(std::size_t first, std::size_t last) const;
    double lost() const { return lost_; }
    double underflow() const { return underflow_; }

private:
    struct Loss {
        double low, high;
        double log_mass;
    };
    // log of the largest mass, and the sum of all relative to it.
    struct Mass {
        double log_top, sum;
    };
    Mass mass(std::size_t first, std::size_t last) const;

    std::vector<Loss> losses_;  // rising
    double rel_ = 0.0, lost_ = 0.0, underflow_ = 0.0;
};

}  // namespace dpcore::detail
