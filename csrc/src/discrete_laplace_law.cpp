// The loss of discrete Laplace noise; declared in loss_law.hpp.
//
// Method:    the losses are a geometric series with a finite product for M, below; where many copies multiply what
//            rounding leaves of it, M - 1 in double-double arithmetic (precise_complex.hpp).
// Domain:    scale > 0, whole shifts >= 1.
// Guarantee: as loss_law.hpp; on a lattice the envelope is a sum of quotients, monotone on half a period.
// Evidence:  docs/accounting_derivations.md, "loss_law"; tests/cpp/test_precise_complex.cpp,
//            tests/test_accounting.py.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/loss_law.hpp"
#include "precise_complex.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

// With e = 1/scale, u = exp(-e), a = e(1+2z) and r = exp(-a) the masses tanh(e/2) exp(-e|x|) of the losses
// e (shift - 2x), 0 < x < shift, are a geometric series; with both ends
//     M(z) = exp(z e shift) (1 + w),   w = u expm1(-2ze)/(1+u) * expm1(-shift a)/expm1(-a),
// a finite product without cancellation, at the same cost for every shift.
class DiscreteLaplaceLine final : public LossLine {
public:
    DiscreteLaplaceLine(double scale, double shift, double c, double copies, bool lattice, StopCheck stop)
        : e_(1.0 / scale),
          n_(shift),
          copies_(copies),
          precise_e_(DoubleDouble(1.0) / DoubleDouble(scale)),
          precise_c_(c < -0.5 ? two_sum(-1.0, -c) : DoubleDouble(c)),
          mirrored_(c < -0.5),
          lattice_(lattice),
          stop_(stop) {
        c_ = mirrored_ ? -1.0 - c : c;
        const Certified at0 = value(0.0);
        log_mass_ = at0.value.re;
        err_ = at0.err;
    }
    Certified value(double t) const override {
        const Certified plain = in_doubles(t);
        // Where the power of all copies is negligible the plain value is as good.
        if (!(copies_ * plain.err > kCopiesErr) || copies_ * (plain.value.re - log_mass_) < kNegligible)
            return plain;
        stop_.spend(kPreciseWork);
        const Certified precise = in_twice_the_precision(t);
        return precise.err < plain.err ? precise : plain;
    }

private:
    // Errors of all copies together that are not worth a second look: 1e-12, a thousandth of the width aimed at.
    static constexpr double kCopiesErr = 1e-12;
    static constexpr double kNegligible = -40.0;
    static constexpr double kPreciseWork = 5000.0;  // nanoseconds

    // M - 1 = expm1(zen) + w + expm1(zen) w. The terms are of the size of zen, their sum is of that of its square:
    // what cancels is far below the rounding of the result here.
    Certified in_twice_the_precision(double t) const {
        using detail::PreciseComplex;
        // 1/scale, 1 + 2c, n and their product: 23u^2 of what goes into a part, whether it cancels or not.
        constexpr double kParts = 0x1p-100;
        const auto times = [&](DoubleDouble re, DoubleDouble im, double size) {  // e (re + i im)
            return PreciseComplex{precise_e_ * re, precise_e_ * im, kParts * e_ * size + 1e-290};
        };
        const DoubleDouble slope = precise_c_ * 2.0 + 1.0;
        const double size = 1.0 + 2.0 * (std::fabs(c_) + t);
        const PreciseComplex a = times(-slope, -2.0 * t, size);
        const PreciseComplex all = times(slope * -n_, two_prod(-2.0 * t, n_), n_ * size);
        const PreciseComplex lead = expm1(times(precise_c_ * n_, two_prod(t, n_), n_ * size));
        const PreciseComplex turn = expm1(times(precise_c_ * -2.0, -2.0 * t, size));
        const PreciseComplex one = {1.0, 0.0, 0.0};
        const PreciseComplex u = one + expm1(times(-1.0, 0.0, 1.0));
        const PreciseComplex w = u / (one + u) * turn * (expm1(all) / expm1(a));
        const Certified less_one = (lead + w + lead * w).rounded();
        if (!(less_one.err < 0.25)) return {{}, kInf};
        Certified out = certified_log1p(less_one);
        if (mirrored_) out.value.im = -out.value.im;
        return out;
    }

    Certified in_doubles(double t) const {
        const Complex a = {e_ * (1.0 + 2.0 * c_), 2.0 * e_ * t};
        const double size = abs(a);
        // expm1(-na)/expm1(-a): a is off by 4 roundings (1/scale, the sum, two products).
        Certified ratio;
        if (n_ * size < 1e-8) {  // n (1 - (n-1) a/2), remainder below (na)^2
            const double by = 0.5 * n_ * (n_ - 1.0);
            ratio = {{n_ - by * a.re, -by * a.im},
                     n_ * (n_ * size * n_ * size + n_ * size * 4.0 * kRound + kLibm)};
        } else {
            const Certified over = certified_expm1({-n_ * a.re, -n_ * a.im}, 6.0 * kRound * n_ * size);
            const Certified under = certified_expm1({-a.re, -a.im}, 4.0 * kRound * size);
            const double small = abs(under.value);
            const Complex v = over.value / under.value;
            ratio = {v, kSlack * (over.err + abs(v) * under.err) / (small - under.err) + kComplexOp * abs(v)};
            if (!(small > 2.0 * under.err)) ratio = {{n_, 0.0}, kInf};
        }
        Certified rise;  // u expm1(-2ze)
        if (e_ < 1.0) {
            const Complex turn = {-2.0 * e_ * c_, -2.0 * e_ * t};
            const double u = std::exp(-e_);
            const Certified x = certified_expm1(turn, 4.0 * kRound * abs(turn));
            rise = {u * x.value, kSlack * u * (x.err + 2.0 * kLibm * abs(x.value))};
        } else {  // r - u
            const double r = std::exp(-a.re);
            const double u = std::exp(-e_);
            rise = {{r * std::cos(a.im) - u, -r * std::sin(a.im)},
                    r * (std::expm1(4.0 * kRound * size) + 4.0 * kLibm) + u * (2.0 * kRound * e_ + 2.0 * kLibm)};
        }
        const double scale = 1.0 / (1.0 + std::exp(-e_));
        Certified w = rise * ratio;
        w = {scale * w.value, kSlack * scale * (w.err + 2.0 * kLibm * abs(w.value))};
        const Complex lead = {e_ * n_ * c_, e_ * n_ * t};
        const Certified l = certified_log1p(w);
        Complex v = lead + l.value;
        if (mirrored_) v.im = -v.im;
        return {v, l.err + 4.0 * kRound * (std::fabs(lead.re) + std::fabs(lead.im)) + kRound * abs(v)};
    }

public:
    double log_envelope(double from) const override {
        const double none = log_mass_ + err_;
        if (!lattice_) return none;
        // |M| <= e^{c e n} (|1 - u r| + |r|^n |u - r|)/((1+u) |1 - r|). With S = sin^2(e t) both quotients are
        // Moebius in S, hence monotone on the half period; the first one falls.
        const double u = std::exp(-e_);
        const double r = std::exp(-e_ * (1.0 + 2.0 * c_));
        const double sine = std::sin(std::min(e_ * from, 0.5 * kPi));
        const auto at = [&](double x, double square) {  // |x - r e^{-2iet}|^2 = (x - r)^2 + 4 x r S
            return (x - r) * (x - r) + 4.0 * x * r * square;
        };
        const double s2 = sine * sine * (1.0 - 8.0 * kLibm);
        const double below = at(1.0, s2);
        if (!(below > 0.0)) return none;
        const double first = std::sqrt(((1.0 - u * r) * (1.0 - u * r) + 4.0 * u * r * s2) / below);
        const double second = std::sqrt(std::max(at(u, s2) / below, at(u, 1.0) / at(1.0, 1.0)));
        const double beyond = e_ * n_ * c_ +
                              std::log((first + std::exp(-e_ * n_ * (1.0 + 2.0 * c_)) * second) / (1.0 + u)) +
                              1e-13 * (1.0 + e_ * n_ * (1.0 + std::fabs(c_)));
        return std::min(none, beyond);
    }
    double derivative_size(double, double log_size) const override {
        return 2.0 * e_ * n_ * std::exp(std::min(log_mass_ - log_size, 600.0));
    }

private:
    double e_, n_, c_ = 0.0, copies_;
    DoubleDouble precise_e_, precise_c_;
    bool mirrored_, lattice_;
    StopCheck stop_;
    double log_mass_ = -kInf, err_ = 0.0;
};

class DiscreteLaplaceLaw final : public LossLaw {
public:
    DiscreteLaplaceLaw(double scale, double shift) : scale_(scale), n_(shift), e_(1.0 / scale) {}
    LawKind kind() const override { return LawKind::atoms; }
    Cumulants cumulants(double c, StopCheck stop) const override {
        // Fine lattices are nearly the continuous mechanism: near enough to place a contour.
        if (n_ > 4096.0 && e_ < 1e-3 && c != 0.0) return laplace_law(e_ * n_)->cumulants(c, stop);
        // Tilted, the masses between the ends fall like e^{-ax} from one of them: those beyond e^-45 do not
        // matter, and many are taken in cells over which they hardly change. At c = 0 the mean and the variance
        // are asked for as such: one by one.
        const double a = e_ * (1.0 + 2.0 * c);
        const double reach = std::min(n_ - 1.0, std::ceil(45.0 / std::max(std::fabs(a), 1e-300)));
        const double cell = n_ > 4096.0 && c != 0.0 ? std::ceil(reach / 1024.0) : 1.0;
        stop.spend(40.0 * reach / cell);
        const double ends = 1.0 / (1.0 + std::exp(-e_));
        const double inner = std::tanh(0.5 * e_);
        const double top = std::max(0.0, -a * n_);
        double sum = 0.0, first = 0.0, second = 0.0;
        const auto add = [&](double x, double weight) {  // losses relative to that of x = 0, or of x = n
            const double loss = 2.0 * e_ * (a < 0.0 ? n_ - x : -x);
            sum += weight;
            first += weight * loss;
            second += weight * loss * loss;
        };
        add(0.0, ends * std::exp(-top));
        add(n_, ends * std::exp(-a * n_ - top));
        for (double done = 0.0; done < reach; done += cell) {
            const double count = std::min(cell, reach - done);
            const double far = done + 0.5 * (count + 1.0);
            const double x = a < 0.0 ? n_ - far : far;
            add(x, inner * count * std::exp(-a * x - top));
        }
        const double mean = first / sum;
        return {DiscreteLaplaceLine(scale_, n_, c, 1.0, false, stop).value(0.0).value.re,
                mean + (a < 0.0 ? -e_ : e_) * n_, std::max(0.0, second / sum - mean * mean)};
    }
    std::unique_ptr<LossLine> line(double c, double, double copies, bool lattice, StopCheck stop) const override {
        return std::make_unique<DiscreteLaplaceLine>(scale_, n_, c, copies, lattice, stop);
    }
    double max_loss() const override { return e_ * n_ * (1.0 + 4.0 * kRound); }
    double min_loss() const override { return -max_loss(); }
    Lattice lattice() const override { return {e_ * n_, 2.0 * e_, 3.0 * kRound * e_ * n_, 3.0 * kRound * e_}; }
    std::vector<Atom> atoms() const override {
        std::vector<Atom> out;
        out.reserve(static_cast<std::size_t>(n_) + 1);
        for (double x = 0.0; x <= n_; x += 1.0) {
            const double loss = e_ * (n_ - 2.0 * x);
            out.push_back({loss, 3.0 * kRound * std::fabs(loss), mass(x), 5.0 * kLibm + 4.0 * kRound * e_ * x});
        }
        return out;
    }
    double atom_count() const override { return n_ + 1.0; }
    std::vector<double> parameters() const override { return {-1.0, scale_, n_}; }

private:
    // P centred at 0 against Q centred at `shift`: x <= 0 has loss shift e, x >= shift has -shift e.
    double mass(double x) const {
        const double ends = 1.0 / (1.0 + std::exp(-e_));
        if (x == 0.0) return ends;
        if (x == n_) return std::exp(-e_ * n_) * ends;
        return std::tanh(0.5 * e_) * std::exp(-e_ * x);
    }
    double scale_, n_, e_;
};

}  // namespace

LawPtr discrete_laplace_law(double scale, std::int64_t shift) {
    return std::make_shared<DiscreteLaplaceLaw>(scale, static_cast<double>(shift));
}

}  // namespace dpcore
