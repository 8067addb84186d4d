// With which probability the privacy loss of one release stays below a level: Laplace and Gaussian mechanisms.
//
// Method:    published (Laplace): P(T <= epsilon) / P(T <= epsilon0), T = |X1 - X2| with X1, X2 iid Gamma(k, 1).
//            T is a mixture of Gamma(m, 1), m = 1..k, with weights w(m) = C(2k-1-m, k-m) 2^-(2k-1-m); with the
//            partial sums W(i) = w(1) + ... + w(i) it is a sum over a Poisson law,
//                P(T <= x) = sum_{i >= 1} e^-x x^i/i! W(min(i, k)),
//            all terms positive. Up to kSeriesLimit the power series, above it a window of the Poisson law
//            around its mode, normalised by its own sum. No Bessel function, no overflow at any k.
//            exact (Laplace, every dimension): e^(-epsilon0/2) sinh(epsilon/2) below epsilon0, 1 from there on.
//            Gaussian: Phi(h - m/2) - Phi(-h - m/2), m = sensitivity/sigma, h = epsilon/m.
// Domain:    epsilon >= 0, epsilon0 > 0, finite; dimension 1 .. kMaxDimension, std::invalid_argument beyond;
//            NaN in, NaN out.
// Guarantee: cdf, pdf: relative error <= 1e-14 for x <= kSeriesLimit, <= 1e-13 for dimension and x up to 1e5.
//            exact: <= 4 ulp. Gaussian: <= 1e-13 where the result is above 1e-16, <= 1e-12 down to 1e-300.
//            Inverses: the returned double satisfies the condition as evaluated here and its neighbour on the
//            other side does not (the last bit, on the safe side).
// Evidence:  derivations and the proof that no split over coordinates is worse: docs/risk_auditors.md;
//            measured in tests/test_risk.py against 40-digit values of the Bessel integral.
// Reference: Dandekar, Basu, Bressan 2021, "Differential Privacy at Risk", Theorem 4 (published).
#pragma once

#include <cstdint>
#include <vector>

namespace dpcore {

// The law of T for one dimension k. Building it costs O(min(k, largest argument)); evaluations share it.
class LaplaceDifference {
public:
    static constexpr std::int64_t kMaxDimension = 1000000;
    // Arguments passed to the members must not exceed `largest`.
    LaplaceDifference(std::int64_t dimension, double largest);
    double cdf(double x) const;
    // Density of T at x: sum_{i < k} e^-x x^i/i! w(i+1). Non-increasing, so cdf is concave.
    double pdf(double x) const;
    // P(T <= epsilon) / P(T <= epsilon0); 1 from epsilon0 on.
    double confidence(double epsilon, double epsilon0) const;
    // Smallest epsilon with confidence(epsilon, epsilon0) >= wanted.
    double epsilon_at(double wanted, double epsilon0) const;
    // Largest epsilon0 with confidence(epsilon, epsilon0) >= wanted; infinity when every one has it.
    // Needs `largest` >= certain().
    double epsilon0_for(double epsilon, double wanted) const;
    // From here on P(T <= x) = 1 in double precision.
    double certain() const;

private:
    double weight_sum(std::int64_t i) const;  // W(min(i, k))
    double weight_of(std::int64_t m) const;   // w(m), 0 above k
    std::int64_t dimension_;
    std::vector<double> weights_;           // w(1), w(2), ...
    std::vector<double> sums_;              // W(0), W(1), ...
    std::vector<double> coefficients_;      // W(i+1)/(i+1)!, for the power series of the cdf over x
    std::vector<double> pdf_coefficients_;  // w(i+1)/i!, for that of the density
    double series(const std::vector<double>& coefficients, double x) const;
    template <class Weight>
    double window(Weight weight, double x) const;
};

double exact_laplace_confidence(double epsilon, double epsilon0);
double exact_laplace_epsilon_at(double wanted, double epsilon0);
double exact_laplace_epsilon0_for(double epsilon, double wanted);

// Pr[|loss| <= epsilon] of Gaussian noise sigma on a value of the given sensitivity.
double gaussian_confidence(double epsilon, double sigma, double sensitivity);

}  // namespace dpcore
