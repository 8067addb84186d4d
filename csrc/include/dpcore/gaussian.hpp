// The Gaussian mechanism: the exact trade-off of epsilon, delta and noise, and its certified inverses.
//
// Notation: sigma noise scale, s L2 sensitivity, k compositions (a k-fold composition is one release with
//            sensitivity s sqrt(k)), m = epsilon sigma / s, h = s / (2 sigma), a = m - h, b = m + h.
// Method:    delta = phi(a) [R(a) - R(b)], R the Mills ratio (normal.hpp); all factors positive, no exp(epsilon).
//            Where a < 0 and the two terms are far apart, delta = 1 - phi(a) [R(-a) + R(b)]. a is carried in
//            double-double, since phi(a) multiplies its error by a; for sigma or s beyond 2^+-300 or h > 2^20 from
//            an exact numerator, the rest in long double. Inverses: Newton in log delta, polished and certified in
//            long double, moved outward by ulps until the certificate holds.
// Domain:    epsilon, sigma, sensitivity finite and > 0; 0 < delta < 1; compositions finite and >= 1. Outside:
//            std::invalid_argument, but for gaussian_delta_fill and gaussian_delta_certified, whose callers check.
// Guarantee: gaussian_delta: relative error <= 1e-13 where the value is a normal double, and the nearest
//            subnormal or 0 below. gaussian_log_delta: 4 ulp or 1e-13 absolute, whichever is larger.
//            gaussian_sigma, gaussian_epsilon: exact delta of the result <= delta asked; result within 4 ulp of
//            the smallest such double for sigma (for epsilon: where delta <= 1/2 of its value at epsilon 0);
//            infinity where no double is large enough.
// Evidence:  tests/test_gaussian.py, tests/cpp/test_gaussian.cpp; derivation of the certificate in
// docs/gaussian.md. Reference: Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy",
// theorem 8.
#pragma once

#include <cstddef>

namespace dpcore {

double gaussian_delta(double epsilon, double sigma, double sensitivity);
double gaussian_log_delta(double epsilon, double sigma, double sensitivity);

// The same over arrays; step 0 repeats one element, step 1 walks. Bit for bit equal to the scalar function.
void gaussian_delta_fill(const double* epsilon, std::size_t epsilon_step, const double* sigma,
                         std::size_t sigma_step, const double* sensitivity, std::size_t sensitivity_step,
                         double* out, std::size_t count);

// True only if the exact delta of k releases is at most `delta`: never wrong, and true whenever the exact delta is
// below it by a few parts in 2^60 of sigma.
bool gaussian_delta_certified(double epsilon, double sigma, double sensitivity, double compositions, double delta);

double gaussian_sigma(double epsilon, double delta, double sensitivity, double compositions);
double gaussian_sigma_probabilistic(double epsilon, double delta, double sensitivity, double compositions);
double gaussian_sigma_classical(double epsilon, double delta, double sensitivity, double compositions);

// Smallest epsilon >= 0 for which the mechanism satisfies delta; 0 where it does without any.
double gaussian_epsilon(double sigma, double delta, double sensitivity);

}  // namespace dpcore
