// Finitely many losses: atoms, or those of a pair of probability mass functions; declared in loss_law.hpp.
//
// Method:    M = 1 + (mass - 1) + sum of p expm1(zl) where the losses are small, else the sum of p exp(zl), the
//            largest exponential taken out. Of a pair, the mass less one is summed in twice the precision, and
//            equal losses become one atom.
// Domain:    finite losses with their errors; masses that make 1 nearly enough, infinite losses set apart.
// Guarantee: as loss_law.hpp; on their lattice |M| of two atoms falls for half a period, otherwise the envelope is
//            M(c) or bounded_range_log_decay.
// Evidence:  docs/accounting_derivations.md, "loss_law"; tests/test_accounting.py against rational numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpcore/double_double.hpp"
#include "dpcore/loss_law.hpp"
#include "loss_line_bounds.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

class AtomsLine final : public LossLine {
public:
    AtomsLine(const std::vector<Atom>& atoms, double less_one, double mass_rel, double c, bool lattice,
              double step)
        : atoms_(atoms), less_one_(less_one), mass_rel_(mass_rel), c_(c), lattice_(lattice), step_(step) {
        low_ = atoms.front().loss;
        high_ = low_;
        for (const Atom& a : atoms) {
            low_ = std::min(low_, a.loss);
            high_ = std::max(high_, a.loss);
        }
        shift_ = std::max(c * low_, c * high_);
        scaled_ = std::fabs(shift_) > 0.5;
        const Certified at0 = value(0.0);
        log_mass_ = at0.value.re;
        err_ = at0.err;
        double mean = 0.0;
        double total = 0.0;
        for (const Atom& a : atoms) {
            const double w = a.mass * std::exp(c * a.loss - log_mass_);
            mean += w * a.loss;
            total += w;
        }
        mean /= total;
        for (const Atom& a : atoms)
            variance_low_ += a.mass * std::exp(c * a.loss - log_mass_) * (a.loss - mean) * (a.loss - mean);
        variance_low_ *= 1.0 - 1e-9;
        variance_low_ = std::max(0.0, variance_low_ - 1e-14 * (high_ - low_) * (high_ - low_));
    }
    Certified value(double t) const override {
        Complex sum;
        double err = 0.0;
        double size = 0.0;
        if (!scaled_) {  // M = 1 + (mass - 1) + sum p (exp(zl) - 1)
            for (const Atom& a : atoms_) {
                const Certified e =
                    certified_expm1({c_ * a.loss, t * a.loss},
                                    (std::fabs(c_) + t) * (a.loss_err + 2.0 * kRound * std::fabs(a.loss)));
                sum = sum + a.mass * e.value;
                err += a.mass * (e.err + (2.0 * kRound + mass_rel_) * abs(e.value));
                size += a.mass * abs(e.value);
            }
            sum.re += less_one_;
            const double n = static_cast<double>(atoms_.size() + 2);
            return finish(sum, kSlack * err + n * kRound * (size + std::fabs(less_one_)), 0.0);
        }
        for (const Atom& a : atoms_) {
            const double slip = (std::fabs(c_) + t) * (a.loss_err + 3.0 * kRound * std::fabs(a.loss)) +
                                kRound * (std::fabs(c_ * a.loss) + std::fabs(shift_));
            const double w = a.mass * std::exp(c_ * a.loss - shift_);
            sum = sum + Complex{w * std::cos(t * a.loss), w * std::sin(t * a.loss)};
            err += w * (std::expm1(slip) + 3.0 * kLibm + mass_rel_);
            size += w;
        }
        sum.re -= 1.0;
        const double n = static_cast<double>(atoms_.size() + 2);
        return finish(sum, kSlack * err + n * kRound * (size + 1.0), shift_);
    }
    double log_envelope(double from) const override {
        const double width = high_ - low_;
        if (!(width > 0.0)) return log_mass_ + err_;
        if (lattice_ && width <= 1.5 * step_) {  // two atoms: |p0 + p1 exp((c+it) d)| falls up to t = pi/d
            const Certified v = value(std::min(from, kPi / step_));
            return std::min(v.value.re + v.err, log_mass_ + err_);
        }
        const double turn = kPi / width;
        if (from >= turn || !lattice_) return log_mass_ + err_;
        // On a lattice of more than two points nothing is known beyond one turn of the whole range.
        return step_ * turn >= kPi ? log_mass_ + err_ + bounded_range_log_decay(variance_low_, width, from)
                                   : log_mass_ + err_;
    }
    // An exponential, a sine and a cosine each.
    double cost() const override { return 10.0 * static_cast<double>(atoms_.size()); }
    double derivative_size(double, double log_size) const override {
        return std::max(std::fabs(low_), std::fabs(high_)) * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    static Certified finish(Complex sum, double err, double shift) {
        Certified l = certified_log1p({sum, err});
        l.value.re += shift;
        l.err += kRound * (std::fabs(l.value.re) + std::fabs(shift));
        return l;
    }
    const std::vector<Atom>& atoms_;
    double less_one_, mass_rel_, c_;
    bool lattice_;
    double step_;
    double low_ = 0.0, high_ = 0.0, shift_ = 0.0, log_mass_ = 0.0, err_ = 0.0, variance_low_ = 0.0;
    bool scaled_ = false;
};

class AtomsLaw final : public LossLaw {
public:
    AtomsLaw(std::vector<Atom> atoms, double less_one, double total_less_one, double infinite, bool infinite_exact,
             double mass_rel, Lattice lattice, std::vector<double> parameters)
        : atoms_(std::move(atoms)),
          less_one_(less_one),
          infinite_(infinite),
          mass_rel_(mass_rel),
          infinite_exact_(infinite_exact),
          lattice_(lattice),
          parameters_(std::move(parameters)) {
        double finite = 0.0;
        for (const Atom& a : atoms_) {
            max_ = std::max(max_, a.loss + a.loss_err);
            min_ = std::min(min_, a.loss - a.loss_err);
            finite += a.mass;
        }
        const double n = static_cast<double>(atoms_.size()) + 4.0;
        log_total_ = std::log1p(total_less_one);
        log_mass_err_ = 2.0 * kLibm * (std::fabs(less_one) + std::fabs(total_less_one));
        if (!atoms_.empty()) {
            // 1 + less_one loses the digits of a small finite mass.
            log_finite_ = less_one > -0.5 ? std::log1p(less_one) : std::log(finite);
            log_mass_err_ += 2.0 * kLibm * std::fabs(log_finite_) + (less_one > -0.5 ? 0.0 : 2.0 * n * kRound);
            const double share = infinite / (1.0 + total_less_one);
            log_share_ = share < 0.5 ? std::log1p(-share) : std::log(finite / (1.0 + total_less_one));
        }
    }
    LawKind kind() const override { return LawKind::atoms; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        stop.spend(40.0 * static_cast<double>(atoms_.size()));
        if (atoms_.empty()) return {-kInf, 0.0, 0.0};
        const double shift = std::max(c * max_, c * min_);
        double sum = 0.0, mean = 0.0;
        for (const Atom& a : atoms_) {
            const double w = a.mass * std::exp(c * a.loss - shift);
            sum += w;
            mean += w * a.loss;
        }
        mean /= sum;
        double square = 0.0;
        for (const Atom& a : atoms_)
            square += a.mass * std::exp(c * a.loss - shift) * (a.loss - mean) * (a.loss - mean);
        double value = std::log(sum) + shift;
        if (std::fabs(value) < 0.1 && std::fabs(shift) < 1.0) {
            double less = less_one_;
            for (const Atom& a : atoms_) less += a.mass * std::expm1(c * a.loss);
            value = std::log1p(less);
        }
        return {value, mean, square / sum};
    }
    std::unique_ptr<LossLine> line(double c, double, double, bool lattice, StopCheck stop) const override {
        stop.spend(150.0 * static_cast<double>(atoms_.size()));
        return std::make_unique<AtomsLine>(atoms_, less_one_, mass_rel_, c, lattice, lattice_.step);
    }
    double max_loss() const override { return max_; }
    double min_loss() const override { return min_; }
    Lattice lattice() const override { return lattice_; }
    double log_finite_mass() const override { return log_finite_; }
    double log_total_mass() const override { return log_total_; }
    double infinite_mass() const override { return infinite_; }
    bool infinite_mass_exact() const override { return infinite_exact_; }
    double log_mass_err() const override { return log_mass_err_; }
    double log_finite_share() const override { return log_share_; }
    // The sum of the infinite masses has n roundings; log1p(-x) at most doubles a relative error for x < 1/2, and
    // |log x| > log 2 for the rest.
    double log_finite_share_err() const override {
        return 2.0 * (static_cast<double>(parameters_.size()) + 8.0) * kRound + 2.0 * kLibm;
    }
    std::vector<Atom> atoms() const override { return atoms_; }
    double atom_count() const override { return static_cast<double>(atoms_.size()); }
    std::vector<double> parameters() const override { return parameters_; }

private:
    std::vector<Atom> atoms_;
    double less_one_, infinite_, mass_rel_;
    bool infinite_exact_;
    Lattice lattice_;
    std::vector<double> parameters_;
    double max_ = -kInf, min_ = kInf;
    double log_finite_ = -kInf, log_total_ = 0.0, log_share_ = -kInf, log_mass_err_ = 0.0;
};

}  // namespace

LawPtr atoms_law(std::vector<Atom> atoms, double mass_rel) {
    const auto count = static_cast<double>(atoms.size());
    return std::make_shared<AtomsLaw>(std::move(atoms), 0.0, 0.0, 0.0, true, mass_rel, Lattice{},
                                      std::vector<double>{count});
}

LawPtr pmf_law(const std::vector<double>& p, const std::vector<double>& q, StopCheck stop) {
    if (p.size() != q.size()) throw std::invalid_argument("p and q differ in length");
    std::vector<Atom> atoms;
    atoms.reserve(p.size());
    double infinite = 0.0;
    bool infinite_exact = true;  // the sum has no rounding
    for (std::size_t i = 0; i < p.size(); ++i) {
        if (i % 65536 == 0) stop();
        if (p[i] == 0.0) continue;
        if (q[i] == 0.0) {
            const DoubleDouble sum = two_sum(infinite, p[i]);
            infinite_exact = infinite_exact && sum.lo == 0.0;
            infinite = sum.hi;
            continue;
        }
        const double ratio = p[i] / q[i];
        double loss = std::log(ratio);
        double err = kLibm * std::fabs(loss) + 2.0 * kRound;
        if (ratio > 0.5 && ratio < 2.0) {  // p - q is exact here (Sterbenz)
            loss = std::log1p((p[i] - q[i]) / q[i]);
            err = (2.0 * kLibm) * std::fabs(loss);
        } else if (!(ratio > 0x1p-1000 && ratio < 0x1p1000)) {
            loss = std::log(p[i]) - std::log(q[i]);
            err = kLibm * (std::fabs(std::log(p[i])) + std::fabs(std::log(q[i]))) + kRound * std::fabs(loss);
        }
        atoms.push_back({loss, err, p[i], 0.0});
    }
    std::size_t compared = 0;
    std::sort(atoms.begin(), atoms.end(), [&](const Atom& a, const Atom& b) {
        if (++compared % 1048576 == 0) stop();
        return a.loss < b.loss;
    });
    // Masses less one, in twice the precision: Knuth's sum of the rounding errors.
    struct LessOne {
        double high = -1.0, low = 0.0;
        void add(double x) {
            const double s = high + x;
            const double t = s - high;
            low += (high - (s - t)) + (x - t);
            high = s;
        }
        double value() const { return high + low; }
    } finite, total;
    // Equal losses become one atom, in place: a copy of millions of atoms would take longer than a caller who
    // wants to stop may have to wait.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        if (i % 65536 == 0) stop();
        const Atom a = atoms[i];
        finite.add(a.mass);
        if (kept > 0 && atoms[kept - 1].loss == a.loss) {
            Atom& same = atoms[kept - 1];
            same.mass += a.mass;
            same.mass_err += kRound;
            same.loss_err = std::max(same.loss_err, a.loss_err);
        } else {
            atoms[kept++] = a;
        }
    }
    const double mass_rel = kept == atoms.size() && infinite == 0.0 ? 0.0 : static_cast<double>(p.size()) * kRound;
    const bool few = kept < atoms.capacity() / 2;
    atoms.resize(kept);
    if (few) atoms.shrink_to_fit();
    for (std::size_t i = 0; i < p.size(); ++i) {
        if (i % 65536 == 0) stop();
        total.add(p[i]);
    }
    Lattice lattice;
    if (atoms.size() == 2) {
        const double step = atoms[1].loss - atoms[0].loss;
        lattice = {atoms[0].loss, step, atoms[0].loss_err, atoms[0].loss_err + atoms[1].loss_err + kRound * step};
    } else if (atoms.size() == 1) {
        lattice = {atoms[0].loss, 1.0, atoms[0].loss_err, 0.0};
    }
    std::vector<double> parameters;
    parameters.reserve(2 * p.size() + 1);
    parameters.push_back(static_cast<double>(p.size()));
    parameters.insert(parameters.end(), p.begin(), p.end());
    stop();
    parameters.insert(parameters.end(), q.begin(), q.end());
    stop();
    return std::make_shared<AtomsLaw>(std::move(atoms), finite.value(), total.value(), infinite, infinite_exact,
                                      mass_rel, lattice, std::move(parameters));
}

}  // namespace dpcore
