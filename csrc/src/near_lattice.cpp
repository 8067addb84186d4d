#include "near_lattice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "exact_sum.hpp"
#include "periodic_line.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMostPoints = 131072.0;  // a tenth of a second
constexpr double kMostMismatch = 64.0 * kRound;
constexpr double kMostDenominator = 4096.0;
constexpr std::int64_t kMostMultiple = 1 << 24;

// The line of a law scaled by 1/(1+e): K with all that the scaling, and the rounding of the nodes on a lattice,
// may change. See Certified for what an infinite err means.
class ScaledLine final : public LossLine {
public:
    ScaledLine(const LossLaw& law, double mismatch, double c, double copies, StopCheck stop)
        : c_(c), mismatch_(mismatch) {
        if (law.kind() == LawKind::discrete_gaussian) {
            periodic_ = std::make_unique<PeriodicLine>(law, c, copies, stop);
            mean_size_ = periodic_->mean_size();
        } else {
            line_ = law.line(c, 0.0, copies, false, stop);
            mean_size_ = std::max(std::fabs(law.max_loss()), std::fabs(law.min_loss()));
        }
        const Certified mass = value(0.0);
        log_mass_ = mass.value.re;
        log_mass_err_ = mass.err;
    }
    Certified value(double t) const override {
        PeriodicLine::Node v = {{}, 0.0, 0.0};
        double log_mass = log_mass_;
        if (periodic_) {
            v = periodic_->at(t);
            log_mass = periodic_->log_mass();
        } else {
            const Certified own = line_->value(t);
            v = {own.value, own.err, 0.0};
            if (t == 0.0) log_mass = own.value.re;
        }
        // Nodes 2 pi j/(n d) are rounded, and d is known to a few roundings.
        const double slip = v.slip + mean_size_ * ((std::fabs(c_) + t) * mismatch_ + 16.0 * kRound * t);
        const double off = slip * std::exp(std::min(log_mass - v.value.re, 700.0));
        if (off < 0.25 && v.err < 0.25) return {v.value, v.err + 2.0 * off};
        // Nearly a zero: log(exp(Re value + err) + M(c) slip) bounds it.
        const double top = v.value.re + (std::isfinite(v.err) ? v.err : 0.0) + 1e-12 * (1.0 + std::fabs(log_mass));
        const double rest = log_mass + std::log(slip) + 1e-12 * (1.0 + std::fabs(log_mass));
        const double most = std::max(top, rest);
        return {{most + std::log1p(std::exp(std::min(top, rest) - most)), 0.0}, kInf};
    }
    double log_envelope(double) const override { return log_mass_ + log_mass_err_; }
    double derivative_size(double, double log_size) const override {
        return mean_size_ * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    std::unique_ptr<PeriodicLine> periodic_;
    std::unique_ptr<LossLine> line_;
    double c_, mismatch_;
    double mean_size_ = 0.0, log_mass_ = 0.0, log_mass_err_ = 0.0;
};

class ScaledLaw final : public LossLaw {
public:
    ScaledLaw(LawPtr law, double mismatch) : law_(std::move(law)), mismatch_(mismatch) {}
    LawKind kind() const override { return law_->kind(); }
    Cumulants cumulants(double c, StopCheck stop) const override { return law_->cumulants(c, stop); }
    std::unique_ptr<LossLine> line(double c, double, double copies, bool, StopCheck stop) const override {
        return std::make_unique<ScaledLine>(*law_, mismatch_, c, copies, stop);
    }
    double max_loss() const override { return law_->max_loss(); }
    double min_loss() const override { return law_->min_loss(); }
    Lattice lattice() const override { return law_->lattice(); }
    double log_finite_mass() const override { return law_->log_finite_mass(); }
    double log_total_mass() const override { return law_->log_total_mass(); }
    double log_mass_err() const override { return law_->log_mass_err(); }
    double infinite_mass() const override { return law_->infinite_mass(); }
    bool infinite_mass_exact() const override { return law_->infinite_mass_exact(); }
    double log_finite_share() const override { return law_->log_finite_share(); }
    double log_finite_share_err() const override { return law_->log_finite_share_err(); }
    std::vector<double> parameters() const override { return law_->parameters(); }

private:
    LawPtr law_;
    double mismatch_;
};

struct Ratio {
    std::int64_t over = 0, under = 1;
};

// The continued fraction of x, until it is x to a few roundings; nothing where that takes a large denominator.
std::optional<Ratio> small_ratio(double x) {
    double rest = x;
    double p0 = 1.0, q0 = 0.0, p1 = std::floor(x), q1 = 1.0;
    for (int i = 0; i < 40; ++i) {
        if (!(p1 <= static_cast<double>(kMostMultiple) && q1 <= kMostDenominator)) return std::nullopt;
        if (p1 > 0.0 && std::fabs(p1 / q1 - x) <= 0.5 * kMostMismatch * x)
            return Ratio{static_cast<std::int64_t>(p1), static_cast<std::int64_t>(q1)};
        const double part = rest - std::floor(rest);
        if (!(part > 0.0)) return std::nullopt;
        rest = 1.0 / part;
        const double a = std::floor(rest);
        const double p = a * p1 + p0;
        const double q = a * q1 + q0;
        p0 = p1;
        q0 = q1;
        p1 = p;
        q1 = q;
    }
    return std::nullopt;
}

// Whether shift/sigma^2 of the one is `ratio` times that of the other, exactly.
bool same_lattice(const LossLaw& one, const LossLaw& other, const Ratio& ratio) {
    const std::vector<double> a = one.parameters();
    const std::vector<double> b = other.parameters();
    const DoubleDouble square_a = two_prod(a[0], a[0]);
    const DoubleDouble square_b = two_prod(b[0], b[0]);
    // shift_a sigma_b^2 under = shift_b sigma_a^2 over; the factors of the squares are exact below 2^53.
    const double left = a[1] * static_cast<double>(ratio.under);
    const double right = b[1] * static_cast<double>(ratio.over);
    const auto sane = [](double x) { return x > 0x1p-200 && x < 0x1p200; };
    if (!(left < 0x1p53 && right < 0x1p53 && sane(a[0]) && sane(b[0]))) return false;
    ExactSum sum;
    sum.add_product(left, square_b.hi);
    sum.add_product(left, square_b.lo);
    sum.add_product(-right, square_a.hi);
    sum.add_product(-right, square_a.lo);
    return sum.value() == 0.0;
}

}  // namespace

std::optional<NearLattice> near_lattice(const Composition& comp) {
    if (comp.lattice.step > 0.0 || comp.smooth || comp.terms.empty() || comp.log_finite_mass == -kInf)
        return std::nullopt;
    const Term* basis = nullptr;
    const auto unbounded = [](const Term& t) { return t.law->kind() == LawKind::discrete_gaussian; };
    for (const Term& t : comp.terms) {
        const LawKind kind = t.law->kind();
        const bool point = kind == LawKind::atoms && t.law->atom_count() < 2.0;
        const Lattice own = t.law->lattice();
        if (kind == LawKind::laplace || point || !(own.step > 0.0 && std::isfinite(own.step))) return std::nullopt;
        if (unbounded(t) && !is_periodic(*t.law)) return std::nullopt;
        if (basis == nullptr || (unbounded(t) && !unbounded(*basis))) basis = &t;
    }
    const double base = basis->law->lattice().step;
    const double base_rel = basis->law->lattice().step_err / base;
    std::vector<Ratio> ratios;
    std::int64_t under = 1;
    for (const Term& t : comp.terms) {
        const auto ratio = small_ratio(t.law->lattice().step / base);
        if (!ratio) return std::nullopt;
        under = std::lcm(under, ratio->under);
        if (under > kMostMultiple) return std::nullopt;
        ratios.push_back(*ratio);
    }
    NearLattice out;
    out.scaled = comp;
    Lattice& lattice = out.scaled.lattice;
    lattice.step = base / static_cast<double>(under);
    // Without a discrete Gaussian the lattice is this one by definition, and every law is scaled to it.
    if (unbounded(*basis)) lattice.step_err = lattice.step * (base_rel + 2.0 * kRound);
    DoubleDouble origin;
    for (std::size_t i = 0; i < comp.terms.size(); ++i) {
        const Term& t = comp.terms[i];
        const Lattice own = t.law->lattice();
        double mismatch = 0.0;
        if (unbounded(t)) {
            if (!same_lattice(*t.law, *basis->law, ratios[i])) return std::nullopt;
        } else {
            const double multiple =
                static_cast<double>(ratios[i].over) * static_cast<double>(under / ratios[i].under);  // below 2^48
            mismatch = std::fabs(own.step / (multiple * lattice.step) - 1.0) + 8.0 * kRound +
                       2.0 * (own.step_err / own.step + base_rel);
            const double most = std::max(std::fabs(t.law->max_loss()), std::fabs(t.law->min_loss()));
            out.shift += t.copies * most * mismatch * (1.0 + 1e-9);
        }
        origin = origin + two_prod(own.origin, t.copies);
        lattice.origin_err += t.copies * (own.origin_err + std::fabs(own.origin) * mismatch) * (1.0 + 1e-9);
        out.scaled.terms[i].law = std::make_shared<ScaledLaw>(t.law, mismatch);
    }
    if (!std::isfinite(out.shift) || !std::isfinite(lattice.origin_err)) return std::nullopt;
    lattice.origin = origin.hi;
    lattice.origin_low = origin.lo;
    out.scaled.max_loss += out.shift * (1.0 + 1e-9) + 2.0 * kRound * std::fabs(comp.max_loss);
    out.scaled.min_loss -= out.shift * (1.0 + 1e-9) + 2.0 * kRound * std::fabs(comp.min_loss);
    // The distance of aliases is some twenty standard deviations.
    out.points = 20.0 * std::sqrt(std::max(comp.cumulants(0.0).second, 0.0)) / lattice.step;
    if (!(out.points <= kMostPoints)) return std::nullopt;
    return out;
}

namespace {
// x + shift and x - shift, outward.
Interval around(double x, double shift) {
    if (shift == 0.0) return {x, x};
    return {std::nextafter(x - shift, -kInf), std::nextafter(x + shift, kInf)};
}
}  // namespace

LogBounds near_lattice_delta(const NearLattice& near, double epsilon, StopCheck stop) {
    const Interval at = around(epsilon, near.shift);
    const LogBounds low = spectral_delta(near.scaled, at.upper, stop);
    if (at.lower == at.upper) return low;
    return {low.log_lower, spectral_delta(near.scaled, at.lower, stop).log_upper};
}

Interval near_lattice_epsilon(const NearLattice& near, double delta, StopCheck stop) {
    const Interval found = spectral_epsilon(near.scaled, delta, stop);
    if (!std::isfinite(found.lower)) return found;
    const double low = found.lower > 0.0 ? around(found.lower, near.shift).lower : 0.0;
    return {std::max(0.0, low), around(found.upper, near.shift).upper};
}

Tails near_lattice_tails(const NearLattice& near, double at, StopCheck stop) {
    const Interval x = around(at, near.shift);
    const Tails right = spectral_tails(near.scaled, x.upper, stop);
    if (x.lower == x.upper) return right;
    const Tails left = spectral_tails(near.scaled, x.lower, stop);
    return {{right.above.lower, left.above.upper}, {left.below.lower, right.below.upper}};
}

}  // namespace dpcore::detail
