#include "dpcore/enumeration.hpp"

#include <cmath>
#include <limits>

namespace dpcore {

namespace {
constexpr double kPointWork = 100.0;  // nanoseconds a point, and a tenth of them whenever all are summed
constexpr double kLost = 1e-300;      // masses that underflow are below this

// mass * 2^exponent: C(n, j) p^j alone leaves the range of double long before C(n, j) p^j q^(n-j) does.
struct Wide {
    double mass = 1.0;
    int exponent = 0;
    Wide times(double x) const {
        Wide out = {mass * x, exponent};
        int shift = 0;
        out.mass = std::frexp(out.mass, &shift);
        out.exponent += shift;
        return out;
    }
    double value() const { return std::ldexp(mass, exponent); }
};
Wide power(double x, std::size_t n) {
    Wide out, square = Wide{}.times(x);
    for (; n > 0; n >>= 1U) {
        if ((n & 1U) != 0U) out = Wide{out.mass, out.exponent + square.exponent}.times(square.mass);
        square = Wide{square.mass, 2 * square.exponent}.times(square.mass);
    }
    return out;
}
}  // namespace

double Enumeration::size(const Composition& composition) {
    if (!composition.atomic) return std::numeric_limits<double>::infinity();
    double total = 1.0;
    for (const Term& t : composition.terms) {
        const double atoms = t.law->atom_count();
        // C(copies + atoms - 1, atoms - 1)
        for (double i = 1.0; i < atoms && total < 1e18; i += 1.0) total *= (t.copies + i) / i;
    }
    return total;
}

Enumeration::Enumeration(const Composition& composition, StopCheck stop) : stop_(stop) {
    stop.spend(kPointWork * size(composition));
    points_.push_back({0.0, 1.0});
    double reach = 0.0;
    for (const Term& t : composition.terms) {
        const std::vector<Atom> atoms = t.law->atoms();
        const auto copies = static_cast<std::size_t>(t.copies);
        double largest = 0.0;
        double slip = 0.0;
        double mass_slip = 0.0;
        for (const Atom& a : atoms) {
            largest = std::max(largest, std::fabs(a.loss));
            slip = std::max(slip, a.loss_err);
            mass_slip = std::max(mass_slip, a.mass_err);
        }
        reach += t.copies * largest;
        loss_err_ += t.copies * slip;
        // Each step of a running product rounds three times; x^n by squaring has at most 2n roundings.
        mass_err_ +=
            t.copies * (4.0 * kRound + mass_slip) * kSlack + 2.0 * kRound * static_cast<double>(atoms.size());
        std::vector<Point> own;
        // Distribute the copies: an explicit stack of (atom, remaining, loss, mass).
        struct Frame {
            std::size_t atom, left;
            double loss;
            Wide mass;
        };
        std::vector<Frame> stack = {{0, copies, 0.0, {}}};
        while (!stack.empty()) {
            const Frame f = stack.back();
            stack.pop_back();
            if (f.atom + 1 == atoms.size()) {
                const double n = static_cast<double>(f.left);
                const Wide last = power(atoms[f.atom].mass, f.left);
                own.push_back({f.loss + n * atoms[f.atom].loss,
                               Wide{f.mass.mass, f.mass.exponent + last.exponent}.times(last.mass).value()});
                if ((own.size() & 0xffff) == 0) stop();
                continue;
            }
            if (f.left ==
                0) {  // the other atoms do not occur: without this, one copy of n atoms takes n^2/2 steps
                own.push_back({f.loss, f.mass.value()});
                if ((own.size() & 0xffff) == 0) stop();
                continue;
            }
            Wide mass = f.mass;
            for (std::size_t j = 0; j <= f.left; ++j) {
                stack.push_back(
                    {f.atom + 1, f.left - j, f.loss + static_cast<double>(j) * atoms[f.atom].loss, mass});
                mass = mass.times(atoms[f.atom].mass *
                                  (static_cast<double>(f.left - j) / static_cast<double>(j + 1)));
            }
        }
        if (points_.size() == 1 && points_[0].mass == 1.0 && points_[0].loss == 0.0) {
            points_ = std::move(own);
            continue;
        }
        std::vector<Point> product;
        product.reserve(points_.size() * own.size());
        for (const Point& a : points_)
            for (const Point& b : own) product.push_back({a.loss + b.loss, a.mass * b.mass});
        points_ = std::move(product);
    }
    mass_err_ += 64.0 * kRound;
    loss_err_ += 2.0 * kRound * reach * (static_cast<double>(composition.terms.size()) + 8.0);
}

namespace {
// Sum of positive terms by blocks, so that its error stays below 2000 roundings for a million terms.
template <class Points, class F>
double positive_sum(const Points& points, F f) {
    double total = 0.0;
    double block = 0.0;
    std::size_t in_block = 0;
    for (const auto& p : points) {
        block += f(p);
        if (++in_block == 1024) {
            total += block;
            block = 0.0;
            in_block = 0;
        }
    }
    return total + block;
}
constexpr double kSumErr = 2100.0 * kRound;
}  // namespace

Interval Enumeration::delta(double epsilon) const {
    stop_.spend(0.2 * kPointWork * static_cast<double>(points_.size()));
    const auto at = [&](double eps) {
        return positive_sum(
            points_, [eps](const Point& p) { return p.loss > eps ? -p.mass * std::expm1(eps - p.loss) : 0.0; });
    };
    const double rel = mass_err_ + kSumErr + 4.0 * kLibm;
    const double lost = kLost * static_cast<double>(points_.size());
    const double slip = loss_err_ + 2.0 * kRound * std::fabs(epsilon);
    return {std::max(0.0, at(epsilon + slip) * (1.0 - rel)), at(epsilon - slip) * (1.0 + rel) + lost};
}

Interval Enumeration::above(double epsilon) const {
    stop_.spend(0.2 * kPointWork * static_cast<double>(points_.size()));
    const auto at = [&](double eps) {
        return positive_sum(points_, [eps](const Point& p) { return p.loss > eps ? p.mass : 0.0; });
    };
    const double rel = mass_err_ + kSumErr;
    return {at(epsilon + loss_err_) * (1.0 - rel),
            at(epsilon - loss_err_) * (1.0 + rel) + kLost * static_cast<double>(points_.size())};
}

Interval Enumeration::below(double epsilon) const {
    stop_.spend(0.2 * kPointWork * static_cast<double>(points_.size()));
    const auto at = [&](double eps) {
        return positive_sum(points_, [eps](const Point& p) { return p.loss < eps ? p.mass : 0.0; });
    };
    const double rel = mass_err_ + kSumErr;
    return {at(epsilon - loss_err_) * (1.0 - rel),
            at(epsilon + loss_err_) * (1.0 + rel) + kLost * static_cast<double>(points_.size())};
}

}  // namespace dpcore
