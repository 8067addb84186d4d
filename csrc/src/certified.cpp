#include "dpcore/certified.hpp"

#include <limits>

#include "hypotenuse.hpp"

namespace dpcore {

Certified certified_expm1(Complex z, double err) {
    const double half = std::sin(0.5 * z.im);
    const double lead = std::expm1(z.re);
    const double cosine = std::cos(z.im);
    const double fall = 2.0 * half * half;
    const double grow = lead + 1.0;  // exp(x); relative error 2 kLibm where x >= -700, absolute error tiny below
    const double sine = grow * std::sin(z.im);
    const double re = lead * cosine - fall;
    // expm1(x) cos(y): kLibm twice and a rounding; 2 sin^2: kLibm twice and two roundings; their difference a
    // rounding; the imaginary part 3 kLibm and two roundings, with the rounding of `grow` relative to 1 when x <
    // 0.
    const double bound = (3.0 * kLibm) * (std::fabs(lead * cosine) + fall) + (4.0 * kLibm) * std::fabs(sine) +
                         kRound * std::fabs(sine / (grow > 0.0 ? grow : 1.0));
    // exp moves by at most exp(x) (e^err - 1).
    return {{re, sine}, kSlack * (bound + (grow + kRound) * std::expm1(err) * (1.0 + kLibm))};
}

Certified certified_log1p(const Certified& w) {
    const double x = w.value.re;
    const double y = w.value.im;
    const double one = 1.0 + x;
    const double size = detail::hypotenuse(one, y);
    if (!(size > 2.0 * w.err) || size < 0x1p-500)
        return {{std::log(size + w.err + 0x1p-500) * (1.0 - kLibm) + 1e-10, 0.0},
                std::numeric_limits<double>::infinity()};
    const double square = x * (2.0 + x) + y * y;
    double re = 0.0;
    double own = 0.0;
    if (square > -0.5) {
        re = 0.5 * std::log1p(square);
        own =
            2.0 * kRound * (std::fabs(x) * (2.0 + std::fabs(x)) + y * y) / (1.0 + square) + kLibm * std::fabs(re);
    } else {
        re = std::log(size);  // size <= 0.71: relative error kLibm + kRound/size of its argument
        own = kLibm + kRound / size + kLibm * std::fabs(re);
    }
    const double im = std::atan2(y, one);
    // atan2: kLibm of the angle, and the rounding of 1 + x turns the angle by at most kRound |y| / size.
    own += kLibm * std::fabs(im) + kRound * std::fabs(y) / size;
    return {{re, im}, kSlack * (own + w.err / (size - w.err) * (1.0 + kLibm))};
}

Certified certified_log(const Certified& g) {
    const double size = detail::hypotenuse(g.value.re, g.value.im);
    if (!(size > 2.0 * g.err) || size < 0x1p-500) {
        const double top = std::log(size + g.err + 0x1p-500);
        return {{top + kLibm * std::fabs(top) + 1e-10, 0.0}, std::numeric_limits<double>::infinity()};
    }
    const double re = std::log(size);
    const double im = std::atan2(g.value.im, g.value.re);
    // hypotenuse: 2 roundings at the most, of the argument of the logarithm.
    return {{re, im},
            kSlack * (kLibm * (std::fabs(re) + std::fabs(im) + 1.0) + g.err / (size - g.err) * (1.0 + kLibm))};
}

Certified certified_sinh(Complex z, double err) {
    const double s = std::sinh(z.re);
    const double c = std::cosh(z.re);
    const double re = s * std::cos(z.im);
    const double im = c * std::sin(z.im);
    return {{re, im},
            kSlack * (3.0 * kLibm * (std::fabs(re) + std::fabs(im)) + c * std::sinh(err) + c * std::expm1(err))};
}

}  // namespace dpcore
