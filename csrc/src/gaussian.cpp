#include "dpcore/gaussian.hpp"

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "clones.hpp"
#include "dpcore/double_double.hpp"
#include "dpcore/normal.hpp"
#include "dpcore/validation.hpp"
#include "mills.hpp"

namespace dpcore {

namespace {

// Out of line: inlined into the searches below, their inner loops run out of registers and cost half as much
// again.
__attribute__((noinline)) long double mills_divided_difference(long double a, long double b, long double width) {
    return detail::mills_divided_difference(a, b, width);
}
__attribute__((noinline)) long double mills_ratio(long double t) { return detail::mills_ratio(t); }

constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr long double kInverseSqrtTwoPiLong = 0.3989422804014326779399461L;
constexpr double kLogSqrtTwoPi = 0.91893853320467274178;
constexpr long double kLogSqrtTwoPiLong = 0.9189385332046727417803297L;

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

// Where double-double arithmetic carries a = m - h far enough: h <= 2^20, so that its error is below 2^-80 when m
// and h cancel, and no quotient, product or remainder leaves the range of double. Everything else takes
// exact_point().
inline bool ordinary(double sigma, double sensitivity) {
    constexpr double kSmall = 0x1p-300;
    constexpr double kLarge = 0x1p300;
    return (sigma >= kSmall) & (sigma <= kLarge) & (sensitivity >= kSmall) & (sensitivity <= kLarge) &
           (sensitivity <= 0x1p21 * sigma);
}

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
    // sigma/s and s/sigma with their remainders; a remainder that overflowed (epsilon above 2^990, where plain
    // arithmetic decides) is dropped. Arguments are ordinary(), or the result is only a start for a search.
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
    const DoubleDouble a = two_sum(sum.hi, std::fabs(low) < 1.0 ? low : 0.0);
    Parts out;
    out.a = a.hi;
    out.a_low = a.lo;
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
    out.exponent_low = std::fabs(exponent_low) < 0x1p900 ? exponent_low : 0.0;
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

constexpr long double kUnit = LDBL_MANT_DIG >= 64 ? 0x1p-64L : LDBL_EPSILON / 2;

// Where delta is evaluated: a = m - h and width = b - a = 2 h.
struct Point {
    long double a;
    long double width;
};

Point point_at(long double epsilon, long double sigma, long double sensitivity) {
    const long double width = sensitivity / sigma;
    return {epsilon * sigma / sensitivity - width / 2, width};
}

// The same with a not above, and width not below, their exact values: delta falls with a (its derivative at fixed
// width is -width phi(a) R(b)) and rises with width (phi(a) (1 - b R(b)) > 0), so the delta here is not below the
// exact one however large the rounding of a is beside a itself. m and h carry 5 roundings at most, their
// difference and the shift one each: 8 u (m + h) would do.
Point safe_point(long double epsilon, long double sigma, long double sensitivity) {
    const Point p = point_at(epsilon, sigma, sensitivity);
    const long double sum = p.a + p.width;  // m + h
    return {p.a - 16 * kUnit * sum, p.width * (1 + 16 * kUnit)};
}

// delta or its complement, whichever is smaller in a sense that keeps digits, with the relative slope of the value
// in sigma. Derivation of the error bound: docs/gaussian.md.
struct Extended {
    bool complement;  // value is 1 - delta
    long double value;
    long double slope;  // |d log value / d log sigma|
    long double error;  // bound on the relative error of value, given the point
};

Extended extended_delta(const Point& p) {
    const long double b = p.a + p.width;
    const long double density = std::exp(-p.a * p.a / 2) * kInverseSqrtTwoPiLong;
    // (i) The square and exp: 2 a^2 u + 4 u. (ii) The difference of Mills ratios 300 u, or the sum of two of them
    // 8 u (normal.hpp). (iii) The products and the comparison with delta: 16 u.
    if (p.a >= 0 || p.width <= static_cast<long double>(kSeriesWidth)) {
        const long double difference = p.width * mills_divided_difference(p.a, b, p.width);
        return {false, density * difference, p.width / difference, kUnit * (2 * p.a * p.a + 320)};
    }
    const long double sum = mills_ratio(-p.a) + mills_ratio(b);
    return {true, density * sum, p.width / sum, kUnit * (2 * p.a * p.a + 28)};
}

// The point to long double precision for any arguments. With mantissas e, g, s in [1/2, 1) and the exponents
// apart, a = (2 epsilon sigma^2 - sensitivity^2) / (2 sigma sensitivity) = N / (2 g s) 2^(s_exponent -
// g_exponent), N = e g^2 2^shift - s^2: the two terms of N are exact sums of four and two doubles, and so is their
// difference.
Point exact_point(double epsilon, double sigma, double sensitivity) {
    int e_exponent = 0;
    int g_exponent = 0;
    int s_exponent = 0;
    const double e = std::frexp(epsilon, &e_exponent);
    const double g = std::frexp(sigma, &g_exponent);
    const double s = std::frexp(sensitivity, &s_exponent);
    const int by = s_exponent - g_exponent;
    const int shift = e_exponent + 1 - 2 * by;
    const long double width = std::ldexp(static_cast<long double>(s) / g, by);
    // One term is below 2^-190 of the other.
    if (shift > 200) return {std::ldexp(static_cast<long double>(e) * g / s, e_exponent - by), width};
    if (shift < -200) return {-width / 2, width};
    const DoubleDouble eg = two_prod(e, g);
    const DoubleDouble first = two_prod(eg.hi, g);
    const DoubleDouble second = two_prod(eg.lo, g);
    const DoubleDouble square = two_prod(s, s);
    double term[] = {std::ldexp(first.hi, shift),  -square.hi,
                     std::ldexp(first.lo, shift),  -square.lo,
                     std::ldexp(second.hi, shift), std::ldexp(second.lo, shift)};
    constexpr int kTerms = 6;
    // Each pass of exact additions moves the sum one place further to the front; no bit is lost.
    for (int pass = 0; pass < kTerms; ++pass) {
        for (int i = kTerms - 1; i > 0; --i) {
            const DoubleDouble sum = two_sum(term[i - 1], term[i]);
            term[i - 1] = sum.hi;
            term[i] = sum.lo;
        }
    }
    long double numerator = 0;
    for (int i = kTerms - 1; i >= 0; --i) numerator += term[i];
    return {std::ldexp(numerator / (2.0L * g * s), by), width};
}

// True only if the exact delta is at most `delta`.
bool certified(long double epsilon, long double sigma, long double sensitivity, double delta) {
    const Extended x = extended_delta(safe_point(epsilon, sigma, sensitivity));
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

// delta and its logarithm for arguments that are not ordinary().
double exact_delta(double epsilon, double sigma, double sensitivity) {
    const Extended x = extended_delta(exact_point(epsilon, sigma, sensitivity));
    return static_cast<double>(x.complement ? 1 - x.value : x.value);
}

double exact_log_delta(double epsilon, double sigma, double sensitivity) {
    const Point p = exact_point(epsilon, sigma, sensitivity);
    const Extended x = extended_delta(p);
    if (x.complement) return static_cast<double>(std::log1p(-x.value));
    // slope is width / (R(a) - R(b)).
    return static_cast<double>(-p.a * p.a / 2 + (std::log(p.width / x.slope) - kLogSqrtTwoPiLong));
}

// Smallest positive double that satisfies `holds`, by bisection of the doubles in their order.
template <class Holds>
double smallest(const Holds& holds) {
    const auto as_double = [](std::uint64_t bits) {
        double x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    };
    std::uint64_t low = 0;
    std::uint64_t high = std::uint64_t{0x7ff} << 52;  // infinity, which satisfies everything
    while (high - low > 1) {
        const std::uint64_t middle = low + (high - low) / 2;
        (holds(as_double(middle)) ? high : low) = middle;
    }
    return as_double(high);
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
    if (!ordinary(sigma, sensitivity)) return exact_delta(epsilon, sigma, sensitivity);
    return delta_of<false>(epsilon, sigma, sensitivity);
}

double gaussian_log_delta(double epsilon, double sigma, double sensitivity) {
    need_parameters(epsilon, sigma, sensitivity);
    if (!ordinary(sigma, sensitivity)) return exact_log_delta(epsilon, sigma, sensitivity);
    const Parts p = parts<false>(epsilon, sigma, sensitivity);
    if (p.flip) {
        if (!(p.exponent < kExpLimit)) return 0.0;
        return std::log1p(-exp_minus(p.exponent, p.exponent_low) * (kInverseSqrtTwoPi * p.difference));
    }
    const double square = 0.5 * p.a * p.a;
    if (square == std::numeric_limits<double>::infinity()) return -square;
    // The largest term alone, so that it is rounded once; the low parts join the small ones.
    return -square + ((std::log(p.difference) - kLogSqrtTwoPi) - p.exponent_low);
}

namespace {

DPCORE_CLONES void fill_unit(const double* __restrict epsilon, const double* __restrict sigma,
                             double* __restrict out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out[i] = delta_of<true>(epsilon[i], sigma[i], 1.0);
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) all &= ordinary(sigma[i], 1.0);
    if (all) return;
    for (std::size_t i = 0; i < count; ++i)
        if (!ordinary(sigma[i], 1.0)) out[i] = exact_delta(epsilon[i], sigma[i], 1.0);
}

DPCORE_CLONES void fill_any(const double* __restrict epsilon, const double* __restrict sigma,
                            const double* __restrict sensitivity, double* __restrict out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out[i] = delta_of<false>(epsilon[i], sigma[i], sensitivity[i]);
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) all &= ordinary(sigma[i], sensitivity[i]);
    if (all) return;
    for (std::size_t i = 0; i < count; ++i)
        if (!ordinary(sigma[i], sensitivity[i])) out[i] = exact_delta(epsilon[i], sigma[i], sensitivity[i]);
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

// Start for climb(): the first double above the estimate, not below the smallest normal number. The margin is more
// than the estimate's error and the certificate's slack usually are, so that the first check holds; where it is
// too much, which is once in 128 times, the answer is one ulp above the smallest possible.
double above(long double estimate) {
    const long double goal = estimate * (1 + 0x1p-60L);
    double x = static_cast<double>(goal);
    if (static_cast<long double>(x) < goal) x = std::nextafter(x, std::numeric_limits<double>::infinity());
    return std::fmax(x, DBL_MIN);
}

}  // namespace

bool gaussian_delta_certified(double epsilon, double sigma, double sensitivity, double compositions,
                              double delta) {
    return certified(epsilon, sigma, total_sensitivity(sensitivity, compositions), delta);
}

namespace {

// A rough z with Phi(-z) = delta, good to 5e-4 (Hastings 1955, sheet 67; Abramowitz and Stegun 26.2.23): a start.
double rough_quantile(double delta) {
    const double t = std::sqrt(-2.0 * std::log(delta > 0.5 ? 1.0 - delta : delta));
    const double z =
        t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    return delta > 0.5 ? -z : z;
}

// log(x / target), to long double precision relative to the result where x is close to target.
long double log_ratio(long double x, long double target) {
    const long double r = (x - target) / target;
    // The first neglected term is r^4 / 4 < 2^-68 of r.
    if (std::fabs(r) < 0x1p-22L) return r * (1 - r * (0.5L - r / 3));
    return std::log(x) - std::log(target);
}

// exp(x); the first neglected term for small x is x^3 / 6 < 2^-68.
long double exp_of(long double x) { return std::fabs(x) < 0x1p-22L ? 1 + (x + x * x / 2) : std::exp(x); }

}  // namespace

double gaussian_sigma(double epsilon, double delta, double sensitivity, double compositions) {
    need_target(epsilon, delta, sensitivity, compositions);
    // Newton in log x, x = sigma / (s sqrt(k)), on log delta or log(1 - delta); in double until the step is small,
    // then in long double. Steps are kept within a factor e; each function is monotone, so the loop ends at the
    // root. The start is the smaller of two upper bounds (but for the rough quantile): the probabilistic sigma,
    // close where epsilon is not small, and the sigma of epsilon = 0, below 1/(sqrt(2 pi) delta).
    const long double s = total_sensitivity(sensitivity, compositions);
    const bool complement = delta > 0.5;
    const long double target = complement ? 1 - static_cast<long double>(delta) : delta;
    long double x =
        std::fmin(scale_at<long double>(rough_quantile(delta), epsilon), kInverseSqrtTwoPiLong / delta);
    if (!complement && x < 1e300L) {
        double rough = static_cast<double>(x);
        const double log_target = std::log(delta);
        for (int i = 0; i < 60; ++i) {
            const Parts p = parts<true>(epsilon, rough, 1.0);
            if (p.flip || !(p.exponent < kExpLimit)) break;
            const double gap = std::log(p.difference) - p.exponent - kLogSqrtTwoPi - log_target;
            const double step =
                std::fmax(-1.0, std::fmin(1.0, gap * p.difference * rough));  // slope 1/(x difference)
            rough *= 1.0 + step + 0.5 * step * step;  // exp(step) to second order keeps the convergence quadratic
            if (!(std::fabs(step) > 1e-6)) break;
        }
        x = rough;
    }
    const auto holds = [&](double sigma) { return certified(epsilon, sigma, s, delta); };
    for (int i = 0; i < 60; ++i) {
        const Point p = point_at(epsilon, x, 1.0L);
        const Side at = side(extended_delta(p), complement);
        const long double newton = log_ratio(at.value, target) / (complement ? -at.slope : at.slope);
        const long double step = std::fmax(-1.0L, std::fmin(1.0L, newton));
        x *= exp_of(step);
        // Convergence is quadratic once a moves by less than 1, that is x by less than 1/width of itself: what is
        // left after this step is below rounding.
        if (std::fabs(step) * (1 + p.width) < 1e-10L) return climb(above(x * s), holds);
    }
    // Beyond epsilon = 1e18 or so delta falls from 1 to 0 within a few roundings of x and Newton's method is lost.
    return smallest(holds);
}

double gaussian_sigma_probabilistic(double epsilon, double delta, double sensitivity, double compositions) {
    need_target(epsilon, delta, sensitivity, compositions);
    const long double s = total_sensitivity(sensitivity, compositions);
    // The quantile is good to double precision; a Newton step on the smaller tail, or around delta = 1/2 on the
    // part between the median and z, makes it good to long double.
    const bool complement = delta > 0.5;
    const long double target = complement ? 1 - static_cast<long double>(delta) : delta;
    const long double middle = 0.5L - delta;  // exact where it is used
    constexpr long double kSqrtHalf = 0.7071067811865475244008444L;
    constexpr long double kMiddle = 0.5L;
    long double z = std::fabs(normal_quantile_tail(delta));
    const long double density = std::exp(-z * z / 2) * kInverseSqrtTwoPiLong;
    z += z < kMiddle ? (std::fabs(middle) - std::erf(z * kSqrtHalf) / 2) / density
                     : mills_ratio(z) - target / density;
    const long double x = scale_at<long double>(complement ? -z : z, epsilon);
    const auto holds = [&](double sigma) {
        // Phi(-a) <= delta at an a not above the exact one; 6 u for the Mills ratio, 22 u for the rest. erf: 2 ulp
        // of libm and three roundings.
        const long double a = safe_point(epsilon, sigma, s).a;
        if (std::fabs(a) < kMiddle) {
            const long double part = std::erf(a * kSqrtHalf) / 2;
            return part - 16 * kUnit * std::fabs(part) >= middle;
        }
        const long double error = kUnit * (2 * a * a + 28);
        const long double tail = std::exp(-a * a / 2) * kInverseSqrtTwoPiLong * mills_ratio(std::fabs(a));
        return a >= 0 ? tail * (1 + error) <= delta : tail * (1 - error) >= 1 - static_cast<long double>(delta);
    };
    return climb(above(x * s), holds);
}

double gaussian_sigma_classical(double epsilon, double delta, double sensitivity, double compositions) {
    need_target(epsilon, delta, sensitivity, compositions);
    const long double s = total_sensitivity(sensitivity, compositions);
    const long double exact = s * std::sqrt(2 * std::log(1.25L / delta)) / epsilon;
    // Six roundings of long double at most; the sum of them, upward, then to double upward.
    return climb(above(exact), [&](double sigma) { return sigma >= exact * (1 + 8 * kUnit); });
}

double gaussian_epsilon(double sigma, double delta, double sensitivity) {
    need_positive(sigma, "sigma");
    need_open_probability(delta, "delta");
    need_positive(sensitivity, "sensitivity");
    const long double s = sensitivity;
    const auto holds = [&](double epsilon) { return certified(epsilon, sigma, s, delta); };
    if (holds(0.0)) return 0.0;
    // log delta is concave in epsilon with slope -R(b)/(R(a) - R(b)); bracketed Newton. At z = a of the
    // probabilistic bound, delta is satisfied: the upper end.
    const long double x = sigma / s;
    long double low = 0.0L;
    long double high = std::fmax((normal_quantile_tail(delta) + 0.5L / x) / x, 0.0L);
    const bool complement = delta > 0.5;
    const long double target = complement ? 1 - static_cast<long double>(delta) : delta;
    long double epsilon = high;
    for (int i = 0; i < 200 && high > low; ++i) {
        const Point p = point_at(epsilon, sigma, s);
        const Side at = side(extended_delta(p), complement);
        const long double gap = complement ? -log_ratio(at.value, target) : log_ratio(at.value, target);
        (gap > 0 ? low : high) = epsilon;
        const long double density = std::exp(-p.a * p.a / 2) * kInverseSqrtTwoPiLong;
        const long double slope = density * mills_ratio(p.a + p.width) / at.value;
        long double next = epsilon + gap / slope;
        if (!(next > low && next < high)) next = (low + high) / 2;
        const long double step = std::fabs(next - epsilon);
        epsilon = next;
        if (!(step > 4 * kUnit * epsilon)) break;
    }
    return climb(above(epsilon), holds);
}

}  // namespace dpcore
