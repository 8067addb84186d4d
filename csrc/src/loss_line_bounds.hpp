// Bounds of characteristic functions shared by the laws (private to the core).
#pragma once

#include <algorithm>
#include <cmath>

namespace dpcore {

// log of a bound on |phi(t)| for all t in [from, pi/width], phi the characteristic function of a law with variance
// at least `variance` on an interval of the given width; `from` <= pi/width.
//
// |phi|^2 = E cos(tD) for the difference D of two independent copies, |D| <= width, E D^2 = 2 variance, and
// 1 - cos x >= x^2/2 - x^4/24 >= x^2/2 (1 - (t width)^2/12), and >= 2 x^2/pi^2 for |x| <= pi. The first grows in t
// up to t width = sqrt 6, the second everywhere.
inline double bounded_range_log_decay(double variance, double width, double from) {
    const double corner = std::sqrt(6.0) / width;
    const double linear = 4.0 / (3.14159265358979 * 3.14159265358979) * variance;
    double fall = 0.0;
    if (from < corner) {
        const double turn = from * width;
        fall = std::min(variance * from * from * (1.0 - turn * turn / 12.0), linear * corner * corner);
    } else {
        fall = linear * from * from;
    }
    return 0.5 * std::log1p(-std::min(fall * (1.0 - 1e-12), 1.0 - 1e-30));
}

}  // namespace dpcore
