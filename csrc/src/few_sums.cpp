#include "few_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "contour.hpp"
#include "lattice_sums.hpp"
#include "line_product.hpp"
#include "periodic_line.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMostSums = 2097152.0;  // point by point: a tenth of a second
constexpr double kMostAsked = 16384.0;
constexpr double kFewAsked = 4096.0;  // where contours alone are to do, at some tenths of a millisecond each
constexpr double kSumWork = 60.0;     // nanoseconds of a sum

// One sum of the losses of several terms.
struct Sum {
    DoubleDouble loss;
    double mass;        // tilted
    double most = 0.0;  // of what delta is multiplied with, under the tilt
};

// A double not above epsilon - loss, within some roundings of it; `size` is that of everything added up.
double below(double epsilon, DoubleDouble loss, double size) {
    const DoubleDouble x = epsilon - loss;
    return std::nextafter(x.hi - (std::fabs(x.lo) + 0x1p-94 * size), -kInf);
}

// delta of the rest at any x. Where -L under Q has the law of L under P, as for all mechanisms but pairs of
// distributions, delta(-y) = 1 - e^-y + e^-y delta(y): from P(S) - e^-y Q(S) = e^-y (e^y - 1 + Q(S') - e^y P(S'))
// with S' the complement.
class Reflected {
public:
    Reflected(const Composition& rest, const DeltaOf& other) : rest_(rest), other_(other) {
        for (const Term& t : rest.terms) {
            const LawKind kind = t.law->kind();
            symmetric_ =
                symmetric_ && (kind == LawKind::laplace || kind == LawKind::gaussian || is_periodic(*t.law));
        }
    }
    LogBounds bounds(double x, double width, StopCheck stop) const {
        if (x >= 0.0 || !symmetric_) return other_(rest_, x, width, stop);
        const LogBounds at = other_(rest_, -x, width, stop);
        return {reflected(x, at.log_lower, -1.0), reflected(x, at.log_upper, 1.0)};
    }
    // log of an upper bound by one exponential moment.
    double at_most(double x, StopCheck stop) const {
        const double mass = rest_.log_finite_mass + rest_.log_mass_err;
        if (x <= 0.0) return mass;
        return x >= rest_.max_loss ? -kInf : std::min(mass, log_chernoff_above(rest_, x, stop));
    }
    // log of a lower bound at `high` from bounds at `low`: delta is convex in u = e^x and falls, so between the
    // two it falls by at most (u_high - u_low)/(u_low - u_0) times its value at u_0 = u_low e^-a.
    double further(const LogBounds& at, double low, double high, double c, StopCheck stop) const {
        const double a = 1.0 / (1.0 + c);
        const double log_fall = at_most(low - a, stop) + std::log(std::expm1(high - low) / -std::expm1(-a)) + 1e-9;
        const double share = std::exp(std::min(log_fall - at.log_lower, 1.0)) * (1.0 + 1e-9);
        return share < 0.5 ? at.log_lower + std::log1p(-share) - 4.0 * kRound * (1.0 + std::fabs(at.log_lower))
                           : -kInf;
    }

private:
    static double reflected(double x, double log_delta, double sign) {
        const double more = log_delta > -kInf ? std::exp(std::min(log_delta, 0.0) + x) : 0.0;
        const double l = std::log(
            (-std::expm1(x) +
             more * (1.0 + sign * (4.0 * kLibm +
                                   4.0 * kRound * (std::fabs(x) + std::fabs(more > 0.0 ? log_delta : 0.0))))) *
            (1.0 + sign * 3.0 * kLibm));
        return l + sign * kLibm * std::fabs(l);
    }
    const Composition& rest_;
    const DeltaOf& other_;
    bool symmetric_ = true;
};

// exp(cx - K(c)) delta(x) of a law on a lattice: with q = e^{-cd} and r counting points upward,
//     S(r) = W(r) + q S(r+1),   G(r) = q ((1 - e^-d) S(r+1) + e^-d G(r+1))
// are the sums of W(s) e^{-cd(s-r)} over s >= r, without and with the payoff 1 - e^{-d(s-r)}; and where the first
// point not below x is r, and y above it, the value is e^{-cy} ((1 - e^-y) S(r) + e^-y G(r)). All positive.
class Ladder {
public:
    Ladder(LatticeSums sums, double c) : sums_(std::move(sums)), c_(c) {
        const std::size_t n = sums_.mass.size();
        const double d = sums_.step();
        const double q = std::exp(-c * d);
        const double payoff = -std::expm1(-d);
        const double fall = std::exp(-d);
        above_.resize(n + 1);
        paid_.resize(n + 1);
        for (std::size_t r = n; r-- > 0;) {
            above_[r] = sums_.mass[r] + q * above_[r + 1];
            paid_[r] = q * (payoff * above_[r + 1] + fall * paid_[r + 1]);
        }
        // A step: q, payoff and fall (kLibm each; exponents of three roundings), two products and a sum.
        rel_ = sums_.rel + static_cast<double>(n) * (2.0 * kLibm + 6.0 * kRound + 4.0 * kRound * (1.0 + c) * d);
    }
    const LatticeSums& sums() const { return sums_; }
    double rel() const { return kSlack * rel_ + 4.0 * kLibm + 16.0 * kRound; }

    // The value; `slip` grows by its error where that is not relative: y is off by 2^-97 of its parts.
    double at(DoubleDouble x, double size, double& slip) const {
        const double n = static_cast<double>(sums_.mass.size());
        const double r = first_not_below(x);
        if (r == n) return 0.0;
        const double y = static_cast<double>(sums_.loss(sums_.first + r) - x);
        const auto i = static_cast<std::size_t>(r);
        const double fall = std::exp(-c_ * y);
        const double value = fall * (-std::expm1(-y) * above_[i] + std::exp(-y) * paid_[i]);
        slip += fall * above_[i] * 0x1p-94 * (size + y) * (1.0 + c_) + value * 4.0 * kRound * (1.0 + c_) * y;
        return value;
    }

    // The same of Pr[L > x] and Pr[L >= x]: bounds of both, `sure` without and `most` with points that may be x.
    void tail(DoubleDouble x, double size, double& sure, double& most, double& slip) const {
        const double n = static_cast<double>(sums_.mass.size());
        const double near = 0x1p-94 * size;
        double r = first_not_below(x - near);
        const auto from = [&](double at) {
            if (at == n) return 0.0;
            const double y = std::max(0.0, static_cast<double>(sums_.loss(sums_.first + at) - x));
            const double value = std::exp(-c_ * y) * above_[static_cast<std::size_t>(at)];
            slip += value * (4.0 * kRound * c_ * y + 2.0 * c_ * near);
            return value;
        };
        most = from(r);
        while (r < n && (sums_.loss(sums_.first + r) - x).hi <= near) r += 1.0;
        sure = from(r);
    }

private:
    double first_not_below(DoubleDouble x) const {
        const double n = static_cast<double>(sums_.mass.size());
        double r = std::ceil((x.hi / sums_.unit.hi - sums_.offset) / sums_.slope) - sums_.first;
        r = std::min(std::max(r, 0.0), n);
        const auto over = [&](double at) { return sums_.loss(sums_.first + at) - x; };
        while (r < n && over(r).hi < 0.0) r += 1.0;
        while (r > 0.0 && over(r - 1.0).hi >= 0.0) r -= 1.0;
        return r;
    }
    LatticeSums sums_;
    double c_, rel_ = 0.0;
    std::vector<double> above_, paid_;
};

// What has been added up, relative to exp(K(c) - eps c).
struct Total {
    double lower = 0.0, upper = 0.0;
    double scale = 0.0, scale_err = 0.0;  // K(c) - eps c
};

LogBounds finish(const Composition& comp, const Total& t) {
    LogBounds out = {-kInf, kInf};
    const double outward = t.scale_err + 4.0 * kRound * std::fabs(t.scale) + 4.0 * kLibm;
    const auto log_of = [&](double x, double sign) {
        const double l = std::log(x);
        return t.scale + l + sign * (outward + 2.0 * kLibm * std::fabs(l));
    };
    if (t.lower > 0.0 && std::isfinite(t.lower)) out.log_lower = log_of(t.lower, -1.0);
    if (t.upper > 0.0 && std::isfinite(t.upper)) out.log_upper = log_of(t.upper, 1.0);
    return add_infinite_mass(comp, out);
}

struct Choice {
    std::size_t term;
    double size;
};

void add_scale(Total& total, double log_mass, double err) {
    total.scale += log_mass;
    total.scale_err += err + 2.0 * kRound * (std::fabs(log_mass) + std::fabs(total.scale));
}

// The largest payoff of delta under the tilt, rounded up.
double most_payoff(double c) { return std::exp(log_payoff(c)) * (1.0 + 8.0 * kLibm + 8.0 * kRound * (1.0 + c)); }

// Every law point by point: all but the longest, and that one as a ladder.
struct Listed {
    Total total;
    std::vector<LatticeSums> terms;
    std::optional<Ladder> ladder;
    double size = 0.0;             // of a sum of losses and epsilon
    double rel = 0.0, lost = 0.0;  // of a sum's mass times the ladder's value; tilted mass that is in none
};
std::optional<Listed> listed(const Composition& comp, double epsilon, double c, const std::vector<Choice>& rising,
                             StopCheck stop) {
    Listed out;
    for (const Choice& choice : rising) {
        auto sums = lattice_sums(comp.terms[choice.term], c, stop);
        if (!sums) return std::nullopt;
        add_scale(out.total, sums->log_mass, sums->log_mass_err);
        out.rel += sums->rel;
        out.lost += sums->lost;
        out.terms.push_back(std::move(*sums));
    }
    add_scale(out.total, -epsilon * c, kRound * std::fabs(epsilon * c));
    out.size = size_of(out.terms, epsilon);
    out.ladder.emplace(std::move(out.terms.back()), c);
    out.terms.pop_back();
    double count = 1.0;
    for (const LatticeSums& t : out.terms) count *= static_cast<double>(t.mass.size());
    stop.spend(kSumWork * count);
    out.rel += out.ladder->rel() + kRound * (8.0 + static_cast<double>(out.terms.size()));
    return out;
}

std::optional<LogBounds> point_by_point(const Composition& comp, double epsilon, double c,
                                        const std::vector<Choice>& rising, StopCheck stop) {
    auto list = listed(comp, epsilon, c, rising, stop);
    if (!list) return std::nullopt;
    Compensated sum;
    double slip = 0.0;
    std::size_t done = 0;
    const auto use = [&](DoubleDouble loss, double mass) {
        if ((++done & 0xffffU) == 0) stop();
        double own = 0.0;
        sum.add(mass * list->ladder->at(epsilon - loss, list->size, own));
        slip += mass * own;
    };
    const double lost = list->lost + each_sum(list->terms, 0, DoubleDouble(), 1.0, use) * (1.0 + 1e-6);
    slip *= kSlack * (1.0 + kRound * static_cast<double>(done));
    // What underflows, to either side, is below 1e-290.
    list->total.lower = (sum.sum - slip) * (1.0 - kSlack * list->rel) - 1e-290;
    list->total.upper = (sum.sum + slip) * (1.0 + kSlack * list->rel) + lost * most_payoff(c) + 1e-290;
    return finish(comp, list->total);
}

std::optional<Tails> tails_point_by_point(const Composition& comp, double at, double c,
                                          const std::vector<Choice>& rising, StopCheck stop) {
    auto list = listed(comp, at, c, rising, stop);
    if (!list || !(list->total.scale < 600.0)) return std::nullopt;
    Compensated sure, most;
    double slip = 0.0;
    std::size_t done = 0;
    const auto use = [&](DoubleDouble loss, double mass) {
        if ((++done & 0xffffU) == 0) stop();
        double low = 0.0, high = 0.0, own = 0.0;
        list->ladder->tail(at - loss, list->size, low, high, own);
        sure.add(mass * low);
        most.add(mass * high);
        slip += mass * own;
    };
    const double lost = list->lost + each_sum(list->terms, 0, DoubleDouble(), 1.0, use) * (1.0 + 1e-6);
    slip *= kSlack * (1.0 + kRound * static_cast<double>(done));
    const double scale = std::exp(list->total.scale);
    const double off = kSlack * (list->rel + list->total.scale_err) + 4.0 * kLibm;
    const double finite = std::exp(comp.log_finite_mass + comp.log_mass_err) * (1.0 + 4.0 * kLibm);
    // Under the tilt the largest payoff of a tail is 1.
    const double lower = std::max(0.0, (sure.sum - slip) * (1.0 - off) * scale - 1e-290);
    const double upper = std::min(finite, ((most.sum + slip) * (1.0 + off) + lost) * (1.0 + off) * scale + 1e-290);
    if (!(lower <= upper)) return std::nullopt;
    return both_tails(comp, {lower, upper});
}

// Few sums; `other` is asked for the rest.
std::optional<LogBounds> asked(const Composition& comp, double epsilon, double width, double c,
                               const std::vector<Choice>& few, const DeltaOf& other, bool give_up,
                               StopCheck stop) {
    Total total;
    std::vector<LatticeSums> terms;
    std::vector<Term> left;
    double rel = 0.0, lost = 0.0;
    for (std::size_t i = 0; i < comp.terms.size(); ++i) {
        const bool ours = std::any_of(few.begin(), few.end(), [&](const Choice& f) { return f.term == i; });
        if (!ours) {
            left.push_back(comp.terms[i]);
            continue;
        }
        auto sums = lattice_sums(comp.terms[i], c, stop);
        if (!sums) return std::nullopt;
        add_scale(total, sums->log_mass, sums->log_mass_err);
        rel += sums->rel + kRound;
        lost += sums->lost;
        terms.push_back(std::move(*sums));
    }
    const Composition rest = Composition::of(std::move(left));
    if (rest.infinite_mass_upper() > 0.0) return std::nullopt;
    double log_rest = 0.0, rest_err = 0.0;  // K(c) of the rest
    for (const Term& t : rest.terms) {
        const Certified k = t.law->line(c, 0.0, t.copies, false, stop)->value(0.0);
        log_rest += t.copies * k.value.re;
        rest_err += t.copies * k.err + 2.0 * kRound * (std::fabs(t.copies * k.value.re) + std::fabs(log_rest));
    }
    const double size = size_of(terms, epsilon);
    // e^{rest_err} and e^{c (high - low)} below are within 1e-6 of 1.
    if (!(rest_err < 1e-7 && c * size < 1e8)) return std::nullopt;
    add_scale(total, log_rest, 0.0);
    add_scale(total, -epsilon * c, kRound * std::fabs(epsilon * c));
    std::vector<Sum> sums;
    const double payoff = most_payoff(c);
    const auto use = [&](DoubleDouble loss, double mass) { sums.push_back({loss, mass, payoff * (1.0 + 1e-6)}); };
    lost += each_sum(terms, 0, DoubleDouble(), 1.0, use) * (1.0 + 1e-6);
    // What a sum may add: its tilted mass times the largest payoff, or less by an exponent of its own.
    const double off = rest_err + 8.0 * kRound * std::fabs(log_rest) + 8.0 * kLibm;
    const Reflected delta(rest, other);
    const auto scaled = [&](double log_delta, double x, double sign) {
        if (log_delta == -kInf) return 0.0;
        if (std::isnan(log_delta)) return sign > 0.0 ? kInf : 0.0;
        const double e = log_delta + (c * x - log_rest) +
                         sign * (off + 8.0 * kRound * std::fabs(c * x) + 2.0 * kRound * std::fabs(log_delta));
        return std::exp(std::min(e, 700.0)) * (1.0 + sign * kLibm);
    };
    const auto wide = [&](const LogBounds& b) {
        return !(b.log_upper - b.log_lower <= width || b.log_upper == -kInf);
    };
    bool failed = sums.empty();
    if (give_up && !failed) {  // before anything is asked of all of them: the heaviest
        const auto top =
            std::max_element(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) { return a.mass < b.mass; });
        failed = wide(delta.bounds(below(epsilon, top->loss, size), width, stop));
    }
    if (failed) return std::nullopt;
    within(stop, 0.5, [&](StopCheck own) {
        for (Sum& s : sums) {
            const double x = below(epsilon, s.loss, size);
            s.most = std::min(payoff, scaled(delta.at_most(x, own), x, 1.0)) * (1.0 + 1e-6);
        }
    });
    std::sort(sums.begin(), sums.end(),
              [](const Sum& a, const Sum& b) { return a.mass * a.most > b.mass * b.most; });
    std::vector<double> from(sums.size() + 1, 0.0);  // what the sums from here on may add
    for (std::size_t i = sums.size(); i-- > 0;) from[i] = from[i + 1] + sums[i].mass * sums[i].most * (1.0 + 1e-6);
    double lower = 0.0, upper = 0.0;
    std::size_t next = 0;
    within(stop, 1.0, [&](StopCheck own) {
        for (; next < sums.size() && !(from[next] <= 0.02 * width * lower); ++next) {
            const Sum& s = sums[next];
            // delta falls: at a double just below eps - loss it is an upper bound, and just above a lower one.
            const double low = below(epsilon, s.loss, size);
            const double high = -below(-epsilon, -s.loss, size);
            const LogBounds at = delta.bounds(low, width, own);
            if (give_up && wide(at)) {
                failed = true;
                return;
            }
            if (at.log_upper == -kInf) continue;
            double least = delta.further(at, low, high, c, own);
            if (!(at.log_lower - least <= 0.02 * width)) least = delta.bounds(high, width, own).log_lower;
            // A piece counts with both of its bounds or, where the work runs out before, with neither.
            lower += s.mass * scaled(least, high, -1.0) * std::exp(-c * (high - low)) * (1.0 - kLibm);
            upper += s.mass * std::min(scaled(at.log_upper, low, 1.0) * std::exp(c * (high - low)), s.most) *
                     (1.0 + kLibm);
        }
    });
    if (failed) return std::nullopt;
    const double n = static_cast<double>(sums.size() + 4) * kRound;
    total.lower = lower * (1.0 - kSlack * (rel + n)) - 1e-290;
    total.upper = upper * (1.0 + kSlack * (rel + n)) + from[next] * (1.0 + 1e-6) + lost * payoff + 1e-290;
    return finish(comp, total);
}

// The tilt for epsilon, and the terms with few points under it, the fewest first.
struct Terms {
    double c = 0.0;
    std::vector<Choice> rising;
};
std::optional<Terms> few_terms(const Composition& comp, double epsilon, Quantity quantity, StopCheck stop) {
    if (comp.lattice.step > 0.0 || comp.terms.size() < 2 || comp.log_finite_mass == -kInf) return std::nullopt;
    // Any tilt will do. Next to the largest loss the contour's runs off to infinity; where the point before the
    // last of the finest lattice weighs e^-40 of it nothing is gained further out.
    double most = 0.0;
    for (const Term& t : comp.terms)
        if (t.law->lattice().step > 0.0) most = std::max(most, 40.0 / t.law->lattice().step);
    if (!(most > 0.0)) return std::nullopt;
    const ContourPlace place = spectral_place(comp, epsilon, quantity, stop);
    Terms out;
    out.c = place.valid ? std::min(place.c, most) : (std::isfinite(comp.max_loss) ? most : kInf);
    if (!(out.c < kInf)) return std::nullopt;
    for (std::size_t i = 0; i < comp.terms.size(); ++i) {
        const double size = lattice_sums_size(comp.terms[i], out.c, stop);
        if (size <= kMostLatticeSums) out.rising.push_back({i, size});
    }
    std::sort(out.rising.begin(), out.rising.end(),
              [](const Choice& a, const Choice& b) { return a.size < b.size; });
    return out;
}
}  // namespace

namespace {
// The terms, where every law has few points and all but the longest few sums.
std::optional<Terms> listable(const Composition& comp, double epsilon, Quantity quantity, StopCheck stop) {
    auto terms = few_terms(comp, epsilon, quantity, stop);
    if (!terms || terms->rising.size() < comp.terms.size()) return std::nullopt;
    double count = 1.0;
    for (std::size_t i = 0; i + 1 < terms->rising.size(); ++i) count *= terms->rising[i].size;
    return count <= kMostSums ? terms : std::nullopt;
}
}  // namespace

std::optional<LogBounds> listed_sums_delta(const Composition& comp, double epsilon, StopCheck stop) {
    const auto terms = listable(comp, epsilon, Quantity::delta, stop);
    return terms ? point_by_point(comp, epsilon, terms->c, terms->rising, stop) : std::nullopt;
}

std::optional<Tails> listed_sums_tails(const Composition& comp, double at, StopCheck stop) {
    const auto terms = listable(comp, at, Quantity::tail, stop);
    return terms ? tails_point_by_point(comp, at, terms->c, terms->rising, stop) : std::nullopt;
}

std::optional<LogBounds> few_sums_delta(const Composition& comp, double epsilon, double width,
                                        const DeltaOf& other, bool give_up, StopCheck stop) {
    const auto terms = few_terms(comp, epsilon, Quantity::delta, stop);
    if (!terms) return std::nullopt;
    for (const Term& t : comp.terms)  // these have ways of their own
        if (t.law->kind() == LawKind::subsampled_gaussian || t.law->kind() == LawKind::part) return std::nullopt;
    std::vector<Choice> few;
    double count = 1.0;
    for (const Choice& choice : terms->rising) {
        if (few.size() + 1 == comp.terms.size() || !(count * choice.size <= (give_up ? kFewAsked : kMostAsked)))
            break;
        count *= choice.size;
        few.push_back(choice);
    }
    if (few.empty()) return std::nullopt;
    return asked(comp, epsilon, width, terms->c, few, other, give_up, stop);
}

}  // namespace dpcore::detail
