#include "periodic_line.hpp"

#include <cmath>

namespace dpcore::detail {

namespace {
constexpr DoubleDouble kPi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
}  // namespace

bool is_discrete_laplace(const LossLaw& law) {
    if (law.kind() != LawKind::atoms) return false;
    const std::vector<double> p = law.parameters();
    return p.size() == 3 && p[0] == -1.0;
}

bool is_periodic(const LossLaw& law) {
    const auto sane = [](double x) { return x > 1e-100 && x < 1e100; };  // its square and its inverse are in range
    if (law.kind() == LawKind::discrete_gaussian || law.kind() == LawKind::two_point)
        return sane(law.parameters()[0]);
    return is_discrete_laplace(law) && sane(law.parameters()[1]);
}

PeriodicLine::PeriodicLine(const LossLaw& law, double c, double copies, StopCheck stop)
    : first_(law.line(c, 0.0, copies, true, stop)), line_(law.line(c, 0.0, 1.0, true, stop)) {
    const std::vector<double> p = law.parameters();
    const Certified mass = first_->value(0.0);
    log_mass_ = mass.value.re;
    log_mass_err_ = mass.err;
    double odd = 1.0;
    if (law.kind() == LawKind::discrete_gaussian) {
        // Losses shift/sigma^2 (shift/2 - x): a turn by the period 2 pi sigma^2/shift is one by pi shift.
        period_ = 2.0 * (kPi * two_prod(p[0], p[0])) / DoubleDouble(p[1]);
        odd = p[1];
        // Cumulants are good to many digits.
        const Cumulants k = law.cumulants(c, stop);
        mean_size_ = 1.01 * std::sqrt(k.second + k.first * k.first);
    } else if (law.kind() == LawKind::two_point) {  // e and -e
        period_ = kPi / DoubleDouble(p[0]);
        mean_size_ = law.max_loss();
    } else {  // (n - 2x)/scale
        period_ = kPi * p[1];
        odd = p[2];
        mean_size_ = law.max_loss();
    }
    // M(z + i period) = -M(z) where `odd` is. A share of pi for each copy: only their product counts.
    if (std::fmod(odd, 2.0) != 0.0 && std::fmod(copies, 2.0) != 0.0) turn_ = kPi.hi / copies;
}

PeriodicLine::Node PeriodicLine::at(double t) const {
    const double turns = std::nearbyint(t / period_.hi);
    const double s = static_cast<double>(DoubleDouble(t) - period_ * turns);
    const Certified v = (turns == 0.0 ? first_ : line_)->value(std::fabs(s));
    Complex value = {v.value.re, s < 0.0 ? -v.value.im : v.value.im};
    if (std::fmod(turns, 2.0) != 0.0) value.im += turn_;
    // s is off by its rounding, that of the period, and at its end by what the line takes for half a period; |M'|
    // <= E|L| M(c).
    return {value, v.err + 2.0 * kRound * (std::fabs(value.im) + turn_),
            (16.0 * kRound * std::fabs(s) + 0x1p-98 * t) * mean_size_};
}

}  // namespace dpcore::detail
