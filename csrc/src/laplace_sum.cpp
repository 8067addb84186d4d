#include "laplace_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dpcore/certified.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/factorial.hpp"

namespace dpcore::detail {

namespace {

constexpr double kMostCopies = 1e6;
constexpr double kLeastStep = 1e-9;
constexpr double kGreatestStep = 8.0;
constexpr int kMostParts = 260;
constexpr int kMostPowers = 900;
// Terms below this share of the sum are left to the geometric bounds; they then cost nothing in width.
constexpr double kNegligible = 0x1p-60;

// Values at f, f + 1, ..., f + size - 1.
using Row = std::vector<double>;

// N_n for n = 1 .. most; t = f + i and n - t = (n - 1 - i) + rest, rest = 1 - f to full relative precision.
std::vector<Row> splines(double f, double rest, int most) {
    std::vector<Row> out(static_cast<std::size_t>(most) + 1);
    out[1] = {1.0};
    for (int n = 2; n <= most; ++n) {
        const Row& before = out[static_cast<std::size_t>(n) - 1];
        Row row(static_cast<std::size_t>(n));
        for (int i = 0; i < n; ++i) {
            const double rising = i < n - 1 ? (f + i) * before[static_cast<std::size_t>(i)] : 0.0;
            const double falling = i > 0 ? ((n - 1 - i) + rest) * before[static_cast<std::size_t>(i) - 1] : 0.0;
            row[static_cast<std::size_t>(i)] = (rising + falling) / (n - 1);
        }
        out[static_cast<std::size_t>(n)] = std::move(row);
    }
    return out;
}

// The rows of I_m for j = 0 .. from those of I_(m-1) for j = 1 ..: sums over what lies beyond.
void integrate(std::vector<Row>& rows) {
    for (std::size_t j = 0; j + 1 < rows.size(); ++j) {
        const Row& above = rows[j + 1];
        Row row(j);
        double sum = 0.0;
        for (std::size_t i = j; i-- > 0;) {
            if (i + 1 < above.size()) sum += above[i + 1];
            row[i] = sum;
        }
        rows[j] = std::move(row);
    }
    rows.pop_back();
}

// ln of the bound exp(-theta T) C(k,j) (e0 A/2)^j ((1 + e^theta)/2)^(k-j), A = (e^theta - 1)/theta, without
// C(k,j).
struct Tilt {
    double theta;
    double log_atoms;  // ln((1 + e^theta)/2)
    double log_even;   // ln(e0 (e^theta - 1)/(2 theta))
};

Tilt tilt_at(double theta, double e0) {
    const double atoms = theta < 600.0 ? std::log1p(0.5 * std::expm1(theta)) : theta - std::log(2.0);
    const double even = theta < 600.0 ? std::log(std::expm1(theta) / theta) : theta - std::log(theta);
    return {theta, atoms, std::log(0.5 * e0) + even};
}

// Near the minimum over theta >= e0 of k ln(atoms + even) - theta T: any theta gives a bound.
Tilt best_tilt(double e0, double k, double t) {
    const auto value = [&](double theta) {
        const Tilt tilt = tilt_at(theta, e0);
        const double top = std::max(tilt.log_atoms, tilt.log_even);
        return k * (top + std::log(std::exp(tilt.log_atoms - top) + std::exp(tilt.log_even - top))) - theta * t;
    };
    double low = std::log(e0), high = std::log(1e6);
    for (int i = 0; i < 60; ++i) {
        const double a = low + 0.382 * (high - low);
        const double b = low + 0.618 * (high - low);
        if (value(std::exp(a)) < value(std::exp(b)))
            high = b;
        else
            low = a;
    }
    return tilt_at(std::max(e0, std::exp(0.5 * (low + high))), e0);
}

// T = whole + fraction.
struct Position {
    DoubleDouble top;
    double whole;
    DoubleDouble fraction;
};

Position position(double e0, double copies, double epsilon) {
    Position out;
    out.top = (two_prod(copies, e0) + epsilon) / DoubleDouble(2.0 * e0);
    out.whole = std::floor(out.top.hi);
    out.fraction = out.top - out.whole;
    if (out.fraction.hi < 0.0) {
        out.whole -= 1.0;
        out.fraction = out.fraction + 1.0;
    }
    return out;
}

std::optional<LogBounds> sum(double e0, double copies, double epsilon, StopCheck stop) {
    const auto k = static_cast<std::int64_t>(copies);
    const DoubleDouble reach = two_prod(copies, e0);
    if (!(static_cast<double>(reach - epsilon) > 0.0)) return std::nullopt;
    const Position at = position(e0, copies, epsilon);
    const DoubleDouble top = at.top;
    const auto n0 = static_cast<std::int64_t>(at.whole);
    const double f = static_cast<double>(at.fraction);
    const double rest = static_cast<double>(1.0 - at.fraction);
    if (!(f > 0.0 && rest > 0.0)) return std::nullopt;

    // How many even parts: where Chernoff's bound of all further ones is negligible beside the same bound of all.
    const Tilt tilt = best_tilt(e0, copies, top.hi);
    const double share = std::exp(tilt.log_even - tilt.log_atoms);
    const double mean = copies * share / (1.0 + share);
    const double wanted = std::ceil(mean + 14.0 * std::sqrt(mean + 1.0) + 24.0);
    if (!(wanted <= kMostParts)) return std::nullopt;
    const int parts = static_cast<int>(std::min(wanted, copies));

    // g_j(f + i), i = 0 .. j - 1.
    std::vector<Row> g(static_cast<std::size_t>(parts) + 1);
    int powers = 1;  // the last m
    {
        double ratio = 1.0;
        const double widest = e0 * parts;
        double factor = 1.0;
        for (powers = 1; powers < kMostPowers; powers += 2) {  // until e0^m parts^m / m! shrinks below 2^-70
            ratio = widest * widest / ((powers + 1.0) * (powers + 2.0));
            factor *= ratio;
            if (ratio < 0.5 && factor < 0x1p-70) break;
        }
        if (powers >= kMostPowers) return std::nullopt;
    }
    {
        std::vector<Row> rows = splines(f, rest, parts + powers + 1);
        for (int j = 0; j <= parts; ++j) g[static_cast<std::size_t>(j)].assign(static_cast<std::size_t>(j), 0.0);
        double power = 1.0;
        for (int m = 0; m <= powers; ++m) {
            integrate(rows);
            stop();
            if (m % 2 == 1) {
                for (int j = 1; j <= parts; ++j) {
                    Row& sum = g[static_cast<std::size_t>(j)];
                    const Row& term = rows[static_cast<std::size_t>(j)];
                    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += 2.0 * power * term[i];
                }
            }
            power *= e0;
        }
    }

    const double log_sinhc = std::log(std::sinh(0.5 * e0) / (0.5 * e0));
    const double odds = std::exp(e0);
    const DoubleDouble log_k = log_factorial(k);
    const DoubleDouble log_two = log(DoubleDouble(2.0));
    const DoubleDouble log_half_step = log(DoubleDouble(e0)) - log_two;
    // ln of the weight of (i, j): k!/(i! j! (k-i-j)!) (e0/2)^j 2^-(k-j).
    const auto log_weight = [&](std::int64_t i, std::int64_t j) {
        DoubleDouble w = log_k - log_factorial(i) - log_factorial(j) - log_factorial(k - i - j);
        return w + log_half_step * static_cast<double>(j) - log_two * static_cast<double>(k - j);
    };
    // Where the terms of j are largest, or begin: n0 < k, so that there are some for every j.
    const auto start_of = [&](std::int64_t j) {
        const auto peak = static_cast<std::int64_t>(static_cast<double>(k - j) * odds / (1.0 + odds));
        return std::min(std::max({peak, n0 - j + 1, std::int64_t{0}}), k - j);
    };
    DoubleDouble unit = -1e300;
    double lightest = 0.0;
    for (int j = 0; j <= parts; ++j) {
        const DoubleDouble w = log_weight(start_of(j), j);
        if (w.hi > unit.hi) unit = w;
        lightest = std::min(lightest, w.hi);
    }

    double total = 0.0;
    double cut = 0.0;  // bound of what the walks leave out
    double longest = 0.0;
    for (int j = 0; j <= parts; ++j) {
        stop();
        const Row& row = g[static_cast<std::size_t>(j)];
        const double even = std::exp(log_sinhc * j);
        const auto kernel = [&](std::int64_t i) {
            const std::int64_t n = n0 - i;
            if (n >= j) return 0.0;
            if (n >= 0) return row[static_cast<std::size_t>(n)];
            return even * 2.0 * std::sinh(e0 * (0.5 * j + (static_cast<double>(-n - 1) + rest)));
        };
        const std::int64_t from = start_of(j);
        const double weight = std::exp(static_cast<double>(log_weight(from, j) - unit));
        const std::int64_t free = k - j;
        double w = weight;
        double before = 0.0;
        double steps = 0.0;
        for (std::int64_t i = from; i <= free; ++i) {
            const double term = w * kernel(i);
            total += term;
            // Log-concave in i: once a ratio is below 1 all further ones are smaller still.
            if (i > from && term < 0.9 * before && term < kNegligible * total) {
                cut += term * 9.0;
                break;
            }
            before = term;
            w *= static_cast<double>(free - i) / static_cast<double>(i + 1);
            steps += 1.0;
        }
        w = weight;
        before = w * kernel(from);
        for (std::int64_t i = from - 1; i >= 0 && n0 - i < j; --i) {
            w *= static_cast<double>(i + 1) / static_cast<double>(free - i);
            const double term = w * kernel(i);
            total += term;
            if (term < 0.9 * before && term < kNegligible * total) {
                cut += term * 9.0;
                break;
            }
            before = term;
            steps += 1.0;
        }
        longest = std::max(longest, steps);
    }
    if (!(total > 1e-200 && total < 1e250)) return std::nullopt;  // terms may have been lost below the range

    // exp((eps - k e0)/2) and the unit, whose digits before the point must not cost digits of delta.
    const DoubleDouble scale = unit + (DoubleDouble(epsilon) - reach) * 0.5;
    const double log_total = std::log(total);
    // More even parts than `parts`: a geometric series that starts at parts + 1.
    double beyond = 0.0;
    if (parts < k) {
        const double j = parts + 1.0;
        const double ratio = (copies - j) / (j + 1.0) * share * (1.0 + 1e-12);
        if (!(ratio < 0.9)) return std::nullopt;
        const std::int64_t more = parts + 1;
        const double log_choose = static_cast<double>(log_k - log_factorial(more) - log_factorial(k - more));
        const double log_first =
            log_choose + j * tilt.log_even + (copies - j) * tilt.log_atoms - tilt.theta * top.hi;
        const double slip = 1e-13 * (std::fabs(log_choose) + std::fabs(j * tilt.log_even) +
                                     copies * tilt.log_atoms + tilt.theta * top.hi + 1.0);
        beyond = std::exp(log_first + slip - static_cast<double>(unit) - log_total) / (1.0 - ratio);
    }
    // Powers beyond the last: each g_j short by less than 2^-69 of itself, see where `powers` is chosen.
    const double levels = parts + powers + 3.0;
    const double error = kRound * (6.0 * levels + levels * (powers + 2.0) + 8.0 * longest + 64.0) +
                         kLibm * (8.0 + parts * (log_sinhc + 1.0)) +
                         levels * 0x1p-97 * (top.hi + 1.0) / std::min(f, rest) +
                         kRound * (4.0 * copies * e0 + (unit.hi - lightest)) + 0x1p-68;
    if (!(error < 1e-6 && beyond < 1e-3 && cut < 1e-3 * total)) return std::nullopt;
    const double centre = static_cast<double>(scale + log_total);
    const double rounding = kLibm * (1.0 + std::fabs(log_total)) + 4.0 * kRound * std::fabs(centre);
    return LogBounds{centre - error * 1.01 - rounding,
                     std::min(0.0, centre + (error + beyond + cut / total) * 1.01 + rounding)};
}

}  // namespace

std::optional<LogBounds> laplace_sum_delta(double epsilon0, double copies, double epsilon, StopCheck stop) {
    if (!(copies >= 2.0 && copies <= kMostCopies && epsilon0 >= kLeastStep && epsilon0 <= kGreatestStep &&
          epsilon >= 0.0))
        return std::nullopt;
    // T is known to 2^-100 of itself. Where it is a whole number or so close to one that its distance from it is
    // not known well, two epsilons beside the one asked have its delta between theirs: delta falls with epsilon.
    const Position at = position(epsilon0, copies, epsilon);
    const double near = std::min(static_cast<double>(at.fraction), static_cast<double>(1.0 - at.fraction));
    if (near > 0x1p-60 * (at.top.hi + 1.0)) return sum(epsilon0, copies, epsilon, stop);
    const double aside = 2.0 * epsilon0 * 0x1p-46 * (at.top.hi + 1.0);
    const auto below = sum(epsilon0, copies, epsilon - aside, stop);
    const auto above = sum(epsilon0, copies, epsilon + aside, stop);
    if (!below || !above) return std::nullopt;
    return LogBounds{above->log_lower, below->log_upper};
}

}  // namespace dpcore::detail
