// The delta of a noisy count when the unknown records have two biases, or any biases in a range.
//
// Method:    two biases: the half-line sum of count_delta.hpp with weights
//                b(k-1) - e^eps b(k) = C sum_j A(j) (j - kappa_A) B(k - j),
//            A the binomial law of the first group with one trial more, B that of the second; where the laws are
//            smooth only every g-th j and h-th k are evaluated (Poisson summation).
//            Range: delta is convex in the probability of each record, so its largest value over all choices in
//            [low, high] is at a vertex, j records at low and the others at high. Branch and bound over j: for j
//            in [a, b] records left out only raise delta, so delta(a at low, unknown - b at high) is an upper
//            bound; a better one keeps the free records with the probability that a record of either bias is a
//            coin of one common bias. Best first, until the best vertex is proved or the budget of evaluations is
//            spent.
// Domain:    as count_delta.hpp, groups below 2^52; 0 <= low <= high <= 1. Outside: std::invalid_argument.
// Guarantee: two biases: |computed / exact - 1| <= relative_error, computed with the result (it grows with the
//            cancellation in the weights, about 1e-15 times the standard deviation of the count). Groups whose
//            sizes multiply to more than 4e6 and whose delta is below about e^-400: an upper bound, the smaller
//            group left out.
//            Range: delta is the exact worst case where `proved`, otherwise an upper bound of it, and
//            exp(log_lower) is reached by the vertex given; below about e^-400 with long groups both are the
//            upper bound that two biases have there.
// Evidence:  docs/partial_knowledge.md (proofs), tests/test_partial_knowledge.py (all vertices tried).
#pragma once

#include <cstdint>

#include "dpcore/count_delta.hpp"

namespace dpcore {

// X = Binomial(first, first_bias) + Binomial(second, second_bias).
CountDelta count_delta_two(double epsilon, std::int64_t first, double first_bias, std::int64_t second,
                           double second_bias, double noise_scale, Direction direction, StopCheck stop = {});

// Evaluations of delta that a search may take; beyond it the bound reached is given.
constexpr std::int64_t kRangeBudget = 2000;

struct RangeDelta {
    CountDelta delta;     // of the worst vertex, or an upper bound
    double log_lower;     // ln of the delta of the best vertex found
    std::int64_t at_low;  // records at `low` in that vertex
    std::int64_t evaluations;
    bool proved;  // no vertex is worse
};

RangeDelta count_delta_range(double epsilon, std::int64_t unknown, double low, double high, double noise_scale,
                             Direction direction, std::int64_t budget = kRangeBudget, StopCheck stop = {});

}  // namespace dpcore
