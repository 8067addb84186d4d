#include "largest_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "dpcore/normal.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Points of the sums that place contours.
constexpr double kMostPoints = 20000.0;
// Nanoseconds of such a point: when it is tabulated, and in a sum.
constexpr double kPointWork = 150.0;
constexpr double kSumWork = 8.0;

// The steps of one subsampled term, divided at `low` and `high`.
struct Part {
    SubsampledStep step;
    double copies;
    double low;  // minus infinity: everything below `high`
    double high;
    double width;
    double* work;  // nodes looked at, for whoever divides
    StopCheck stop;

    bool all_below() const { return low == -kInf; }
    Window below() const { return {-kInf, all_below() ? high : low, width}; }
    Window within() const { return {low, high, width}; }
};

// K on one line. With B the sum of copies * log(1 + H/M_<), H the sum over the window and M_< that below it,
// log G = sum of copies * log M_< + log(e^B - 1).
class LargestStepLine final : public LossLine {
public:
    LargestStepLine(const std::vector<Part>& parts, double c, double reach) : parts_(parts) {
        for (const Part& p : parts_) {
            below_.emplace_back(p.step, p.below(), c, reach, 1e-14 / std::max(1.0, p.copies), true, p.stop);
            *p.work += below_.back().work();
            if (p.all_below()) continue;
            within_.emplace_back(p.step, p.within(), c, reach, 1e-14, false, p.stop);
            *p.work += within_.back().work();
        }
    }

    void expect(double spacing) override {
        for (const StepSum& sum : below_) sum.expect(spacing);
        for (const StepSum& sum : within_) sum.expect(spacing);
    }

    Certified value(double t) const override {
        Certified lower = {{0.0, 0.0}, 0.0};  // sum of copies * log M_<
        double size = 0.0;
        std::vector<Certified> under;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            under.push_back(below_[i].value(t));
            const Certified v = certified_log1p(under.back());
            lower.value = lower.value + parts_[i].copies * v.value;
            lower.err += parts_[i].copies * v.err;
            size += parts_[i].copies * abs(v.value);
        }
        lower.err += 4.0 * kRound * (static_cast<double>(parts_.size()) + 1.0) * size;
        if (within_.empty()) return lower;
        // Hardly anything below the window of one term: no quotient by M_<.
        if (!std::isfinite(lower.err)) return from_above(t, under);
        double scale = -kInf;
        for (const StepSum& w : within_) scale = std::max(scale, w.log_scale());
        // Small enough for e^B - 1 = B and log(1 + H/M_<) = H/M_< to within the roundings: B is then kept apart
        // from its scale, which may be beyond the range of double.
        const bool tiny = scale < -60.0;
        Certified total = {{0.0, 0.0}, 0.0};
        double most = 0.0;  // sum of copies * |H/M_<|
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const Certified h = within_[i].value(t);
            const double factor = std::exp(within_[i].log_scale() - (tiny ? scale : 0.0));
            const double slip = kLibm + 2.0 * kRound * (std::fabs(scale) + std::fabs(within_[i].log_scale()));
            const Certified scaled = {factor * h.value, factor * (h.err + slip * (abs(h.value) + h.err))};
            const Certified one = {{1.0 + under[i].value.re, under[i].value.im},
                                   under[i].err + kRound * (1.0 + abs(under[i].value))};
            const Certified ratio = quotient(scaled, one);
            const Certified part = tiny ? ratio : certified_log1p(ratio);
            most += parts_[i].copies * (abs(ratio.value) + ratio.err);
            total.value = total.value + parts_[i].copies * part.value;
            total.err += parts_[i].copies * (part.err + 4.0 * kRound * abs(part.value));
        }
        if (tiny) {
            const double size_of_b = most * std::exp(scale) * (1.0 + 1e-9);
            total.err = size_of_b < 1e-3 ? total.err + 4.0 * most * size_of_b : kInf;
        } else {
            total = certified_expm1(total.value, total.err);
        }
        Certified out = certified_log(total);
        const double shift = tiny ? scale : 0.0;
        out.value = {out.value.re + lower.value.re + shift, out.value.im + lower.value.im};
        const double slip = lower.err + 4.0 * kRound * (std::fabs(shift) + abs(lower.value) + abs(out.value));
        if (std::isinf(out.err)) out.value.re += slip;  // an upper bound then, and to stay one
        out.err += slip;
        return out;
    }

    double log_envelope(double from) const override {
        if (within_.empty()) {
            double sum = 0.0;
            for (std::size_t i = 0; i < parts_.size(); ++i) sum += parts_[i].copies * below_[i].log_envelope(from);
            return sum;
        }
        // |product of M_<=^k - product of M_<^k| <= sum of k |H| M_<=(c)^{k-1} times the others' M_<=(c)^k.
        double all = 0.0, top = -kInf;
        std::vector<double> each;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const double a = below_[i].log_mass_upper();
            const double b = within_[i].log_mass_upper();
            const double most = std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
            all += parts_[i].copies * most;
            each.push_back(std::log(parts_[i].copies) + within_[i].log_envelope(from) - most);
            top = std::max(top, each.back());
        }
        double sum = 0.0;
        for (const double e : each) sum += std::exp(e - top);
        return all + top + std::log(sum) + 1e-9 * (1.0 + std::fabs(all));
    }

    double derivative_size(double, double) const override { return 0.0; }

    double cost() const override {
        std::size_t nodes = 0;
        for (const StepSum& sum : below_) nodes += sum.nodes().size();
        for (const StepSum& sum : within_) nodes += sum.nodes().size();
        return static_cast<double>(nodes);
    }

private:
    // log G = sum of copies * log M_<= + log(1 - P), P the product of (M_</M_<=)^k, of which only the size is
    // used.
    Certified from_above(double t, const std::vector<Certified>& under) const {
        Certified all = {{0.0, 0.0}, 0.0};
        double most = 0.0, least = 0.0, size = 0.0;  // of log |product of M_<=|, and of M_< at most
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const Certified h = within_[i].value(t);
            const double log_factor = within_[i].log_scale();
            const double factor = std::exp(log_factor);
            const double slip = kLibm + 2.0 * kRound * std::fabs(log_factor);
            const Certified scaled = {factor * h.value, factor * (h.err + slip * (abs(h.value) + h.err)) + 1e-300};
            const Certified v = certified_log1p(under[i] + scaled);
            const Certified u = certified_log1p(under[i]);
            const double k = parts_[i].copies;
            all.value = all.value + k * v.value;
            all.err += k * v.err;
            most += k * (v.value.re + (std::isinf(v.err) ? 0.0 : v.err));
            least += k * (u.value.re + (std::isinf(u.err) ? 0.0 : u.err));
            size += k * (abs(v.value) + abs(u.value));
        }
        const double slip = 4.0 * kRound * (static_cast<double>(parts_.size()) + 1.0) * size;
        all.err += slip;
        const double share = std::exp(least - all.value.re + all.err + slip) * (1.0 + kLibm);
        if (share < 0.5) {
            all.err += 2.0 * share;  // |log(1 - P)| <= 2 |P|
            return all;
        }
        const double top = std::max(most, least) + 0.7 + slip;  // |G| <= both together
        return {{std::isnan(top) ? kInf : top, 0.0}, kInf};
    }

    static Certified quotient(const Certified& a, const Certified& b) {
        const double size = abs(b.value);
        const Complex v = a.value / b.value;
        if (!(size > 2.0 * b.err)) return {v, kInf};
        return {v, kSlack * (a.err + abs(v) * b.err) / (size - b.err) + kComplexOp * abs(v)};
    }

    std::vector<Part> parts_;
    std::vector<StepSum> below_, within_;
};

class LargestStepLaw final : public LossLaw {
public:
    explicit LargestStepLaw(std::vector<Part> parts) : parts_(std::move(parts)) {
        for (const Part& p : parts_) grids_.push_back(tabulate(p));
        const Certified mass = LargestStepLine(parts_, 0.0, 0.0).value(0.0);
        const bool known = std::isfinite(mass.err);
        log_mass_ = mass.value.re < 0.0 ? mass.value.re : 0.0;  // 0 also where nothing is known
        log_mass_err_ = known ? mass.err : 1e3;
    }

    LawKind kind() const override { return LawKind::largest_step; }

    Cumulants cumulants(double c, StopCheck stop) const override {
        Cumulants low;  // of the product of M_<^k
        double scale = -kInf;
        std::vector<Sums> under, inside;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const double p = parts_[i].step.power(c);
            if (!(p <= grids_[i].most)) return {kInf, kInf, kInf};
            stop.spend(kSumWork * static_cast<double>(grids_[i].below.size() + grids_[i].within.size()));
            under.push_back(sums(grids_[i], grids_[i].below, p, parts_[i].step.sign()));
            const double k = parts_[i].copies;
            low.value += k * under[i].log_mass;
            low.first += k * under[i].mean;
            low.second += k * under[i].variance;
            if (parts_[i].all_below()) continue;
            inside.push_back(sums(grids_[i], grids_[i].within, p, parts_[i].step.sign()));
            scale = std::max(scale, inside[i].log_mass - under[i].log_mass);
        }
        if (inside.empty()) return low;
        // B = sum of k log(1 + rho), rho = H/M_<, and its first two derivatives, all times exp(-shift).
        const double shift = scale < -30.0 ? scale : 0.0;
        double b = 0.0, b1 = 0.0, b2 = 0.0;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const double k = parts_[i].copies;
            const double log_rho = inside[i].log_mass - under[i].log_mass;
            const double rho = std::exp(log_rho - shift);
            const double far = inside[i].mean - under[i].mean;
            if (shift != 0.0) {
                b += k * rho;
                b1 += k * rho * far;
                b2 += k * rho * (far * far + inside[i].variance - under[i].variance);
            } else {
                const double share = rho < 1e300 ? rho / (1.0 + rho) : 1.0;
                b += k * (log_rho < 500.0 ? std::log1p(rho) : log_rho);
                b1 += k * share * far;
                b2 += k * share * (far * far * (1.0 - share) + inside[i].variance - under[i].variance);
            }
        }
        // log G = low + log(e^B - 1).
        if (shift != 0.0)
            return {low.value + std::log(b) + shift, low.first + b1 / b, low.second + b2 / b - b1 * b1 / (b * b)};
        const double rest = -std::expm1(-b);  // (e^B - 1)/e^B
        const double log_rest = b > 1e-8 ? b + std::log(rest) : std::log(b);
        return {low.value + log_rest, low.first + b1 / rest,
                low.second + (b2 - b1 * b1 * std::exp(-b) / rest) / rest};
    }

    std::unique_ptr<LossLine> line(double c, double reach, double, bool, StopCheck) const override {
        return std::make_unique<LargestStepLine>(parts_, c, reach);
    }
    double max_loss() const override {
        double sum = 0.0;
        for (const Part& p : parts_)
            sum += p.step.removal ? kInf : -p.copies * std::log1p(-p.step.q) * (1.0 + 2.0 * kLibm);
        return sum;
    }
    double min_loss() const override {
        double sum = 0.0;
        for (const Part& p : parts_)
            sum += p.step.removal ? p.copies * std::log1p(-p.step.q) * (1.0 + 2.0 * kLibm) : -kInf;
        return sum;
    }
    double log_finite_mass() const override { return log_mass_; }
    double log_total_mass() const override { return log_mass_; }
    double log_mass_err() const override { return log_mass_err_; }
    std::vector<double> parameters() const override { return {}; }

private:
    struct Grid {
        double most;  // largest power of the density for which the grid reaches far enough
        std::vector<double> lambda;
        std::vector<double> below;  // log of N(x) w(x) dx
        std::vector<double> within;
    };
    struct Sums {
        double log_mass, mean, variance;
    };

    // Sums for the placing of contours, by a trapezoid rule of 0.35 widths, which is good to five digits. Ten
    // widths beyond the edge the window outweighs every power up to `most`; below, the density of an addition is
    // shifted.
    static Grid tabulate(const Part& p) {
        const double s = p.step.sigma;
        const double fine = std::min({0.35 * p.width, 0.35 * s, 0.35 * s * s});
        const double edge = p.all_below() || std::isfinite(p.high) ? p.high : p.low;
        Grid g;
        g.most = 1e7;
        const double last =
            std::isfinite(p.high) ? edge + 10.0 * p.width : std::max(edge + 10.0 * p.width, 9.0 * s + 1.0);
        const double first = std::min(p.step.lowest(p.step.removal ? 0.0 : -1e6, 9.0), edge - 9.0 * p.width);
        const double step = std::max(fine, (last - first) / kMostPoints);
        const Window below = p.below();
        const Window within = p.within();
        const double scale = p.step.log_norm() + std::log(step);
        p.stop.spend(kPointWork * (last - first) / step);
        for (double i = std::floor(first / step); i * step <= last; i += 1.0) {
            const double x = i * step;
            const double density = scale - x * x / (2.0 * s * s);
            g.lambda.push_back(p.step.lambda(x));
            g.below.push_back(density + below.log_weight(x));
            if (p.all_below()) continue;
            g.within.push_back(density + within.log_weight(x));
        }
        return g;
    }

    static Sums sums(const Grid& g, const std::vector<double>& log_weight, double p, double sign) {
        double top = -kInf;
        for (std::size_t i = 0; i < log_weight.size(); ++i) top = std::max(top, log_weight[i] + p * g.lambda[i]);
        double mass = 0.0, first = 0.0, second = 0.0;
        for (std::size_t i = 0; i < log_weight.size(); ++i) {
            const double e = log_weight[i] + p * g.lambda[i] - top;
            if (e < -45.0) continue;
            const double w = std::exp(e);
            mass += w;
            first += w * g.lambda[i];
        }
        const double mean = first / mass;
        for (std::size_t i = 0; i < log_weight.size(); ++i) {
            const double e = log_weight[i] + p * g.lambda[i] - top;
            if (e < -45.0) continue;
            second += std::exp(e) * (g.lambda[i] - mean) * (g.lambda[i] - mean);
        }
        return {std::log(mass) + top, sign * mean, second / mass};
    }

    std::vector<Part> parts_;
    std::vector<Grid> grids_;
    double log_mass_ = 0.0, log_mass_err_ = 0.0;
};

SubsampledStep step_of(const Term& t) {
    const std::vector<double> p = t.law->parameters();
    return {p[0], p[1], p[2] != 0.0};
}

// Least distance of two cuts: one scale of the output, or of its odds e^{x/s^2}.
double cut_distance(const SubsampledStep& s) { return std::min(2.0 * s.sigma, 1.5 * s.sigma * s.sigma); }

// Width of a cut's edge. Over it the odds change by 15 %: what a tilt by c makes of the losses beyond it, up to
// e^{40 times their change}, the window's fall makes up for at once.
double edge_width(const SubsampledStep& s) { return std::min(0.5 * s.sigma, 0.15 * s.sigma * s.sigma); }

// exp(a) + exp(b), outward; where one is not known, neither is the sum.
double log_add(double a, double b, double direction) {
    if (std::isnan(a) || std::isnan(b)) return direction * kInf;
    const double top = std::max(a, b);
    if (std::isinf(top)) return top;
    const double sum = top + std::log1p(std::exp(std::min(a, b) - top));
    return sum + direction * (2.0 * kLibm + 2.0 * kRound * std::fabs(sum));
}

// Widths are driven to a sixth of what is enough, e^-1.8 of it, those of single pieces to half of that; what a
// piece is not worth looking at below is a thirtieth of that again. All as logarithms relative to the sum.
constexpr double kShare = 1.8;
constexpr double kPieceShare = 0.7;
constexpr double kNegligibleShare = 3.5;
// Contours for one answer, and cuts; two to eight are usual.
constexpr int kMostContours = 40;
constexpr int kMostCuts = 48;
// The least piece, in distances of cuts: contours that fail on a piece mostly succeed on its parts.
constexpr double kLeastPiece = 0.03;
// Nodes looked at for them, about a microsecond each.
constexpr double kMostLooked = 3e6;
// As many where delta is below every use.
constexpr double kFarBelow = -1000.0;
constexpr int kFewCuts = 8;

// A composition cut into pieces by its largest step, the widest of them looked at more closely until they are
// narrow.
class Divided {
public:
    Divided(const Composition& comp, double epsilon, double content, StopCheck stop)
        : epsilon_(epsilon),
          narrow_(kShare - std::log(content)),
          negligible_(narrow_ + kNegligibleShare),
          stop_(stop) {
        for (const Term& t : comp.terms) {
            if (t.law->kind() == LawKind::subsampled_gaussian)
                steps_.push_back(t);
            else
                others_.push_back(t);
        }
        std::sort(steps_.begin(), steps_.end(), [](const Term& a, const Term& b) {
            return a.copies * a.law->parameters()[1] > b.copies * b.law->parameters()[1];
        });
        const SubsampledStep base = step_of(steps_[0]);
        distance_ = cut_distance(base);
        // Not below the largest of so many outputs: what lies under it has light tails.
        lowest_ = base.sigma * normal_quantile_tail(std::min(0.5, 1.0 / steps_[0].copies));
        // The output at which one step beside unsampled ones reaches epsilon.
        double level = epsilon;
        if (!base.removal) {
            level = -epsilon + std::log1p(-base.q);
            for (const Term& t : steps_) level -= t.copies * std::log1p(-t.law->parameters()[1]);
        }
        if (level > std::log1p(-base.q) * (1.0 - 1e-9)) reaching_ = base.place(level);
        most_ = std::min(log_chernoff_above(comp, epsilon, stop), comp.log_finite_mass + comp.log_mass_err);
    }

    LogBounds bounds() {
        LogBounds best = {-kInf, most_};  // of all divisions
        try {
            divide(best);
        } catch (const OutOfWork&) {  // what has been found holds
        }
        return {best.log_lower, std::min(best.log_upper, most_)};
    }

private:
    void divide(LogBounds& best) {
        const double top = top_for(most_ - negligible_);
        pieces_.push_back(piece(-kInf, top));
        pieces_.push_back(piece(top, kInf));
        LogBounds sum = total();
        for (int contours = 0, cuts = 0;;) {
            stop_();
            const double enough = best.log_lower - narrow_;
            if (log_width(best) <= enough || work_ > kMostLooked) break;
            Piece* widest = nullptr;
            for (Piece& p : pieces_)
                if (p.stage != Stage::done &&
                    (widest == nullptr || log_width(p.bounds) > log_width(widest->bounds)))
                    widest = &p;
            if (widest == nullptr || log_width(widest->bounds) <= enough - kPieceShare) break;
            if (widest->stage == Stage::moment) {
                if (++contours > kMostContours) break;
                look(*widest, best.log_lower - negligible_);
            } else {
                if (++cuts > (best.log_upper < kFarBelow ? kFewCuts : kMostCuts)) break;
                split(*widest, best.log_lower);
            }
            sum = total();
            best = {std::max(best.log_lower, sum.log_lower), std::min(best.log_upper, sum.log_upper)};
        }
    }

    // What is known of a piece: one exponential moment and its mass; a contour; or all there is to know.
    enum class Stage { moment, contour, done };
    struct Piece {
        double low, high;
        LogBounds bounds;
        Stage stage;
    };

    // log of (upper - lower)
    static double log_width(const LogBounds& b) {
        if (b.log_lower == -kInf) return b.log_upper;
        return b.log_upper + std::log(-std::expm1(std::min(b.log_lower - b.log_upper, 0.0)));
    }

    LogBounds total() const {
        LogBounds sum = {-kInf, -kInf};
        for (const Piece& p : pieces_) {
            sum.log_lower = log_add(sum.log_lower, p.bounds.log_lower, -1.0);
            sum.log_upper = log_add(sum.log_upper, p.bounds.log_upper, 1.0);
        }
        return sum;
    }

    double cut(const SubsampledStep& step, double at) const {
        const SubsampledStep base = step_of(steps_[0]);
        if (std::isinf(at) || (step.sigma == base.sigma && step.q == base.q)) return at;
        // At the same loss, or, below all losses of the other step, at its lowest outputs; a little apart in any
        // case, so that rounding does not change the order of two cuts.
        const double rise = std::expm1(base.lambda(at)) / step.q;
        const double floor = -9.0 * step.sigma - 1.0;
        const double same = rise > -1.0 + 1e-6 ? std::max(floor, step.place(base.lambda(at))) : floor;
        return same + 1e-3 * edge_width(step) * at / base.sigma;
    }

    // The composition with its subsampled steps restricted: the largest between two cuts, or all below one.
    Composition composition(double low, double high) const {
        std::vector<Part> parts;
        for (const Term& t : steps_) {
            const SubsampledStep s = step_of(t);
            parts.push_back({s, t.copies, cut(s, low), cut(s, high), edge_width(s), &work_, stop_});
        }
        std::vector<Term> terms = others_;
        terms.push_back({std::make_shared<LargestStepLaw>(std::move(parts)), 1.0});
        Composition out = Composition::of(std::move(terms));
        // Infinite losses of the others are added at the end, once.
        out.log_total_mass = out.log_finite_mass;
        out.log_finite_share = 0.0;
        out.infinite_mass = 0.0;
        return out;
    }

    Piece piece(double low, double high) const {
        const Composition comp = composition(low, high);
        const double mass = comp.log_finite_mass + comp.log_mass_err;
        // Above the last cut the tail is too heavy for a moment.
        const double most = std::isinf(high) ? mass : std::min(mass, log_chernoff_above(comp, epsilon_, stop_));
        const Stage stage = mass > 1.0 ? Stage::done : (std::isinf(high) ? Stage::contour : Stage::moment);
        return {low, high, {-kInf, std::isnan(most) ? mass : most}, stage};
    }

    // A contour: the law lies mostly above epsilon, or mostly not. `negligible` is the logarithm of what need not
    // be known.
    void look(Piece& p, double negligible) const {
        const Composition comp = composition(p.low, p.high);
        const LogBounds found = comp.cumulants(0.0, stop_).first > epsilon_
                                    ? mostly_above(comp, epsilon_, negligible, stop_)
                                    : spectral_delta(comp, epsilon_, stop_);
        p.bounds.log_lower = std::max(p.bounds.log_lower, found.log_lower);
        p.bounds.log_upper = std::min(p.bounds.log_upper, found.log_upper);
        // What is known to ten digits gains nothing from being cut.
        p.stage = log_width(p.bounds) <= p.bounds.log_lower - narrow_ ? Stage::done : Stage::contour;
    }

    // Two pieces for one, cut where one step alone reaches epsilon if that is inside, else in the middle; the
    // first from its mass, the last as far up as the sum found so far makes negligible.
    void split(Piece& p, double log_lower) {
        double at = reaching_;
        const double room = 0.5 * distance_;
        if (std::isinf(p.high)) {
            at = std::max(p.low + distance_, log_lower > -kInf ? top_for(log_lower - negligible_)
                                                               : std::max(reaching_, 1.25 * p.low) + distance_);
        } else if (!(at > p.low + room && at < p.high - room)) {
            const double low = std::isinf(p.low) ? lowest_ : p.low;
            at = 0.5 * (low + p.high);
            if (!(p.high - low >= kLeastPiece * distance_)) {
                p.stage = Stage::done;
                return;
            }
        }
        const Piece below = piece(p.low, at);
        p = piece(at, p.high);
        pieces_.push_back(below);
    }

    // The output above which the largest step lies with about this probability.
    double top_for(double log_mass) const {
        const SubsampledStep base = step_of(steps_[0]);
        double copies = 0.0;
        for (const Term& t : steps_) copies += t.copies;
        const auto log_above = [&](double x) {
            const double plain = log_normal_tail(x / base.sigma);
            const double sampled =
                base.removal ? std::log(base.q) + log_normal_tail((x - 1.0) / base.sigma) : plain;
            return std::log(copies) + std::max(plain, sampled);
        };
        double low = 0.0;
        double high = 1.0;
        while (high < 1e9 && log_above(high) > log_mass) high *= 2.0;
        for (int i = 0; i < 30; ++i) {
            const double middle = 0.5 * (low + high);
            (log_above(middle) > log_mass ? low : high) = middle;
        }
        return high + 2.0 * edge_width(base);
    }

    std::vector<Term> steps_, others_;
    double epsilon_, narrow_, negligible_;
    StopCheck stop_;
    double distance_ = 1.0, lowest_ = 0.0, reaching_ = -kInf;
    double most_ = 0.0;          // log of an upper bound on the whole
    mutable double work_ = 0.0;  // nodes looked at
    std::vector<Piece> pieces_;
};

}  // namespace

double expected_samples(const Composition& composition) {
    double sum = 0.0;
    for (const Term& t : composition.terms)
        if (t.law->kind() == LawKind::subsampled_gaussian) sum += t.copies * t.law->parameters()[1];
    return sum;
}

LogBounds largest_step_delta(const Composition& composition, double epsilon, double content, StopCheck stop) {
    return add_infinite_mass(composition, Divided(composition, epsilon, content, stop).bounds());
}

}  // namespace dpcore::detail
