// The sums of the losses of terms with finitely many, one by one: laws of some of them at a time.
//
// Method:    lattice sums (lattice_sums.hpp) of the terms on a lattice of their own, every multiplicity of the
//            atoms of the others (dpcore/enumeration.hpp), all pairs of the two; sums that may be equal are one.
// Domain:    randomised response, approximate DP, discrete Gaussian, discrete Laplace, pairs of distributions; up
//            to kMostLosses sums.
// Guarantee: losses are within their err, masses within `rel`; what is left out weighs at most `lost` under the
//            law tilted by c, and `underflow` before the tilt.
// Evidence:  docs/accounting_derivations.md, "large_steps"; tests/test_accounting_sampled_atoms.py.
#pragma once

#include <optional>
#include <vector>

#include "dpcore/composition.hpp"

namespace dpcore::detail {

inline constexpr double kMostLosses = 4096.0;

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
    bool one_law(std::size_t first,
                 std::size_t last) const;  // whether masses are not so far apart as to underflow
    // The law of the losses from the first to before the last, which are one_law, their mass made 1; and bounds of
    // the logarithm of their mass.
    LawPtr law(std::size_t first, std::size_t last) const;
    LogBounds log_mass(std::size_t first, std::size_t last) const;
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
