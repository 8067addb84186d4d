#include "laplace_sum.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dpcore/certified.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/factorial.hpp"
#include "exact_sum.hpp"

namespace dpcore::detail {

namespace {

constexpr double kMostCopies = 1e6;
constexpr double kLeastStep = 1e-9;
constexpr int kMostParts = 700;
constexpr int kMostPowers = 2400;
// Powers of e0 times the number of even parts, over the factorials, stay below this.
constexpr double kMostGrowth = 1e260;
constexpr double kGreatestStep = 600.0;
// Cells times powers: a fifth of a second.
constexpr double kMostWork = 2e8;
constexpr double kInf = std::numeric_limits<double>::infinity();
// Terms below this share of the sum are left to the geometric bounds; they then cost nothing in width.
constexpr double kNegligible = 0x1p-60;

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

// T = whole + fraction, fraction in [0, 1), and rest = 1 - fraction: both to full relative precision, from sums
// without error. A loss that equals epsilon makes the fraction 0.
struct Position {
    double whole;
    double fraction;
    double rest;
};

// Nothing where no loss exceeds epsilon.
std::optional<Position> position(double e0, double copies, double epsilon) {
    const auto beyond = [&](double n) {  // 2 e0 (T - n)
        ExactSum sum;
        sum.add_product(copies - 2.0 * n, e0);
        sum.add(epsilon);
        return sum.value();
    };
    if (beyond(copies) >= 0.0) return std::nullopt;
    double n = std::min(std::floor(0.5 * (copies + epsilon / e0)), copies - 1.0);
    while (beyond(n) < 0.0) n -= 1.0;
    while (beyond(n + 1.0) >= 0.0) n += 1.0;
    return Position{n, beyond(n) / (2.0 * e0), -beyond(n + 1.0) / (2.0 * e0)};
}

// e0^m E[(V_j - t)+^m]/m! at t = f + i for j = 0 .. parts and i = j - parts .. j - 1, m risen step by step. Row j
// starts at i = j - parts, so that the two cells (j-1, i-1) and (j-1, i) a cell is made of are the one below it
// and that one's neighbour.
class Moments {
public:
    Moments(double e0, double fraction, double rest, int parts)
        : e0_(e0), fraction_(fraction), rest_(rest), parts_(parts), width_(static_cast<std::size_t>(parts) + 1) {
        cells_.assign(width_ * width_, 0.0);  // the last column stays 0: t >= j
    }
    const double* row(int j) const { return cells_.data() + static_cast<std::size_t>(j) * width_; }
    void rise() {
        ++power_;
        for (int j = 0; j <= parts_; ++j) {
            double* cell = cells_.data() + static_cast<std::size_t>(j) * width_;
            const double* below = cell - (j > 0 ? width_ : 0);
            const int negative = parts_ - j;  // the cells with t < 0
            const double scale = 1.0 / static_cast<double>(std::max(j + power_, 1));
            if (power_ == 0) {
                for (int x = 0; x < negative; ++x) cell[x] = 1.0;
            } else {
                // (j + m) I_m(t) = j I_m of j - 1 at t - 1, less t I_(m-1)(t)
                const double copies = j * scale;
                const double step = e0_ * scale;
                for (int x = 0; x < negative; ++x)
                    cell[x] = (((negative - 1 - x) + rest_) * step) * cell[x] + (j > 0 ? copies * below[x] : 0.0);
            }
            // (j + m) I_m(t) = (j - t) I_m of j - 1 at t - 1, plus t I_m of j - 1 at t
            for (int i = 0; i < j; ++i) {
                const double falling = ((j - 1 - i) + rest_) * below[negative + i];
                cell[negative + i] = (falling + (i + fraction_) * below[negative + i + 1]) * scale;
            }
        }
    }

private:
    double e0_, fraction_, rest_;
    int parts_;
    int power_ = -1;
    std::size_t width_;
    std::vector<double> cells_;
};

enum class Payoff : std::uint8_t { delta, tail };

std::optional<LogBounds> sum(double e0, double copies, double epsilon, Payoff payoff, StopCheck stop) {
    const auto k = static_cast<std::int64_t>(copies);
    const std::optional<Position> at = position(e0, copies, epsilon);
    if (!at) return LogBounds{-kInf, -kInf};
    const auto n0 = static_cast<std::int64_t>(at->whole);
    const double f = at->fraction;
    const double rest = at->rest;
    const double top = at->whole + f;

    // How many even parts: where Chernoff's bound of all further ones is negligible beside the same bound of all.
    const Tilt tilt = best_tilt(e0, copies, top);
    const double share = std::exp(tilt.log_even - tilt.log_atoms);
    const double mean = copies * share / (1.0 + share);
    const double wanted = std::ceil(mean + 14.0 * std::sqrt(mean + 1.0) + 24.0);
    if (!(wanted <= kMostParts || copies <= kMostParts)) return std::nullopt;
    const int parts = static_cast<int>(std::min(wanted, copies));
    // The largest e0 (V_j - t): j - t is at most k - T in every cell that is used, and no cell leads to a larger
    // one.
    const double widest =
        e0 * std::min(static_cast<double>(parts), (copies - 1.0 - at->whole) + rest) * (1.0 + 0x1p-40);

    // The last power: e0^m I_m is at most widest^m/m! times the first ones, and at most (e0/theta)^m times
    // Chernoff's bound of everything, whichever is negligible first.
    int powers = 1;
    bool tilted = false;  // the powers end by Chernoff's bound
    const double fall = std::log(tilt.theta / e0);
    double growth = 1.0;  // the sum of widest^m/m! over the powers
    for (double factor = widest;; ++powers, factor *= widest / powers) {
        growth += factor;
        if (powers % 2 == 1 && widest < 0.5 * powers && factor < 0x1p-70) break;
        if (powers % 2 == 1 && powers * fall > 52.0) {
            tilted = true;
            break;
        }
        if (powers >= kMostPowers || !(growth < kMostGrowth)) return std::nullopt;
    }
    if (!(static_cast<double>(parts) * parts * powers <= kMostWork)) return std::nullopt;

    // g_j(f + i), i = 0 .. j - 1.
    std::vector<std::vector<double>> g(static_cast<std::size_t>(parts) + 1);
    for (int j = 0; j <= parts; ++j) g[static_cast<std::size_t>(j)].assign(static_cast<std::size_t>(j), 0.0);
    Moments moments(e0, f, rest, parts);
    for (int m = 0; m <= powers; ++m) {
        stop();
        stop.spend(2.0 * static_cast<double>(parts) * parts);
        moments.rise();
        if (payoff == Payoff::delta && m % 2 == 0) continue;
        const double factor = payoff == Payoff::delta ? 2.0 : 1.0;
        for (int j = 1; j <= parts; ++j) {
            std::vector<double>& into = g[static_cast<std::size_t>(j)];
            const double* term = moments.row(j) + (parts - j);
            for (std::size_t i = 0; i < into.size(); ++i) into[i] += factor * term[i];
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
    for (int j = 0; j <= parts; ++j) {
        const DoubleDouble w = log_weight(start_of(j), j);
        if (w.hi > unit.hi) unit = w;
    }
    // At least the whole of j, in units: Chernoff's bound, with the roundings of its exponent.
    const auto at_most = [&](std::int64_t j) {
        const auto n = static_cast<double>(j);
        const double log_choose = static_cast<double>(log_k - log_factorial(j) - log_factorial(k - j));
        const double even = n * tilt.log_even;
        const double rest_of = (copies - n) * tilt.log_atoms;
        const double slip = 1e-13 * (log_choose + std::fabs(even) + std::fabs(rest_of) + tilt.theta * top +
                                     std::fabs(unit.hi) + 1.0);
        return std::exp(log_choose + even + rest_of - tilt.theta * top + slip - static_cast<double>(unit));
    };

    double total = 0.0;
    double cut = 0.0;      // bound of what is left out
    double weights = 0.0;  // of the cells used
    double longest = 0.0;
    for (int j = 0; j <= parts; ++j) {
        stop();
        const std::vector<double>& row = g[static_cast<std::size_t>(j)];
        const double even = std::exp(log_sinhc * j);
        const auto kernel = [&](std::int64_t i, double weight) {
            const std::int64_t n = n0 - i;
            if (n >= j) return 0.0;
            if (n >= 0) {
                weights += weight;
                return row[static_cast<std::size_t>(n)];
            }
            const double x = e0 * (0.5 * j + (static_cast<double>(-n - 1) + rest));
            return even * (payoff == Payoff::delta ? 2.0 * std::sinh(x) : std::exp(x));
        };
        const std::int64_t from = start_of(j);
        const double log_first = static_cast<double>(log_weight(from, j) - unit);
        if (!(log_first > -600.0)) {  // its terms would leave the range of double
            cut += at_most(j);
            continue;
        }
        const double weight = std::exp(log_first);
        const std::int64_t free = k - j;
        double w = weight;
        double before = 0.0;
        double steps = 0.0;
        double part = 0.0;
        for (std::int64_t i = from; i <= free; ++i) {
            const double term = w * kernel(i, w);
            part += term;
            // Log-concave in i: once a ratio is below 1 all further ones are smaller still.
            if (i > from && term < 0.9 * before && term < kNegligible * (total + part)) {
                cut += term * 9.0;
                break;
            }
            before = term;
            w *= static_cast<double>(free - i) / static_cast<double>(i + 1);
            steps += 1.0;
        }
        w = weight;
        before = w * kernel(from, w);
        for (std::int64_t i = from - 1; i >= 0 && n0 - i < j; --i) {
            w *= static_cast<double>(i + 1) / static_cast<double>(free - i);
            const double term = w * kernel(i, w);
            part += term;
            if (term < 0.9 * before && term < kNegligible * (total + part)) {
                cut += term * 9.0;
                break;
            }
            before = term;
            steps += 1.0;
        }
        total += part;
        longest = std::max(longest, steps);
        stop.spend(30.0 * steps);
    }
    if (!(total > 1e-200 && total < 1e250)) return std::nullopt;  // terms may have left the range of double

    // More even parts than `parts`: a geometric series that starts at parts + 1.
    if (parts < k) {
        const double j = parts + 1.0;
        const double ratio = (copies - j) / (j + 1.0) * share * (1.0 + 1e-12);
        if (!(ratio < 0.9)) return std::nullopt;
        cut += at_most(parts + 1) / (1.0 - ratio);
    }
    // Powers beyond the last: by e0^m I_m(t) <= (e0/theta)^m E[e^{theta (V - t)}], summed over all i and j that is
    // (e0/theta)^m times Chernoff's bound of everything. Else each g_j is short by less than 2^-69 of itself.
    if (tilted) {
        const double larger = std::max(tilt.log_atoms, tilt.log_even);
        const double both = larger + std::log1p(std::exp(std::min(tilt.log_atoms, tilt.log_even) - larger));
        const double slip =
            1e-13 * (copies * (std::fabs(both) + 1.0) + tilt.theta * top + std::fabs(unit.hi) + powers * fall);
        const double all = copies * both - tilt.theta * top - (powers + 1.0) * fall - static_cast<double>(unit);
        cut += 2.0 * std::exp(all + slip) / (1.0 - e0 / tilt.theta);
    }
    // Cells that underflow: each is off by less than 2^-1073, which becomes at most widest^m/m! times that m
    // powers later, and there are (parts + 1)^2 of them in each.
    const double lost = 0x1p-1073 * growth * weights * (parts + 1.0) * (parts + 1.0) * (powers + 1.0) * 4.0;

    // exp((eps - k e0)/2) and the unit, whose digits before the point must not cost digits of the result.
    const DoubleDouble scale = unit + (DoubleDouble(epsilon) - two_prod(copies, e0)) * 0.5;
    const double log_total = std::log(total);
    const double levels = parts + powers + 3.0;
    const double error = kRound * (12.0 * levels + powers + 8.0 * longest + 2.0 * parts + 64.0) +
                         kLibm * (8.0 + 1.25 * parts * (log_sinhc + 1.0)) + kRound * (4.0 * copies * e0 + 600.0) +
                         0x1p-68;
    if (!(error < 1e-6 && cut < 1e-3 * total && lost < 1e-3 * total)) return std::nullopt;
    const double centre = static_cast<double>(scale + log_total);
    const double rounding = kLibm * (1.0 + std::fabs(log_total)) + 4.0 * kRound * std::fabs(centre);
    return LogBounds{centre - (error + lost / total) * 1.01 - rounding,
                     std::min(0.0, centre + (error + (cut + lost) / total) * 1.01 + rounding)};
}

bool in_domain(double epsilon0, double copies, double epsilon) {
    return copies >= 2.0 && copies <= kMostCopies && epsilon0 >= kLeastStep && epsilon0 <= kGreatestStep &&
           epsilon >= 0.0;
}

}  // namespace

bool laplace_sum_first(double epsilon0, double copies, double epsilon) {
    // On the contour the product of all atoms keeps the share (A/M)^k: ((1 + e^-e0)/2)^k at c = 0, and next to the
    // largest loss, where c is large, about e^{-k/2c} with 2 c^2 = k/(k e0 - eps). Above e^-20 (there e^-30)
    // contours were found to need thousands of nodes, or to end wider than 1e-9.
    const double gap = copies * epsilon0 - epsilon;
    return -copies * std::log(0.5 * (1.0 + std::exp(-epsilon0))) < 20.0 || 0.5 * gap * copies < 900.0;
}

std::optional<LogBounds> laplace_sum_delta(double epsilon0, double copies, double epsilon, StopCheck stop) {
    if (!in_domain(epsilon0, copies, epsilon)) return std::nullopt;
    return sum(epsilon0, copies, epsilon, Payoff::delta, stop);
}

std::optional<LogBounds> laplace_sum_above(double epsilon0, double copies, double epsilon, StopCheck stop) {
    if (!in_domain(epsilon0, copies, epsilon)) return std::nullopt;
    return sum(epsilon0, copies, epsilon, Payoff::tail, stop);
}

}  // namespace dpcore::detail
