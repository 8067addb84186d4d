#include "dpcore/count_range.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <stdexcept>
#include <vector>

#include "binomial_ratio.hpp"
#include "count_whole.hpp"
#include "double_double_tables.hpp"
#include "dpcore/binomial.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/validation.hpp"
#include "half_line.hpp"
#include "hypotenuse.hpp"

namespace dpcore {

namespace {

using detail::BinomialRatio;
using detail::HalfLineSum;
using detail::SignedPoints;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPointsPerDeviation = 1.6;  // as in count_delta.cpp
constexpr double kReach = 12.0;
constexpr double kFall = 52.0;
constexpr double kDeepest = 500.0;
constexpr double kMostPoints = 5e7;  // of the convolution; beyond, the smaller group is left out
constexpr double kUseful = 1e-6;     // errors above these ask for another method
constexpr double kSharp = 1e-9;
constexpr double kLeastBias = 1e-200;
constexpr double kLargeEpsilon = 400.0;  // e^kLargeEpsilon kLeastBias is not small any more

// One group of records, seen in one direction.
struct Group {
    double trials;
    double bias;     // as given
    DoubleDouble p;  // probability of what is counted in this direction
    DoubleDouble q;
    bool reflected;
    double mean(double tilt) const { return trials * p.hi / (p.hi + q.hi * std::exp(-tilt)); }
    double variance_at(double x) const { return (x + 1.0) * (trials - x + 1.0) / (trials + 2.0); }
};

Group make_group(double trials, double bias, bool reflected) {
    Group out{trials, bias, bias, two_sum(1.0, -bias), reflected};
    if (reflected) std::swap(out.p, out.q);
    return out;
}

// Probabilities at first, first + step, ..., in units of exp(log_unit); 0 outside the support.
struct Lattice {
    double first = 0.0;
    std::vector<double> value;
    double log_unit = 0.0;
};

Lattice lattice(const Group& group, double low, double high, double anchor, double step, StopCheck stop) {
    Lattice out;
    const auto count = static_cast<std::int64_t>(group.trials);
    const double below = std::floor((anchor - low) / step);
    out.first = anchor - below * step;
    const auto size = static_cast<std::size_t>(std::floor((high - out.first) / step)) + 1;
    out.value.assign(size, 0.0);
    const auto mirror = [&](double x) {
        return static_cast<std::int64_t>(group.reflected ? group.trials - x : x);
    };
    const double reach = std::max(anchor - low, high - anchor) + 1.0;
    if (step >= 4.0 && reach < BinomialRatio::kReach * std::min(anchor, group.trials - anchor) &&
        low >= BinomialRatio::kLeastCount && high <= group.trials - BinomialRatio::kLeastCount) {
        const DoubleDouble odds =
            (DoubleDouble(anchor) * group.q) / (DoubleDouble(group.trials - anchor) * group.p);
        const BinomialRatio ratio(group.trials, anchor, log(odds).hi, reach);
        out.log_unit = static_cast<double>(binomial_log_pmf(count, group.bias, mirror(anchor)));
        for (std::size_t i = 0; i < size; ++i)
            out.value[i] = std::exp(ratio.log_ratio((static_cast<double>(i) - below) * step));
        return out;
    }
    const double from = std::max(0.0, out.first);
    const double to = std::min(group.trials, out.first + step * static_cast<double>(size - 1));
    if (from > to) return out;
    const PmfWindow window = binomial_window(count, group.bias, std::min(mirror(from), mirror(to)),
                                             std::max(mirror(from), mirror(to)), 700.0, stop);
    out.log_unit = static_cast<double>(window.exponent) * tables::kLn2.hi;
    for (std::size_t i = 0; i < size; ++i) {
        const double x = out.first + step * static_cast<double>(i);
        if (x < 0.0 || x > group.trials) continue;
        const std::int64_t at = mirror(x) - window.first;
        if (at >= 0 && at < static_cast<std::int64_t>(window.value.size()))
            out.value[i] = window.value[static_cast<std::size_t>(at)];
    }
    return out;
}

bool is_constant(double trials, double bias, double epsilon) {
    return trials == 0.0 || bias == 0.0 || bias == 1.0 || (bias < kLeastBias && epsilon < kLargeEpsilon);
}

// Both groups have records and biases inside (0, 1); `wide` has the larger variance. False where the sum is too
// deep.
bool two_groups(double epsilon, const Group& wide, const Group& narrow, double beta, double widen, CountDelta& out,
                bool& cut, StopCheck stop) {
    // The first group with one trial more, as in count_delta.cpp.
    Group more = wide;
    more.trials += 1.0;
    const double shrink = std::exp(-epsilon);
    const DoubleDouble shrink_exact = [&] {
        const Scaled s = exp_scaled(-epsilon);
        const double scale = std::ldexp(1.0, static_cast<int>(std::max<std::int64_t>(s.exponent, -1000)));
        return DoubleDouble(s.mantissa.hi * scale, s.mantissa.lo * scale);
    }();
    const DoubleDouble kappa_wide =
        DoubleDouble(more.trials) / (DoubleDouble(1.0) + shrink_exact * (more.q / more.p));
    const double kappa_narrow = narrow.mean(epsilon);
    const double kappa = kappa_wide.hi + kappa_narrow;
    const double mean = more.mean(0.0) + narrow.mean(0.0);
    const auto summit = [](const Group& g, double from, double to) {
        return g.variance_at(std::clamp(0.5 * g.trials, std::min(from, to), std::max(from, to)));
    };
    // Variance of the sum near and left of kappa, at most: between the means without and with tilt.
    const double variance =
        summit(more, more.mean(-epsilon), kappa_wide.hi) + summit(narrow, narrow.mean(-epsilon), kappa_narrow);
    const double at_kappa = more.variance_at(kappa_wide.hi) + narrow.variance_at(kappa_narrow);
    const double precision = beta > 0.0 ? 1.0 / (beta * beta) : kInfinity;
    const double deviation = 1.0 / std::sqrt(precision + 1.0 / variance);
    const double reach = widen * (kReach * deviation + 4.0);
    const double total = more.trials + narrow.trials;
    const double low = std::max(0.0, std::floor(kappa - reach));
    const double to_mean = std::max(0.0, kappa - mean);
    const double z0 = beta > 0.0 ? to_mean * beta / at_kappa + 2.0 : 0.0;
    double high = total;
    double fall = widen * (kFall + 0.5 * z0 * z0 + 2.0 * std::log1p(z0));
    if (z0 * beta > reach + 2.0 * beta) {
        high = std::min(total, std::ceil(kappa + reach));
        fall = std::min(fall, epsilon * reach + 0.5 * reach * reach / at_kappa);
    } else {
        const double broad =
            summit(more, kappa_wide.hi, more.trials) + summit(narrow, kappa_narrow, narrow.trials);
        const double s = epsilon * broad;
        high = std::min(high,
                        std::ceil(kappa + 2.0 * fall * broad / (s + std::sqrt(s * s + 2.0 * fall * broad)) + 2.0));
    }
    const double rise = epsilon * (std::min(kappa - low, to_mean) + 2.0);
    if (epsilon > kDeepest || rise + fall > kDeepest) return false;

    // Ranges of both groups: where the other one may be, give or take its own reach.
    const double share = narrow.variance_at(kappa_narrow) / at_kappa;
    const double conditional =
        std::sqrt(std::min(narrow.variance_at(kappa_narrow), more.variance_at(kappa_wide.hi)) + 1.0);
    const double margin = widen * (kReach * conditional + 8.0);
    const double narrow_low = std::max(0.0, std::floor(kappa_narrow - share * (kappa - low) * 1.5 - margin));
    const double narrow_high =
        std::min(narrow.trials, std::ceil(kappa_narrow + share * (high - kappa) * 1.5 + margin));
    const auto least = [](const Group& g, double from, double to) {
        return std::min(g.variance_at(from), g.variance_at(to));
    };
    const double wide_low = std::max(0.0, low - narrow_high);
    const double wide_high = std::min(more.trials, high - narrow_low);
    const double v_narrow = least(narrow, narrow_low, narrow_high);
    const double v_wide = least(more, std::max(wide_low, 0.0), wide_high);
    const double inner = 1.0 / std::sqrt(1.0 / v_narrow + 1.0 / v_wide);
    const double outer = beta > 0.0 ? 1.0 / std::sqrt(precision + 1.0 / (v_narrow + v_wide)) : 0.0;
    double h = std::max(1.0, std::floor(outer / kPointsPerDeviation));
    const double g = std::min(h, std::max(1.0, std::floor(inner / kPointsPerDeviation)));
    h = g * std::floor(h / g);

    const double anchor_wide = std::clamp(std::floor(kappa_wide.hi + 0.5), 0.0, more.trials);
    const double anchor_narrow = std::clamp(std::floor(kappa_narrow + 0.5), 0.0, narrow.trials);
    const double wanted = (high - low) / h * (narrow_high - narrow_low) / g;
    if (wanted > kMostPoints) return false;
    const Lattice b = lattice(narrow, narrow_low, narrow_high, anchor_narrow, g, stop);
    // Points k = anchor_wide + anchor_narrow + h l; j runs over the lattice of the wide group.
    const double base = anchor_wide + anchor_narrow;
    const double from = base - h * std::floor((base - low) / h);
    const auto size = static_cast<std::size_t>(std::floor((high - from) / h)) + 1;
    const double a_low = from - (b.first + g * static_cast<double>(b.value.size() - 1));
    const double a_high = from + h * static_cast<double>(size - 1) - b.first;
    Lattice a;
    a.first = a_low;
    {
        const double inside_low = std::max(0.0, a_low);
        const double inside_high = std::min(more.trials, a_high);
        if (inside_low > inside_high) return false;
        a = lattice(more, inside_low, inside_high, anchor_wide, g, stop);
    }
    // (j - kappa_A) A(j), and |.|.
    const double shift = static_cast<double>(DoubleDouble(anchor_wide) - kappa_wide);
    std::vector<double> signed_a(a.value.size());
    for (std::size_t i = 0; i < a.value.size(); ++i)
        signed_a[i] = a.value[i] * ((a.first + g * static_cast<double>(i) - anchor_wide) + shift);

    // The law itself as well where the noise is wide: A(j) (M - j) / (M q) is that of the first group.
    const bool wide_noise = beta > detail::kWideNoise * detail::hypotenuse(std::sqrt(at_kappa), kappa - mean);
    std::vector<double> plain_a(wide_noise ? a.value.size() : 0);
    for (std::size_t i = 0; i < plain_a.size(); ++i)
        plain_a[i] = a.value[i] * std::max(0.0, more.trials - (a.first + g * static_cast<double>(i)));

    SignedPoints points;
    points.weight.resize(size);
    std::vector<double> magnitude(size);
    std::vector<double> probability(wide_noise ? size : 0);
    for (std::size_t l = 0; l < size; ++l) {
        if (l % 64 == 0) stop();
        // j = k - (b.first + g i): index in `a` is (k - b.first - a.first)/g - i.
        const double top = (from + h * static_cast<double>(l) - b.first - a.first) / g;
        const auto offset = static_cast<std::ptrdiff_t>(std::llround(top));
        const auto last_a = static_cast<std::ptrdiff_t>(a.value.size()) - 1;
        const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, offset - last_a);
        const std::ptrdiff_t end =
            std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(b.value.size()), offset + 1);
        double positive = 0.0;
        double negative = 0.0;
        for (std::ptrdiff_t i = begin; i < end; ++i) {
            const double term =
                b.value[static_cast<std::size_t>(i)] * signed_a[static_cast<std::size_t>(offset - i)];
            (term > 0.0 ? positive : negative) += term;
        }
        if (wide_noise) {
            double law = 0.0;
            for (std::ptrdiff_t i = begin; i < end; ++i)
                law += b.value[static_cast<std::size_t>(i)] * plain_a[static_cast<std::size_t>(offset - i)];
            probability[l] = h * g * law;
        }
        points.weight[l] = h * g * (positive + negative);
        magnitude[l] = h * g * (positive - negative);
    }
    if (!detail::set_offsets(points, h)) return false;
    const double log_factor = epsilon + std::log(more.p.hi + more.q.hi * shrink) -
                              (std::log(more.trials) + std::log(more.p.hi) + std::log(more.q.hi));
    points.log_unit = a.log_unit + b.log_unit + log_factor;
    points.open_below = from > 0.0;
    points.open_above = from + h * static_cast<double>(size - 1) < total;
    const HalfLineSum sum = beta > 0.0 ? detail::half_line_sum(points, beta, stop) : detail::positive_part(points);
    cut = sum.cut_below || sum.cut_above;
    double log_value = sum.log_value;
    double condition =
        detail::absolute_sum(points, magnitude, beta, sum.threshold) * std::exp(points.log_unit - sum.log_value);
    if (wide_noise) {
        const detail::PairedSum paired =
            detail::paired_sum(points.offset, probability, epsilon, beta, sum.threshold);
        if (paired.condition < condition) {
            condition = paired.condition;
            log_value =
                paired.log_value + (a.log_unit + b.log_unit) - (std::log(more.trials) + std::log(more.q.hi));
        }
    }
    // Logarithms that may cancel, as in count_delta.cpp.
    const double logarithms = epsilon + std::fabs(std::log(more.p.hi)) + std::fabs(std::log(more.q.hi)) +
                              std::log(more.trials) + std::fabs(a.log_unit) + std::fabs(b.log_unit);
    // Values of both laws within (12 + 4 ln) u or 18 u, their product and sum a few more: 64 u while ln stays
    // below 10 where it matters; the condition number multiplies it.
    out = {std::min(0.0, log_value),
           (300.0 + 100.0 * std::fabs(std::min(0.0, log_value)) + 64.0 * condition + 4.0 * logarithms) * 0x1p-53};
    return true;
}

CountDelta one_direction(double epsilon, double first, double first_bias, double second, double second_bias,
                         double noise_scale, bool reflected, StopCheck stop) {
    const Direction direction = reflected ? Direction::remove : Direction::add;
    const double v1 = first * first_bias * (1.0 - first_bias);
    const double v2 = second * second_bias * (1.0 - second_bias);
    if (v2 > v1) {
        std::swap(first, second);
        std::swap(first_bias, second_bias);
    }
    const auto single = [&] {
        return count_delta(epsilon, static_cast<std::int64_t>(first), first_bias, noise_scale, direction, stop);
    };
    if (is_constant(second, second_bias, epsilon)) return single();
    if (is_constant(first, first_bias, epsilon))
        return count_delta(epsilon, static_cast<std::int64_t>(second), second_bias, noise_scale, direction, stop);
    const double beta = detail::effective_noise(noise_scale, epsilon);
    CountDelta out{};
    // Group laws of biases next to 0 are beyond the lattices; the tilted ones are not.
    const bool rare = std::min(first_bias, second_bias) < kLeastBias;
    for (double widen = 1.0; widen < 50.0 && !rare; widen *= 1.5) {
        bool cut = false;
        if (!two_groups(epsilon, make_group(first, first_bias, reflected),
                        make_group(second, second_bias, reflected), beta, widen, out, cut, stop))
            break;
        if (cut) continue;
        if (out.relative_error <= kUseful) return out;
        break;  // the error may be large, or not a number where it underflows
    }
    CountDelta best{0.0, kInfinity};
    for (const auto method : {detail::plain_whole_law, detail::tilted_whole_law}) {
        if (!method(epsilon, first, first_bias, second, second_bias, noise_scale, reflected, out, stop)) continue;
        if (out.relative_error <= kSharp * (1.0 - 1e-3 * out.log_delta)) return out;
        if (out.log_delta_upper() < best.log_delta_upper()) best = out;
    }
    // An upper bound: records left out only raise delta.
    out = single();
    return out.log_delta_upper() < best.log_delta_upper() ? out : best;
}

CountDelta larger(const CountDelta& a, const CountDelta& b) { return a.log_delta >= b.log_delta ? a : b; }

double log_add(double a, double b) {
    if (a < b) std::swap(a, b);
    return b == -kInfinity ? a : a + std::log1p(std::exp(b - a));
}

// ln of an upper bound of Pr[Binomial(n, p) >= k], k > n p (Chernoff).
double log_binomial_tail(double n, double p, double k) {
    if (k > n) return -kInfinity;
    const double share = k / n;
    double divergence = share * std::log(share / p);
    if (share < 1.0) divergence += (1.0 - share) * std::log((1.0 - share) / (1.0 - p));
    return std::min(0.0, -n * divergence * (1.0 - 1e-12));
}

class VertexSearch {
public:
    VertexSearch(double epsilon, std::int64_t unknown, double low, double high, double noise_scale,
                 Direction direction, StopCheck stop)
        : epsilon_(epsilon),
          unknown_(unknown),
          low_(low),
          high_(high),
          noise_(noise_scale),
          direction_(direction),
          stop_(stop) {
        to_low_ =
            (high - low) / (1.0 - low);  // a record at `high` is a coin of bias `low` but with this probability
        to_high_ = (high - low) / high;  // and the reverse
    }

    RangeDelta run(std::int64_t budget) {
        try_vertex(0);
        try_vertex(unknown_);
        for (std::int64_t step = 1; step < unknown_ / 2; step = step * 2 + 1) {
            try_vertex(step);
            try_vertex(unknown_ - step);
        }
        climb();
        push(0, unknown_);
        bool proved = false;
        while (evaluations_ < budget) {
            const Stretch top = queue_.top();
            if (top.log_upper <= best_upper_) {
                proved = true;
                break;
            }
            queue_.pop();
            const std::int64_t middle = top.from + (top.to - top.from) / 2;
            push(top.from, middle);
            push(middle + 1, top.to);
            if (queue_.empty()) {
                proved = true;
                break;
            }
        }
        RangeDelta out{};
        out.log_lower = best_.log_delta;
        out.at_low = best_at_;
        out.evaluations = evaluations_;
        out.proved = proved;
        out.delta = best_;
        if (!proved) out.delta.log_delta = std::min(0.0, std::max(best_.log_delta, queue_.top().log_upper));
        // No vertex is above best_upper_; a worse one may hide in the error of another than the best.
        if (best_upper_ > out.delta.log_delta)
            out.delta.relative_error =
                std::max(out.delta.relative_error, std::expm1(best_upper_ - out.delta.log_delta));
        return out;
    }

private:
    struct Stretch {
        std::int64_t from;
        std::int64_t to;
        double log_upper;
        bool operator<(const Stretch& other) const { return log_upper < other.log_upper; }
    };

    CountDelta evaluate(std::int64_t at_low, std::int64_t at_high) {
        stop_();
        ++evaluations_;
        return count_delta_two(epsilon_, at_low, low_, at_high, high_, noise_, direction_, stop_);
    }

    double try_vertex(std::int64_t at_low) {
        const CountDelta value = evaluate(at_low, unknown_ - at_low);
        if (value.log_delta > best_.log_delta || best_at_ < 0) {
            best_ = value;
            best_at_ = at_low;
        }
        best_upper_ = std::max(best_upper_, value.log_delta_upper());
        return value.log_delta_upper();
    }

    // From the best vertex tried, uphill with halving steps.
    void climb() {
        for (std::int64_t step = std::max<std::int64_t>(1, unknown_ / 8); step > 0;) {
            const std::int64_t at = best_at_;
            if (at - step >= 0) try_vertex(at - step);
            if (at + step <= unknown_) try_vertex(at + step);
            if (best_at_ == at) step /= 2;
        }
    }

    void push(std::int64_t from, std::int64_t to) {
        if (from > to) return;
        const double upper = from == to ? try_vertex(from) : bound(from, to);
        if (from < to) queue_.push({from, to, upper});
    }

    // Upper bound over from <= j <= to. Records that are free to be at either end are kept as coins of one bias
    // with the probability that they are one, and otherwise left out.
    double bound(std::int64_t from, std::int64_t to) {
        const std::int64_t at_high = unknown_ - to;
        const std::int64_t free = to - from;
        const double without = evaluate(from, at_high).log_delta_upper();
        const bool as_low = to_low_ <= to_high_;
        const double lost = as_low ? to_low_ : to_high_;
        if (!(lost < 0.75) || without <= best_upper_) return without;
        const auto n = static_cast<double>(free);
        const auto kept = [&](double gone) {
            const auto stay = static_cast<std::int64_t>(n - gone);
            return (as_low ? evaluate(from + stay, at_high) : evaluate(from, at_high + stay)).log_delta_upper();
        };
        const double spread = std::sqrt(n * lost * (1.0 - lost));
        const double usual = std::min(n, std::ceil(n * lost + 2.5 * spread));
        const double rare = std::min(n, std::ceil(n * lost + 6.0 * spread) + 1.0);
        // E[delta(lost)] <= delta(usual) + Pr[lost > usual] delta(rare) + Pr[lost > rare] delta(all), since delta
        // grows with what is lost.
        double value = kept(usual);
        if (usual < n) {
            const double beyond = log_binomial_tail(n, lost, usual + 1.0);
            // delta(usual) Pr[<= usual] <= delta(usual); the rest is charged in full.
            value = log_add(value, beyond + (rare < n ? kept(rare) : without));
            if (rare < n) value = log_add(value, log_binomial_tail(n, lost, rare + 1.0) + without);
        }
        return std::min(without, value);
    }

    double epsilon_;
    std::int64_t unknown_;
    double low_;
    double high_;
    double noise_;
    Direction direction_;
    StopCheck stop_;
    double to_low_ = 0.0;
    double to_high_ = 0.0;
    CountDelta best_{-kInfinity, 0.0};
    double best_upper_ = -kInfinity;
    std::int64_t best_at_ = -1;
    std::int64_t evaluations_ = 0;
    std::priority_queue<Stretch> queue_;
};

}  // namespace

CountDelta count_delta_two(double epsilon, std::int64_t first, double first_bias, std::int64_t second,
                           double second_bias, double noise_scale, Direction direction, StopCheck stop) {
    constexpr std::int64_t kMostRecords = (std::int64_t{1} << 52) - 1;
    need_whole(first, 0, kMostRecords, "records of a group");
    need_whole(second, 0, kMostRecords, "records of a group");
    need_probability(first_bias, "bias");
    need_probability(second_bias, "bias");
    need_count_epsilon(epsilon);
    need_non_negative(noise_scale, "noise_scale");
    if (first_bias == second_bias)
        return count_delta(epsilon, first + second, first_bias, noise_scale, direction, stop);
    const auto in = [&](bool reflected) {
        return one_direction(epsilon, static_cast<double>(first), first_bias, static_cast<double>(second),
                             second_bias, noise_scale, reflected, stop);
    };
    if (direction == Direction::both) return larger(in(false), in(true));
    return in(direction == Direction::remove);
}

RangeDelta count_delta_range(double epsilon, std::int64_t unknown, double low, double high, double noise_scale,
                             Direction direction, std::int64_t budget, StopCheck stop) {
    need_probability(low, "low");
    if (!(high >= low && high <= 1.0)) refuse("high", "a number in [low, 1]", high);
    if (low == high || unknown == 0 || low == 0.0 || high == 1.0) {
        // An end at 0 or 1 makes a vertex of constants: as bad as no unknown record at all.
        const double bias = low == high ? low : low == 0.0 ? 0.0 : 1.0;
        const CountDelta value = count_delta(epsilon, unknown, bias, noise_scale, direction, stop);
        return {value, value.log_delta, low == 0.0 ? unknown : 0, 1, true};
    }
    return VertexSearch(epsilon, unknown, low, high, noise_scale, direction, stop).run(budget);
}

}  // namespace dpcore
