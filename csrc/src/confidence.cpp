#include "dpcore/confidence.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dpcore/double_double.hpp"
#include "dpcore/normal.hpp"

namespace dpcore {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Above this argument the Poisson window is used. Terms of the power series that are needed below each bound:
// W(i) <= i W(1) and sum >= W(1) (e^x - 1), so the relative error of stopping after N terms is at most
// x e^x P(Poisson(x) >= N)/(e^x - 1) < 2^-60 for the pairs below.
constexpr double kSeriesLimit = 12.0;
constexpr std::array<double, 4> kSeriesBounds = {0.5, 1.5, 4.0, kSeriesLimit};
constexpr std::array<int, 4> kSeriesTerms = {16, 22, 36, 64};

// Half-width of the Poisson window in standard deviations, and the extra that a Poisson tail needs over a normal
// one near x = 12: both tails are below 2^-60 (Chernoff, x >= 12).
constexpr double kWindow = 10.0;
constexpr double kWindowExtra = 30.0;

// C(2n, n)/4^n. Below 64 by its product; above by the series in 1/n, whose first omitted term is under 2^-66.
DoubleDouble central_weight(std::int64_t n) {
    if (n < 64) {
        DoubleDouble product(1.0);
        for (std::int64_t i = 1; i <= n; ++i)
            product =
                product * DoubleDouble(static_cast<double>(2 * i - 1)) / DoubleDouble(static_cast<double>(2 * i));
        return product;
    }
    const double v = 1.0 / static_cast<double>(n);
    const double tail =
        v *
        (-1.0 / 8 +
         v * (1.0 / 128 + v * (5.0 / 1024 + v * (-21.0 / 32768 + v * (-399.0 / 262144 + v * (869.0 / 4194304))))));
    constexpr double kPi = 3.14159265358979323846;
    const double root = std::sqrt(kPi * static_cast<double>(n));
    return DoubleDouble((1.0 + tail) / root);
}

// The two neighbours in which `good` changes, starting from a guess; `good` is monotone: false below, true above
// when rising, the other way round otherwise. Returns the good one that is next to a bad one. [low, high] limits
// the search; the good end of it must be good.
template <class Predicate>
double last_bit(Predicate good, double guess, double low, double high, bool rising) {
    const double good_end = rising ? high : low;
    const double bad_end = rising ? low : high;
    double x = std::min(std::max(guess, low), high);
    double inside;
    double outside;
    double step =
        std::max(std::abs(x), std::numeric_limits<double>::min()) * 4 * std::numeric_limits<double>::epsilon();
    if (good(x)) {
        inside = x;
        outside = x;
        while (outside != bad_end && good(outside)) {
            inside = outside;
            outside = rising ? std::max(bad_end, outside - step) : std::min(bad_end, outside + step);
            step *= 4;
        }
        if (good(outside)) return outside;
    } else {
        outside = x;
        inside = x;
        while (inside != good_end && !good(inside)) {
            outside = inside;
            inside = rising ? std::min(good_end, inside + step) : std::max(good_end, inside - step);
            step *= 4;
        }
    }
    for (;;) {
        const double middle = inside + (outside - inside) / 2;
        if (middle == inside || middle == outside) return inside;
        (good(middle) ? inside : outside) = middle;
    }
}

// A root of the increasing function f between low and high to about 1e-14 (Illinois, then bisection if that is
// slow); f(low) <= 0 <= f(high). last_bit finishes.
template <class Function>
double root(Function f, double low, double high) {
    double f_low = f(low);
    double f_high = f(high);
    int side = 0;
    for (int i = 0; i < 100 && high - low > 1e-14 * high; ++i) {
        double x = i < 40 ? (low * f_high - high * f_low) / (f_high - f_low) : low + (high - low) / 2;
        if (!(x > low && x < high)) x = low + (high - low) / 2;
        const double value = f(x);
        if (value == 0) return x;
        if (value < 0) {
            low = x;
            f_low = value;
            if (side == -1) f_high /= 2;
            side = -1;
        } else {
            high = x;
            f_high = value;
            if (side == 1) f_low /= 2;
            side = 1;
        }
    }
    return low + (high - low) / 2;
}

std::int64_t window_end(double x) { return static_cast<std::int64_t>(x + kWindow * std::sqrt(x) + kWindowExtra); }

}  // namespace

LaplaceDifference::LaplaceDifference(std::int64_t dimension, double largest) : dimension_(dimension) {
    if (dimension < 1 || dimension > kMaxDimension)
        throw std::invalid_argument("dimension must be in [1, 1000000]");
    const double reach = std::max(kSeriesLimit, std::min(largest, certain()));
    const std::int64_t length =
        std::min(dimension, std::max<std::int64_t>(kSeriesTerms.back(), window_end(reach)) + 1);
    weights_.resize(static_cast<std::size_t>(length));
    sums_.resize(static_cast<std::size_t>(length) + 1);
    DoubleDouble weight = central_weight(dimension - 1);
    DoubleDouble sum(0.0);
    for (std::int64_t m = 1; m <= length; ++m) {
        sum = sum + weight;
        weights_[static_cast<std::size_t>(m - 1)] = static_cast<double>(weight);
        sums_[static_cast<std::size_t>(m)] = static_cast<double>(sum);
        if (m < dimension)  // w(m+1)/w(m) = 2 (k - m)/(2k - 1 - m)
            weight = weight * DoubleDouble(static_cast<double>(2 * (dimension - m))) /
                     DoubleDouble(static_cast<double>(2 * dimension - 1 - m));
    }
    if (length == dimension) sums_.back() = 1.0;
    DoubleDouble factorial(1.0);
    for (int i = 0; i < kSeriesTerms.back(); ++i) {
        if (i > 0) factorial = factorial * DoubleDouble(static_cast<double>(i));
        const DoubleDouble next = factorial * DoubleDouble(static_cast<double>(i + 1));
        coefficients_.push_back(static_cast<double>(DoubleDouble(weight_sum(i + 1)) / next));
        pdf_coefficients_.push_back(static_cast<double>(DoubleDouble(weight_of(i + 1)) / factorial));
    }
}

double LaplaceDifference::weight_sum(std::int64_t i) const {
    return sums_[static_cast<std::size_t>(std::min(i, dimension_))];
}

double LaplaceDifference::weight_of(std::int64_t m) const {
    return m <= dimension_ ? weights_[static_cast<std::size_t>(m - 1)] : 0.0;
}

// T <= max(X1, X2), so P(T > x) <= 2 P(Gamma(k) > x) <= 2 exp(-(x - k - k ln(x/k))) < 2^-60 at x = 2k + 100.
double LaplaceDifference::certain() const { return 2.0 * static_cast<double>(dimension_) + 100.0; }

double LaplaceDifference::series(const std::vector<double>& coefficients, double x) const {
    std::size_t regime = 0;
    while (x > kSeriesBounds[regime]) ++regime;
    // Even and odd powers apart: two independent chains run side by side.
    const double square = x * x;
    double even = 0.0;
    double odd = 0.0;
    for (int i = kSeriesTerms[regime] - 2; i >= 0; i -= 2) {
        odd = odd * square + coefficients[static_cast<std::size_t>(i + 1)];
        even = even * square + coefficients[static_cast<std::size_t>(i)];
    }
    return std::exp(-x) * (even + odd * x);
}

// Mean of weight(i) over the Poisson law of mean x, cut to its window and normalised by its own sum.
template <class Weight>
double LaplaceDifference::window(Weight weight, double x) const {
    const auto mode = static_cast<std::int64_t>(x);
    const std::int64_t first = std::max<std::int64_t>(0, static_cast<std::int64_t>(x - kWindow * std::sqrt(x)));
    const std::int64_t last = window_end(x);
    double total = 0.0;
    double weighted = 0.0;
    double term = 1.0;
    for (std::int64_t i = mode; i <= last; ++i) {
        total += term;
        weighted += term * weight(i);
        term *= x / static_cast<double>(i + 1);
    }
    term = static_cast<double>(mode) / x;
    for (std::int64_t i = mode - 1; i >= first; --i) {
        total += term;
        weighted += term * weight(i);
        term *= static_cast<double>(i) / x;
    }
    return weighted / total;
}

double LaplaceDifference::cdf(double x) const {
    if (std::isnan(x)) return x;
    if (x <= 0) return 0.0;
    if (x >= certain()) return 1.0;
    if (dimension_ == 1) return -std::expm1(-x);
    if (x <= kSeriesLimit) return x * series(coefficients_, x);
    return window([this](std::int64_t i) { return weight_sum(i); }, x);
}

double LaplaceDifference::pdf(double x) const {
    if (std::isnan(x)) return x;
    if (x < 0) return 0.0;
    if (dimension_ == 1) return std::exp(-x);
    if (x <= kSeriesLimit) return series(pdf_coefficients_, x);
    return x >= certain() ? 0.0 : window([this](std::int64_t i) { return weight_of(i + 1); }, x);
}

double LaplaceDifference::confidence(double epsilon, double epsilon0) const {
    if (epsilon >= epsilon0) return 1.0;
    return cdf(epsilon) / cdf(epsilon0);
}

double LaplaceDifference::epsilon_at(double wanted, double epsilon0) const {
    const double target = wanted * cdf(epsilon0);
    const double high = std::min(epsilon0, certain());
    const double guess =
        dimension_ == 1 ? -std::log1p(-target) : root([&](double x) { return cdf(x) - target; }, 0.0, high);
    return last_bit([&](double x) { return confidence(x, epsilon0) >= wanted; }, guess, 0.0, epsilon0, true);
}

double LaplaceDifference::epsilon0_for(double epsilon, double wanted) const {
    const double here = cdf(epsilon);
    if (here >= wanted) return kInfinity;  // even against P(T <= infinity) = 1
    const double target = here / wanted;
    double high = std::max(2 * epsilon, 1.0);
    while (high < certain() && cdf(high) < target) high *= 2;
    high = std::min(high, certain());
    const double guess =
        dimension_ == 1 ? -std::log1p(-target) : root([&](double x) { return cdf(x) - target; }, epsilon, high);
    return last_bit([&](double x) { return confidence(epsilon, x) >= wanted; }, guess, epsilon, certain(), false);
}

double exact_laplace_confidence(double epsilon, double epsilon0) {
    if (epsilon >= epsilon0) return 1.0;
    // e^((epsilon - epsilon0)/2) (1 - e^-epsilon)/2; the rounding of the difference is put back.
    const DoubleDouble gap = two_sum(epsilon, -epsilon0);
    return std::exp(gap.hi / 2) * (1.0 + gap.lo / 2) * (-std::expm1(-epsilon) / 2);
}

double exact_laplace_epsilon_at(double wanted, double epsilon0) {
    // sinh(epsilon/2) = wanted e^(epsilon0/2); beyond 700 the square root in asinh is not needed.
    const double guess =
        epsilon0 > 700 ? epsilon0 + 2 * std::log(2 * wanted) : 2 * std::asinh(wanted * std::exp(epsilon0 / 2));
    return last_bit([&](double x) { return exact_laplace_confidence(x, epsilon0) >= wanted; }, guess, 0.0,
                    epsilon0, true);
}

double exact_laplace_epsilon0_for(double epsilon, double wanted) {
    // e^(-epsilon0/2) sinh(epsilon/2) = wanted
    const double guess = epsilon + 2 * std::log(-std::expm1(-epsilon) / (2 * wanted));
    if (!(guess > epsilon)) return epsilon;
    return last_bit([&](double x) { return exact_laplace_confidence(epsilon, x) >= wanted; }, guess, epsilon,
                    2 * guess + 1, false);
}

double gaussian_confidence(double epsilon, double sigma, double sensitivity) {
    const double mean = sensitivity / sigma;
    if (!(mean <= std::numeric_limits<double>::max())) return 0.0;  // a loss beyond every double
    const double half = epsilon / mean;
    if (epsilon < 1 && half < 1) {
        // 2 phi(m/2) integral_0^h exp(-s^2/2) cosh(s m/2) ds with s m/2 <= 1/2: no cancellation for a narrow band.
        // Gauss-Legendre, 10 points; the integrand is entire and the remainder is below 1e-18.
        constexpr std::array<double, 5> kNode = {0.14887433898163121088, 0.43339539412924719080,
                                                 0.67940956829902440623, 0.86506336668898451073,
                                                 0.97390652851717172008};
        constexpr std::array<double, 5> kWeight = {0.29552422471475287017, 0.26926671930999635509,
                                                   0.21908636251598204400, 0.14945134915058059315,
                                                   0.06667134430868813759};
        double sum = 0.0;
        for (std::size_t i = 0; i < kNode.size(); ++i) {
            for (const double node : {kNode[i], -kNode[i]}) {
                const double s = half * (1 + node) / 2;
                sum += kWeight[i] * std::exp(-s * s / 2) * std::cosh(s * mean / 2);
            }
        }
        constexpr double kRootTwoOverPi = 0.79788456080286535588;  // 2/sqrt(2 pi)
        return kRootTwoOverPi * std::exp(-mean * mean / 8) * sum * half / 2;
    }
    // The lower tail is at most e^-epsilon times the upper one, or the band holds more than a quarter of the mass.
    const double upper = half - mean / 2;
    const double lower = -half - mean / 2;
    return normal_tail(-upper) - normal_tail(-lower);
}

}  // namespace dpcore
