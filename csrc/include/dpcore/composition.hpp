// The loss of a composition in one direction: its laws, their extremes, masses and common lattice.
//
// Method:    Gaussian losses add up to one; sums of the extremes in double-double; masses as sums of logarithms,
// the
//            infinite one from the logarithm of the finite share, so that 1e-30 survives beside 1.
// Domain:    laws of loss_law.hpp, whole numbers of copies up to 2^53.
// Guarantee: max_loss and min_loss are rounded outward; the masses are within their stated errors.
// Evidence:  docs/accounting_derivations.md, "composition"; tests/cpp/test_spectral.cpp,
//            tests/test_accounting.py.
#pragma once

#include <vector>

#include "dpcore/bounds.hpp"
#include "dpcore/loss_law.hpp"

namespace dpcore {

struct Term {
    LawPtr law;
    double copies = 1.0;  // a whole number
};

// The loss of a composition in one direction.
struct Composition {
    std::vector<Term> terms;
    double max_loss = 0.0;  // rounded up
    double min_loss = 0.0;  // rounded down
    double log_finite_mass = 0.0;
    double log_total_mass = 0.0;
    double log_mass_err = 0.0;
    double log_finite_share = 0.0;      // log(finite mass/total mass)
    double log_finite_share_err = 0.0;  // relative
    double infinite_mass = -1.0;        // where it is known without rounding error, else -1
    bool atomic = false;                // every law has finitely many atoms
    bool smooth = false;                // some law has a density and no atoms
    Lattice lattice;                    // common lattice, step 0 if there is none

    static Composition of(std::vector<Term> terms);
    Cumulants cumulants(double c, StopCheck stop = {}) const;
    double infinite_mass_lower() const;
    double infinite_mass_upper() const;
};

}  // namespace dpcore
