#include "dpcore/binomial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "double_double_tables.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/factorial.hpp"
#include "two_sided_law.hpp"

namespace dpcore {

namespace {

using detail::TwoSidedLaw;

// Below this probability its exponent is carried apart, so that trials * probability stays in the domain of
// double-double arithmetic.
constexpr int kTinyExponent = -300;

void check(std::int64_t trials, double probability) {
    if (trials < 0 || trials > (std::int64_t{1} << 53))
        throw std::invalid_argument("trials must be an integer in [0, 2^53]");
    if (!(probability >= 0.0 && probability <= 1.0)) throw std::invalid_argument("probability must be in [0, 1]");
}

DoubleDouble complement(double probability) { return two_sum(1.0, -probability); }  // exact

RatioLaw<1> upward(std::int64_t trials, DoubleDouble odds, std::int64_t odds_exponent) {
    RatioLaw<1> law;
    law.top[0] = static_cast<double>(trials);
    law.bottom[0] = 1.0;
    const int by = std::ilogb(odds.hi);
    law.odds = {std::ldexp(odds.hi, -by), std::ldexp(odds.lo, -by)};
    law.odds_exponent = odds_exponent + by;
    law.last = static_cast<double>(trials);
    return law;
}

TwoSidedLaw<1> two_sided(std::int64_t trials, double probability) {
    int exponent = 0;
    const DoubleDouble p = std::frexp(probability, &exponent);
    const DoubleDouble q = complement(probability);
    TwoSidedLaw<1> law;
    law.up = upward(trials, p / q, exponent);
    law.down = upward(trials, q / p, -exponent);
    law.lowest = 0;
    law.highest = trials;
    law.reflect = trials;
    return law;
}

Scaled value_at(std::int64_t trials, double probability, std::int64_t k) {
    return exp_scaled(binomial_log_pmf(trials, probability, k));
}

// The exponent that puts x into [1, 2).
std::int64_t exponent_of(const Scaled& x) { return x.exponent + std::ilogb(x.mantissa.hi); }

double variance(std::int64_t trials, double probability) {
    return static_cast<double>(trials) * probability * (1.0 - probability);
}

bool is_point_mass(std::int64_t trials, double probability) {
    return trials == 0 || probability == 0.0 || probability == 1.0;
}

PmfWindow point_mass(std::int64_t at) {
    PmfWindow out;
    out.first = at;
    out.value = {1.0};
    return out;
}

}  // namespace

std::int64_t binomial_mode(std::int64_t trials, double probability) {
    check(trials, probability);
    const DoubleDouble product = two_prod(static_cast<double>(trials), probability) + probability;
    double mode = std::floor(product.hi);
    if (mode == product.hi && product.lo < 0.0) mode -= 1.0;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(mode), 0, trials);
}

DoubleDouble binomial_log_pmf(std::int64_t trials, double probability, std::int64_t k) {
    check(trials, probability);
    const DoubleDouble impossible = -std::numeric_limits<double>::infinity();
    if (k < 0 || k > trials) return impossible;
    if (probability == 0.0) return k == 0 ? DoubleDouble(0.0) : impossible;
    if (probability == 1.0) return k == trials ? DoubleDouble(0.0) : impossible;
    if (trials == 0) return 0.0;
    const auto m = static_cast<double>(trials);
    const DoubleDouble failures = deviance(trials - k, complement(probability) * m);
    int exponent = 0;
    const double mantissa = std::frexp(probability, &exponent);
    DoubleDouble successes;
    if (exponent >= kTinyExponent) {
        successes = deviance(k, two_prod(m, probability));
    } else if (k == 0) {
        // trials * probability itself, below 2^-247: failures holds the rest of -trials ln(1 - probability),
        // which is quadratically smaller.
        return DoubleDouble(-(m * probability));
    } else {
        const auto x = static_cast<double>(k);
        const DoubleDouble log_ratio =
            log(DoubleDouble(x) / two_prod(m, mantissa)) - tables::kLn2 * static_cast<double>(exponent);
        successes = log_ratio * x - x;
    }
    StirlingSum whole;
    whole.add(trials);
    StirlingSum parts;
    parts.add(k);
    parts.add(trials - k);
    const DoubleDouble half_log = log(whole.product / parts.product) * 0.5;
    return (whole.error - parts.error) + half_log - (successes + failures);
}

namespace {

double cumulative(std::int64_t trials, double probability, std::int64_t k, bool upper, StopCheck stop) {
    check(trials, probability);
    const std::int64_t mode = binomial_mode(trials, probability);
    if (is_point_mass(trials, probability)) return (k >= mode) == upper ? 0.0 : 1.0;
    return detail::cumulative(
        two_sided(trials, probability), mode, k, upper,
        [&](std::int64_t at) { return value_at(trials, probability, at); }, stop);
}

}  // namespace

double binomial_cdf(std::int64_t trials, double probability, std::int64_t k, StopCheck stop) {
    return cumulative(trials, probability, k, false, stop);
}

double binomial_sf(std::int64_t trials, double probability, std::int64_t k, StopCheck stop) {
    return cumulative(trials, probability, k, true, stop);
}

PmfWindow binomial_window(std::int64_t trials, double probability, std::int64_t low, std::int64_t high,
                          double depth, StopCheck stop) {
    check(trials, probability);
    if (low < 0 || low > high || high > trials)
        throw std::invalid_argument("0 <= low <= high <= trials is needed");
    if (!(depth > 0.0 && depth <= kMaxWindowDepth)) throw std::invalid_argument("depth must be in (0, 700]");
    const std::int64_t mode = binomial_mode(trials, probability);
    if (is_point_mass(trials, probability)) {
        if (mode >= low && mode <= high) return point_mass(mode);
        PmfWindow out;
        out.first = low;
        (mode < low ? out.below_upper : out.above_upper) = 1.0;
        return out;
    }
    const std::int64_t peak = std::clamp(mode, low, high);
    const Scaled value = value_at(trials, probability, peak);
    const std::int64_t exponent = exponent_of(value);
    const double least = to_double(value, exponent) * std::exp(-depth);
    return detail::window(two_sided(trials, probability), peak, value,
                          {low, high, least, 0.0, exponent, variance(trials, probability)}, stop);
}

PmfWindow binomial_tail_window(std::int64_t trials, double probability, double tail, StopCheck stop) {
    check(trials, probability);
    if (!(tail >= 1e-300 && tail < 1.0)) throw std::invalid_argument("tail must be in [1e-300, 1)");
    const std::int64_t mode = binomial_mode(trials, probability);
    if (is_point_mass(trials, probability)) return point_mass(mode);
    return detail::window(two_sided(trials, probability), mode, value_at(trials, probability, mode),
                          {0, trials, 0.0, tail, 0, variance(trials, probability)}, stop);
}

PmfWindow binomial_visible_window(std::int64_t trials, double probability, StopCheck stop) {
    check(trials, probability);
    const std::int64_t mode = binomial_mode(trials, probability);
    if (is_point_mass(trials, probability)) return point_mass(mode);
    return detail::window(
        two_sided(trials, probability), mode, value_at(trials, probability, mode),
        {0, trials, std::numeric_limits<double>::denorm_min(), 0.0, 0, variance(trials, probability)}, stop);
}

ExtendedPmf binomial_extended(std::int64_t trials, double probability, StopCheck stop) {
    check(trials, probability);
    ExtendedPmf out;
    const std::int64_t mode = binomial_mode(trials, probability);
    if (is_point_mass(trials, probability)) {
        out.first = mode;
        out.hi = {0x1p400};
        out.lo = {0.0};
        out.exponent = -400;
        return out;
    }
    // Refuses windows beyond memory before it walks.
    detail::side_hint(1100.0 * tables::kLn2.hi, variance(trials, probability), 1.0, static_cast<double>(trials));
    const TwoSidedLaw<1> law = two_sided(trials, probability);
    const Scaled peak = value_at(trials, probability, mode);
    out.exponent = exponent_of(peak) - 400;
    std::vector<DoubleDouble> side[2];
    for (const bool upward : {false, true}) {
        RatioWalk<1> walk(upward ? law.up : law.down, static_cast<double>(upward ? mode : trials - mode), peak);
        std::vector<DoubleDouble>& values = side[upward ? 1 : 0];
        for (;;) {
            const Scaled& value = walk.value();
            const auto by = static_cast<int>(std::max<std::int64_t>(value.exponent - out.exponent, -4000));
            const DoubleDouble scaled = {std::ldexp(value.mantissa.hi, by), std::ldexp(value.mantissa.lo, by)};
            if (!(scaled.hi >= 0x1p-700)) break;
            values.push_back(scaled);
            if (walk.at_end()) break;
            walk.step();
            if (values.size() % detail::kPollEvery == 0) stop();
        }
    }
    out.first = mode - static_cast<std::int64_t>(side[0].size() - 1);
    out.hi.reserve(side[0].size() + side[1].size());
    out.lo.reserve(side[0].size() + side[1].size());
    const auto put = [&](DoubleDouble x) {
        out.hi.push_back(x.hi);
        out.lo.push_back(x.lo);
    };
    for (std::size_t i = side[0].size() - 1; i > 0; --i) put(side[0][i]);
    for (const DoubleDouble& x : side[1]) put(x);
    return out;
}

void binomial_fill(std::int64_t trials, double probability, std::int64_t first, std::int64_t count, double* out,
                   bool is_zero, StopCheck stop) {
    check(trials, probability);
    if (first < 0 || count < 0 || first > trials + 1 - count)
        throw std::invalid_argument("the range must lie in 0 .. trials");
    if (count == 0) return;
    const std::int64_t mode = binomial_mode(trials, probability);
    if (is_point_mass(trials, probability)) {
        std::fill(out, out + count, 0.0);
        if (mode >= first && mode < first + count) out[mode - first] = 1.0;
        return;
    }
    const std::int64_t peak = std::clamp(mode, first, first + count - 1);
    detail::fill(two_sided(trials, probability), peak, value_at(trials, probability, peak), first, count, out,
                 is_zero, stop);
}

}  // namespace dpcore
