#include "dpcore/direct_spectrum.hpp"

#include <algorithm>
#include <cmath>

#include "clones.hpp"
#include "dpcore/certified.hpp"

namespace dpcore {

namespace {

constexpr double kPi = 3.14159265358979323846;
// What is left out is at most e^-kNegligible times the weights' transform: below the rounding of a thousand
// copies.
constexpr double kNegligible = 23.0;
constexpr std::size_t kLanes = 8;   // frequencies at a time
constexpr std::size_t kBlock = 64;  // entries under one table of twiddle factors
// Error of a twiddle factor: the angle (at most pi, three roundings and that of pi) and the library.
constexpr double kTwiddle = 30.0 * kRound;

using Lanes [[gnu::vector_size(kLanes * sizeof(double))]] = double;

// sums of mass e^{-i omega b} over one block for kLanes frequencies: upper (re, im), lower (re, im).
DPCORE_CLONES void block_sums(const double* __restrict upper, const double* __restrict lower, std::size_t count,
                              const Lanes* __restrict cosine, const Lanes* __restrict sine,
                              Lanes* __restrict out) {
    Lanes ur = {}, ui = {}, lr = {}, li = {};
    for (std::size_t b = 0; b < count; ++b) {
        const Lanes c = cosine[b];
        const Lanes s = sine[b];
        ur += upper[b] * c;
        ui += upper[b] * s;
        lr += lower[b] * c;
        li += lower[b] * s;
    }
    out[0] = ur;
    out[1] = ui;
    out[2] = lr;
    out[3] = li;
}

// e^{-2 pi i j n/N}: the product is reduced exactly.
Complex twiddle(std::int64_t j, std::int64_t n, std::int64_t period) {
    // period <= 2^24 and both factors are reduced first: no overflow
    std::int64_t r = ((j % period) * (n % period)) % period;
    if (2 * r > period) r -= period;
    if (2 * r < -period) r += period;
    const double angle = 2.0 * kPi * (static_cast<double>(r) / static_cast<double>(period));
    return {std::cos(angle), -std::sin(angle)};
}

// What is known of one list: the error of its transform, and bounds of the transform between and beyond samples.
struct Shape {
    double err = 0.0;       // absolute, of every computed value
    double spread[2] = {};  // second moment about the mean, in steps; upper and lower
    double mass[2] = {};
    double atoms[2] = {};  // excess of single entries over their neighbours
    double variation[2] = {};
};

Shape shape_of(const TiltedList& list) {
    Shape out;
    const std::size_t n = list.upper.size();
    const double up = 1.0 + 1e-9;  // roundings of these sums: n <= 2^22 terms of 2^-53 each
    for (int side = 0; side < 2; ++side) {
        const std::vector<double>& p = side == 0 ? list.upper : list.lower;
        double mass = 0.0, first = 0.0, second = 0.0;
        for (std::size_t i = 0; i < n; ++i) mass += p[i], first += p[i] * static_cast<double>(i);
        const double mean = mass > 0.0 ? first / mass : 0.0;
        double atoms = 0.0, variation = 0.0, last = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            const double x = static_cast<double>(i) - mean;
            second += p[i] * x * x;
            const double near = std::max(i > 0 ? p[i - 1] : 0.0, i + 1 < n ? p[i + 1] : 0.0);
            const double smooth = p[i] > 2.0 * near ? near : p[i];
            atoms += p[i] - smooth;
            variation += std::fabs(smooth - last);
            last = smooth;
        }
        out.mass[side] = mass * up;
        out.spread[side] = second * up;
        out.atoms[side] = atoms * up;
        out.variation[side] = (variation + last) * up;
    }
    const double blocks = std::ceil(static_cast<double>(n) / kBlock);
    // An entry meets two twiddle factors, the sums of a block and of the blocks, and one complex product; real and
    // imaginary part each, hence the factor 3/2 > sqrt 2.
    out.err = 1.5 * (2.0 * kTwiddle + (kBlock + blocks + 8.0) * kRound) * std::max(out.mass[0], out.mass[1]) * up;
    return out;
}

// The transforms of both lists at kLanes frequencies from, from + by, ...
struct Samples {
    Complex value[2][kLanes];
};

void evaluate(const TiltedList& list, std::int64_t period, std::int64_t from, std::int64_t by, Samples& out) {
    const std::size_t n = list.upper.size();
    const std::size_t table = std::min(n, kBlock);
    Lanes cosine[kBlock], sine[kBlock];
    for (std::size_t l = 0; l < kLanes; ++l) {
        const std::int64_t j = from + by * static_cast<std::int64_t>(l);
        for (std::size_t b = 0; b < table; ++b) {
            const Complex t = twiddle(j, static_cast<std::int64_t>(b), period);
            cosine[b][l] = t.re;
            sine[b][l] = t.im;
        }
        out.value[0][l] = out.value[1][l] = {0.0, 0.0};
    }
    Lanes sums[4];
    for (std::size_t i = 0; i < n; i += kBlock) {
        block_sums(list.upper.data() + i, list.lower.data() + i, std::min(kBlock, n - i), cosine, sine, sums);
        for (std::size_t l = 0; l < kLanes; ++l) {
            const std::int64_t j = from + by * static_cast<std::int64_t>(l);
            const Complex t = twiddle(j, list.first + static_cast<std::int64_t>(i), period);
            out.value[0][l] = out.value[0][l] + t * Complex{sums[0][l], sums[1][l]};
            out.value[1][l] = out.value[1][l] + t * Complex{sums[2][l], sums[3][l]};
        }
    }
}

Complex power(Complex x, std::uint64_t copies) {
    Complex result = {1.0, 0.0};
    for (;;) {
        if ((copies & 1U) != 0U) result = result * x;
        copies >>= 1U;
        if (copies == 0) return result;
        x = x * x;
    }
}

// Transform of the weights at frequency j, with a bound on its error: A (1 - (rz)^m)/(1 - rz) - B (1 - (sz)^m)/(1
// - sz), r = e^{-c step}, s = e^{-(1+c) step}, z = e^{i omega}, A = e^{-c x0}, B = e^{-x0} A. Where losses are
// small the two series nearly cancel: A/(1 - rz) - B/(1 - sz) has the numerator A ((1 - e^-x0) - z r (e^-step -
// e^-x0)), their ends the same with x0 + m step, times (rz)^m.
Certified weight_transform(const PayoffWeights& w, std::int64_t j, std::int64_t period) {
    const double omega = 2.0 * kPi * (static_cast<double>(j) / static_cast<double>(period));
    const Complex turn = twiddle(-j, static_cast<std::int64_t>(w.count) % period, period);  // z^m
    const double half = std::sin(0.5 * omega);
    const Complex z = {1.0 - 2.0 * half * half, std::sin(omega)};
    const double r = std::exp(-w.tilt * w.step);
    // 1 - rz and 1 - sz without cancellation
    const auto below = [&](double rate) {
        const double ratio = std::exp(-rate * w.step);
        return Complex{-std::expm1(-rate * w.step) + ratio * 2.0 * half * half, -ratio * z.im};
    };
    const Complex denominator = below(w.tilt) * below(w.tilt + 1.0);
    const double next = r * std::exp(-w.step);
    double size = 0.0;
    const auto numerator = [&](double x) {
        const double start = std::exp(-w.tilt * x);
        const double first = -std::expm1(-x);
        const double second = next * std::expm1(w.step - x);
        // The difference of step and x is off by a rounding of both; exponents are below 745 where a term is not
        // 0.
        size += start * (first + std::fabs(second) + r * (w.step + std::min(x, 1.0))) *
                (8.0 + std::min(745.0, w.tilt * x) + w.tilt * w.step);
        return Complex{start * (first + second * z.re), start * second * z.im};
    };
    const Complex total = (numerator(w.x0) - turn * numerator(w.x0 + w.step * w.count)) / denominator;
    const Complex origin = twiddle(-j, w.first, period);
    return {origin * total, (8.0 * kLibm + 2.0 * kTwiddle) * size / abs(denominator)};
}

}  // namespace

DirectSum direct_spectrum(const std::vector<TiltedList>& lists, std::size_t period, const PayoffWeights& weights,
                          double budget, StopCheck stop) {
    DirectSum out;
    const auto n = static_cast<std::int64_t>(period);
    const double scale = 1.0 / static_cast<double>(period);  // a power of two: exact
    if (!(weights.count >= 1.0 && weights.count <= static_cast<double>(period) && weights.x0 > 0.0)) return out;
    double length = 0.0, copies_err = 0.0, copies = 0.0;
    std::vector<Shape> shapes;
    for (const TiltedList& list : lists) {
        shapes.push_back(shape_of(list));
        length += static_cast<double>(list.upper.size()) + 3.0 * kBlock;
        copies_err += list.copies * shapes.back().err;
        copies += list.copies;
    }
    if (!(copies_err < 1e-3)) return out;  // first-order bounds below
    // |x^k - y^k| <= k |x - y| max(|x|, |y|)^{k-1}; no transform exceeds its list's mass.
    double excess = copies_err;
    for (std::size_t t = 0; t < lists.size(); ++t)
        excess += lists[t].copies * std::log(std::max({1.0, shapes[t].mass[0], shapes[t].mass[1]}));
    const double growth = std::exp(excess) * 1.01;
    const double power_err = 2.0 * copies * kComplexOp;

    // log of bounds of the composed transform, upper and lower, from bounds of each list's.
    const auto composed = [&](const auto& bound) {
        double worst = -1e300;
        for (int side = 0; side < 2; ++side) {
            double sum = 0.0;
            for (std::size_t t = 0; t < lists.size(); ++t)
                sum += lists[t].copies * std::log(std::min(shapes[t].mass[side], bound(t, side)) + 1e-300);
            worst = std::max(worst, sum);
        }
        return worst;
    };
    const auto radians = [&](double j) { return 2.0 * kPi * j * scale; };
    const auto beyond = [&](std::int64_t j) {
        const double sine = std::sin(0.5 * radians(static_cast<double>(j)));
        return composed([&](std::size_t t, int side) {
            return shapes[t].atoms[side] + shapes[t].variation[side] / (2.0 * sine) * (1.0 + 1e-9);
        });
    };
    std::vector<Samples> batch(lists.size()), before(lists.size());
    // Index into a batch; lane -1 is the last frequency of the batch before.
    const auto sample = [&](std::size_t t, int side, int lane) {
        return abs(lane < 0 ? before[t].value[side][0] : batch[t].value[side][static_cast<std::size_t>(lane)]) *
                   (1.0 + 4.0 * kRound) +
               shapes[t].err;
    };
    std::int64_t at = -1;  // frequencies up to here are done
    std::int64_t by = 1;
    std::int64_t complete = 0;  // frequencies up to here are in the sum: what is left out lies beyond
    bool skipped = false;
    double work = 0.0;
    double terms = 0.0, sizes = 0.0;
    while (at < 0 || (at < n / 2 && beyond(at) > -kNegligible)) {
        stop();
        work += static_cast<double>(kLanes) * length;
        stop.spend(0.2 * static_cast<double>(kLanes) * length);
        if (work > budget || (by == 1 && at + static_cast<std::int64_t>(kLanes) >= n / 2)) return out;
        for (std::size_t t = 0; t < lists.size(); ++t) evaluate(lists[t], n, at + by, by, batch[t]);
        int good = 0;
        for (int lane = 0; lane < static_cast<int>(kLanes); ++lane) {
            if (by == 1) {
                const std::int64_t j = at + 1 + lane;
                const Certified w = weight_transform(weights, j, n);
                const double share = j == 0 ? scale : 2.0 * scale;
                double size = 0.0;
                for (int side = 0; side < 2; ++side) {
                    Complex value = {1.0, 0.0};
                    for (std::size_t t = 0; t < lists.size(); ++t)
                        value =
                            value * power(batch[t].value[side][lane], static_cast<std::uint64_t>(lists[t].copies));
                    const double part = share * (w.value.re * value.re - w.value.im * value.im);
                    (side == 0 ? out.upper : out.lower) += part;
                    size = std::max(size, abs(value));
                }
                const double w_abs = abs(w.value) + w.err;
                out.err += 1.01 * share * (w_abs * (growth * copies_err + power_err * size) + w.err * size);
                terms += 1.0;
                sizes += share * w_abs * size;
                good = lane + 1;
            } else {
                // All between two samples, the ends included.
                const double step = radians(static_cast<double>(by));
                const double bound = composed([&](std::size_t t, int side) {
                    return std::max(sample(t, side, lane - 1), sample(t, side, lane)) +
                           shapes[t].spread[side] * step * step / 8.0;
                });
                if (!(bound < -kNegligible)) break;
                skipped = true;
                good = lane + 1;
            }
        }
        if (good > 0) {
            at += by * good;
            for (std::size_t t = 0; t < lists.size(); ++t)
                for (int side = 0; side < 2; ++side) before[t].value[side][0] = batch[t].value[side][good - 1];
        }
        if (by == 1) {
            if (!skipped) complete = at;
            const double here = composed([&](std::size_t t, int side) { return sample(t, side, -1); });
            if (here < -kNegligible) by = 2;
        } else if (good == static_cast<int>(kLanes)) {
            by *= 4;
        } else if (good < 4) {
            by = std::max<std::int64_t>(1, by / 4);
        }
    }
    // Left out: sum over |j| > complete of e^-kNegligible |W_j|/N with |W_j| <= (A - B + Br - As)/|1-rz||1-sz| +
    // ends.
    const double r = std::exp(-weights.tilt * weights.step);
    const double s = std::exp(-(1.0 + weights.tilt) * weights.step);
    const double start = std::exp(-weights.tilt * weights.x0);
    const double end = std::exp(-weights.tilt * weights.step * weights.count);
    const double j = static_cast<double>(complete);
    const double rest = start * std::min(1.0, weights.step + weights.x0) / (4.0 * j * std::sqrt(r * s) * scale) +
                        start * end / std::sqrt(s) * std::log(static_cast<double>(period) / j);
    out.err += 1.01 * std::exp(-kNegligible) * rest + (terms + 8.0) * kRound * sizes;
    out.valid = std::isfinite(out.err) && std::isfinite(out.upper) && std::isfinite(out.lower);
    return out;
}

}  // namespace dpcore
