#include "joint_law.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "clones.hpp"
#include "dpcore/binomial.hpp"
#include "dpcore/exp_block.hpp"
#include "dpcore/normal.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 0x1p-53;
constexpr double kDepth = 70.0;           // e^-70 = 2^-101 of the largest term; 1e7 of them stay below 2^-77
constexpr double kGrownDepth = 45.0;      // enough for bounds that need one digit
constexpr double kMostPoints = 2e7;       // 320 MB
constexpr double kNothing = -1e300;       // logarithm of a weight of 0: no infinities in differences
constexpr double kSumError = 34.0;        // u: blocks of 32 (half_line.cpp)
constexpr double kExpError = 8.0;         // u: exp_block and one product
constexpr double kOffsetError = 0x1p-97;  // of kappa or above, whichever the offset is taken from (double-double)

// Blocks of 32 added up plainly, their sums with compensation.
template <class Term>
double blocked(std::ptrdiff_t count, Term term) {
    DoubleDouble total;
    for (std::ptrdiff_t i = 0; i < count;) {
        double block = 0.0;
        for (const std::ptrdiff_t end = std::min(count, i + 32); i < end; ++i) block += term(i);
        const DoubleDouble next = two_sum(total.hi, block);
        total = {next.hi, total.lo + next.lo};
    }
    return total.hi + total.lo;
}

// ln of Chernoff's bound of Pr[X <= k] for k < m p, and of Pr[X >= k] for k > m p; 1e-3 is far above the rounding
// error of two terms that cancel to more than 1.
double log_chernoff(double m, double p, double q, double k) {
    const double over = p <= q ? k - m * p : m * q - (m - k);
    double out = 0.0;
    if (k > 0.0) out += k * std::log1p(over / (m * p));
    if (k < m) out += (m - k) * std::log1p(-over / (m * q));
    return std::min(0.0, -out + 1e-3 + 1e-12 * std::fabs(out));
}

}  // namespace

JointLaw::JointLaw(const Problem& problem, double beta, double scale, double depth, StopCheck stop)
    : beta_(beta), scale_(scale), half_precision_(0.5 / (beta * beta)), slope_(1.0 / scale) {
    const double m = problem.trials - 1.0;
    const double p = problem.p.hi;
    const double q = problem.q.hi;
    // Integers low and high with Pr[X < low] and Pr[X > high] below the depth; sums of |c_k| outside are at most
    // (1 + e^eps) Pr[X <= low - 1] and (1 + e^eps) Pr[X >= high] for k in [low, high].
    const auto edge = [&](double inside, double outside) {  // outside fails the bound's goal or is past the end
        while (std::fabs(outside - inside) > 1.0) {
            const double middle = std::floor(0.5 * (inside + outside));
            (log_chernoff(m, p, q, middle) < -depth ? outside : inside) = middle;
        }
        return outside;
    };
    double low = 0.0;
    double high = problem.trials;
    const double centre = std::clamp(std::floor(m * p), 0.0, m);
    const double log_both = problem.epsilon + std::log1p(std::exp(-problem.epsilon));
    if (m > 0.0) {
        const double below = edge(centre, -1.0);
        if (below >= 0.0) {
            low = below + 1.0;
            log_left_out_ = log_both + log_chernoff(m, p, q, below);
        }
        const double over = edge(std::min(m, centre + 1.0), m + 1.0);
        if (over <= m) {
            high = over;
            const double right = log_both + log_chernoff(m, p, q, over);
            const double top = std::max(log_left_out_, right);
            log_left_out_ = top + std::log(std::exp(log_left_out_ - top) + std::exp(right - top)) + 1e-9;
        }
    }
    if (!(high - low < kMostPoints)) throw std::length_error("the law of the count has too many values");

    const auto log_pmf = [&](double k) {
        return binomial_log_pmf(problem.count(), problem.bias,
                                static_cast<std::int64_t>(problem.reflected ? problem.trials - k : k));
    };
    const double reference = std::clamp(std::floor(problem.kappa.hi), low, high);
    const DoubleDouble unit = log_pmf(reference);
    const auto count = static_cast<std::size_t>(high - low) + 1;
    log_weight_.reserve(count);
    slip_.reserve(count);
    const double loose = kOffsetError * std::min(problem.kappa.hi, std::max(problem.above.hi, 0.0));
    for (std::size_t i = 0; i < count; ++i) {
        const double k = low + static_cast<double>(i);
        const double offset = problem.offset(k);
        const bool top = k == problem.trials;  // its offset may be below the range of double; its logarithm is not
        const double log_offset = top ? problem.log_above : std::log(std::fabs(offset));
        if (!top && !(offset > 0.0)) pivot_ = static_cast<std::ptrdiff_t>(i) + 1;
        const double log_ratio = static_cast<double>(log_pmf(k) - unit);
        const bool zero = !top && offset == 0.0;
        log_weight_.push_back(zero ? kNothing : log_ratio + log_offset);
        slip_.push_back(zero ? 0.0
                             : kRounding * (8.0 + 2.0 * std::fabs(log_ratio) + 4.0 * std::fabs(log_offset) +
                                            16.0 * std::fabs(log_ratio + log_offset)) +
                                   (top ? 0.0 : loose / std::fabs(offset)));
        if (i % 4096 == 0) stop();
    }
    // ln C and the unit.
    log_unit_ = static_cast<double>(unit + problem.log_factor);
    unit_error_ =
        kRounding *
        (4.0 * (problem.epsilon + std::fabs(std::log(p)) + std::fabs(std::log(q)) + std::log(problem.trials)) +
         2.0 * std::fabs(log_unit_) + 16.0);
}

double JointLaw::exponent(const Query& query, std::ptrdiff_t i) const {
    const double at = x(i);
    double out = log_weight_[static_cast<std::size_t>(i)];
    if (query.from == query.to) {
        const double from = origin(query.from);
        out += (at - from) * (2.0 * query.from - (at + from)) * half_precision_;
    } else {
        const double distance = at < query.from ? query.from - at : (at > query.to ? at - query.to : 0.0);
        out -= distance * distance * half_precision_;
    }
    if (query.tilted) out -= std::fabs(static_cast<double>(i - query.anchor)) * slope_;
    return out;
}

void JointLaw::exponents(double z, double* out) const {
    const double from = origin(z);
    for (std::ptrdiff_t i = 0; i < size(); ++i) {
        const double at = x(i);
        out[i] =
            log_weight_[static_cast<std::size_t>(i)] + (at - from) * (2.0 * z - (at + from)) * half_precision_;
    }
}

namespace {

// The window of a concave function on first..last that holds all values within `depth` of the largest.
template <class Function>
void find_window(Function value, std::ptrdiff_t& first, std::ptrdiff_t& last, double depth, double& top) {
    std::ptrdiff_t low = first;
    std::ptrdiff_t high = last;
    while (low < high) {
        const std::ptrdiff_t middle = low + (high - low) / 2;
        if (value(middle + 1) > value(middle))
            low = middle + 1;
        else
            high = middle;
    }
    top = value(low);
    const double goal = top - depth;
    const auto edge = [&](std::ptrdiff_t inside, std::ptrdiff_t end) {
        if (value(end) >= goal) return end;
        std::ptrdiff_t outside = end;
        while (inside - outside > 1 || outside - inside > 1) {
            const std::ptrdiff_t middle = outside + (inside - outside) / 2;
            (value(middle) >= goal ? inside : outside) = middle;
        }
        return outside;  // one too many, so that its value bounds all beyond
    };
    first = edge(low, first);
    last = edge(low, last);
}

constexpr std::ptrdiff_t kBlock = 32;

// What exponent() needs to know of consecutive points, of which the first is x.
struct Line {
    double x, origin, twice, precision, from_anchor, tilt, top;
};

// exponent() less its top, at most 700 below. A 32-bit index, which vector instructions convert (kMostPoints).
DPCORE_CLONES
void fill_exponents(const Line& line, const double* weight, double* out, int count) {
    const Line at = line;
    for (int i = 0; i < count; ++i) {
        const double step = i;
        const double x = at.x + step;
        const double e = weight[i] + (x - at.origin) * (at.twice - (x + at.origin)) * at.precision -
                         std::fabs(at.from_anchor + step) * at.tilt - at.top;
        out[i] = e > -700.0 ? e : -700.0;
    }
}

// Sums of up to kBlock values, of their errors, and of the values times x and x^2, in four lanes each. The parts
// of an exponent besides the weight are what is left of it when the weight is taken off.
DPCORE_CLONES
void add_block(const double* value, const double* exponent, const double* slip, double x, double top,
               std::size_t count, double* out) {
    double lane[16] = {};
    const auto add = [&](std::size_t i, std::size_t k) {
        const double at = x + static_cast<double>(i);
        const double moment = value[i] * at;
        lane[k] += value[i];
        lane[4 + k] += value[i] * (slip[i] + kRounding * (8.0 * std::fabs(exponent[i] + top) - exponent[i]));
        lane[8 + k] += moment;
        lane[12 + k] += moment * at;
    };
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (std::size_t k = 0; k < 4; ++k) add(i + k, k);
    for (; i < count; ++i) add(i, 0);
    for (std::size_t k = 0; k < 4; ++k)
        out[k] = (lane[4 * k] + lane[4 * k + 1]) + (lane[4 * k + 2] + lane[4 * k + 3]);
}

}  // namespace

Part JointLaw::part(const Query& query) const {
    Part out;
    if (query.first > query.last) return out;
    std::ptrdiff_t first = query.first;
    std::ptrdiff_t last = query.last;
    find_window([&](std::ptrdiff_t i) { return exponent(query, i); }, first, last, kDepth, out.top);
    if (!(out.top > kNothing / 2)) return Part{};
    const std::ptrdiff_t count = last - first + 1;
    exponent_.resize(static_cast<std::size_t>(count));
    value_.resize(static_cast<std::size_t>(count));
    const double* const weight = log_weight_.data() + first;
    const double* const slip = slip_.data() + first;
    const double from_first = x(first);
    if (query.from == query.to) {
        Line line{};
        line.x = from_first;
        line.origin = origin(query.from);
        line.twice = 2.0 * query.from;
        line.precision = half_precision_;
        line.from_anchor = static_cast<double>(first - query.anchor);
        line.tilt = query.tilted ? slope_ : 0.0;
        line.top = out.top;
        fill_exponents(line, weight, exponent_.data(), static_cast<int>(count));
    } else {
        for (std::ptrdiff_t i = 0; i < count; ++i)
            exponent_[static_cast<std::size_t>(i)] = std::max(exponent(query, first + i) - out.top, -700.0);
    }
    exp_block(exponent_.data(), value_.data(), static_cast<std::size_t>(count));
    // Blocks of 32 added up plainly, their sums with compensation.
    DoubleDouble total;
    for (std::ptrdiff_t i = 0; i < count; i += kBlock) {
        const auto at = static_cast<std::size_t>(i);
        double sums[4];
        add_block(value_.data() + at, exponent_.data() + at, slip + at, from_first + static_cast<double>(i),
                  out.top, static_cast<std::size_t>(std::min(kBlock, count - i)), sums);
        const DoubleDouble next = two_sum(total.hi, sums[0]);
        total = {next.hi, total.lo + next.lo};
        out.error += sums[1];
        out.moment += sums[2];
        out.second += sums[3];
    }
    out.sum = total.hi + total.lo;
    const double beyond = static_cast<double>((first - query.first) + (query.last - last)) * std::exp(-kDepth);
    out.error = out.error * 1.0001 + (kSumError + kExpError) * kRounding * out.sum + beyond;
    return out;
}

Part JointLaw::grown(const Query& query, double centre, double rate, bool second_order) const {
    Part out;
    if (query.first > query.last) return out;
    std::ptrdiff_t first = query.first;
    std::ptrdiff_t last = query.last;
    find_window([&](std::ptrdiff_t i) { return exponent(query, i); }, first, last, kGrownDepth, out.top);
    if (!(out.top > kNothing / 2)) return Part{};
    const auto raised = [&](std::ptrdiff_t i) {
        return exponent(query, i) - out.top + rate * std::fabs(x(i) - centre);
    };
    // Outside the window the raised terms are log-concave too: once they are small and fall, all beyond are.
    const auto extend = [&](std::ptrdiff_t at, std::ptrdiff_t end, std::ptrdiff_t step) {
        for (; at != end; at += step) {
            const double here = raised(at);
            const bool outward = (x(at) - centre) * static_cast<double>(step) >= 0.0;
            if (outward && here < -kGrownDepth && raised(at + step) < here) break;
        }
        return at;
    };
    first = extend(first, query.first, -1);
    last = extend(last, query.last, 1);
    const double beyond =
        static_cast<double>((first - query.first) + (query.last - last)) * std::exp(-kGrownDepth) * (1.0 + 1e-9);
    const std::ptrdiff_t count = last - first + 1;
    exponent_.resize(static_cast<std::size_t>(count));
    value_.resize(static_cast<std::size_t>(count));
    for (std::ptrdiff_t i = 0; i < count; ++i) {
        const double e = raised(first + i);
        if (!(e < 600.0)) {
            out.sum = kInfinity;
            return out;
        }
        exponent_[static_cast<std::size_t>(i)] = std::max(e, -700.0);
    }
    exp_block(exponent_.data(), value_.data(), static_cast<std::size_t>(count));
    const auto term = [&](std::ptrdiff_t i) {
        const double raised_term = value_[static_cast<std::size_t>(i)];
        if (!second_order) return raised_term;
        // 1 - (1 + w) e^-w of it. That is at most (w^2/2) / (1 + 2 w/3): times e^w both are series, with the
        // coefficients 1/n! and (n (n-1)/2 - 2 n/3)/n! from w^4 on, and the same below.
        const double w = rate * std::fabs(x(first + i) - centre);
        const double share = 0.5 * w * w / (1.0 + w * (2.0 / 3.0));
        return raised_term * (share < 1.0 ? share : 1.0);
    };
    out.sum = blocked(count, term) * (1.0 + 1e-6) + beyond;
    return out;
}

double JointLaw::log_tail_term(std::ptrdiff_t i, double z, bool above, std::ptrdiff_t anchor,
                               double& parts) const {
    const double distance = (above ? z - x(i) : x(i) - z) / beta_;
    const double log_normal = log_normal_tail(distance);
    double log_laplace = 0.0;
    if (anchor >= 0) {
        const double away = (above ? x(i) - x(anchor) : x(anchor) - x(i)) * slope_;
        log_laplace = away >= 0.0 ? std::log(0.5) - away : std::log1p(-0.5 * std::exp(away));
    }
    const double weight = log_weight_[static_cast<std::size_t>(i)];
    // log_normal: 2 u of the square, 16 u for the ratio, its logarithm and the constant.
    parts = 4.0 * (std::fabs(weight) + std::fabs(log_normal) + std::fabs(log_laplace)) +
            4.0 * distance * distance + 32.0;
    return weight + log_normal + log_laplace;
}

// From the density's factor, which the other sums lack, to their unit.
double JointLaw::log_tail_unit() const { return std::log(beta_) + 0.91893853320467274178; }

double JointLaw::largest_tail_term(bool positive, double z, bool above, std::ptrdiff_t anchor) const {
    std::ptrdiff_t first = positive ? pivot_ : 0;
    std::ptrdiff_t last = positive ? size() - 1 : pivot_ - 1;
    double top = -std::numeric_limits<double>::infinity();
    double parts = 0.0;
    if (first <= last)
        find_window([&](std::ptrdiff_t i) { return log_tail_term(i, z, above, anchor, parts); }, first, last, 1.0,
                    top);
    return top + log_tail_unit();
}

Part JointLaw::tail(bool positive, double z, bool above, std::ptrdiff_t anchor) const {
    const std::ptrdiff_t first = positive ? pivot_ : 0;
    const std::ptrdiff_t last = positive ? size() - 1 : pivot_ - 1;
    Part out;
    if (first > last) return out;
    const std::ptrdiff_t count = last - first + 1;
    std::vector<double> exponents(static_cast<std::size_t>(count));
    std::vector<double> errors(static_cast<std::size_t>(count));
    for (std::ptrdiff_t i = first; i <= last; ++i) {
        const auto at = static_cast<std::size_t>(i - first);
        double parts = 0.0;
        exponents[at] = log_tail_term(i, z, above, anchor, parts);
        errors[at] = slip_[static_cast<std::size_t>(i)] + kRounding * parts;
        out.top = std::max(out.top, exponents[at]);
    }
    if (!(out.top > kNothing / 2)) return Part{};
    for (double& e : exponents) e = std::exp(e - out.top);
    out.sum = blocked(count, [&](std::ptrdiff_t i) { return exponents[static_cast<std::size_t>(i)]; });
    out.error = blocked(count, [&](std::ptrdiff_t i) {
        return exponents[static_cast<std::size_t>(i)] * errors[static_cast<std::size_t>(i)];
    });
    out.error = out.error * 1.0001 + (kSumError + kExpError) * kRounding * out.sum;
    out.top += log_tail_unit();
    return out;
}

}  // namespace dpcore::detail
