#include "dpcore/gaussian.hpp"

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "dpcore/double_double.hpp"
#include "dpcore/normal.hpp"
#include "dpcore/validation.hpp"
#include "mills.hpp"

namespace dpcore {

namespace {

using detail::mills_divided_difference;
using detail::mills_ratio;

constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr long double kInverseSqrtTwoPiLong = 0.3989422804014326779399461L;
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;

// exp(-(x + x_low)) for 0 <= x <= kExpLimit, |x_low| small: relative error 3 u for normal results. Our own,
// because a call into libm keeps the compiler from vectorising the loop around it.
constexpr double kExpLimit = 800.0;  // exp(-800) underflows to 0

inline double exp_minus(double x, double x_low) {
    constexpr double kLog2E = 1.4426950408889634074;
    constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // 33 bits: n times it is exact for n < 2^20
    constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
    constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer and leaves that in the low bits
    const double shifted = x * kLog2E + kRound;
    const double n = shifted - kRound;
    const double r = (n * kLn2High - x) + (n * kLn2Low - x_low);  // exp(-x) = 2^-n exp(r), |r| <= 0.35
    // Taylor series to r^13/13!: the first neglected term is below 2^-57.
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = 1.0 + (r + r * r * sum);
    // 2^-n in two factors, so that results below the normal range are reached by one rounding product.
    std::uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    const std::uint64_t whole = bits & 0xFFF;  // n itself
    const std::uint64_t half = whole >> 1;
    const std::uint64_t first_bits = (1023 - half) << 52;
    const std::uint64_t second_bits = (1023 - (whole - half)) << 52;
    double first;
    double second;
    std::memcpy(&first, &first_bits, sizeof first);
    std::memcpy(&second, &second_bits, sizeof second);
    return sum * first * second;
}

// Widest b - a for which a slightly negative a is handled by the difference itself (the polynomial of
// mills_table.hpp reaches down to -1/8).
constexpr double kSeriesWidth = 0.125;

// delta, free of branches so that loops over it vectorise; see the header for the notation. `density` is
// phi(a) sqrt(2 pi) and `difference` R(a) - R(b), or, if flip, R(-a) + R(b).
struct Parts {
    double a;
    double a_low;
    double difference;
    double exponent;  // a^2/2, not more than kExpLimit
    double exponent_low;
    bool flip;
};

// kUnitSensitivity leaves out what sensitivity 1 makes exact; the result is the same bit for bit.
template <bool kUnitSensitivity>
inline Parts parts(double epsilon, double sigma, double sensitivity) {
    // sigma/s and s/sigma with their remainders; a remainder that over- or underflowed (arguments beyond 2^+-400,
    // where a is so large that plain arithmetic decides 0 or 1) is dropped.
    const double inverse_sigma = 1.0 / sigma;
    double ratio = sigma;
    double ratio_low = 0.0;
    if constexpr (!kUnitSensitivity) {
        const double inverse_sensitivity = 1.0 / sensitivity;
        ratio = sigma * inverse_sensitivity;
        const DoubleDouble back = two_prod(ratio, sensitivity);
        ratio_low = ((sigma - back.hi) - back.lo) * inverse_sensitivity;
    }
    const double width = sensitivity * inverse_sigma;
    const DoubleDouble width_back = two_prod(width, sigma);
    const double width_low = ((sensitivity - width_back.hi) - width_back.lo) * inverse_sigma;
    const DoubleDouble m = two_prod(epsilon, ratio);
    const double h = 0.5 * width;
    const DoubleDouble sum = two_sum(m.hi, -h);
    const double low = sum.lo + (m.lo + epsilon * ratio_low - 0.5 * width_low);
    Parts out;
    out.a = sum.hi;
    out.a_low = std::fabs(low) < 1.0 ? low : 0.0;
    const double b = m.hi + h;
    out.flip = (out.a < 0.0) & (width > kSeriesWidth);
    // u = 1/(t + K), y = 1 - 2 K u; R = u P(y); all parts of the difference are positive.
    const double t = out.flip ? -out.a : out.a;
    const double ua = 1.0 / (t + detail::kMillsShift);
    const double ub = 1.0 / (b + detail::kMillsShift);
    const double ya = 1.0 - 2.0 * detail::kMillsShift * ua;
    const double yb = 1.0 - 2.0 * detail::kMillsShift * ub;
    double value = detail::kMillsPolynomial[detail::kMillsDegree];
    double divided = 0.0;
#pragma GCC unroll 32
    for (int n = detail::kMillsDegree - 1; n >= 0; --n) {
        divided = divided * yb + value;
        value = value * ya + detail::kMillsPolynomial[n];
    }
    // R(a) - R(b) = (u_a - u_b) P_a + u_b (P_a - P_b), with u_a - u_b = (b - a) u_a u_b.
    const double gap = out.flip ? b - t : width;
    const double difference = gap * ua * ub * (value - 2.0 * detail::kMillsShift * ub * divided);
    out.difference = out.flip ? 2.0 * ua * value - difference : difference;
    const DoubleDouble square = two_prod(out.a, out.a);
    const double exponent = 0.5 * square.hi;
    const double exponent_low = 0.5 * square.lo + out.a * out.a_low;
    out.exponent = exponent < kExpLimit ? exponent : kExpLimit;
    out.exponent_low = std::fabs(exponent_low) < 1.0 ? exponent_low : 0.0;
    return out;
}

template <bool kUnitSensitivity>
inline double delta_of(double epsilon, double sigma, double sensitivity) {
    const Parts p = parts<kUnitSensitivity>(epsilon, sigma, sensitivity);
    const double product = exp_minus(p.exponent, p.exponent_low) * (kInverseSqrtTwoPi * p.difference);
    const double inside = p.exponent < kExpLimit ? product : 0.0;
    return p.flip ? 1.0 - inside : inside;
}

// ---- certified evaluation in long double
// ------------------------------------------------------------------------

// delta or its complement, whichever is smaller in a sense that keeps digits, with the relative slope of the value
// in sigma. Derivation of the error bound: docs/gaussian.md.
struct Extended {
    bool complement;  // value is 1 - delta
    long double value;
    long double slope;  // |d log value / d log sigma|
    long double error;  // bound on the relative error of value
};

constexpr long double kUnit = LDBL_MANT_DIG >= 64 ? 0x1p-64L : LDBL_EPSILON / 2;

Extended extended_delta(long double epsilon, long double sigma, long double sensitivity) {
    const long double width = sensitivity / sigma;
    const long double h = width / 2;
    const long double m = epsilon * sigma / sensitivity;
    const long double a = m - h;
    const long double b = m + h;
    const long double density = std::exp(-a * a / 2) * kInverseSqrtTwoPiLong;
    Extended out{};
    if (a >= 0 || width <= static_cast<long double>(kSeriesWidth)) {
        const long double difference = width * mills_divided_difference(a, b, width);
        out.value = density * difference;
        out.slope = width / difference;
        out.complement = false;
    } else {
        const long double sum = mills_ratio(-a) + mills_ratio(b);
        out.value = density * sum;
        out.slope = width / sum;
        out.complement = true;
    }
    // (i) width, m and sensitivity carry at most 8 roundings together, each equivalent to a relative change of
    // sigma
    //     or, for m, of epsilon, which moves a by no more: factor slope. (ii) The square and exp: a^2 u + 4 u.
    // (iii) Mills ratios, their difference and the products: 300 u (normal.hpp) + 8 u.
    out.error = kUnit * (16 * out.slope * (1 + m / (m + h)) + 2 * a * a + 320);
    return out;
}

bool certified(const Extended& x, double delta) {
    if (!x.complement) return x.value * (1 + x.error) <= static_cast<long double>(delta);
    return x.value * (1 - x.error) >= 1 - static_cast<long double>(delta);
}

// Smallest double reached from `start` upward that satisfies `holds`: by single ulps at first, then by doubling
// steps, so that a poor start costs a logarithm.
template <class Holds>
double climb(double start, const Holds& holds) {
    double x = start;
    double step = std::nextafter(x, std::numeric_limits<double>::infinity()) - x;
    for (int i = 0; !holds(x); ++i) {
        if (!(x < std::numeric_limits<double>::infinity())) return x;  // no double will do
        x += step;
        if (i >= 4) step *= 2;
    }
    return x;
}

}  // namespace

namespace {

void need_parameters(double epsilon, double sigma, double sensitivity) {
    need_positive(epsilon, "epsilon");
    need_positive(sigma, "sigma");
    need_positive(sensitivity, "sensitivity");
}

void need_target(double epsilon, double delta, double sensitivity, double compositions) {
    need_positive(epsilon, "epsilon");
    need_open_probability(delta, "delta");
    need_positive(sensitivity, "sensitivity");
    if (!(compositions >= 1.0 && std::isfinite(compositions)))
        refuse("compositions", "a finite number >= 1", compositions);
}

}  // namespace

double gaussian_delta(double epsilon, double sigma, double sensitivity) {
    need_parameters(epsilon, sigma, sensitivity);
    return delta_of<false>(epsilon, sigma, sensitivity);
}

double gaussian_log_delta(double epsilon, double sigma, double sensitivity) {
    need_parameters(epsilon, sigma, sensitivity);
    const Parts p = parts<false>(epsilon, sigma, sensitivity);
    if (p.flip) {
        if (!(p.exponent < kExpLimit)) return 0.0;
        return std::log1p(-exp_minus(p.exponent, p.exponent_low) * (kInverseSqrtTwoPi * p.difference));
    }
    const double square = 0.5 * p.a * p.a;
    if (square == std::numeric_limits<double>::infinity()) return -square;
    // The largest term alone, so that it is rounded once; the low parts join the small ones.
    const double low = p.exponent < kExpLimit ? p.exponent_low : 0.0;
    return -square + ((std::log(p.difference) - kLogSqrtTwoPi) - low);
}

// Not under the thread sanitizer: the loader chooses a clone before the sanitizer has started.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define DPCORE_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DPCORE_CLONES
#endif

namespace {

DPCORE_CLONES void fill_unit(const double* __restrict epsilon, const double* __restrict sigma,
                             double* __restrict out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out[i] = delta_of<true>(epsilon[i], sigma[i], 1.0);
}

DPCORE_CLONES void fill_any(const double* __restrict epsilon, const double* __restrict sigma,
                            const double* __restrict sensitivity, double* __restrict out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out[i] = delta_of<false>(epsilon[i], sigma[i], sensitivity[i]);
}

}  // namespace

void gaussian_delta_fill(const double* epsilon, std::size_t epsilon_step, const double* sigma,
                         std::size_t sigma_step, const double* sensitivity, std::size_t sensitivity_step,
                         double* out, std::size_t count) {
    // Blocks of unit stride, so that the inner loops vectorise whatever the steps are.
    constexpr std::size_t kBlock = 256;
    double block[3][kBlock];
    const auto load = [](double* to, const double* from, std::size_t step, std::size_t at, std::size_t size) {
        if (step == 1) return from + at;
        for (std::size_t i = 0; i < size; ++i) to[i] = from[0];
        return static_cast<const double*>(to);
    };
    const bool unit = sensitivity_step == 0 && *sensitivity == 1.0;
    for (std::size_t done = 0; done < count; done += kBlock) {
        const std::size_t size = count - done < kBlock ? count - done : kBlock;
        const double* e = load(block[0], epsilon, epsilon_step, done, size);
        const double* g = load(block[1], sigma, sigma_step, done, size);
        if (unit) {
            fill_unit(e, g, out + done, size);
        } else {
            fill_any(e, g, load(block[2], sensitivity, sensitivity_step, done, size), out + done, size);
        }
    }
}

namespace {

// sensitivity sqrt(k): what k releases amount to.
long double total_sensitivity(double sensitivity, double compositions) {
    return static_cast<long double>(sensitivity) * std::sqrt(static_cast<long double>(compositions));
}

// x > 0 with epsilon x - 1/(2 x) = z, by the form of the quadratic's root that does not cancel.
template <class Real>
Real scale_at(Real z, Real epsilon) {
    const Real root = std::sqrt(z * z + 2 * epsilon);
    return z >= 0 ? (z + root) / (2 * epsilon) : 1 / (root - z);
}

// value and |d log / d log sigma| of delta, or of 1 - delta if `complement`, from an evaluation of either.
struct Side {
    long double value;
    long double slope;
};
Side side(const Extended& e, bool complement) {
    if (e.complement == complement) return {e.value, e.slope};
    return {1 - e.value, e.slope * e.value / (1 - e.value)};
}

// Start for climb(): an ulp below the estimate, not below the smallest normal number.
double below(long double estimate) {
    return std::fmax(std::nextafter(static_cast<double>(estimate), 0.0), DBL_MIN);
}

}  // namespace

bool gaussian_delta_certified(double epsilon, double sigma, double sensitivity, double compositions,
                              double delta) {
    return certified(extended_delta(epsilon, sigma, total_sensitivity(sensitivity, compositions)), delta);
}

double gaussian_sigma(double epsilon, double delta, double sensitivity, double compositions) {
    need_target(epsilon, delta, sensitivity, compositions);
    // Newton in log x, x = sigma / (s sqrt(k)), on log delta or log(1 - delta), from the probabilistic sigma, an
    // upper bound; in double until the step is small, then in long double. Steps are kept within a factor e; each
    // function is monotone, so the loop ends at the root.
    const long double s = total_sensitivity(sensitivity, compositions);
    const bool complement = delta > 0.5;
    const long double target = std::log(complement ? 1 - static_cast<long double>(delta) : delta);
    long double x = scale_at(normal_quantile_tail(delta), epsilon);
    if (!complement) {
        double rough = static_cast<double>(x);
        for (int i = 0; i < 60; ++i) {
            const Parts p = parts<true>(epsilon, rough, 1.0);
            if (p.flip || !(p.exponent < kExpLimit)) break;
            const double gap = std::log(p.difference) - p.exponent - kLogSqrtTwoPi - static_cast<double>(target);
            const double step =
                std::fmax(-1.0, std::fmin(1.0, gap * p.difference * rough));  // slope 1/(x difference)
            rough *= 1.0 + step + 0.5 * step * step;  // exp(step) to second order keeps the convergence quadratic
            if (!(std::fabs(step) > 1e-6)) break;
        }
        x = rough;
    }
    for (int i = 0; i < 200; ++i) {
        const Side at = side(extended_delta(epsilon, x, 1.0L), complement);
        const long double newton = (std::log(at.value) - target) / (complement ? -at.slope : at.slope);
        const long double step = std::fmax(-1.0L, std::fmin(1.0L, newton));
        x *= std::exp(step);
        if (!(std::fabs(step) >= 1e-10L)) break;  // quadratic convergence: what is left is below rounding
    }
    return climb(below(x * s), [&](double sigma) { return certified(extended_delta(epsilon, sigma, s), delta); });
}

double gaussian_sigma_probabilistic(double epsilon, double delta, double sensitivity, double compositions) {
    need_target(epsilon, delta, sensitivity, compositions);
    const long double s = total_sensitivity(sensitivity, compositions);
    long double z = normal_quantile_tail(delta);
    // The quantile is good to double precision; one Newton step on log Phi(-z) makes it good to long double.
    const long double tail_at_z = std::exp(-z * z / 2) * kInverseSqrtTwoPiLong * mills(z);
    z += (tail_at_z - delta) / (std::exp(-z * z / 2) * kInverseSqrtTwoPiLong);
    const long double x = scale_at<long double>(z, epsilon);
    const auto holds = [&](double sigma) {
        // Phi(-a) <= delta, with the error terms of extended_delta and 12 u for the Mills ratio and products.
        const long double m = epsilon * static_cast<long double>(sigma) / s;
        const long double h = s / (2 * static_cast<long double>(sigma));
        const long double a = m - h;
        const long double ratio = mills_ratio(std::fabs(a));
        const long double error = kUnit * (16 * (m + h) / ratio + 2 * a * a + 24);
        const long double tail = std::exp(-a * a / 2) * kInverseSqrtTwoPiLong * ratio;
        return a >= 0 ? tail * (1 + error) <= delta : tail * (1 - error) >= 1 - static_cast<long double>(delta);
    };
    return climb(below(x * s), holds);
}

double gaussian_sigma_classical(double epsilon, double delta, double sensitivity, double compositions) {
    need_target(epsilon, delta, sensitivity, compositions);
    const long double s = total_sensitivity(sensitivity, compositions);
    const long double exact = s * std::sqrt(2 * std::log(1.25L / delta)) / epsilon;
    // Six roundings of long double at most; the sum of them, upward, then to double upward.
    return climb(below(exact), [&](double sigma) { return sigma >= exact * (1 + 8 * kUnit); });
}

double gaussian_epsilon(double sigma, double delta, double sensitivity) {
    need_positive(sigma, "sigma");
    need_open_probability(delta, "delta");
    need_positive(sensitivity, "sensitivity");
    const long double s = sensitivity;
    const auto holds = [&](double epsilon) { return certified(extended_delta(epsilon, sigma, s), delta); };
    if (holds(0.0)) return 0.0;
    // log delta is concave in epsilon with slope -R(b)/(R(a) - R(b)); bracketed Newton. At z = a of the
    // probabilistic bound, delta is satisfied: the upper end.
    const double x = static_cast<double>(sigma / s);
    double low = 0.0;
    double high = std::fmax((normal_quantile_tail(delta) + 0.5 / x) / x, 0.0);
    const long double target = std::log(static_cast<long double>(delta));
    double epsilon = high;
    for (int i = 0; i < 200 && high > low; ++i) {
        const Extended e = extended_delta(epsilon, sigma, s);
        const Side at = side(e, false);
        const double gap = static_cast<double>(std::log(at.value) - target);
        (gap > 0 ? low : high) = epsilon;
        const long double m = static_cast<long double>(epsilon) * x;
        const long double a = m - 0.5L / x;
        const long double density = std::exp(-a * a / 2) * kInverseSqrtTwoPiLong;
        const double slope = static_cast<double>(density * mills_ratio(m + 0.5L / x) / at.value);
        double next = epsilon + gap / slope;
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        const double step = std::fabs(next - epsilon);
        epsilon = next;
        if (!(step > 1e-15 * epsilon)) break;
    }
    return climb(below(epsilon), holds);
}

}  // namespace dpcore
