// The law of the sum of some equal losses on a lattice of their own, point by point, tilted by e^{cL}.
//
// Method:    the masses of one loss under the tilted law, exponents in double-double; powers by repeated squaring
//            with direct convolution: sums of positive products, so that every mass keeps its digits, also one
//            that is e^-100 of the largest.
// Domain:    discrete Gaussian, discrete Laplace (up to 4096 atoms), two points e and -e; c >= 0; up to 2^15
// points. Guarantee: every mass is within `rel` of the truth (relative); tilted mass that is in no point is at
// most `lost`.
//            The mass of the loss l before the tilt is mass * exp(log_mass - c l), log_mass within log_mass_err.
// Evidence:  docs/accounting_derivations.md, "few_sums"; tests/test_accounting_few_sums.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "dpcore/composition.hpp"
#include "dpcore/double_double.hpp"

namespace dpcore::detail {

struct LatticeSums {
    std::vector<double> mass = {1.0};  // of the points first, first + 1, ...
    double first = 0.0;
    // The loss of point n is unit (offset + slope n), rising; unit is good to 2^-98.
    DoubleDouble unit = 1.0;
    double offset = 0.0, slope = 1.0;
    double rel = 0.0, lost = 0.0;
    double log_mass = 0.0, log_mass_err = 0.0;

    DoubleDouble loss(double n) const { return unit * (offset + slope * n); }
    double step() const { return unit.hi * slope; }
};

inline constexpr double kMostLatticeSums = 32768.0;

// How many points the sums of this term have that matter under the tilt by c, about; infinity for other laws.
double lattice_sums_size(const Term& term, double c, StopCheck stop);
// Nothing where there would be more than kMostLatticeSums.
std::optional<LatticeSums> lattice_sums(const Term& term, double c, StopCheck stop);

// The largest size of a sum of losses and epsilon.
inline double size_of(const std::vector<LatticeSums>& terms, double epsilon) {
    double size = std::fabs(epsilon);
    for (const LatticeSums& t : terms)
        size += std::max(std::fabs(t.loss(t.first).hi),
                         std::fabs(t.loss(t.first + static_cast<double>(t.mass.size())).hi));
    return size;
}

inline constexpr double kNoSum = 1e-60;  // tilted mass of a sum that is not worth a look

// Calls use(loss, mass) for every sum; the tilted mass of those that are left out.
template <class Use>
double each_sum(const std::vector<LatticeSums>& terms, std::size_t from, DoubleDouble loss, double mass,
                Use& use) {
    if (from == terms.size()) {
        use(loss, mass);
        return 0.0;
    }
    double lost = 0.0;
    const LatticeSums& t = terms[from];
    for (std::size_t i = 0; i < t.mass.size(); ++i) {
        const double m = mass * t.mass[i];
        if (m < kNoSum)
            lost += m;
        else
            lost += each_sum(terms, from + 1, loss + t.loss(t.first + static_cast<double>(i)), m, use);
    }
    return lost;
}

}  // namespace dpcore::detail
