#include "bucket_ladder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kSpill = 1e-10;      // tilted mass outside of a window, for all lists together
constexpr double kLength = 262144.0;  // of a list, as far as it can be chosen
constexpr double kFewest = 4.0;       // copies of a list that are composed at a time
constexpr double kWhole = 2097152.0;  // longest product that is not cut to a window
constexpr double kUsual = 8.0;        // and what the number of grids is estimated by

struct Factor {
    const Discrete* list;
    double copies;
};

struct Moments {
    double mean = 0.0, variance = 0.0;
};

// Of the upper masses; only to choose by.
Moments moments_of(const Buckets& b) {
    const double middle = b.loss(b.upper.mass.size() / 2);
    double mass = 0.0, first = 0.0, second = 0.0;
    for (std::size_t i = 0; i < b.upper.mass.size(); ++i) {
        const double x = b.loss(i) - middle;
        mass += b.upper.mass[i];
        first += b.upper.mass[i] * x;
        second += b.upper.mass[i] * x * x;
    }
    return {middle + first / mass, std::max(0.0, second / mass - first / mass * (first / mass))};
}

// log of the sum of mass e^{turn (loss - centre)}, of the larger of the two lists; infinity where that leaves the
// range of double.
double log_moment(const Buckets& b, double centre, double turn) {
    const std::size_t n = b.upper.mass.size();
    const double reach = std::max(std::fabs(b.loss(0) - centre), std::fabs(b.loss(n - 1) - centre));
    if (!(std::fabs(turn) * reach < 600.0)) return kInf;
    Powers powers(turn, turn * centre, b);
    double upper = 0.0, lower = 0.0;
    for (std::size_t from = 0; from < n; from += Powers::kBlock) {
        powers.start(from);
        const std::size_t count = std::min(Powers::kBlock, n - from);
        for (std::size_t j = 0; j < count; ++j) {
            upper += powers.times(b.upper.mass[from + j], j);
            lower += powers.times(b.lower.mass[from + j], j);
        }
    }
    return std::log(std::max(upper, lower));
}

// How far from the sum of the centres all but `spill` of the product's mass ends, to one side.
double reach_of(const std::vector<Factor>& factors, const std::vector<Moments>& moments, double variance,
                double spill, double side) {
    const double log_spill = std::log(1.0 / spill);
    double best = kInf;
    double turn = std::sqrt(2.0 * log_spill / variance);
    for (int i = 0; i < 40; ++i, turn *= 0.8) {
        double sum = 0.0;
        for (std::size_t k = 0; k < factors.size(); ++k)
            sum += factors[k].copies * log_moment(factors[k].list->buckets, moments[k].mean, side * turn);
        const double reach = (sum + log_spill) / turn;
        if (reach < best)
            best = reach;
        else if (best < kInf)
            break;
    }
    return best;
}

// Entries at both ends that hold at most `spill` in either list.
void trim(Buckets& b, double spill) {
    std::vector<double>& up = b.upper.mass;
    std::vector<double>& low = b.lower.mass;
    std::size_t from = 0;
    std::size_t to = up.size();
    double upper = 0.0, lower = 0.0;
    while (from + 1 < to && (upper += up[from]) <= spill && (lower += low[from]) <= spill) ++from;
    upper = lower = 0.0;
    while (to - 1 > from && (upper += up[to - 1]) <= spill && (lower += low[to - 1]) <= spill) --to;
    for (std::vector<double>* list : {&up, &low}) {
        list->resize(to);
        list->erase(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(from));
    }
    b.first += static_cast<std::int64_t>(from);
}

// Sum of the parts of a power, with what is known of the errors of its transforms.
struct Composed {
    std::vector<double> upper, lower;
    double err = 0.0;      // L2
    double rounded = 0.0;  // relative to every entry
    bool valid = true;
};

// The entries from, from + 1, ... of the product of the lists.
Composed transformed(const std::vector<TiltedList>& lists, double from, double to, StopCheck stop) {
    const std::size_t size = transform_length(to - from + 1.0);
    const auto count = static_cast<std::size_t>(to - from) + 1;
    ListProduct product(size);
    for (const TiltedList& list : lists) product.multiply(list, stop);
    product.finish(stop);
    const auto period = static_cast<std::int64_t>(size);
    const auto start = static_cast<std::size_t>((static_cast<std::int64_t>(from) % period + period) % period);
    Composed out;
    out.upper.resize(count);
    out.lower.resize(count);
    for (std::size_t j = 0; j < count; ++j) {
        const std::size_t at = (start + j) & (size - 1);
        out.upper[j] = std::max(0.0, product.upper()[at]);
        out.lower[j] = std::max(0.0, product.lower()[at]);
    }
    out.err = product.error();
    out.valid = product.spectrum_error() < 0.1;
    return out;
}

// Entries that hold so much that the transform of all the others would be rounded by their size.
std::vector<std::size_t> heavy_entries(const Buckets& b) {
    constexpr double kHeavy = 8.0;  // times the mean
    constexpr std::size_t kMost = 6;
    const double least = std::max(1e-3, kHeavy / static_cast<double>(b.upper.mass.size()));
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < b.upper.mass.size(); ++i)
        if (std::max(b.upper.mass[i], b.lower.mass[i]) > least) {
            if (out.size() == kMost) return {};
            out.push_back(i);
        }
    return out;
}

// (heavy entries + all others)^copies by the binomial theorem: the powers of the former are few points.
Composed by_heavy_entries(const Buckets& b, const std::vector<std::size_t>& heavy, double copies, StopCheck stop) {
    struct Point {
        std::size_t at;
        double upper, lower;
    };
    const std::size_t n = b.upper.mass.size();
    const auto power = static_cast<std::size_t>(copies);
    TiltedList others = {b.upper.mass, b.lower.mass, 0, 1.0};
    std::vector<Point> one;
    double mass = 0.0;
    for (const std::size_t i : heavy) {
        one.push_back({i, b.upper.mass[i], b.lower.mass[i]});
        mass += std::max(b.upper.mass[i], b.lower.mass[i]);
        others.upper[i] = others.lower[i] = 0.0;
    }
    Composed out;
    out.upper.assign(power * (n - 1) + 1, 0.0);
    out.lower = out.upper;
    std::vector<Point> points = {{0, 1.0, 1.0}};  // of the heavy entries' power, times the binomial coefficient
    double weight = 1.0;
    for (std::size_t j = 0; j <= power; ++j) {
        if (j > 0) {
            const double choose = static_cast<double>(power - j + 1) / static_cast<double>(j);
            std::vector<Point> next;
            for (const Point& p : points)
                for (const Point& q : one)
                    next.push_back({p.at + q.at, p.upper * q.upper * choose, p.lower * q.lower * choose});
            std::sort(next.begin(), next.end(), [](const Point& x, const Point& y) { return x.at < y.at; });
            points.clear();
            for (const Point& p : next) {
                if (!points.empty() && points.back().at == p.at)
                    points.back().upper += p.upper, points.back().lower += p.lower;
                else
                    points.push_back(p);
            }
            weight *= choose * mass;
        }
        if (j == power) {
            for (const Point& p : points) out.upper[p.at] += p.upper, out.lower[p.at] += p.lower;
            break;
        }
        others.copies = static_cast<double>(power - j);
        const Composed rest = transformed({others}, 0.0, others.copies * static_cast<double>(n - 1), stop);
        out.err += 1.01 * weight * rest.err;
        out.valid = out.valid && rest.valid;
        out.rounded += static_cast<double>(points.size()) * kRound;
        for (const Point& p : points) {
            stop();
            for (std::size_t i = 0; i < rest.upper.size(); ++i) {
                out.upper[p.at + i] += p.upper * rest.upper[i];
                out.lower[p.at + i] += p.lower * rest.lower[i];
            }
        }
    }
    // Every point is a term of an entry; up to `power` products, quotients and sums of as many as are heavy.
    out.rounded += (4.0 + static_cast<double>(heavy.size())) * copies * kRound;
    return out;
}

Discrete product_of(const std::vector<Factor>& factors, double spill, StopCheck stop) {
    const double step = factors[0].list->buckets.step;
    Discrete out;
    Buckets& z = out.buckets;
    z.step = step;
    out.tilt = factors[0].list->tilt;
    out.underflows = false;
    out.smooth = true;
    std::vector<Moments> moments;
    double centre = 0.0, variance = 0.0, lowest = 0.0, highest = 0.0, position = 0.0;
    for (const Factor& f : factors) {
        const Buckets& b = f.list->buckets;
        const auto n = static_cast<double>(b.upper.mass.size());
        const auto first = static_cast<double>(b.first);
        moments.push_back(moments_of(b));
        centre += f.copies * moments.back().mean;
        variance += f.copies * moments.back().variance;
        lowest += f.copies * first;
        highest += f.copies * (first + n - 1.0);
        position += f.copies * (std::fabs(b.offset) + step * (std::fabs(first) + n));
        z.offset += f.copies * b.offset;
        z.mass_err += f.copies * (b.mass_err + 2.0 * kRound * std::fabs(f.list->log_scale));
        out.tail += f.copies * f.list->tail;
        out.scatter += f.copies * f.list->scatter;
        out.loss_err += f.copies * f.list->loss_err;
        out.log_scale += f.copies * f.list->log_scale;
        out.smooth = out.smooth && f.list->smooth;
    }
    out.loss_err += 8.0 * kRound * position;
    z.mass_err += 8.0 * kRound * std::fabs(out.log_scale) + 1.01 * out.tilt * 8.0 * kRound * position;
    if (!(position / step < 4e15)) refuse(kInf);  // indices are exact
    Composed made;
    double from = lowest, to = highest;
    const std::vector<std::size_t> heavy =
        factors.size() == 1 ? heavy_entries(factors[0].list->buckets) : std::vector<std::size_t>();
    if (!heavy.empty() && factors[0].copies <= kFewest && highest - lowest < kWhole) {
        made = by_heavy_entries(factors[0].list->buckets, heavy, factors[0].copies, stop);
        z.mass_err += made.rounded;
    } else {
        if (highest - lowest > 4096.0 && variance > 0.0) {
            const double middle = (centre - z.offset) / step;
            const double below =
                std::floor(middle - reach_of(factors, moments, variance, spill, -1.0) / step) - 1.0;
            const double above = std::ceil(middle + reach_of(factors, moments, variance, spill, 1.0) / step) + 1.0;
            // What is outside is missing, and is added somewhere inside by the transform.
            if (below > from) from = below, out.tail += 2.02 * spill;
            if (above < to) to = above, out.tail += 2.02 * spill;
        }
        refuse(to - from + 1.0);
        std::vector<TiltedList> lists;
        for (const Factor& f : factors) {
            const Buckets& b = f.list->buckets;
            lists.push_back({b.upper.mass, b.lower.mass, b.first, f.copies});
        }
        made = transformed(lists, from, to, stop);
    }
    z.first = static_cast<std::int64_t>(from);
    z.upper.mass = std::move(made.upper);
    z.lower.mass = std::move(made.lower);
    double sum = 0.0;
    for (const double m : z.upper.mass) sum += m;
    // What is charged as tails is relative to a mass of 1.
    if (!made.valid || !(sum > 0.995 && sum < 1.005)) {
        out.tail = kInf;  // nothing is known
        return out;
    }
    // Two bounds of what the errors e of masses do: ||e||_1 times the largest weight, or ||e||_2 times the
    // weights' L2 norm over points that are a step apart; the better one for this list.
    const double c = out.tilt;
    const double anywhere = std::sqrt(static_cast<double>(z.upper.mass.size()));
    const double spread = 1.0 / std::sqrt(2.0 * c * (1.0 + c) * (1.0 + 2.0 * c) * step);
    const double most = std::exp(-c * std::log1p(1.0 / c)) / (1.0 + c);
    if (anywhere * most < spread + most) {
        out.tail += 1.01 * anywhere * made.err;
    } else {
        out.scatter += 1.01 * made.err / std::sqrt(step);
        out.tail += 1.01 * made.err;
    }
    if (z.upper.mass.size() > 4096) {
        trim(z, spill);
        out.tail += 2.02 * spill;
    }
    for (std::vector<double>* list : {&z.upper.mass, &z.lower.mass})
        for (double& m : *list) m /= sum;
    out.log_scale -= std::log(sum);
    z.mass_err += 4.0 * kRound + 2.0 * kLibm;
    return out;
}

}  // namespace

LadderPlan ladder_plan(double copies, double c, double width, double apart) {
    return {width, c * (1.0 + c), 1.0 + std::log(std::max(1.0, copies)) / std::log(kUsual), apart};
}

double LadderPlan::step(double left) const {
    const double step = std::sqrt(4.0 * width / (grids * factor * left));
    return apart > step ? apart / std::ceil(apart / step) : step;
}

Discrete climb(Discrete list, double copies, const LadderPlan& plan, bool sparse, StopCheck stop,
               std::vector<Discrete> others) {
    std::vector<Discrete> rest = std::move(others);
    bool apart = !rest.empty();  // as they came
    double left = copies;
    double most = kInf;  // copies at a time, where a product has been too long
    while (true) {
        stop();
        const double step = plan.step(left);
        if (!sparse && 1.4 * list.buckets.step < step) {
            list = regrid(list, step);
            for (Discrete& r : rest) r = regrid(r, step);
        }
        const double sd = std::sqrt(moments_of(list.buckets).variance);
        const double spill = std::max(1e-17, kSpill / (plan.grids * left));
        const double widths = 2.0 * std::sqrt(2.0 * std::log(1.0 / spill));
        const double length = std::max(kLength, 2.0 * static_cast<double>(list.buckets.upper.mass.size()));
        double together = sd > 0.0 ? std::pow(length * list.buckets.step / (widths * sd), 2.0) : kInf;
        together = sparse ? kFewest : std::min(most, std::max(kFewest, together));
        const auto times = [&](double number) {
            std::vector<Factor> factors = {{&list, number}};
            for (const Discrete& r : rest) factors.push_back({&r, 1.0});
            return product_of(factors, spill, stop);
        };
        try {
            if (together >= left || !std::isfinite(list.tail)) return times(left);
            together = heavy_entries(list.buckets).empty() ? std::exp2(std::floor(std::log2(together))) : kFewest;
            double odd = std::fmod(left, together);
            if (apart && odd < 0.5 * together) odd += together;
            if (odd >= left) return times(left);
            Discrete power = product_of({{&list, together}}, spill, stop);
            if (odd > 0.0) {
                Discrete all = times(odd);
                rest.clear();
                rest.push_back(std::move(all));
            }
            apart = false;
            list = std::move(power);
            left = std::floor((left - odd) / together);
            most = kInf;
            sparse = false;
        } catch (const std::length_error&) {
            // Few at a time, or a coarser grid than is right.
            if (together > kFewest) {
                most = kFewest;
            } else {
                list = regrid(list, 2.0 * list.buckets.step);
                for (Discrete& r : rest) r = regrid(r, list.buckets.step);
            }
        }
    }
}

Discrete composed_with(const Discrete& list, const AtomBlock& block, double parts, StopCheck stop) {
    const Discrete fine = regrid(list, list.buckets.step / parts);
    Discrete other = discretise(block, fine.buckets.step, list.tilt);
    tilt(other, {list.tilt, list.tilt, list.tilt});
    return product_of({{&fine, 1.0}, {&other, 1.0}}, 0.01 * kSpill, stop);
}

}  // namespace dpcore::detail
