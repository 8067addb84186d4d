// Which classes may be left out of a worst case: those with the largest losses, as long as their mass together
// stays below a budget. Lines 20 to 29 of the thesis's Algorithm 2.
//
// Method:    where the losses fall to one place and rise from there (checked; |ln ratio| losses do) the largest
//            remaining one is at one of the two ends, so the ends are taken off one by one: O(excluded) after
//            the check, no sort. Other losses are sorted. Masses are added in double-double.
// Domain:    as many losses as masses, at least one; no NaN, infinite losses allowed; masses finite and >= 0;
//            budget finite and >= 0.
// Guarantee: the classes left out have the largest losses, ties in the order of the classes; their mass is
//            below the budget (compared in double-double), and the next class would reach it.
// Evidence:  tests/test_distributions.py compares with the sort as printed, in exact rationals.
// Reference: thesis, Algorithm 2. There `wcr` ends as a position in the sorted order and is then used as a count
//            of hits; `kept` here is the class itself.
#pragma once

#include <cstddef>

#include "dpcore/interrupt.hpp"

namespace dpcore {

struct ExcludedMass {
    std::size_t kept = 0;      // the class with the largest loss among those that stay
    std::size_t excluded = 0;  // how many were left out
    double mass = 0.0;         // their mass, or the double above it
};

// std::invalid_argument for bad input, or when the budget would leave out every class.
ExcludedMass exclude_mass(const double* losses, const double* masses, std::size_t count, double budget,
                          StopCheck stop = {});

}  // namespace dpcore
