// Kullback-Leibler divergence of two coins, and how far a frequency can stray before it reaches a given
// divergence.
//
// Method:    KL(q || p) = D(q, p) + D(1 - q, 1 - p) with the deviance D of factorial.hpp: two terms >= 0, in
//            double-double, powers of two taken out where p and q are tiny. The inverse is a Newton iteration
//            inside a bracket of doubles that ends with two neighbouring ones, each compared in double-double.
// Domain:    p, q in [0, 1], subnormal ones included; divergence >= 0. KL(q || 0) is infinite for q > 0, and so
//            is KL(q || 1) for q < 1. Outside: std::invalid_argument.
// Guarantee: bernoulli_kl: the double nearest to the exact value, or its neighbour where that lies within 2^-90
//            of the middle of two (relative error <= (1/2 + 2^-37) ulp). The half-widths: the smallest double t
//            whose exact divergence at bias - t (or bias + t) is at least the one asked (two doubles within
//            2^-90 of equality count as equal).
// Evidence:  tests/test_distributions.py.
// Reference: Hoeffding 1963, theorem 1; the thesis's tau_1/2 and tau_2/2.
#pragma once

namespace dpcore {

// q ln(q/p) + (1 - q) ln((1 - q)/(1 - p))
double bernoulli_kl(double q, double p);

// Smallest double t with KL(bias - t || bias) >= divergence; bias itself where even 0 has less: that tail is
// empty.
double kl_half_width_below(double bias, double divergence);

// Smallest double t with KL(bias + t || bias) >= divergence; the smallest double >= 1 - bias where even 1 has
// less.
double kl_half_width_above(double bias, double divergence);

}  // namespace dpcore
