#include "laplace_mixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "chernoff.hpp"
#include "dpcore/certified.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/factorial.hpp"
#include "exact_sum.hpp"
#include "laplace_sum.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMostStates = 3e5;
constexpr std::size_t kMostKinds = 24;
constexpr double kMostPositions = 1e5;
constexpr double kMostCopies = 1e6;  // of equal releases, as in laplace_sum.cpp
constexpr int kMostPowers = 2400;
constexpr double kMostGrowth = 1e260;
constexpr double kMostWork = 1e8;  // a fifth of a second
constexpr double kLeastStep = 1e-9;
constexpr double kGreatestStep = 600.0;
// Weights below this share of the largest are left to the bound.
constexpr double kLeastWeight = 1e-290;

bool is_laplace(const Term& t) { return t.law->kind() == LawKind::laplace; }

// (s, a) of one kind, s rising, so that what a state is made of comes before it.
struct Pair {
    std::int32_t even, upper;
};

struct Kind {
    double epsilon = 0.0;
    std::int32_t copies = 0;
    std::vector<Pair> pairs;
    std::vector<double> weight;  // relative to the largest, exp(unit)
    DoubleDouble unit;
    double weight_err = 0.0;
    std::size_t stride = 1;           // in the list of states
    std::size_t position_stride = 1;  // in the list of positions
    std::size_t at(std::int32_t even, std::int32_t upper) const {
        // rows of copies + 1 - s entries
        const auto s = static_cast<std::size_t>(even);
        const auto k = static_cast<std::size_t>(copies);
        return s * (k + 1) - s * (s > 0 ? s - 1 : 0) / 2 + static_cast<std::size_t>(upper);
    }
};

Kind kind_of(const Term& term) {
    Kind out;
    out.epsilon = term.law->parameters()[0];
    out.copies = static_cast<std::int32_t>(term.copies);
    const bool laplace = is_laplace(term);
    const std::int64_t k = out.copies;
    const DoubleDouble log_two = log(DoubleDouble(2.0));
    const DoubleDouble log_even = log(DoubleDouble(out.epsilon)) - log_two;
    // Randomised response, with what infinite losses leave of it.
    const double log_keep =
        laplace ? 0.0 : std::log1p(-term.law->parameters()[1]) - std::log1p(std::exp(-out.epsilon));
    const DoubleDouble log_atom = laplace ? -log_two : DoubleDouble(log_keep);
    std::vector<DoubleDouble> logs;
    out.unit = DoubleDouble(-1e300);
    for (std::int64_t s = 0; s <= (laplace ? k : 0); ++s) {
        for (std::int64_t a = 0; a <= k - s; ++a) {
            out.pairs.push_back({static_cast<std::int32_t>(s), static_cast<std::int32_t>(a)});
            const DoubleDouble counts =
                log_factorial(k) - log_factorial(s) - log_factorial(a) - log_factorial(k - s - a);
            logs.push_back(counts + log_even * static_cast<double>(s) + log_atom * static_cast<double>(k - s));
            if (logs.back().hi > out.unit.hi) out.unit = logs.back();
        }
    }
    for (const DoubleDouble& l : logs) {
        const auto below = static_cast<double>(l - out.unit);
        out.weight.push_back(below > -675.0 ? std::exp(below) : 0.0);
    }
    // The exponent's rounding where it is above -675, the exponential's own, and that of ln p.
    out.weight_err = 700.0 * kRound + kLibm + (laplace ? 0.0 : static_cast<double>(k) * 2.0 * kLibm * -log_keep);
    return out;
}

struct State {
    double near;                // |t| for t < 0, else t/W
    double far;                 // -1 for t < 0, else 1 - t/W
    double even;                // n
    std::uint32_t first, last;  // its links
    std::uint32_t index;
};
struct Link {
    std::uint32_t raised, kept;  // (s_i - 1, a_i + 1) and (s_i - 1, a_i)
    double copies;               // s_i
};

enum class Payoff : std::uint8_t { delta, tail };

class Mixture {
public:
    Mixture(const Composition& composition, double epsilon, StopCheck stop) : stop_(stop), epsilon_(epsilon) {
        for (const Term& t : composition.terms) kinds_.push_back(kind_of(t));
        std::size_t states = 1;
        std::size_t positions = 1;
        for (Kind& k : kinds_) {
            k.stride = states;
            k.position_stride = positions;
            states *= k.pairs.size();
            positions *= static_cast<std::size_t>(k.copies) + 1;
        }
        size_ = states;
        place(positions);
        link();
    }

    std::optional<LogBounds> sum(const Composition& composition, Payoff payoff) const;

private:
    void place(std::size_t positions);
    void link();

    StopCheck stop_;
    double epsilon_;
    std::size_t size_ = 0;
    std::vector<Kind> kinds_;
    std::vector<double> places_;  // t of every combination of upper atoms
    std::vector<State> states_;   // those with t < W, in order
    std::vector<Link> links_;
};

// t of every combination of upper atoms, as sums without error.
void Mixture::place(std::size_t positions) {
    places_.resize(positions);
    std::vector<std::int32_t> upper(kinds_.size(), 0);
    for (std::size_t p = 0; p < positions; ++p) {
        ExactSum t;
        for (std::size_t i = 0; i < kinds_.size(); ++i)
            t.add_product(static_cast<double>(kinds_[i].copies - 2 * upper[i]), kinds_[i].epsilon);
        t.add(epsilon_);
        places_[p] = t.value();
        for (std::size_t i = 0; i < kinds_.size() && ++upper[i] > kinds_[i].copies; ++i) upper[i] = 0;
    }
}

void Mixture::link() {
    std::vector<std::uint32_t> digit(kinds_.size(), 0);
    states_.reserve(size_);
    for (std::size_t index = 0; index < size_; ++index) {
        std::size_t bottom = 0;
        std::size_t top = 0;  // the position with all even parts up: W - t is minus its t
        double width = 0.0;
        double even = 0.0;
        for (std::size_t i = 0; i < kinds_.size(); ++i) {
            const Pair& pair = kinds_[i].pairs[digit[i]];
            bottom += static_cast<std::size_t>(pair.upper) * kinds_[i].position_stride;
            top += static_cast<std::size_t>(pair.upper + pair.even) * kinds_[i].position_stride;
            width += 2.0 * kinds_[i].epsilon * pair.even;
            even += pair.even;
        }
        const double t = places_[bottom];
        const double rest = -places_[top];
        if (t < 0.0 || rest > 0.0) {
            State state = {};
            state.near = t < 0.0 ? -t : t / width;
            state.far = t < 0.0 ? -1.0 : rest / width;
            state.even = even;
            state.index = static_cast<std::uint32_t>(index);
            state.first = static_cast<std::uint32_t>(links_.size());
            for (std::size_t i = 0; i < kinds_.size(); ++i) {
                const Kind& kind = kinds_[i];
                const Pair& pair = kind.pairs[digit[i]];
                if (pair.even == 0) continue;
                const std::size_t base = index - digit[i] * kind.stride;
                links_.push_back(
                    {static_cast<std::uint32_t>(base + kind.at(pair.even - 1, pair.upper + 1) * kind.stride),
                     static_cast<std::uint32_t>(base + kind.at(pair.even - 1, pair.upper) * kind.stride),
                     static_cast<double>(pair.even)});
            }
            state.last = static_cast<std::uint32_t>(links_.size());
            states_.push_back(state);
        }
        for (std::size_t i = 0; i < kinds_.size() && ++digit[i] == kinds_[i].pairs.size(); ++i) digit[i] = 0;
    }
}

std::optional<LogBounds> Mixture::sum(const Composition& composition, Payoff payoff) const {
    if (states_.empty()) return LogBounds{-kInf, -kInf};                 // no loss exceeds epsilon
    const double widest = -0.5 * places_.back() * (1.0 + 4.0 * kRound);  // the largest (V - t)/2

    // The last power: 2^-m I_m is at most widest^m/m! times the first ones, and at most (1 + 2c)^-m times
    // Chernoff's bound of everything, because x^m/m! <= e^{theta x}/theta^m with theta = c + 1/2.
    const Chernoff bound = chernoff(composition, epsilon_, 1);
    const double fall = std::log1p(2.0 * bound.c);
    const bool precise = bound.c * composition.max_loss < 1e9;  // its exponent is known well enough
    int powers = 1;
    bool tilted = false;
    double growth = 1.0;
    for (double factor = widest;; ++powers, factor *= widest / powers) {
        growth += factor;
        if (powers % 2 == 1 && widest < 0.5 * powers && factor < 0x1p-70) break;
        if (powers % 2 == 1 && powers * fall > 52.0 && precise) {
            tilted = true;
            break;
        }
        if (powers >= kMostPowers || !(growth < kMostGrowth)) return std::nullopt;
    }
    const double steps = static_cast<double>(links_.size()) + 2.0 * static_cast<double>(states_.size());
    if (!(steps * powers <= kMostWork)) return std::nullopt;

    std::vector<double> cells(size_, 0.0);
    std::vector<double> values(states_.size(), 0.0);
    for (int m = 0; m <= powers; ++m) {
        stop_();
        stop_.spend(3.0 * steps);
        const bool counts = payoff == Payoff::tail || m % 2 == 1;
        for (std::size_t i = 0; i < states_.size(); ++i) {
            const State& s = states_[i];
            double sum = 0.0;
            if (s.far < 0.0) {
                for (std::uint32_t l = s.first; l < s.last; ++l) sum += links_[l].copies * cells[links_[l].raised];
                if (m > 0) sum += 0.5 * s.near * cells[s.index];
                sum = m == 0 ? 1.0 : sum / (s.even + m);
            } else {
                for (std::uint32_t l = s.first; l < s.last; ++l)
                    sum += links_[l].copies * (s.far * cells[links_[l].raised] + s.near * cells[links_[l].kept]);
                sum /= s.even + m;
            }
            cells[s.index] = sum;
            if (counts) values[i] += sum;
        }
    }

    double total = 0.0;
    double block = 0.0;
    double cut = 0.0;
    double weights = 0.0;
    std::size_t in_block = 0;
    for (std::size_t i = 0; i < states_.size(); ++i) {
        double weight = 1.0;
        std::size_t index = states_[i].index;
        for (const Kind& k : kinds_) {
            weight *= k.weight[index % k.pairs.size()];
            index /= k.pairs.size();
        }
        if (weight < kLeastWeight) {
            cut += kLeastWeight * values[i] * 1.001;
            continue;
        }
        block += weight * values[i];
        weights += weight;
        if (++in_block == 512) {
            total += block;
            block = 0.0;
            in_block = 0;
        }
    }
    total += block;
    if (!(total > 1e-200 && total < 1e280)) return std::nullopt;
    const double factor = payoff == Payoff::delta ? 2.0 : 1.0;
    total *= factor;
    cut *= factor;

    // The exponents: exp((eps - R)/2) and the units of the weights.
    DoubleDouble scale = DoubleDouble(epsilon_) * 0.5;
    double size = std::fabs(epsilon_);
    double weight_err = 0.0;
    for (const Kind& k : kinds_) {
        const DoubleDouble half = two_prod(static_cast<double>(k.copies), k.epsilon) * 0.5;
        scale = scale + (k.unit - half);
        size += half.hi + std::fabs(k.unit.hi);
        weight_err += k.weight_err + kRound;
    }
    if (tilted) {
        const double all = bound.log_bound - (powers + 1.0) * fall - static_cast<double>(scale);
        const double slip = 1e-14 * (powers * fall + size + 1.0);
        cut += factor * std::exp(all + slip) / (1.0 - 1.0 / (1.0 + 2.0 * bound.c));
    }
    // As in laplace_sum.cpp: what an underflowing cell is off by grows by at most widest^m/m!.
    const double lost =
        0x1p-1073 * growth * weights * factor * static_cast<double>(states_.size()) * (powers + 1.0) * 4.0;
    double copies = 0.0;
    for (const Kind& k : kinds_) copies += k.copies;
    const double rounds = 2.0 * static_cast<double>(kinds_.size()) + 12.0;  // of one step in s or m
    const double error = kRound * (rounds * (copies + powers + 1.0) + powers + 512.0 +
                                   static_cast<double>(states_.size()) / 512.0 + 16.0) +
                         weight_err + 0x1p-68;
    if (!(error < 1e-6 && cut < 1e-3 * total && lost < 1e-3 * total)) return std::nullopt;
    const double log_total = std::log(total);
    const double centre = static_cast<double>(scale + log_total);
    const double rounding =
        kLibm * (1.0 + std::fabs(log_total)) + 4.0 * kRound * std::fabs(centre) + 0x1p-90 * size;
    return LogBounds{centre - (error + lost / total) * 1.01 - rounding,
                     std::min(0.0, centre + (error + (cut + lost) / total) * 1.01 + rounding)};
}

std::optional<LogBounds> with_infinite(const Composition& composition, std::optional<LogBounds> finite) {
    if (!finite || composition.infinite_mass_upper() == 0.0) return finite;
    return add_infinite_mass(composition, *finite);
}

bool equal_releases(const Composition& composition) { return composition.terms.size() == 1; }

}  // namespace

bool has_laplace_sum(const Composition& composition) {
    if (composition.terms.empty() || composition.terms.size() > kMostKinds) return false;
    if (equal_releases(composition))
        return is_laplace(composition.terms[0]) && composition.terms[0].copies >= 2.0 &&
               composition.terms[0].copies <= kMostCopies;
    double states = 1.0;
    double positions = 1.0;
    bool some = false;
    for (const Term& t : composition.terms) {
        const LawKind kind = t.law->kind();
        if (kind != LawKind::laplace && kind != LawKind::two_point) return false;
        const std::vector<double> p = t.law->parameters();
        if (kind == LawKind::two_point && !(p[1] < 1.0)) return false;
        if (!(p[0] >= kLeastStep && p[0] <= kGreatestStep)) return false;
        const bool laplace = kind == LawKind::laplace;
        some = some || laplace;
        states *= laplace ? 0.5 * (t.copies + 1.0) * (t.copies + 2.0) : t.copies + 1.0;
        positions *= t.copies + 1.0;
    }
    return some && states <= kMostStates && positions <= kMostPositions;
}

std::optional<LogBounds> laplace_mixture_delta(const Composition& composition, double epsilon, StopCheck stop) {
    if (equal_releases(composition))
        return laplace_sum_delta(composition.terms[0].law->parameters()[0], composition.terms[0].copies, epsilon,
                                 stop);
    return with_infinite(composition, Mixture(composition, epsilon, stop).sum(composition, Payoff::delta));
}

std::optional<LogBounds> laplace_mixture_above(const Composition& composition, double epsilon, StopCheck stop) {
    if (equal_releases(composition))
        return laplace_sum_above(composition.terms[0].law->parameters()[0], composition.terms[0].copies, epsilon,
                                 stop);
    return with_infinite(composition, Mixture(composition, epsilon, stop).sum(composition, Payoff::tail));
}

bool laplace_mixture_first(const Composition& composition, double epsilon) {
    if (equal_releases(composition))
        return laplace_sum_first(composition.terms[0].law->parameters()[0], composition.terms[0].copies, epsilon);
    // The share of the product's atoms on the contour, as in laplace_sum_first.
    double copies = 0.0;
    double share = 0.0;
    for (const Term& t : composition.terms) {
        if (!is_laplace(t)) continue;
        copies += t.copies;
        share -= t.copies * std::log(0.5 * (1.0 + std::exp(-t.law->parameters()[0])));
    }
    return share < 20.0 || 0.5 * (composition.max_loss - epsilon) * copies < 900.0;
}

}  // namespace dpcore::detail
