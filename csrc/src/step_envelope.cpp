#include "step_envelope.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/exp_block.hpp"
#include "log_sum.hpp"

namespace dpcore::detail {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
// Cells of a path, in standard deviations g of the output or of its odds: the trapezoid rule is charged about
// g^2/12 of the mass, once a copy. Where that is more than a share of what a bound by paths falls by, cells are
// made smaller, unless it is little for all copies together.
constexpr double kCell = 0.05;
constexpr double kLeastCell = 0.002;
constexpr double kCharge = 8.0;
constexpr double kChargeShare = 0.05;
constexpr double kMostCells = 40000.0;
// From so many copies on, of steps with at least so much noise, the height follows from the mean share alone; with
// less noise shares differ too much for that (measured: sigma 0.32, 1815 copies). Any height gives a bound.
constexpr double kManyCopies = 1000.0;
constexpr double kMuchNoise = 0.5;
constexpr int kOctaves = 256;  // of t, around 1
// |1 - w| is at most e^{1/8} sqrt(2) Phi(-sinh(4)/sqrt(2)) < 1e-80 where edges are left behind (kInside).
constexpr double kLogLeftBehind = -184.0;
// Shares of the mass beyond the cuts of the bulks, from one to the next.
constexpr double kNextBulk = 0.25;
constexpr double kLeastOutside = 1e-13;
// A bulk whose term in t^4 is below this share of that in t^2, and which has all but this share of the variance,
// is closer than any path.
constexpr double kSharp = 0.2;
// Nanoseconds of a point, and of a cell of a path when it is made and when it is asked for.
constexpr double kPointWork = 60.0;
constexpr double kCellWork = 60.0;
constexpr double kTermWork = 2.0;
}  // namespace

StepEnvelope::StepEnvelope(const StepSum& sum) : sum_(sum), p_(sum.step().power(sum.centre())), fine_(kCell) {
    if (!(sum_.last() > sum_.first())) return;  // nothing is known of the sum
    const Window& w = sum_.window();
    const double s = sum_.step().sigma;
    edge_height_ = w.open() ? 0.0 : Window::kMostAngle * w.width;
    lay_out();
    // Inside v <= 1.5, where the modulus of 1 - q + q e^{y + iv} is still at least half of its value at v = 0.
    const bool inside = std::any_of(segments_.begin(), segments_.end(), [](const Segment& x) { return x.inside; });
    tallest_ = std::min(inside ? 8.0 * s : edge_height_, 1.5 * s * s);
    edge_height_ = std::min(edge_height_, 1.5 * s * s);
    gather_bulks();
}

void StepEnvelope::lay_out() const {
    const Window& w = sum_.window();
    const double s = sum_.step().sigma;
    const double left = sum_.first(), right = sum_.last();
    cell_ = fine_ * std::min(s, s * s);
    if (!w.open()) cell_ = std::min(cell_, 3.0 * kCell * w.width);
    cell_ = std::max(cell_, (right - left) / kMostCells);
    points_.clear();
    segments_.clear();
    const double inner_left = w.below_open() ? left : std::max(left, w.low + kInside * w.width);
    const double inner_right = w.above_open() ? right : std::min(right, w.high - kInside * w.width);
    if (inner_right > inner_left) {
        if (inner_left > left) lay(left, inner_left, false);
        lay(inner_left, inner_right, true);
        if (inner_right < right) lay(inner_right, right, false);
    } else {
        lay(left, right, false);
    }
    paths_.assign(kRungs, {});
    rungs_.assign(kOctaves, -1);
    kept_at_ = -1.0;
}

StepEnvelope::Point StepEnvelope::point(double at) const {
    const SubsampledStep& m = sum_.step();
    const double s2 = m.sigma * m.sigma;
    const double lambda = m.lambda(at);
    const double slip = 1e-9 +
                        32.0 * kRound * (at * at / s2 + std::fabs(p_ * lambda) + std::fabs(sum_.log_scale())) +
                        2.0 * std::fabs(p_) * m.lambda_err(at, lambda, 0.0);
    return {at, m.log_norm() + m.log_density(at, lambda, p_) - sum_.log_scale() + slip, m.posterior(at),
            (1.0 - m.q) / m.q * std::exp(std::min(-m.exponent(at), 700.0))};
}

void StepEnvelope::lay(double first, double last, bool inside) const {
    const auto count = static_cast<std::size_t>(std::ceil((last - first) / cell_)) + 1;
    sum_.check().spend(kPointWork * static_cast<double>(count));
    const std::size_t start = points_.size();
    for (std::size_t i = 0; i <= count; ++i)
        points_.push_back(point(
            i == count ? last : first + (last - first) * static_cast<double>(i) / static_cast<double>(count)));
    segments_.push_back({start, points_.size() - 1, inside});
}

// Heights halve from rung to rung: the bound's exponent is at most a ninth from that of the best height.
double StepEnvelope::height(int rung) const { return std::ldexp(tallest_, -rung); }

double StepEnvelope::edge_height() const { return sum_.window().open() ? tallest_ : edge_height_; }

namespace {
// log |1 - q + q e^{y+iv}|^p less its value at v = 0, versine = 1 - cos v, spread = r(1 - r).
double turned(double p, double spread, double versine) { return 0.5 * p * std::log1p(-2.0 * spread * versine); }
}  // namespace

// Before the first node r(1 - r) is below its value there, if that is on its side of 1/2. From the last one on |1
// - q
// + q e^{y+iv}|^p falls for p < 0 (v < pi/2); of a window what lies beyond has that factor already
// (StepSum::far_end).
double StepEnvelope::log_end(bool left, double high, double low) const {
    const Window& w = sum_.window();
    const double s2 = sum_.step().sigma * sum_.step().sigma;
    const Point& x = left ? points_.front() : points_.back();
    const bool inside = left ? w.below_open() : w.above_open();
    const double a = inside ? high : low;
    const double spread = !left && !inside ? 0.0 : left && !(x.share < 0.5) ? 0.25 : x.share * (1.0 - x.share);
    return sum_.log_beyond(left ? 0 : 1) + 0.5 * a * a / s2 +
           (inside || w.open() ? 0.0 : Window::log_lead(a / w.width)) +
           (p_ < 0.0 ? turned(p_, spread, versine(a / s2)) : 0.0) + 1e-9;
}

double StepEnvelope::log_outside(double height) const {
    return log_add(log_end(true, height, height), log_end(false, height, height), 1.0);
}

const StepEnvelope::Path& StepEnvelope::path(int rung) const {
    Path& out = paths_[static_cast<std::size_t>(rung)];
    if (!out.cells.empty()) return out;
    const SubsampledStep& m = sum_.step();
    const Window& w = sum_.window();
    const double s2 = m.sigma * m.sigma;
    sum_.check().spend(kCellWork * static_cast<double>(points_.size()));
    const double high = height(rung);
    const double low = std::min(high, edge_height_);
    const auto theta = [](const Point& x, double v) {
        return std::atan2(std::sin(v), x.odds + std::cos(v)) * (1.0 - 1e-12);
    };
    double interior = -kInf;  // log of the largest cell inside
    for (const Segment& segment : segments_) {
        const double a = segment.inside ? high : low;
        const double v = a / s2;
        const double bend = versine(v);
        const double alpha = segment.inside || w.open() ? 0.0 : a / w.width;
        const double sharpness = Window::sharpness(alpha);
        const double lead = 0.5 * v * a + Window::log_lead(alpha);
        double before = -kInf;
        for (std::size_t i = segment.first; i <= segment.last; ++i) {
            const Point& here = points_[i];
            const double f = here.log_density + lead + turned(p_, here.share * (1.0 - here.share), bend);
            if (i > segment.first) {
                const Point& prior = points_[i - 1];
                const double g = here.at - prior.at;
                // u = log f has u'' >= -curve, so f'' >= -curve f, and a maximum inside is at most e^{curve g^2/8}
                // above the ends.
                const double spread =
                    prior.share < 0.5 && here.share > 0.5
                        ? 0.25
                        : std::max(prior.share * (1.0 - prior.share), here.share * (1.0 - here.share));
                const double curve = 1.0 / s2 + std::fabs(p_) * spread / (1.0 - 2.0 * spread * bend) / (s2 * s2);
                const double bent = curve * g * g;
                const double most = std::max(before, f);
                // Where it bends a lot, e^{bent/8} is all there is.
                double cell = bent < 5000.0
                                  ? most + std::log(g * (0.5 + 0.5 * std::exp(std::min(before, f) - most) +
                                                         bent / 12.0 * std::exp(bent / 8.0)))
                                  : most + std::log(g * bent / 6.0) + bent / 8.0;
                if (segment.inside)  // on the path, or on the real axis
                    interior = std::max({interior, cell, std::log(g) + here.log_density + bent,
                                         std::log(g) + prior.log_density + bent});
                else
                    cell += w.log_most(prior.at, here.at, sharpness);
                out.cells.push_back(cell + 1e-9);
                out.theta.push_back(theta(prior, v));
            }
            before = f;
        }
    }
    // Up from the strip at an edge to the height further in; on a side without an edge the path is up there
    // anyway.
    if (high > low) {
        for (const Segment& segment : segments_) {
            if (!segment.inside) continue;
            for (const bool left : {true, false}) {
                if (left ? w.below_open() : w.above_open()) continue;
                const Point& x = points_[left ? segment.first : segment.last];
                const double f = std::log(high - low) + x.log_density + 0.5 * high * high / s2 +
                                 turned(p_, x.share * (1.0 - x.share), versine((p_ > 0.0 ? low : high) / s2));
                out.cells.push_back(f + 1e-9);
                out.theta.push_back(theta(x, low / s2));
                interior = std::max(interior, f);
            }
        }
    }
    const auto flat = [&](double log_size) {
        out.cells.push_back(log_size);
        out.theta.push_back(0.0);
    };
    flat(log_end(true, high, low));
    flat(log_end(false, high, low));
    if (!w.open()) flat(kLogLeftBehind + interior + std::log(static_cast<double>(points_.size())));
    return out;
}

double StepEnvelope::log_along(int rung, double from) const {
    const Path& path = this->path(rung);
    sum_.check().spend(kTermWork * static_cast<double>(path.cells.size()));
    const std::size_t n = path.cells.size();
    exponents_.resize(n);
    double most = -kInf;
    for (std::size_t i = 0; i < n; ++i) {
        exponents_[i] = path.cells[i] - from * path.theta[i];
        most = std::max(most, exponents_[i]);
    }
    if (!std::isfinite(most)) return most == -kInf ? -1e300 : kInf;
    for (double& e : exponents_) e = std::max(e - most, -50.0);
    exp_block(exponents_.data(), exponents_.data(), n);
    double sum = 0.0;
    for (const double e : exponents_) sum += e;
    return most + std::log(sum) + 1e-9;
}

// The best height grows with t, as long as one is best: looked for once an octave, from that of the last answer.
double StepEnvelope::log_paths(double from) const {
    const auto octave =
        static_cast<std::size_t>(std::clamp(std::ilogb(std::max(from, 1e-300)) + kOctaves / 2, 0, kOctaves - 1));
    int& rung = rungs_[octave];
    if (rung >= 0) return log_along(best_ = rung, from);
    // a^2/2s^2 - t a E[r]/s^2 is least at a = t E[r]: of many copies, whose t is small, that is the best height.
    if (mean_share_ > 0.0 && sum_.window().open() && sum_.step().sigma > kMuchNoise) {
        const double wanted = std::log2(tallest_ / (std::max(from, 1e-300) * mean_share_));
        best_ = static_cast<int>(std::clamp(std::nearbyint(wanted), 0.0, static_cast<double>(kRungs - 1)));
        if (sum_.copies() > kManyCopies) return log_along(rung = best_, from);
    }
    double best = log_along(best_, from);
    for (const int way : {1, -1}) {
        for (int other = best_ + way; other >= 0 && other < kRungs; other += way) {
            const double found = log_along(other, from);
            if (!(found < best)) break;
            best = found;
            best_ = other;
        }
    }
    rung = best_;
    return best;
}

void StepEnvelope::gather_bulks() {
    if (!sum_.known()) return;
    // The heavy tail is at large outputs: cuts from there.
    const double mass = sum_.mass();
    // Losses are taken from the mean of the lower half: from that of all of them, which a heavy tail moves away,
    // the moments of a bulk far narrower than that would be differences of nearly equal numbers.
    double mean = 0.0, half_mass = 0.0;
    for (const StepSum::Node& n : sum_.nodes()) {
        mean += n.weight * n.loss;
        half_mass += n.weight;
        if (half_mass > 0.5 * mass) break;
    }
    mean /= half_mass;
    for (const StepSum::Node& n : sum_.nodes())
        mean_share_ += n.weight / mass * (n.rise / (1.0 - sum_.step().q + n.rise));
    double b0 = 0.0, b1 = 0.0, b2 = 0.0, b3 = 0.0, b4 = 0.0, next = 0.5;
    const std::vector<StepSum::Node>& nodes = sum_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const double w = nodes[i].weight / mass;
        const double d = nodes[i].loss - mean;
        b0 += w;
        b1 += w * d;
        b2 += w * d * d;
        b3 += w * d * d * d;
        b4 += w * d * d * d * d;
        const double outside = std::max(0.0, 1.0 - b0);
        if ((outside < next && next > kLeastOutside) || i + 1 == nodes.size()) {
            // Roundings of the sums, which all but b1 and b3 are sums of positive terms; |b1|^2 <= b0 b2 and |b1
            // b3|
            // <= b0 b4 also for the sums of moduli.
            const double slip = kRound * 4.0 * (static_cast<double>(i) + 16.0);
            const double half = (b0 * b2 - b1 * b1) * (1.0 - 1e-6) - 2.0 * slip * b0 * b2;
            const double quarter =
                ((2.0 * b0 * b4 - 8.0 * b1 * b3 + 6.0 * b2 * b2) * (1.0 + 1e-6) + 16.0 * slip * b0 * b4) / 24.0;
            while (outside < next && next > kLeastOutside) next *= kNextBulk;
            if (!(half > 0.0 && quarter > 0.0)) continue;
            // The sums are those of the rule, which is certified up to its reach.
            const double until = std::min(std::sqrt(0.5 * half / quarter), sum_.reach());
            if (until > 0.0) bulks_.push_back({half, quarter, until});
        }
    }
}

double StepEnvelope::log_bound(double from) const {
    if (points_.empty()) return sum_.log_mass_upper() - sum_.log_scale();
    for (;;) {
        bool by_paths = false;
        const double found = log_best(from, by_paths);
        const double charge = fine_ * fine_ / 12.0;
        const double fall = sum_.log_mass_upper() - sum_.log_scale() - found;
        const bool enough = !by_paths || charge * sum_.copies() <= kCharge || charge <= kChargeShare * fall;
        if (enough || fine_ <= kLeastCell) return found;
        fine_ = std::max(0.25 * fine_, kLeastCell);
        lay_out();
    }
}

double StepEnvelope::log_best(double from, bool& by_paths) const {
    const double mass = sum_.log_mass_upper() - sum_.log_scale();
    double best = mass;
    by_paths = true;
    bool sharp = false;
    for (const Bulk& b : bulks_) {
        if (!(from < b.until)) continue;
        // What |phi|^2 is below 1 may itself be below the roundings of 1, and is multiplied by the copies.
        const double fall = from * from * (b.half - from * from * b.quarter);
        const double log_square = fall < 0.5 ? std::log1p(-fall) * (1.0 - 4.0 * kLibm)
                                             : std::log(std::max(1.0 - fall, 0.0) + 16.0 * kRound);
        const double own = mass + 0.5 * log_square + sum_.relative_quadrature() * std::exp(-0.5 * log_square);
        if (!(own < best)) continue;
        // From `until` on the paths hold.
        const double beyond = log_paths_from(b.until);
        const double bound = std::max(own, beyond);
        if (!(bound < best)) continue;
        best = bound;
        by_paths = beyond > own;
        sharp =
            !by_paths && from * from * b.quarter < kSharp * b.half && b.half > (1.0 - kSharp) * bulks_.back().half;
    }
    if (sharp) return best;
    const double along_paths = log_paths(from);
    by_paths = by_paths || along_paths < best;
    return std::min(best, along_paths);
}

// log_paths, of which that of one place is kept: bulks mostly hold up to the same one, the end of the rule.
double StepEnvelope::log_paths_from(double until) const {
    if (until != kept_at_) {
        kept_ = log_paths(until);
        kept_at_ = until;
    }
    return kept_;
}

}  // namespace dpcore::detail
