#include "contour_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/double_double.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

}  // namespace

Offset lattice_offset(const Lattice& lattice, double eps) {
    const auto at = [&](double m) {
        return (two_prod(lattice.step, m) + two_sum(lattice.origin, lattice.origin_low)) - DoubleDouble(eps);
    };
    double m = std::floor((eps - lattice.origin) / lattice.step) + 1.0;
    Offset out;
    if (!(std::fabs(m) < 0x1p51)) {  // neighbouring points are no longer distinct numbers: somewhere in the period
        out.x = 0.5 * lattice.step;
        out.err = lattice.origin_err + std::fabs(m) * lattice.step_err + lattice.step +
                  4.0 * kRound * (std::fabs(eps) + std::fabs(lattice.origin));
        out.tie = true;
        return out;
    }
    DoubleDouble x = at(m);
    while (x.hi <= 0.0) x = at(m += 1.0);
    while (x.hi > lattice.step) x = at(m -= 1.0);
    if (x.hi <= 0.0) x = DoubleDouble(lattice.step);
    out.x = static_cast<double>(x);
    const double slip = lattice.origin_err + std::fabs(m) * lattice.step_err;
    out.err = slip + 2.0 * kRound * out.x;
    const DoubleDouble gap = DoubleDouble(lattice.step) - x;
    const double noise =
        slip + 0x1p-98 * (std::fabs(eps) + std::fabs(lattice.origin) + std::fabs(m) * lattice.step);
    out.tie = gap.hi <= noise || x.hi <= noise;
    out.exact_tie = out.tie && slip == 0.0 && (gap.hi == 0.0 || x.hi == 0.0);
    out.err += noise;
    return out;
}

double ContourKernel::bound(double t, double x) const {
    if (!on_lattice()) return quantity_ == Quantity::delta ? 1.0 / (t * t) : 1.0 / t;
    const double d = lattice_.step;
    const auto away = [&](double c) {  // |1 - exp(-(c + it) d)| grows up to t = pi/d
        const double r = std::exp(-c * d);
        const double s = std::sin(0.5 * std::min(t * d, kPi));
        return std::sqrt(std::expm1(-c * d) * std::expm1(-c * d) + 4.0 * r * s * s);
    };
    if (quantity_ == Quantity::tail)  // for c < 0 both multiplied by e^{cd}, as in kernel()
        return 1.001 * d * std::exp(c_ < 0.0 ? c_ * (d - x) : -c_ * x) / away(std::fabs(c_));
    const double bracket = -std::expm1(-x) + std::exp(-c_ * d - x) * -std::expm1(x - d);
    return 1.001 * d * std::exp(-c_ * x) * bracket / (away(c_) * away(1.0 + c_));
}

Certified ContourKernel::value(double t, const Offset& offset) const {
    const Complex z = {c_, t};
    const Complex z1 = {1.0 + c_, t};
    if (!on_lattice()) {
        const Complex product = quantity_ == Quantity::delta ? z * z1 : z;
        const Complex v = Complex{1.0, 0.0} / product;
        return {v, 3.0 * kComplexOp * abs(v)};
    }
    const double d = lattice_.step;
    const double x = offset.x;
    const double d_err = lattice_.step_err + 2.0 * kRound * d;
    const double size = std::fabs(c_) + 1.0 + t;
    const auto exponential = [&](Complex at, double slip) {
        const double r = std::exp(at.re);
        return Certified{{r * std::cos(at.im), r * std::sin(at.im)},
                         r * (std::expm1(slip + 2.0 * kRound * abs(at)) + 3.0 * kLibm)};
    };
    const Certified minus_one = {{-1.0, 0.0}, 0.0};
    if (quantity_ == Quantity::tail && c_ < 0.0) {
        // exp(-z x)/(1 - exp(-z d)) = exp(z (d - x))/(exp(z d) - 1): near the smallest loss c is large and the
        // left form overflows.
        const double y = d - x;
        const Certified top = exponential({c_ * y, t * y}, size * (offset.err + d_err));
        const Certified bottom = certified_expm1({c_ * d, t * d}, size * d_err + 4.0 * kRound * size * d);
        const double bs = abs(bottom.value);
        const Complex v = top.value / bottom.value;
        if (!(bs > 2.0 * bottom.err)) return {v, kInf};
        const double err = kSlack * (top.err + abs(v) * bottom.err) / (bs - bottom.err) + kComplexOp * abs(v);
        return {d * v, d * err + kRound * d * abs(v)};
    }
    // 1 - exp(-z d) and 1 - exp(-(1+z) d)
    const Certified low = minus_one * certified_expm1({-c_ * d, -t * d}, size * d_err + 4.0 * kRound * size * d);
    const Certified head = exponential({-c_ * x, -t * x}, size * offset.err);
    const auto divide = [](const Certified& a, const Certified& b) {
        const double bs = abs(b.value);
        const Complex v = a.value / b.value;
        if (!(bs > 2.0 * b.err)) return Certified{v, kInf};
        return Certified{v, kSlack * (a.err + abs(v) * b.err) / (bs - b.err) + kComplexOp * abs(v)};
    };
    Certified out;
    if (quantity_ == Quantity::tail) {
        out = divide(head, low);
    } else {
        const Certified high =
            minus_one * certified_expm1({-z1.re * d, -t * d}, size * d_err + 4.0 * kRound * size * d);
        const double first = -std::expm1(-x);
        const double rest = d > x ? -std::expm1(x - d) : 0.0;
        const Certified mid = exponential({-c_ * d - x, -t * d}, size * d_err);
        const Certified second = mid * Certified{{rest, 0.0}, 2.0 * kLibm * rest + d_err};
        // d(bracket)/dx = e^-x (1 - e^-zd): where x is off, the two parts of the bracket nearly make up for each
        // other.
        Certified bracket = Certified{{first, 0.0}, kLibm * first} + second;
        bracket.err += kSlack * offset.err * std::exp(std::min(offset.err, 1.0)) * (abs(low.value) + low.err);
        out = divide(divide(head * bracket, low), high);
    }
    return {d * out.value, d * out.err + kRound * d * abs(out.value)};
}

Complex ContourKernel::slope(double t, double x, Complex kernel_value) const {
    if (!on_lattice() || quantity_ == Quantity::tail) return kernel_value * Complex{-c_, -t};
    // Each loss above eps contributes -exp(eps - L): the geometric series of exp(-(1+z)(x + nd)).
    const double d = lattice_.step;
    const auto exponential = [&](double y) {
        const double r = std::exp(-(1.0 + c_) * y);
        return Complex{r * std::cos(t * y), -r * std::sin(t * y)};
    };
    return (-d) * (exponential(x) / (Complex{1.0, 0.0} - exponential(d)));
}

}  // namespace dpcore::detail
