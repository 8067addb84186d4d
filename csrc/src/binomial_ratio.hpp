// Binomial probabilities relative to the one at an anchor, point by point, where the law is smooth.
//
// Method:    with T(x) = x ln(x/(Mp)) + (M-x) ln((M-x)/(Mq)), ln B(x) = const - T(x) - (1/2) ln(x (M-x)) - S(x) -
// S(M-x)
//            (S Stirling's error), and T(x) - T(x0) - T'(x0) (x - x0) = x0 g((x-x0)/x0) + (M-x0) g((x0-x)/(M-x0)),
//            g(u) = (1+u) ln(1+u) - u, which is summed as a series: no term of the size of x is ever subtracted.
//            Sums of (x - kappa) B(x) over an evenly spaced half line: integral (16-point Gauss-Legendre panels)
//            plus six Euler-Maclaurin corrections at its end, from the Taylor series of B there.
// Domain:    M <= 2^53; x and x0 in [kLeastCount, M - kLeastCount], |x - x0| <= kReach min(x0, M - x0).
// Guarantee: relative error of the ratio <= (12 + 11 (|T'(x0) (x - x0)| + D)) u, u = 2^-53, D >= 0 the right-hand
// side
//            of the difference above: 8 u from D (2 u from each quotient, 3 u from the series, 3 products and
//            sums), 2 u from the slope, 3 u from the additions; of half-line sums the same, with the ratio at
//            their first point, plus 1e-18 where step * (slope + 3.5/deviation) <= kSmoothStep at the end: the
//            corrections fall by (kSmoothStep / 2 pi)^2 = 6e-4 each.
// Evidence:  tests/cpp/test_count_delta.cpp compares it with binomial_log_pmf.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dpcore::detail {

// g(u) = u^2 sum_n value[n] u^n.
struct DevianceSeries {
    static constexpr int kTerms = 32;  // 0.3^33 = 2^-57
    double value[kTerms + 1] = {};
    constexpr DevianceSeries() {
        for (int n = 0; n <= kTerms; ++n) value[n] = (n % 2 == 0 ? 1.0 : -1.0) / ((n + 1.0) * (n + 2.0));
    }
};
inline constexpr DevianceSeries kDevianceSeries{};

class BinomialRatio {
public:
    static constexpr double kLeastCount = 64.0;  // Stirling's error to 1e-17 by three terms
    static constexpr double kReach = 0.3;

    // `log_slope` is T'(anchor) = ln(x0 q / ((M - x0) p)); the ratio is asked for |x - x0| <= farthest.
    BinomialRatio(double trials, double anchor, double log_slope, double farthest)
        : anchor_(anchor),
          rest_(trials - anchor),
          inverse_(1.0 / anchor),
          inverse_rest_(1.0 / rest_),
          slope_(log_slope),
          stirling_(stirling(inverse_) + stirling(inverse_rest_)) {
        const double u = farthest * std::max(inverse_, inverse_rest_);
        double power = 1.0;
        terms_ = 3;
        while (terms_ < kTerms && (power *= u) > 0x1p-56) ++terms_;
    }

    // ln B(anchor + d) - ln B(anchor).
    double log_ratio(double d) const {
        const double u = d * inverse_;
        const double v = -d * inverse_rest_;
        // g(u) = u^2 (1/2 - u/6 + u^2/12 - ...), coefficient of u^n: (-1)^n / ((n+1)(n+2)).
        double g = kDevianceSeries.value[terms_];
        double f = kDevianceSeries.value[terms_];
        for (int n = terms_ - 1; n >= 0; --n) {
            g = g * u + kDevianceSeries.value[n];
            f = f * v + kDevianceSeries.value[n];
        }
        const double deviance = d * (u * g - v * f);  // x0 u = d, (M - x0) v = -d
        const double half = 0.5 * std::log1p(u + v + u * v);
        const double error = stirling(inverse_ / (1.0 + u)) + stirling(inverse_rest_ / (1.0 + v)) - stirling_;
        return -(slope_ * d + deviance + half + error);
    }

    // T'(anchor + d): the rate at which the log pmf falls there, but for terms of order 1/x.
    double slope_at(double d) const { return slope_ + std::log1p(d * inverse_) - std::log1p(-d * inverse_rest_); }

    // step * sum over j >= 0 of (x_j - kappa) B(x_j) / B(anchor), x_j = anchor + from + (j + 1/2) step;
    // shift = anchor - kappa, `last` the distance from the anchor up to which B may be asked for.
    double half_line(double from, double step, double shift, double deviation, double last) const {
        // Panels over which the integrand varies by at most e^-8 or two deviations.
        const double slope = slope_at(from);
        const double width = 2.0 * std::min(deviation, 4.0 / std::max(slope, 1e-300));
        double integral = 0.0;
        for (double left = from; left < last; left += width) {
            const double half = 0.5 * std::min(width, last - left);
            const double centre = left + half;
            double panel = 0.0;
            for (const auto& node : kGauss) {
                const double lower = centre - half * node[0];
                const double upper = centre + half * node[0];
                panel += node[1] * ((lower + shift) * std::exp(log_ratio(lower)) +
                                    (upper + shift) * std::exp(log_ratio(upper)));
            }
            integral += panel * half;
            if (panel * half < 0x1p-64 * integral) break;
        }
        return integral + step * end_correction(from, step, shift);
    }
    static constexpr double kSmoothStep = 0.15;

private:
    // sum_n gamma_n (2n-1)! a_(2n-1), a the Taylor coefficients of (x - kappa) B(x) in (x - x_end)/step:
    // gamma_n (2n-1)! = (1 - 2^(1-2n)) B_2n / 2n with Bernoulli's numbers.
    double end_correction(double from, double step, double shift) const {
        constexpr int kOrder = 12;
        constexpr double kEuler[6] = {0.041666666666666666667,  -0.0072916666666666666667,
                                      0.003844246031746031746,  -0.0041341145833333333333,
                                      0.0075609611742424242424, -0.021082496875953907204};
        const double x = step / (anchor_ + from);
        const double y = -step / (rest_ - from);
        // Taylor coefficients of ln B: the deviance, half the logarithm, 1/(12 x) of Stirling's error.
        double log_series[kOrder] = {};
        double xn = 1.0;
        double yn = 1.0;
        for (int n = 1; n < kOrder; ++n) {
            const double sign = n % 2 == 0 ? 1.0 : -1.0;
            if (n >= 2) log_series[n] -= sign * step * (xn - yn) / (n * (n - 1.0));
            xn *= x;
            yn *= y;
            log_series[n] += 0.5 * sign * (xn + yn) / n;
            log_series[n] -= sign * (xn * x - yn * y) / (12.0 * step);
        }
        log_series[1] -= step * slope_at(from);
        double series[kOrder] = {1.0};
        for (int n = 1; n < kOrder; ++n) {
            double value = 0.0;
            for (int k = 1; k <= n; ++k) value += k * log_series[k] * series[n - k];
            series[n] = value / n;
        }
        double correction = 0.0;
        for (int n = 1; n <= 6; ++n)
            correction += kEuler[n - 1] * ((from + shift) * series[2 * n - 1] + step * series[2 * n - 2]);
        return correction * std::exp(log_ratio(from));
    }

    static constexpr double kGauss[8][2] = {
        {0.095012509837637440185, 0.18945061045506849629}, {0.28160355077925891323, 0.18260341504492358887},
        {0.45801677765722738634, 0.16915651939500253819},  {0.61787624440264374845, 0.14959598881657673208},
        {0.7554044083550030339, 0.12462897125553387205},   {0.86563120238783174388, 0.09515851168249278481},
        {0.94457502307323257608, 0.062253523938647892863}, {0.9894009349916499326, 0.027152459411754094852}};

    static constexpr int kTerms = DevianceSeries::kTerms;

    // 1/(12 x) - 1/(360 x^3) + 1/(1260 x^5); the next term is below 5.9e-4 / 64^7 = 1.4e-16 of the first.
    static double stirling(double inverse) {
        const double y = inverse * inverse;
        return inverse * (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260)));
    }

    double anchor_;
    double rest_;
    double inverse_;
    double inverse_rest_;
    double slope_;
    double stirling_;
    int terms_ = kTerms;
};

}  // namespace dpcore::detail
