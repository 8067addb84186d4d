#include "list_tilt.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpcore::detail {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}

Powers::Powers(double tilt, double top, const Buckets& buckets) : tilt_(tilt), top_(top), buckets_(buckets) {
    const double low = tilt * buckets.loss(0) - top;
    const double high = tilt * buckets.loss(buckets.upper.mass.size() - 1) - top;
    const double turn = tilt * buckets.step;
    plain_ = std::fabs(low) < 600.0 && std::fabs(high) < 600.0 && std::fabs(turn) * kBlock < 40.0;
    for (std::size_t j = 0; plain_ && j < kBlock; ++j) table_[j] = std::exp(turn * static_cast<double>(j));
}

void Powers::start(std::size_t from) {
    from_ = from;
    if (plain_) base_ = std::exp(tilt_ * buckets_.loss(from) - top_);
}

double Powers::through_logarithm(double mass, std::size_t j) const {
    return mass > 0.0 ? std::exp(tilt_ * buckets_.loss(from_ + j) - top_ + std::log(mass)) : 0.0;
}

Tilts tilt(Discrete& list, const Tilts& tilts) {
    Buckets& b = list.buckets;
    const std::size_t n = b.upper.mass.size();
    const double at = tilts.at - list.tilt;
    const double far = tilts.far - list.tilt;
    const double near = tilts.near - list.tilt;
    // Largest tilted mass for each of the three tilts: sums are taken relative to it. Any scale will do as long as
    // nothing overflows: a sample of the buckets is enough where they are many and vary slowly.
    const std::size_t stride = list.smooth && n > 4096 ? 16 : 1;
    const auto largest = [&](double turn) {
        double top = -kInf;
        for (std::size_t i = 0; i < n; i += stride)
            if (b.upper.mass[i] > 0.0) top = std::max(top, turn * b.loss(i) + std::log(b.upper.mass[i]));
        return top;
    };
    const double top = largest(at);
    const double top_far = largest(far);
    const double top_near = largest(near);
    // Both lists under the two others: merged losses have the larger moments where these are concave (between -1
    // and 0), and what a transform has left far out is as it happens.
    double sum = 0.0, sum_far = 0.0, sum_near = 0.0, low_far = 0.0, low_near = 0.0;
    Powers here(at, top, b), farther(far, top_far, b), nearer(near, top_near, b);
    for (std::size_t from = 0; from < n; from += Powers::kBlock) {
        here.start(from);
        farther.start(from);
        nearer.start(from);
        const std::size_t count = std::min(Powers::kBlock, n - from);
        double part = 0.0, part_far = 0.0, part_near = 0.0, small_far = 0.0, small_near = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            double& mass = b.upper.mass[from + j];
            double& low = b.lower.mass[from + j];
            part_far += farther.times(mass, j);
            part_near += nearer.times(mass, j);
            small_far += farther.times(low, j);
            small_near += nearer.times(low, j);
            low = here.times(low, j);
            mass = here.times(mass, j);
            part += mass;
        }
        sum += part;
        sum_far += part_far;
        sum_near += part_near;
        low_far += small_far;
        low_near += small_near;
    }
    sum_far = std::max(sum_far, low_far);
    sum_near = std::max(sum_near, low_near);
    // Masses that underflowed are below the smallest double each.
    const auto ends = [&](double turn) { return std::max(turn * b.loss(n - 1), turn * b.loss(0)); };
    const double lost = list.underflows ? std::log(static_cast<double>(n)) - 744.0 : -kInf;
    list.tail += std::exp(lost + ends(at) - top);
    list.tail += 1.01 * std::exp(list.log_missing - (std::log(sum) + top - list.log_scale));
    sum_far += std::exp(lost + ends(far) - top_far);
    sum_near += std::exp(lost + ends(near) - top_near);
    const double whole = std::log(sum) + top;
    const Tilts out = {std::log(sum_near) + top_near - list.log_scale, whole - list.log_scale,
                       std::log(sum_far) + top_far - list.log_scale};
    // How the sum is rounded does not matter: what the masses are divided by is what the scale is.
    const double size = std::fabs(at) * (std::fabs(b.loss(0)) + std::fabs(b.loss(n - 1))) + std::fabs(top);
    b.mass_err += 2.0 * kLibm * (std::fabs(top) + 800.0) + 4.0 * kRound * std::fabs(list.log_scale) +
                  4.0 * kRound * size + 40.0 * kRound + 4.0 * kLibm + kRound * (1.0 + std::fabs(out.at));
    const double unit_mass = 1.0 / sum;
    for (std::size_t i = 0; i < n; ++i) {
        b.upper.mass[i] *= unit_mass;
        b.lower.mass[i] *= unit_mass;
    }
    list.tilt = tilts.at;
    list.log_scale = -out.at;
    return out;
}

}  // namespace dpcore::detail
