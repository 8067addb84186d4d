#include "joint_panel.hpp"

#include <algorithm>
#include <cmath>

#include "clones.hpp"
#include "dpcore/exp_block.hpp"

namespace dpcore::detail {

namespace {

using Index = std::ptrdiff_t;

constexpr double kRounding = 0x1p-53;
constexpr double kNothing = -1e300;         // as in joint_law.cpp
constexpr double kOuter = 65.0 / 16.0;      // (8 + 1/8)/2: the longer semiaxis
constexpr double kRemainder = 0x1p-64;      // 4 8^-22
constexpr double kGrowth = 9.0;             // ln of how much a sum may grow out to the ellipse: 2^-64 e^9 = 4e-16
constexpr double kDepth = 60.0;             // what is left out is below e^-60 of what is not
constexpr double kLargestExponent = 650.0;  // of an exponential; e^(650 + kRebase) is in the range of double
constexpr double kRebase = 30.0;
constexpr double kLargestSlip = 1e-8;
// u: exp_block 6, the product with the weight 1, the sum 2; share 3 and its product 1; the sum of 22 products in
// four parts 8.
constexpr double kLaneError = 21.0;
constexpr Index kMostCells = 4096;
constexpr Index kFewestCells = 16;

// Chebyshev's nodes to 18 bits, with the weights of Lagrange's polynomials, good to 2 u.
struct Nodes {
    std::array<double, JointPanel::kNodes> tau;
    std::array<double, JointPanel::kNodes> weight;
};

const Nodes& nodes() {
    static const Nodes made = [] {
        Nodes out;
        for (std::size_t i = 0; i < out.tau.size(); ++i) {
            const double angle = M_PI * (static_cast<double>(i) + 0.5) / static_cast<double>(out.tau.size());
            out.tau[i] = std::ldexp(std::round(std::ldexp(std::cos(angle), 18)), -18);
        }
        for (std::size_t i = 0; i < out.tau.size(); ++i) {
            DoubleDouble product(1.0);
            for (std::size_t k = 0; k < out.tau.size(); ++k)
                if (k != i) product = product * DoubleDouble(2.0 * (out.tau[i] - out.tau[k]));
            out.weight[i] = static_cast<double>(DoubleDouble(1.0) / product);
        }
        return out;
    }();
    return made;
}

// Adds weight * factor to compensated sums, and `slip` times that to errors.
DPCORE_CLONES
void add_lanes(const double* factor, double weight, double slip, double* high, double* low, double* error,
               std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const double term = weight * factor[i];
        const double sum = high[i] + term;
        const double part = sum - high[i];
        low[i] += (high[i] - (sum - part)) + (term - part);
        high[i] = sum;
        error[i] += slip * term;
    }
}

// Sums over the nodes of share times value, its magnitude, and share times slip, each in four parts.
DPCORE_CLONES
void products(const double* share, const double* value, const double* slip, double* out) {
    double part[12] = {};
    static_assert(JointPanel::kNodes == 22);
    for (std::size_t i = 0; i < 20; i += 4) {
        for (std::size_t k = 0; k < 4; ++k) {
            const double term = share[i + k] * value[i + k];
            part[k] += term;
            part[4 + k] += std::fabs(term);
            part[8 + k] += share[i + k] * slip[i + k];
        }
    }
    for (std::size_t k = 0; k < 2; ++k) {
        const double term = share[20 + k] * value[20 + k];
        part[k] += term;
        part[4 + k] += std::fabs(term);
        part[8 + k] += share[20 + k] * slip[20 + k];
    }
    for (std::size_t k = 0; k < 3; ++k)
        out[k] = (part[4 * k] + part[4 * k + 1]) + (part[4 * k + 2] + part[4 * k + 3]);
}

}  // namespace

// Sums over more and more points, at all lanes.
class JointPanel::Accumulator {
public:
    bool empty() const { return empty_; }
    void add(double exponent, double slip, const double* factor) {
        if (!(exponent > kNothing / 2)) return;
        if (empty_) base_ = exponent;
        empty_ = false;
        if (exponent > base_ + kRebase) {
            const double shrink = std::exp(base_ - exponent);  // what it loses is e^-30 of what is added next
            for (std::size_t i = 0; i < kLanes; ++i) {
                high_[i] *= shrink;
                low_[i] *= shrink;
                error_[i] *= shrink;
            }
            base_ = exponent;
        }
        const double off = exponent - base_;
        add_lanes(factor, std::exp(off), slip + kRounding * (4.0 - 2.0 * off), high_.data(), low_.data(),
                  error_.data(), kLanes);
    }
    Lanes lanes() const {
        Lanes out{};
        out.top = base_;
        for (std::size_t i = 0; i < kNodes; ++i) {
            out.value[i] = high_[i] + low_[i];
            out.slip[i] = error_[i];
        }
        out.outer = std::max(high_[kNodes], high_[kNodes + 1]) * 1.0001;  // their errors are below kLargestSlip
        return out;
    }

private:
    bool empty_ = true;
    double base_ = 0.0;
    std::array<double, kLanes> high_{};
    std::array<double, kLanes> low_{};
    std::array<double, kLanes> error_{};
};

double JointPanel::log_common(double tau) const {
    const double alpha = rate_ * tau;
    return law_.log_common(centre_) +
           (alpha * (mean_ - centre_) - 0.5 * alpha * alpha * law_.beta() * law_.beta());
}

double JointPanel::common_parts(double tau) const {
    const double alpha = rate_ * tau;
    return std::fabs(law_.log_common(centre_)) + std::fabs(alpha * (mean_ - centre_)) +
           0.5 * alpha * alpha * law_.beta() * law_.beta();
}

void JointPanel::fill(double z) {
    exponent_.resize(static_cast<std::size_t>(law_.size()));
    law_.exponents(z, exponent_.data());
}

// The largest H for which neither the tilted terms at j nor those of S grow by more than e^kGrowth on the ellipse.
bool JointPanel::choose_rate(double z, Index j) {
    fill(z);
    const double slope = 1.0 / law_.scale();
    const Index size = law_.size();
    double top = kNothing;
    double top_rest = kNothing;
    for (Index i = 0; i < size; ++i) {
        const double e = exponent_[static_cast<std::size_t>(i)];
        top = std::max(top, e - slope * static_cast<double>(i < j ? j - i : i - j));
        if (i > j) top_rest = std::max(top_rest, e);
    }
    // Points and weights of both sets that are within kDepth of their tops.
    std::vector<double> at[2];
    std::vector<double> weight[2];
    for (Index i = 0; i < size; ++i) {
        const double e = exponent_[static_cast<std::size_t>(i)];
        const double tilted = e - slope * static_cast<double>(i < j ? j - i : i - j) - top;
        if (tilted > -kDepth) {
            at[0].push_back(law_.x(i));
            weight[0].push_back(tilted);
        }
        if (i > j && e - top_rest > -kDepth) {
            at[1].push_back(law_.x(i));
            weight[1].push_back(e - top_rest);
        }
    }
    double total = 0.0;
    double moment = 0.0;
    double second = 0.0;
    for (std::size_t i = 0; i < at[0].size(); ++i) {
        const double value = std::exp(weight[0][i]);
        total += value;
        moment += value * at[0][i];
        second += value * at[0][i] * at[0][i];
    }
    mean_ = std::round(moment / total);
    const double spread = std::sqrt(std::max(0.25, second / total - (moment / total) * (moment / total)));
    rate_ = 1.5 / spread;
    for (int attempt = 0; attempt < 24; ++attempt, rate_ *= 0.8) {
        bool fits = true;
        for (int set = 0; set < 2 && fits; ++set) {
            double before = 0.0;
            double left = 0.0;
            double right = 0.0;
            const std::size_t count = at[set].size();
            scratch_.resize(count);
            for (const double side : {0.0, -1.0, 1.0}) {
                for (std::size_t i = 0; i < count; ++i)
                    scratch_[i] =
                        std::clamp(weight[set][i] + side * kOuter * rate_ * (at[set][i] - mean_), -700.0, 600.0);
                exp_block(scratch_.data(), scratch_.data(), count);
                double sum = 0.0;
                for (const double value : scratch_) sum += value;
                (side == 0.0 ? before : (side < 0.0 ? left : right)) = sum;
            }
            fits = count == 0 || std::max(left, right) < before * std::exp(kGrowth);
        }
        if (fits) break;
    }
    int exponent = 0;
    const double mantissa = std::frexp(rate_, &exponent);
    rate_ = std::ldexp(std::floor(std::ldexp(mantissa, 6)), exponent - 6);
    half_ = rate_ * (law_.beta() * law_.beta());
    return rate_ > 0.0 && std::isfinite(half_);
}

bool JointPanel::build(double z, double at, Index j, Index step, double width, StopCheck stop) {
    stop();
    if (!choose_rate(z, j)) return false;
    const double cells = 1.5 * half_ / std::max(width, 1e-300);
    const Index count = std::clamp<Index>(static_cast<Index>(std::min(cells, 1e6)), kFewestCells, kMostCells);
    const Index size = law_.size();
    first_ = std::max<Index>(0, step > 0 ? j : j - count);
    last_ = std::min<Index>(size - 1, step > 0 ? j + count : j);
    // To a grid on which differences of centres are exact.
    centre_ = std::ldexp(std::round(std::ldexp(z - at * half_, 10)), -10);
    fill(centre_);

    // The points that matter.
    const double slope = 1.0 / law_.scale();
    const double growth = kOuter * rate_;
    const auto exponent = [&](Index i) { return exponent_[static_cast<std::size_t>(i)]; };
    const auto drop = [&](Index from, Index end, Index by, Index inside, double tilt) {
        // from, from + by, ... before `inside`; `tilt` a step lowers terms away from it
        double best = kNothing;
        Index star = inside;
        for (Index i = inside; i != from - by; i -= by) {
            const double e = exponent(i) - tilt * std::fabs(static_cast<double>(i - inside));
            if (e > best) {
                best = e;
                star = i;
            }
        }
        Index kept = from;
        for (; kept != end; kept += by) {
            const double e = exponent(kept) - tilt * std::fabs(static_cast<double>(kept - inside));
            if (e + growth * std::fabs(static_cast<double>(kept - star)) > best - kDepth) break;
        }
        return kept;
    };
    const Index low = drop(0, first_, 1, first_, slope);
    Index high = size - 1;
    if (last_ < size - 1)
        high = std::max(drop(size - 1, last_ + 1, -1, last_ + 1, slope),
                        drop(size - 1, last_ + 1, -1, last_ + 1, 0.0));
    left_out_ = static_cast<double>(low + (size - 1 - high)) * std::exp(-kDepth) * (1.0 + 1e-9);
    const double farthest = std::max(mean_ - law_.x(low), law_.x(high) - mean_);
    if (!(growth * farthest < kLargestExponent)) return false;

    const Nodes& points = nodes();
    std::array<double, kLanes> lane{};
    for (std::size_t i = 0; i < kNodes; ++i) lane[i] = rate_ * points.tau[i];
    lane[kNodes] = -growth;
    lane[kNodes + 1] = growth;
    std::array<double, kLanes> factor{};
    const auto factors = [&](Index i) {
        const double n = law_.x(i) - mean_;
        for (std::size_t l = 0; l < kLanes; ++l) factor[l] = lane[l] * n;
        exp_block(factor.data(), factor.data(), kLanes);
    };
    bool sound = true;
    const auto slip = [&](Index i, double shift) {
        // as in JointLaw::part, and the tilt: its slope is good to u, the product and the sum to one more each
        const double out = law_.slip(i) + kRounding * (8.0 * std::fabs(exponent(i)) + 4.0 * std::fabs(shift));
        if (exponent(i) > kNothing / 2 && !(out < kLargestSlip)) sound = false;
        return out;
    };

    lanes_.clear();
    cells_.assign(static_cast<std::size_t>(last_ - first_ + 1), Cell{});
    const Index pivot = law_.pivot();
    const auto keep = [&](const Accumulator& sums) {
        if (sums.empty()) return Index{-1};
        lanes_.push_back(sums.lanes());
        return static_cast<Index>(lanes_.size()) - 1;
    };
    // k <= j, tilted: in units of exp((first - j)/s).
    Accumulator sums[2];
    std::array<Index, 2> kept = {-1, -1};
    for (Index i = low; i <= last_; ++i) {
        const std::size_t sign = i >= pivot ? 0 : 1;
        const double shift = slope * static_cast<double>(i - first_);
        factors(i);
        sums[sign].add(exponent(i) + shift, slip(i, shift), factor.data());
        if (i < first_) continue;
        if (i == first_) kept[1 - sign] = keep(sums[1 - sign]);
        kept[sign] = keep(sums[sign]);
        Cell& cell = cells_[static_cast<std::size_t>(i - first_)];
        for (std::size_t which = 0; which < 2; ++which) cell.below[which] = {kept[which], -shift};
        if (i % 64 == 0) stop();
    }
    // k > j, tilted: in units of exp((j - last)/s); and not tilted.
    Accumulator tilted[2];
    Accumulator plain[2];
    std::array<Index, 2> kept_tilted = {-1, -1};
    std::array<Index, 2> kept_plain = {-1, -1};
    for (Index i = high; i >= first_; --i) {
        if (i == last_) {
            for (std::size_t which = 0; which < 2; ++which) {
                kept_tilted[which] = keep(tilted[which]);
                kept_plain[which] = keep(plain[which]);
            }
        }
        if (i <= last_) {
            const double shift = slope * static_cast<double>(i - last_);
            Cell& cell = cells_[static_cast<std::size_t>(i - first_)];
            for (std::size_t which = 0; which < 2; ++which) {
                cell.above[which] = {kept_tilted[which], shift};
                cell.rest[which] = {kept_plain[which], 0.0};
            }
            if (i == first_) break;
        }
        const std::size_t sign = i >= pivot ? 0 : 1;
        const double shift = slope * static_cast<double>(last_ - i);
        factors(i);
        tilted[sign].add(exponent(i) + shift, slip(i, shift), factor.data());
        plain[sign].add(exponent(i), slip(i, 0.0), factor.data());
        if (i <= last_) {
            kept_tilted[sign] = keep(tilted[sign]);
            kept_plain[sign] = keep(plain[sign]);
        }
        if (i % 64 == 0) stop();
    }
    return sound;
}

// Lagrange's polynomials in the first form: the product of the tau - tau_i is common to all sums, and its error
// (44 u) with it.
JointPanel::Basis JointPanel::basis(double tau) {
    const Nodes& points = nodes();
    Basis out;
    out.tau = tau;
    double product = 1.0;
    for (std::size_t i = 0; i < kNodes; ++i) {
        const double distance = tau - points.tau[i];
        if (distance == 0.0) {
            out.share.fill(0.0);
            out.share[i] = 1.0;
            return out;
        }
        product *= 2.0 * distance;
        out.share[i] = points.weight[i] / (2.0 * distance);
    }
    for (double& share : out.share) share *= product;
    return out;
}

Difference JointPanel::one(const View& view, const Basis& at) const {
    Difference out;
    if (view.lanes < 0) return out;
    const Lanes& lanes = lanes_[static_cast<std::size_t>(view.lanes)];
    double sums[3];
    products(at.share.data(), lanes.value.data(), lanes.slip.data(), sums);
    out.top = lanes.top + view.shift;
    out.sum = sums[0];
    out.absolute = sums[0];
    // The interpolated slip is good to 1e-11 of kLargestSlip.
    out.error = std::fabs(sums[2]) * 1.0001 + (kLaneError * kRounding + 0x1p-60) * sums[1] +
                kRemainder * lanes.outer +
                kRounding * 4.0 * (1.0 + std::fabs(lanes.top) + std::fabs(view.shift)) * std::fabs(sums[0]);
    return out;
}

Difference JointPanel::subtract(const Difference& positive, const Difference& negative) {
    Difference out;
    out.top = std::max(positive.top, negative.top);
    if (!(out.top > kNothing / 2)) return Difference{};
    const double a = std::exp(positive.top - out.top);
    const double b = std::exp(negative.top - out.top);
    out.sum = a * positive.sum - b * negative.sum;
    out.absolute = a * positive.sum + b * negative.sum;
    const double distance = std::min(700.0, std::fabs(positive.top - negative.top));
    out.error = a * positive.error + b * negative.error + kRounding * (8.0 + distance) * out.absolute;
    return out;
}

Difference JointPanel::value(Kind kind, Index j, const Basis& at) const {
    const Cell& cell = cells_[static_cast<std::size_t>(j - first_)];
    const std::array<View, 2>& views =
        kind == Kind::below ? cell.below : (kind == Kind::above ? cell.above : cell.rest);
    const Difference positive = one(views[0], at);
    const Difference negative = one(views[1], at);
    Difference out = kind == Kind::below ? subtract(negative, positive) : subtract(positive, negative);
    out.error += left_out_ * (out.absolute + out.error);
    return out;
}

std::array<Difference, 2> JointPanel::density(Index j, const Basis& at) const {
    const Cell& cell = cells_[static_cast<std::size_t>(j - first_)];
    std::array<Difference, 2> out;
    for (std::size_t sign = 0; sign < 2; ++sign) {
        out[sign] = subtract(one(cell.below[sign], at), one(cell.above[sign], at));
        out[sign].sum = out[sign].absolute;
    }
    // What is left out may be of either sign.
    const double both = out[0].absolute * std::exp(std::min(0.0, out[0].top - out[1].top)) +
                        out[1].absolute * std::exp(std::min(0.0, out[1].top - out[0].top));
    const double top = std::max(out[0].top, out[1].top);
    for (Difference& side : out) side.error += left_out_ * both * std::exp(std::min(700.0, top - side.top));
    return out;
}

}  // namespace dpcore::detail
