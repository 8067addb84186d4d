// The loss of the Poisson-subsampled Gaussian mechanism; see loss_law.hpp and docs/accounting.md, "Subsampled
// Gaussian". One step and the sums over its outputs are in subsampled_step.hpp.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "dpcore/loss_law.hpp"
#include "subsampled_step.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMaxNodes = detail::SubsampledStep::kMaxNodes;
// What lies beyond the last of the cuts of an envelope.
constexpr double kLeastOutside = 1e-13;
// Outputs beyond which a sum that places contours looks at the humps of the density only; nanoseconds of one.
constexpr double kManyOutputs = 8192.0;
constexpr double kOutputWork = 40.0;

using detail::StepSum;
using detail::SubsampledStep;
using detail::Window;

struct Node {
    double loss;
    double weight;
};

class SubsampledLine final : public LossLine {
public:
    SubsampledLine(const SubsampledStep& step, double c, double reach, double copies, StopCheck stop)
        : m_(step),
          c_(c),
          copies_(copies),
          stop_(stop),
          sum_(step, Window{}, c, reach, 1e-14 / std::max(1.0, copies), true, stop) {
        for (const StepSum::Node& n : sum_.nodes()) nodes_.push_back({n.loss, n.weight});
        mass_ = sum_.mass();
    }

    Certified value(double t) const override { return certified_log1p(sum_.value(t)); }

    double log_envelope(double from) const override {
        if (table_.empty()) tabulate();
        // Below the first entry: the quartic bound of the bulk.
        double bound = 0.0;
        const double base = sum_.log_mass_upper();
        if (from < table_.front().from)
            bound = std::max(quartic(from), table_.front().suffix);
        else {
            std::size_t i = table_.size() - 1;
            while (i > 0 && table_[i].from > from) --i;
            bound = table_[i].suffix;
            if (i + 1 == table_.size()) bound = std::min(bound, far(std::max(from, 1e-300)));
        }
        return base + std::log(std::min(1.0, bound));
    }
    double derivative_size(double, double) const override { return 0.0; }
    double cost() const override { return 10.0 * static_cast<double>(nodes_.size()); }  // a sine and a cosine each

private:
    struct Entry {
        double from;
        double suffix;  // bound of |phi| from here to infinity
    };

    // Bound of |phi(t)| from |phi|^2 = E cos(tD) <= 1 - t^2 A + t^4 B over pairs of losses in the bulk (losses up
    // to one of a few cuts); the bound falls up to t^2 = A/(2B), so a cut is used only up to there.
    double quartic(double t) const {
        double best = 1.0;
        for (const Bulk& b : bulks_) {
            if (t * t * 2.0 * b.quarter > b.half) continue;
            best = std::min(best, std::sqrt(std::max(0.0, 1.0 - (1.0 - 1e-6) * t * t * b.half +
                                                              (1.0 + 1e-6) * t * t * t * t * b.quarter)));
        }
        return best;
    }

    void tabulate() const;

    // |phi(t)| far out.
    double far(double t) const {
        double best = 1.0;
        for (const Cut& cut : cuts_) best = std::min(best, cut.mass + cut.variation / t);
        return best;
    }

    struct Cut {
        double mass;       // to the left of the cut
        double variation;  // of the density to the right
    };
    struct Bulk {
        double half;     // E[D^2; bulk]/2
        double quarter;  // E[D^4; bulk]/24
        double outside;  // mass beyond the cut
        double spread;   // E[(L - mean)^2; bulk]
    };

    SubsampledStep m_;
    double c_, copies_;
    StopCheck stop_;
    StepSum sum_;
    std::vector<Node> nodes_;
    double mass_ = 1.0;
    mutable std::vector<Bulk> bulks_;
    mutable std::vector<Entry> table_;
    mutable std::vector<Cut> cuts_;
};

void SubsampledLine::tabulate() const {
    const double s = m_.sigma;
    const double s2 = s * s;
    const double p = m_.power(c_);
    if (!sum_.known()) {
        table_.push_back({0.0, 1.0});
        return;
    }
    // Nodes ordered by loss: ascending x for removal, descending for addition. Prefix moments about the mean.
    std::vector<Node> order(nodes_);
    if (!m_.removal) std::reverse(order.begin(), order.end());
    double mean = 0.0;
    for (const Node& n : order) mean += n.weight * n.loss;
    mean /= mass_;
    // Removal has its heavy tail at large losses, addition (L = -Lambda) at small ones: cut the far end of Lambda.
    if (!m_.removal) std::reverse(order.begin(), order.end());
    double b0 = 0.0, b1 = 0.0, b2 = 0.0, b3 = 0.0, b4 = 0.0;
    double next = 0.5;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const double w = order[i].weight / mass_;
        const double d = order[i].loss - mean;
        b0 += w;
        b1 += w * d;
        b2 += w * d * d;
        b3 += w * d * d * d;
        b4 += w * d * d * d * d;
        const double outside = std::max(0.0, 1.0 - b0);
        // Cuts that leave less than the last one are hardly different, and there is one for every further node.
        if ((outside < next && next > kLeastOutside) || i + 1 == order.size()) {
            bulks_.push_back(
                {b0 * b2 - b1 * b1, (2.0 * b0 * b4 - 8.0 * b1 * b3 + 6.0 * b2 * b2) / 24.0, outside + 1e-12, b2});
            while (outside < next && next > kLeastOutside) next *= 0.25;
        }
    }
    // Total variation of the density g of L: |phi| <= TV/t. (log g)' = (-x - 1 + (p+1) r)/s^2 has one zero when
    // (p+1)/(4 s^2) <= 1, else at most three; TV is twice the sum of the maxima, at most two of them inside.
    // The density peaks where Lambda flattens out (far left), which makes TV large: leaving out the part of mass w
    // to the left of a cut gives |phi| <= w + TV(rest)/t, for the best of a few cuts. Restricted, at most one
    // boundary maximum is added.
    const double grid = std::min(s / 8.0, s2 / 4.0);
    const double from = m_.lowest(p, 2.0);
    const double extent = (m_.highest(p, 2.0) - from) / grid;
    if (extent < kMaxNodes) {
        const bool unimodal = p + 1.0 <= 4.0 * s2;
        const double over = grid * grid / 8.0 * (1.0 / s2 + std::fabs(p + 1.0) / (4.0 * s2 * s2)) + 1e-9;
        const auto cells = static_cast<std::size_t>(extent) + 1;
        std::vector<double> height(cells), mass(cells);
        const double scale = m_.log_norm() - std::log(mass_);
        for (std::size_t i = 0; i < cells; ++i) {
            const double x = from + grid * static_cast<double>(i);
            const double d = m_.log_density(x, m_.lambda(x), p) + scale;
            height[i] = std::exp(d - std::log(m_.posterior(x)) + std::log(s2) + over);
            mass[i] = std::exp(d + over) * grid;
        }
        // Mass left of a cut: each cell by the larger of its ends (raised for a maximum between them), and what
        // lies before the first, where the density falls at least at the rate it has there: its own power of
        // Lambda is concave for p < 0 and falls to the left for p > 0.
        std::vector<double> peak(height);
        for (std::size_t i = cells - 1; i-- > 0;) peak[i] = std::max(peak[i], peak[i + 1]);
        const double factor = (unimodal ? 2.0 : 6.0) * (1.0 + 1e-6);
        cuts_.push_back({0.0, (unimodal ? 2.0 : 4.0) * peak[0] * (1.0 + 1e-6)});
        const double rate = (std::min(p, 0.0) * m_.posterior(from) - from) / s2;
        double left = 1e-6 + mass[0] / grid / rate;
        double due = 0.01;
        for (std::size_t i = 0; i + 1 < cells; ++i) {
            left += std::max(mass[i], mass[i + 1]);
            if (left >= due) {
                cuts_.push_back({left, factor * peak[i + 1]});
                due = left * 1.2;
            }
        }
    }
    const double target = std::exp(-38.0 / std::max(1.0, copies_));  // no use in knowing |phi| to be smaller
    double end = 1e300;
    for (const Cut& cut : cuts_)
        if (cut.mass < 0.9 * target) end = std::min(end, cut.variation / (0.9 * target - cut.mass));

    // Second-order quadrature for the samples: error <= h^2/8 integral |f''|, f = W exp(itL);
    // integral |f''| <= I2 + 2t sqrt(S2 I2) + t S1 + t^2 S2 with the integrals below.
    double slope2 = 0.0, rate2 = 0.0, bend = 0.0;
    for (const Node& n : nodes_) {
        const double rise = std::expm1(m_.sign() * n.loss) + m_.q;
        const double r = std::min(1.0, std::max(0.0, rise / (rise + 1.0 - m_.q)));
        const double y = r > 0.0 && m_.q < 1.0 ? std::log(std::max(rise / m_.q, 1e-300)) : -700.0;
        const double x = y * s2 + 0.5;
        const double slope = (-x + p * r) / s2;
        const double w = n.weight / mass_;
        slope2 += w * slope * slope;
        rate2 += w * r * r;
        bend += w * r * (1.0 - r);
    }
    rate2 /= s2 * s2;
    bend /= s2 * s2;
    const double curve = slope2 + (1.0 + std::fabs(p) / (4.0 * s2)) / s2;
    const auto sample_bound = [&](double t) {
        return 1.01 * (curve + 2.0 * t * std::sqrt(rate2 * slope2) + t * bend + t * t * rate2) / 8.0;
    };

    // From where the best quartic bound stops falling.
    double start = 0.0;
    double floor = 1.0;
    for (const Bulk& b : bulks_) {
        const double t = std::sqrt(b.half / (2.0 * b.quarter));
        const double at = quartic(t * (1.0 - 1e-9));
        if (at < floor) {
            floor = at;
            start = t * (1.0 - 1e-9);
        }
    }
    if (!(start > 0.0) || !(end < 1e300)) {
        table_.push_back({0.0, 1.0});
        return;
    }
    const double allowed = 0.1 * std::min(1.0 - floor, 0.2);
    double h = std::sqrt(allowed / sample_bound(std::min(end, 1e3 * start)));
    h = std::min(h, s / 4.0);
    std::vector<Node> coarse;
    const double low = m_.lowest(p, 7.0);
    const double high = m_.highest(p, 7.0);
    double lost = 0.0;
    if ((high - low) / h < 20000.0) {
        const double scale = m_.log_norm() + std::log(h) - std::log(mass_);
        for (double i = std::floor(low / h); i <= high / h; i += 1.0) {
            const double l = m_.lambda(i * h);
            const double w = std::exp(m_.log_density(i * h, l, p) + scale);
            if (w > 1e-9)
                coarse.push_back({m_.sign() * l, w});
            else
                lost += w;
        }
        lost += 1e-9;
    }
    const auto sample = [&](double t) {
        stop_.spend(30.0 * static_cast<double>(coarse.size()));
        double re = 0.0, im = 0.0;
        for (const Node& n : coarse) {
            re += n.weight * std::cos(t * (n.loss - mean));
            im += n.weight * std::sin(t * (n.loss - mean));
        }
        return std::sqrt(re * re + im * im) + lost + h * h * sample_bound(t);
    };
    std::vector<std::pair<double, double>> pieces;  // [from, next from): bound
    double t = start;
    if (!coarse.empty()) {
        double here = sample(t);
        for (int count = 0; t < end && count < 400; ++count) {
            // The widest step whose interpolation error keeps the bound within reach of the samples.
            const double room = std::max(0.3 * (1.0 - std::min(here, 1.0)), 1e-6);
            const double wish = here > 0.5 ? room : std::max(0.25 * here, 0.2 * target);
            double spread = kInf, outside = 0.0;
            for (const Bulk& b : bulks_) {
                if (2.0 * b.outside < 0.25 * wish && b.spread < spread) {
                    spread = b.spread;
                    outside = b.outside;
                }
            }
            if (!(spread < kInf)) break;
            double step = std::sqrt(8.0 * 0.75 * wish / spread);
            step = std::min(step, 0.5 * t);
            const double there = sample(t + step);
            const double bound = std::max(here, there) + spread * step * step / 8.0 + 2.0 * outside;
            if (!(bound < 1.0)) break;
            pieces.emplace_back(t, bound);
            t += step;
            here = there;
        }
    }
    double suffix = far(t);
    table_.push_back({t, suffix});
    for (std::size_t i = pieces.size(); i-- > 0;) {
        suffix = std::max(suffix, pieces[i].second);
        table_.push_back({pieces[i].first, suffix});
    }
    std::reverse(table_.begin(), table_.end());
}

class SubsampledLaw final : public LossLaw {
public:
    explicit SubsampledLaw(SubsampledStep model) : m_(model) {}
    LawKind kind() const override { return LawKind::subsampled_gaussian; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        const double p = m_.power(c);
        const double step = std::min(0.5 * m_.sigma, 0.5 * m_.sigma * m_.sigma) * 0.9;
        const double low = m_.lowest(p, 9.0);
        const double high = m_.highest(p, 9.0);
        // Outputs from which the tilted density is summed, and up to which.
        std::vector<std::pair<double, double>> spans = {{low, high}};
        if ((high - low) / step > kManyOutputs) {
            // For a large power it has a hump at the least root of x = p r(x) and one at the largest, of a width
            // of sigma or so: only these.
            const double wide = 40.0 * m_.sigma;
            const auto root = [&](double x) {
                for (int i = 0; i < 200; ++i) {
                    const double next = p * m_.posterior(x);
                    if (std::fabs(next - x) < 0.1 * m_.sigma) break;
                    x = next;
                }
                return x;
            };
            const double first = std::clamp(root(0.0), low, high);
            const double last = std::clamp(root(p), low, high);
            spans = {{std::max(low, first - wide), std::min(high, first + wide)}};
            const double from = std::max(last - wide, spans[0].second + step);
            if (from < high) spans.emplace_back(from, std::min(high, last + wide));
        }
        double less = 0.0, mass = 0.0, first = 0.0, second = 0.0, top = -kInf;
        const double scale = m_.log_norm() + std::log(step);
        // Two passes only where the tilted mass would overflow.
        double shift = 0.0;
        for (int pass = 0; pass < 2; ++pass) {
            less = mass = first = second = 0.0;
            for (const auto& [start, end] : spans) {
                stop.spend(kOutputWork * (end - start) / step);
                for (double i = 0.0; i <= (end - start) / step; i += 1.0) {
                    const double x = start + i * step;
                    const double l = m_.lambda(x);
                    const double e = m_.log_density(x, l, p) + scale;
                    top = std::max(top, e);
                    const double w = std::exp(e - shift);
                    const double loss = m_.sign() * l;
                    less += c * loss > 0.0 ? -w * std::expm1(-c * loss)
                                           : std::exp(e - shift - c * loss) * std::expm1(c * loss);
                    mass += w;
                    first += w * loss;
                    second += w * loss * loss;
                }
            }
            if (top < 600.0) break;
            shift = top;
        }
        const double mean = first / mass;
        const double value = shift == 0.0 && std::fabs(less) < 0.5 ? std::log1p(less) : std::log(mass) + shift;
        return {value, mean, std::max(second / mass - mean * mean, 1e-300)};
    }
    std::unique_ptr<LossLine> line(double c, double reach, double copies, bool, StopCheck stop) const override {
        return std::make_unique<SubsampledLine>(m_, c, reach, copies, stop);
    }
    double max_loss() const override { return m_.removal ? kInf : -std::log1p(-m_.q) * (1.0 + kLibm); }
    double min_loss() const override { return m_.removal ? std::log1p(-m_.q) * (1.0 + kLibm) : -kInf; }
    std::vector<double> parameters() const override { return {m_.sigma, m_.q, m_.removal ? 1.0 : 0.0}; }

private:
    SubsampledStep m_;
};

}  // namespace

LawPtr subsampled_gaussian_law(double sigma, double rate, bool removal) {
    return std::make_shared<SubsampledLaw>(SubsampledStep{sigma, rate, removal});
}

}  // namespace dpcore
