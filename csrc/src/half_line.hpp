// The half-line sum behind every noisy count: sup over t of sum_i c_i Phi((k_i - t)/beta), c changing sign once.
//
// Notation: x_i = k_i - kappa, kappa any point where c changes from negative to positive (c_i x_i >= 0), beta the
//            noise scale, a = t - kappa, z_i = (t - k_i)/beta, phi the normal density, R the Mills ratio.
// Method:    t solves sum_i c_i phi(z_i) = 0: Newton on log(positive part) - log(negative part), whose derivative
//            is the difference of two means and never changes sign. Since that sum vanishes, R(z) times it may be
//            subtracted for any z, and with z = z_r between the z of the last negative and the first positive c
//                sum_i c_i Phi(-z_i) = sum_i c_i phi(z_i) [R(z_i) - R(z_r)],
//            in which every term is >= 0 because R falls: nothing cancels, however small the sum is beside its
//            former terms. z_r is that of kappa, or 0 if that is nearer to 0. Where beta exceeds the spread of the
//            k_i, the equation for t is solved as sum_i c_i expm1(e_i) = -sum_i c_i with the known right-hand
//            side.
// Domain:    beta > 0; offsets increasing; at least one offset > 0 and one < 0 with non-zero weight.
// Guarantee: relative error of the sum: that of the weights, plus (300 + 100 |ln result|) u, u = 2^-53.
// Evidence:  docs/partial_knowledge.md (derivation), tests/test_partial_knowledge.py (measured).
#pragma once

#include <cstddef>
#include <vector>

#include "dpcore/interrupt.hpp"

namespace dpcore::detail {

// Noise that hardly blurs neighbouring integers is none: a threshold midway errs with probability less than
// exp(-1/(8 beta^2)) at either, and next to kappa their weights differ by no more than e^epsilon.
constexpr double kLeastNoise = 0.0125;  // 1/(8 beta^2) = 800
inline double effective_noise(double noise_scale, double epsilon) {
    const bool none = noise_scale < kLeastNoise && 0.125 / noise_scale / noise_scale >= epsilon + 200.0;
    return none ? 0.0 : noise_scale;
}

// Weighted points on the line, a window of a longer list whose other terms do not matter.
struct SignedPoints {
    std::vector<double> offset;     // x_i, increasing
    std::vector<double> weight;     // c_i times the common scale, same sign as x_i
    std::vector<double> log_scale;  // empty, or ln of a further factor of each weight
    double beyond = 0.0;            // sum of the weights above the last point, for which Phi must be 1
    double log_unit = 0.0;    // ln of the common factor: the true c_i is weight * exp(log_unit [+ log_scale])
    double total = 0.0;       // sum of all c_i of the longer list in units of exp(log_unit); 0 if not known
    double spread = 0.0;      // root mean square of the x_i under the law behind the list, with total
    bool open_below = false;  // the longer list goes on below the first point,
    bool open_above = false;  // above the last and is not in `beyond`

    void clear() {
        offset.clear();
        weight.clear();
        log_scale.clear();
        beyond = 0.0;
    }
};

struct HalfLineSum {
    double log_value = 0.0;  // ln of the sum
    double threshold = 0.0;  // a = t - kappa
    bool cut_below = false;  // the window ended before its terms were negligible, on that side
    bool cut_above = false;
};

HalfLineSum half_line_sum(const SignedPoints& points, double noise_scale, StopCheck stop);

// The same without noise: sum of the positive weights.
HalfLineSum positive_part(const SignedPoints& points);

// The same sum from the law itself, for noise far beyond its spread: with b_i the probability at x_i (the count
// without the attacked record) and z_i as above,
//     sum_i b_i [Phi(1/beta - z_i) - e^eps Phi(-z_i)] = sum_i b_i phi(y_i) [R(y_i) - R(z_i) - R(z_i) expm1(h_i)],
// y_i = z_i - 1/beta, h_i = eps - (z_i beta - 1/2)/beta^2. The divided difference of R is exact and the h_i are
// small, while the weights of half_line_sum differ by no more than 1/beta of themselves there. The threshold is
// where the sum is largest, so its error enters squared.
constexpr double kWideNoise = 8.0;  // noise beyond this many spreads of the count is wide
struct PairedSum {
    double log_value;  // without the unit of `probability`
    double
        condition;  // sum of the magnitudes of the terms over the sum: what an error of the b_i is multiplied by
};
PairedSum paired_sum(const std::vector<double>& offset, const std::vector<double>& probability, double epsilon,
                     double noise_scale, double threshold);

// sum_i magnitude_i Phi((x_i - threshold)/beta) for beta > 0, over x_i > 0 for beta = 0: what an error of the
// weights of that relative size can change. In units of exp(points.log_unit).
double absolute_sum(const SignedPoints& points, const std::vector<double>& magnitude, double noise_scale,
                    double threshold);

// Sets the offsets of evenly spaced points from where their weights change sign, and clears weights of the wrong
// sign (which are within rounding of 0 for a law that is log-concave). False if they do not change sign.
bool set_offsets(SignedPoints& points, double spacing);

}  // namespace dpcore::detail
