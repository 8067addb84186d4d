#include "large_steps_law.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>

namespace dpcore::detail {

// log C(n, m) as a sum of m quotients, each with the roundings of a logarithm.
Certified certified_choose(double n, int m) {
    Certified out = {{0.0, 0.0}, 0.0};
    for (int i = 0; i < m; ++i) {
        const double part = std::log((n - i) / (i + 1.0));
        out.value.re += part;
        out.err += 2.0 * kLibm * (1.0 + std::fabs(part)) + 2.0 * kRound * std::fabs(out.value.re);
    }
    return out;
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Points of the sums that place contours; nanoseconds of such a point when it is tabulated, and in a sum.
constexpr double kMostPoints = 20000.0;
constexpr double kPointWork = 150.0;
constexpr double kSumWork = 8.0;
// Power of the density, for losses of about 1, up to which these sums are made.
constexpr double kMostPower = 1e6;
// Error of the logarithm of a mass of which nothing is known.
constexpr double kUnknown = 1e3;
// |log| of a sum from which on it is summed itself, and not less 1.
constexpr double kFarFromOne = 5.0;

double log_choose(double n, double m) {
    return std::lgamma(n + 1.0) - std::lgamma(m + 1.0) - std::lgamma(n - m + 1.0);
}

// exp(a) + exp(b); a NaN must not be passed over.
double log_add(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return kInf;
    const double top = std::max(a, b);
    return std::isinf(top) ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}

// Outputs and window of the small steps and of the large ones.
Window small_window(const LargeStepsPart& p, const LargeStepsCount& count) {
    return {-kInf, count.at_least ? p.high : p.low, p.width};
}
Window large_window(const LargeStepsPart& p) { return {p.low, p.high, p.width}; }

// log of the coefficient of u^m in the product of (A_i + u B_i)^{k_i}, from log A_i and log B_i. Where only an
// upper bound of one of them is known, so it is of the result.
class Coefficient {
public:
    Coefficient(const std::vector<LargeStepsPart>& parts, int large) : m_(large) {
        for (const LargeStepsPart& p : parts) copies_.push_back(p.copies);
        for (const double k : copies_)
            for (int j = parts.size() == 1 ? m_ : 0; j <= m_; ++j) choose_.push_back(certified_choose(k, j));
    }

    // small, large: at t = 0, about; what the terms at other t are relative to.
    void place(const std::vector<Certified>& small, const std::vector<Certified>& large) {
        base_.clear();
        each_ = -kInf;
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            base_.push_back(copies_[i] * small[i].value.re);
            if (m_ > 0) each_ = std::max(each_, std::log(copies_[i]) + large[i].value.re - small[i].value.re);
        }
        if (m_ == 0) each_ = 0.0;
    }

    // log C(k_i, j), rounded up; of one kind of step j is all there is.
    double log_choose_upper(std::size_t i, int j) const {
        if (copies_.size() == 1 && j < m_) return -kInf;
        const Certified& c = choose_[copies_.size() == 1 ? 0 : i * (static_cast<std::size_t>(m_) + 1) + j];
        return c.value.re + c.err;
    }

    Certified operator()(const std::vector<Certified>& small, const std::vector<Certified>& large) const {
        return copies_.size() == 1 ? one_kind(small[0], m_ > 0 ? large[0] : Certified{})
                                   : several_kinds(small, large);
    }

private:
    Certified one_kind(const Certified& small, const Certified& large) const {
        Certified out = choose_[0];
        bool known = true;
        double size = 0.0;
        const auto add = [&](double copies, const Certified& v) {
            if (copies == 0.0) return;
            known = known && std::isfinite(v.err);
            out.value = out.value + copies * v.value;
            if (std::isfinite(v.err)) out.err += copies * v.err;
            size += copies * abs(v.value);
        };
        add(copies_[0] - m_, small);
        add(m_, large);
        out.err += 4.0 * kRound * (size + std::fabs(out.value.re));
        if (!known) return {{out.value.re + out.err, 0.0}, kInf};
        return out;
    }

    Certified several_kinds(const std::vector<Certified>& small, const std::vector<Certified>& large) const {
        std::vector<Certified> sum(static_cast<std::size_t>(m_) + 1);
        sum[0].value.re = 1.0;
        double shift = m_ * each_;
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            const double k = copies_[i];
            std::vector<Certified> next(sum.size());
            for (int j = 0; j <= m_ && j <= k; ++j) {
                const Certified own = term(choose_[i * sum.size() + j], k - j, small[i], j,
                                           m_ > 0 ? large[i] : Certified{}, base_[i] + j * each_);
                for (int before = 0; before + j <= m_; ++before)
                    next[before + j] = next[before + j] + sum[before] * own;
            }
            sum = next;
            shift += base_[i];
        }
        Certified out = certified_log(sum.back());
        out.value.re += shift;
        const double slip = 4.0 * kRound * (std::fabs(shift) * 4.0 + abs(out.value));
        if (std::isinf(out.err)) out.value.re += slip;  // an upper bound then, and to stay one
        out.err += slip;
        return out;
    }

    // choose * exp(k a + j b - base), with an error that covers what falls below the range of double.
    static Certified term(const Certified& choose, double k, const Certified& a, double j, const Certified& b,
                          double base) {
        double re = choose.value.re - base;
        double im = 0.0, err = choose.err + 2.0 * kRound * std::fabs(base), size = std::fabs(re);
        bool known = true;
        const auto add = [&](double copies, const Certified& v) {
            if (copies == 0.0) return;
            known = known && std::isfinite(v.err);
            re += copies * v.value.re;
            im += copies * v.value.im;
            if (std::isfinite(v.err)) err += copies * v.err;
            size += copies * abs(v.value);
        };
        add(k, a);
        add(j, b);
        err += 4.0 * kRound * size;
        const double most = std::exp(std::min(re, 700.0));
        constexpr double kTiny = 1e-290;
        if (!known || !(err < 0.5)) return {{0.0, 0.0}, 1.001 * most * std::exp(std::min(err, 700.0)) + kTiny};
        return {{most * std::cos(im), most * std::sin(im)},
                kSlack * most * (std::expm1(err) + 3.0 * kLibm) + kTiny};
    }

    int m_;
    std::vector<double> copies_;
    std::vector<Certified> choose_;
    std::vector<double> base_;
    double each_ = 0.0;
};

// K at one real point, from sums that are known.
class LargeStepsPoint final : public LossLine {
public:
    LargeStepsPoint(const std::vector<LargeStepsPart>& parts, LargeStepsCount count,
                    const std::vector<bool>& near_one, double c, StepSumCache& cache, StopCheck stop) {
        std::vector<Certified> small, large;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const LargeStepsPart& p = parts[i];
            small.push_back(cache.log_sum(p.step, small_window(p, count), c, p.copies, near_one[i], stop));
            if (count.large > 0)
                large.push_back(cache.log_sum(p.step, large_window(p), c, count.large, false, stop));
        }
        Coefficient all(parts, count.large);
        all.place(small, large);
        value_ = all(small, large);
    }
    Certified value(double t) const override { return t == 0.0 ? value_ : Certified{{0.0, 0.0}, kInf}; }
    double log_envelope(double) const override { return value_.value.re + value_.err; }
    double derivative_size(double, double) const override { return 0.0; }

private:
    Certified value_;
};

// K on one line.
class LargeStepsLine final : public LossLine {
public:
    // near_one: of each kind, whether the sum over its small steps is so near to 1 that it is wanted less 1.
    LargeStepsLine(const std::vector<LargeStepsPart>& parts, LargeStepsCount count,
                   const std::vector<bool>& near_one, double c, double reach, StopCheck stop)
        : parts_(parts), m_(count.large), all_(parts, count.large) {
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const LargeStepsPart& p = parts_[i];
            small_.emplace_back(p.step, small_window(p, count), c, reach, p.copies, near_one[i], stop);
            if (m_ > 0) large_.emplace_back(p.step, large_window(p), c, reach, m_, false, stop);
        }
        sums(0.0);
        all_.place(small_sums_, large_sums_);
    }

    void expect(double spacing) override {
        for (const StepSum& sum : small_) sum.expect(spacing);
        for (const StepSum& sum : large_) sum.expect(spacing);
    }

    Certified value(double t) const override {
        sums(t);
        return all_(small_sums_, large_sums_);
    }

    double log_envelope(double from) const override {
        std::vector<double> sum(static_cast<std::size_t>(m_) + 1, -kInf);  // of each power of u
        sum[0] = 0.0;
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const double k = parts_[i].copies;
            const double a = small_[i].log_envelope(from);
            const double b = m_ > 0 ? large_[i].log_envelope(from) : 0.0;
            std::vector<double> next(sum.size(), -kInf);
            for (int j = 0; j <= m_ && j <= k; ++j) {
                const double choose = all_.log_choose_upper(i, j);
                if (choose == -kInf) continue;
                // No copies of a sum of which nothing is known are a factor of 1.
                const double small = k > j ? (k - j) * a : 0.0;
                const double large = j > 0 ? j * b : 0.0;
                const double size = std::fabs(small) + std::fabs(large);
                const double own = choose + small + large + 4.0 * kRound * size;
                for (int before = 0; before + j <= m_; ++before)
                    next[before + j] = log_add(next[before + j], sum[before] + own);
            }
            sum = next;
        }
        const double all = sum.back();
        return all + 1e-9 + 1e-13 * std::fabs(all);
    }

    double derivative_size(double, double) const override { return 0.0; }

    double cost() const override {
        std::size_t nodes = 0;
        for (const StepSum& sum : small_) nodes += sum.nodes().size();
        for (const StepSum& sum : large_) nodes += sum.nodes().size();
        return static_cast<double>(nodes);
    }

private:
    void sums(double t) const {
        small_sums_.clear();
        large_sums_.clear();
        for (const StepSum& sum : small_) small_sums_.push_back(sum.log_value(t));
        for (const StepSum& sum : large_) large_sums_.push_back(sum.log_value(t));
    }

    const std::vector<LargeStepsPart>& parts_;
    int m_;
    Coefficient all_;
    std::deque<StepSum> small_, large_;
    mutable std::vector<Certified> small_sums_, large_sums_;  // a line belongs to one thread
};

class LargeStepsLaw final : public LossLaw {
public:
    LargeStepsLaw(std::vector<LargeStepsPart> parts, LargeStepsCount count, double furthest, LargeStepsUse use,
                  StepSumCache& cache, StopCheck stop)
        : parts_(std::move(parts)), count_(count), cache_(cache) {
        for (const LargeStepsPart& p : parts_) grids_.push_back(tabulate(p, furthest, stop));
        if (use == LargeStepsUse::placing) {
            log_mass_ = std::min(cumulants(0.0, stop).value, 0.0);
            log_mass_err_ = kUnknown;
            return;
        }
        const Certified mass = line(0.0, 0.0, 1.0, false, stop)->value(0.0);
        const bool known = std::isfinite(mass.err);
        log_mass_ = mass.value.re < 0.0 ? mass.value.re : 0.0;  // 0 also where nothing is known
        log_mass_err_ = known ? mass.err : kUnknown;
    }

    LawKind kind() const override { return LawKind::part; }

    Cumulants cumulants(double c, StopCheck stop) const override {
        // Of each power of u: log of the mass, mean and variance.
        std::vector<Cumulants> sum(static_cast<std::size_t>(count_.large) + 1, Cumulants{-kInf, 0.0, 0.0});
        sum[0] = {};
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const double p = parts_[i].step.power(c);
            if (!(p <= grids_[i].most)) return {kInf, kInf, kInf};
            stop.spend(kSumWork * static_cast<double>(grids_[i].small.size() + grids_[i].large.size()));
            const double sign = parts_[i].step.sign();
            const double k = parts_[i].copies;
            const Cumulants a = sums(grids_[i], grids_[i].small, p, sign);
            const Cumulants b = count_.large > 0 ? sums(grids_[i], grids_[i].large, p, sign) : Cumulants{};
            std::vector<Cumulants> next(sum.size(), Cumulants{-kInf, 0.0, 0.0});
            for (int j = 0; j <= count_.large && j <= k; ++j) {
                const Cumulants own = {log_choose(k, j) + (k - j) * a.value + j * b.value,
                                       (k - j) * a.first + j * b.first, (k - j) * a.second + j * b.second};
                for (int before = 0; before + j <= count_.large; ++before)
                    mix(next[before + j], {sum[before].value + own.value, sum[before].first + own.first,
                                           sum[before].second + own.second});
            }
            sum = next;
        }
        return sum.back();
    }

    std::unique_ptr<LossLine> line(double c, double reach, double, bool, StopCheck stop) const override {
        std::vector<bool> near_one;
        for (std::size_t i = 0; i < parts_.size(); ++i)
            near_one.push_back(
                std::fabs(sums(grids_[i], grids_[i].small, parts_[i].step.power(c), parts_[i].step.sign()).value) <
                kFarFromOne);
        if (reach == 0.0) return std::make_unique<LargeStepsPoint>(parts_, count_, near_one, c, cache_, stop);
        return std::make_unique<LargeStepsLine>(parts_, count_, near_one, c, reach, stop);
    }
    double max_loss() const override {
        double sum = 0.0;
        for (const LargeStepsPart& p : parts_)
            sum += p.step.removal ? kInf : -p.copies * std::log1p(-p.step.q) * (1.0 + 2.0 * kLibm);
        return sum;
    }
    double min_loss() const override {
        double sum = 0.0;
        for (const LargeStepsPart& p : parts_)
            sum += p.step.removal ? p.copies * std::log1p(-p.step.q) * (1.0 + 2.0 * kLibm) : -kInf;
        return sum;
    }
    double log_finite_mass() const override { return log_mass_; }
    double log_total_mass() const override { return log_mass_; }
    double log_mass_err() const override { return log_mass_err_; }
    std::vector<double> parameters() const override { return {}; }

    std::optional<LargeStepsFactors> factors() const {
        if (parts_.size() != 1) return std::nullopt;
        const LargeStepsPart& p = parts_[0];
        const double large = count_.large;
        return LargeStepsFactors{p.step,          small_window(p, count_),
                                 large_window(p), p.copies - large,
                                 large,           certified_choose(p.copies, count_.large)};
    }

private:
    struct Grid {
        double most;  // largest power of the density for which the grid reaches far enough
        std::vector<double> lambda;
        std::vector<double> small, large;  // log of N(x) w(x) dx
    };

    // Adds a law to a mixture.
    static void mix(Cumulants& sum, const Cumulants& one) {
        if (one.value == -kInf) return;
        const double value = log_add(sum.value, one.value);
        const double share = std::exp(one.value - value);
        const double far = one.first - sum.first;
        sum = {value, sum.first + share * far,
               (1.0 - share) * sum.second + share * one.second + share * (1.0 - share) * far * far};
    }

    // Sums for the placing of contours, good to some digits: 0.35 widths apart around the edges, then a third of
    // a standard deviation.
    Grid tabulate(const LargeStepsPart& p, double furthest, StopCheck stop) const {
        const double s = p.step.sigma;
        const double coarse = 0.35 * std::min(s, s * s);
        const double fine = std::min(0.35 * p.width, coarse);
        const Window small = small_window(p, count_);
        const Window large = large_window(p);
        const bool open = count_.large > 0 && std::isinf(p.high);
        const double edge = std::isfinite(p.high) ? p.high : p.low;
        // Losses of additions are about as large as the rate, and tilts as its inverse.
        const double first =
            std::min(p.step.lowest(p.step.removal ? 0.0 : -kMostPower / p.step.q, 9.0), p.low - 9.0 * p.width);
        const double near = edge + 10.0 * p.width;
        const double last = open ? std::max(near, std::max(furthest, 0.0) + 20.0 * s + 1.0) : near;
        Grid g;
        // Ten widths beyond an edge a window is e^-1e8: more than a power rises by, the share at that output times
        // it.
        g.most = open ? last - 9.0 * s : 10.0 * kMostPower / p.step.posterior(near);
        const double step = std::max(fine, (near - first) / kMostPoints);
        const double jump = std::max(coarse, (last - near) / kMostPoints);
        stop.spend(kPointWork * ((near - first) / step + (last - near) / jump));
        const auto add = [&](double x, double weight) {
            const double density = p.step.log_norm() + std::log(weight) - x * x / (2.0 * s * s);
            g.lambda.push_back(p.step.lambda(x));
            g.small.push_back(density + small.log_weight(x));
            if (count_.large > 0) g.large.push_back(density + large.log_weight(x));
        };
        const double count = std::ceil((near - first) / step);
        for (double i = 0.0; i <= count; i += 1.0)
            add(first + i * step, i < count || !open ? step : 0.5 * (step + jump));
        if (open)
            for (double x = first + count * step + jump; x <= last; x += jump) add(x, jump);
        return g;
    }

    static Cumulants sums(const Grid& g, const std::vector<double>& log_weight, double p, double sign) {
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

    std::vector<LargeStepsPart> parts_;
    LargeStepsCount count_;
    StepSumCache& cache_;
    std::vector<Grid> grids_;
    double log_mass_ = 0.0, log_mass_err_ = 0.0;
};

}  // namespace

Certified StepSumCache::log_sum(const SubsampledStep& step, const Window& window, double c, double copies,
                                bool near_one, StopCheck stop) {
    const std::vector<double> key = {step.sigma,   step.q, step.removal ? 1.0 : 0.0, window.low, window.high,
                                     window.width, c,      near_one ? 1.0 : 0.0};
    // The certificate grows with the copies: one for more of them is good for fewer.
    const auto found = known_.find(key);
    if (found != known_.end() && found->second.copies >= copies) return found->second.value;
    const Certified value = StepSum(step, window, c, 0.0, copies, near_one, stop).log_value(0.0);
    known_[key] = {value, copies};
    return value;
}

std::optional<LargeStepsFactors> large_steps_factors(const LossLaw& law) {
    const auto* own = dynamic_cast<const LargeStepsLaw*>(&law);
    return own == nullptr ? std::nullopt : own->factors();
}

LawPtr large_steps_law(std::vector<LargeStepsPart> parts, LargeStepsCount count, double furthest,
                       LargeStepsUse use, StepSumCache& cache, StopCheck stop) {
    return std::make_shared<LargeStepsLaw>(std::move(parts), count, furthest, use, cache, stop);
}

}  // namespace dpcore::detail
