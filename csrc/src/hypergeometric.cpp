#include "dpcore/hypergeometric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "double_double_tables.hpp"
#include "dpcore/factorial.hpp"
#include "two_sided_law.hpp"

namespace dpcore {

namespace {

using detail::TwoSidedLaw;

double as_double(std::int64_t x) { return static_cast<double>(x); }

// Drawing `drawn` from the law's population; the downward walk is that of the records not drawn.
RatioLaw<2> upward(const Hypergeometric& law, std::int64_t drawn, std::int64_t last) {
    RatioLaw<2> out;
    out.top[0] = as_double(drawn);
    out.top[1] = as_double(law.marked);
    out.bottom[0] = 1.0;
    out.bottom[1] = as_double(law.population - law.marked - drawn + 1);
    out.last = as_double(last);
    return out;
}

TwoSidedLaw<2> two_sided(const Hypergeometric& law) {
    TwoSidedLaw<2> out;
    out.lowest = law.lowest();
    out.highest = law.highest();
    out.reflect = law.marked;
    out.up = upward(law, law.drawn, out.highest);
    out.down = upward(law, law.population - law.drawn, out.reflect - out.lowest);
    return out;
}

Scaled value_at(const Hypergeometric& law, std::int64_t k) { return exp_scaled(hypergeometric_log_pmf(law, k)); }

// Hoeffding: the tails are those of a binomial with the same mean at most; the smallest of the four equivalent
// ones.
double variance(const Hypergeometric& law) {
    const double n = as_double(law.population);
    const double marked = as_double(law.marked) * (1.0 - as_double(law.marked) / n);
    const double drawn = as_double(law.drawn) * (1.0 - as_double(law.drawn) / n);
    return std::min(marked, drawn);
}

bool is_point_mass(const Hypergeometric& law) { return law.lowest() == law.highest(); }

PmfWindow point_mass(const Hypergeometric& law) {
    PmfWindow out;
    out.first = law.lowest();
    out.value = {1.0};
    return out;
}

DoubleDouble expected(std::int64_t row, std::int64_t column, std::int64_t population) {
    return two_prod(as_double(row), as_double(column)) / DoubleDouble(as_double(population));
}

double cumulative(const Hypergeometric& law, std::int64_t k, bool upper, StopCheck stop) {
    law.check();
    if (is_point_mass(law)) return (k >= law.lowest()) == upper ? 0.0 : 1.0;
    return detail::cumulative(
        two_sided(law), law.mode(), k, upper, [&](std::int64_t at) { return value_at(law, at); }, stop);
}

}  // namespace

void Hypergeometric::check() const {
    if (population < 0 || population > (std::int64_t{1} << 53))
        throw std::invalid_argument("population must be an integer in [0, 2^53]");
    if (marked < 0 || marked > population) throw std::invalid_argument("marked must be in [0, population]");
    if (drawn < 0 || drawn > population) throw std::invalid_argument("drawn must be in [0, population]");
}

std::int64_t Hypergeometric::lowest() const { return std::max<std::int64_t>(0, marked + drawn - population); }
std::int64_t Hypergeometric::highest() const { return std::min(marked, drawn); }

std::int64_t Hypergeometric::mode() const {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(marked + 1) * static_cast<Wide>(drawn + 1);
    const auto mode = static_cast<std::int64_t>(product / static_cast<Wide>(population + 2));
    return std::clamp(mode, lowest(), highest());
}

DoubleDouble hypergeometric_log_pmf(const Hypergeometric& law, std::int64_t k) {
    law.check();
    if (k < law.lowest() || k > law.highest()) return -std::numeric_limits<double>::infinity();
    if (is_point_mass(law)) return 0.0;
    const std::int64_t n = law.population;
    const std::int64_t unmarked = n - law.marked;
    const std::int64_t left = n - law.drawn;
    StirlingSum margins;
    margins.add(law.marked);
    margins.add(unmarked);
    margins.add(law.drawn);
    margins.add(left);
    StirlingSum cells;
    cells.add(n);
    DoubleDouble distance;
    const auto cell = [&](std::int64_t x, std::int64_t row, std::int64_t column) {
        cells.add(x);
        distance = distance + deviance(x, expected(row, column, n));
    };
    cell(k, law.marked, law.drawn);
    cell(law.marked - k, law.marked, left);
    cell(law.drawn - k, unmarked, law.drawn);
    cell(unmarked - (law.drawn - k), unmarked, left);
    // Products of at most five counts times 2 pi: below 2^280.
    return (margins.error - cells.error) + log(margins.product / cells.product) * 0.5 - distance;
}

double hypergeometric_cdf(const Hypergeometric& law, std::int64_t k, StopCheck stop) {
    return cumulative(law, k, false, stop);
}

double hypergeometric_sf(const Hypergeometric& law, std::int64_t k, StopCheck stop) {
    return cumulative(law, k, true, stop);
}

PmfWindow hypergeometric_window(const Hypergeometric& law, std::int64_t low, std::int64_t high, double depth,
                                StopCheck stop) {
    law.check();
    if (low < law.lowest() || low > high || high > law.highest())
        throw std::invalid_argument("low <= high within the support is needed");
    if (!(depth > 0.0 && depth <= kMaxWindowDepth)) throw std::invalid_argument("depth must be in (0, 700]");
    if (is_point_mass(law)) return point_mass(law);
    const std::int64_t peak = std::clamp(law.mode(), low, high);
    const Scaled value = value_at(law, peak);
    const std::int64_t exponent = value.exponent + std::ilogb(value.mantissa.hi);
    const double least = to_double(value, exponent) * std::exp(-depth);
    return detail::window(two_sided(law), peak, value, {low, high, least, 0.0, exponent, variance(law)}, stop);
}

PmfWindow hypergeometric_tail_window(const Hypergeometric& law, double tail, StopCheck stop) {
    law.check();
    if (!(tail >= 1e-300 && tail < 1.0)) throw std::invalid_argument("tail must be in [1e-300, 1)");
    if (is_point_mass(law)) return point_mass(law);
    const std::int64_t mode = law.mode();
    return detail::window(two_sided(law), mode, value_at(law, mode),
                          {law.lowest(), law.highest(), 0.0, tail, 0, variance(law)}, stop);
}

PmfWindow hypergeometric_visible_window(const Hypergeometric& law, StopCheck stop) {
    law.check();
    if (is_point_mass(law)) return point_mass(law);
    const std::int64_t mode = law.mode();
    const double least = std::numeric_limits<double>::denorm_min();
    return detail::window(two_sided(law), mode, value_at(law, mode),
                          {law.lowest(), law.highest(), least, 0.0, 0, variance(law)}, stop);
}

void hypergeometric_fill(const Hypergeometric& law, std::int64_t first, std::int64_t count, double* out,
                         bool is_zero, StopCheck stop) {
    law.check();
    if (first < law.lowest() || count < 0 || first > law.highest() + 1 - count)
        throw std::invalid_argument("the range must lie in the support");
    if (count == 0) return;
    if (is_point_mass(law)) {
        out[0] = 1.0;
        return;
    }
    const std::int64_t peak = std::clamp(law.mode(), first, first + count - 1);
    detail::fill(two_sided(law), peak, value_at(law, peak), first, count, out, is_zero, stop);
}

HypergeometricStepper::HypergeometricStepper(const Hypergeometric& law, std::int64_t k) : k_(k) {
    law.check();
    lowest_ = law.lowest();
    highest_ = law.highest();
    if (k < lowest_ || k > highest_) throw std::out_of_range("k must lie in the support");
    ratio_ = upward(law, law.drawn, highest_);
    value_ = value_at(law, k);
}

double HypergeometricStepper::log_pmf() const {
    return static_cast<double>(log(value_.mantissa) + tables::kLn2 * as_double(value_.exponent));
}

void HypergeometricStepper::up() {
    if (at_highest()) throw std::out_of_range("k is the highest of the support");
    value_ = normalised({value_.mantissa * ratio_.exact_ratio(as_double(k_)), value_.exponent});
    ++k_;
}

void HypergeometricStepper::down() {
    if (at_lowest()) throw std::out_of_range("k is the lowest of the support");
    value_ = normalised({value_.mantissa / ratio_.exact_ratio(as_double(k_ - 1)), value_.exponent});
    --k_;
}

}  // namespace dpcore
