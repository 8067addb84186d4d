#include "contour.hpp"

#include <algorithm>
#include <limits>

#include "turning.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr int kMaxNodes = 8192;
constexpr double kMostWindowNodes = 8000.0;
// Turned nodes of one window, some nanoseconds each.
constexpr double kMostWindowWork = 1e8;
// Of one contour without windows: a tenth of a second, where most take a few milliseconds.
constexpr double kMostWork = 1e8;
// Nanoseconds of one unit of a line's cost, and of a node beside its lines.
constexpr double kUnit = 2.0;
constexpr double kNodeWork = 80.0;
// Of a point at one node: sine and cosine, or turned on.
constexpr double kPointWork = 40.0;
constexpr double kTurnWork = 2.0;
constexpr double kContent = 2e4;
constexpr double kPieceContent = 2e3;  // of one piece of many
// Lines are opened so much further than a normal law would need.
constexpr double kFirstReach = 1.3;
// Lines of many sampled steps reach so much further that what a path is charged for, a copy (step_envelope.cpp),
// times as much as its height is from the best one, is made up for: measured, up to kMostReach. No bound depends
// on it.
constexpr double kPathCharge = 1.2e-3;
constexpr double kMostReach = 8.0;
constexpr double kManySteps = 200.0;
// Lines of windows reach so much further than their last node.
constexpr double kBeyondEnd = 1.5;
// And so often again, to four times as far, for a sharper bound of what is left.
constexpr int kMostFarther = 3;
// Share of the atoms below which tail probabilities are taken from a contour; the width is about that.
constexpr double kFewAtoms = 1e-8;

}  // namespace

double Contour::certified_upper(double c) const {
    double sum = 0.0;
    double size = 0.0;
    for (const Term& t : comp_.terms) {
        const Certified v = t.law->line(c, 0.0, t.copies, lattice_, stop_)->value(0.0);
        sum += t.copies * (v.value.re + v.err);
        size += t.copies * std::fabs(v.value.re);
    }
    return sum + (static_cast<double>(comp_.terms.size()) + 2.0) * kRound * size;
}

// `right_` and `left_` hold certified Chernoff points. What one of them says is linear in eps, so it is largest at
// an end.
double Contour::log_alias(double lowest, double highest, double distance) const {
    double right = kInf;
    double left = kInf;
    // Sum over m >= 1 of exp(log_value - at eps - rate D m), relative.
    const auto series = [&](double log_value, double at, double rate) {
        if (!(rate > 0.0)) return kInf;
        double most = -kInf;
        for (const double eps : {lowest, highest})
            most = std::max(most, log_value - at * eps - (log_centre_ - eps * c_));
        return most - rate * distance - std::log1p(-std::exp(-rate * distance));
    };
    const double base = std::fabs(log_centre_) + std::max(std::fabs(lowest), std::fabs(highest)) * std::fabs(c_);
    const double spread = 8.0 * kRound * (base + std::fabs(log_centre_)) + 1e-12;
    for (const Guard& g : right_) right = std::min(right, series(g.log_value, g.at, g.at - c_));
    for (const Guard& g : left_) left = std::min(left, series(g.log_value, g.at, c_ - g.at));
    // The probability and delta never exceed the mass: on the side where e^{cDm} falls by itself.
    const double mass = comp_.log_finite_mass + comp_.log_mass_err;
    if (c_ > 0.0) left = std::min(left, series(mass, 0.0, c_));
    if (complement()) right = std::min(right, series(mass, 0.0, -c_));
    const double top = std::max(right, left);
    return top + std::log1p(std::exp(std::min(right, left) - top)) + spread;
}

bool Contour::open_lines(double reach) {
    lines_.clear();
    reach_ = reach;
    for (const Term& t : comp_.terms) {
        // A law of a coarser lattice comes back within the period of the common one: its envelope must not say
        // that it falls.
        const bool own = lattice_ && t.law->lattice().step <= comp_.lattice.step;
        lines_.push_back(t.law->line(c_, reach, t.copies, own, stop_));
        if (!lattice_) lines_.back()->expect(h_);  // j h is exact
    }
    return true;
}

bool Contour::place(double second, double epsilon) {
    lattice_ = comp_.lattice.step > 0.0;
    log_centre_ = comp_.cumulants(c_, stop_).value;
    if (!std::isfinite(log_centre_) || !(second > 0.0) || !std::isfinite(second)) return false;
    const double kernel = quantity_ == Quantity::delta ? 1.0 / std::fabs(c_ * (1.0 + c_)) : 1.0 / std::fabs(c_);
    // log of (result relative to exp(K(c) - eps c)): saddle-point estimate.
    const double estimate = std::log(kernel) - 0.5 * std::log(2.0 * kPi * second);
    target_ = estimate - kAim;
    const bool delta = quantity_ == Quantity::delta;
    const double base = log_centre_ - epsilon * c_;
    const auto payoff = [&](double at) {
        if (!delta || (at <= 0.0 && at >= -1.0)) return 0.0;
        // sup of (e^u - 1) e^{-bu} is that of (1 - e^{-x}) e^{-(b-1) x}.
        return log_payoff(at > 0.0 ? at : -1.0 - at) + 8.0 * kRound * (1.0 + std::fabs(at));
    };
    // A Chernoff point x makes the aliases on its side small enough when D >= need(x); its minimum, where K'(x) -
    // eps equals need(x), is approached from the point that would be right for a Gaussian.
    double best_need = kInf;
    const auto approach = [&](double direction, double limit, std::vector<Guard>& guards) {
        double best = kInf;
        double chosen = c_;
        double width = std::sqrt(2.0 * kAim / second);
        if (limit < kInf) width = std::min(width, 0.5 * limit);
        double near = 0.0;
        double far = limit;
        for (int i = 0; i < 12; ++i) {
            stop_();  // laws with a million atoms take tens of milliseconds
            const double at = c_ + direction * width;
            const Cumulants k = comp_.cumulants(at, stop_);
            const double need = (k.value + payoff(at) - at * epsilon - base - target_ + 1.0) / width;
            const bool past = !std::isfinite(need) || direction * (k.first - epsilon) > need;
            if (std::isfinite(need) && need < best) {
                best = need;
                chosen = at;
            }
            if (std::isfinite(need) && std::fabs(direction * (k.first - epsilon) - need) < 0.15 * need) break;
            if (past)
                far = width;
            else
                near = width;
            width = past ? (near > 0.0 ? 0.5 * (near + far) : 0.6 * width)
                         : (far < kInf ? 0.5 * (near + far) : 1.5 * width);
            if (far < kInf && far - near < 0.05 * far) break;
        }
        // Nearer where no moment can be certified there.
        for (int i = 0; i < 20 && chosen != c_; ++i, chosen = c_ + 0.7 * (chosen - c_)) {
            const double bound = certified_upper(chosen) + payoff(chosen);
            if (!std::isfinite(bound)) continue;
            guards.push_back({chosen, bound});
            break;
        }
        best_need = best;
    };
    const double mass = comp_.log_finite_mass + comp_.log_mass_err;
    double distance = 0.0;
    approach(1.0, c_ > 0.0 ? kInf : (beyond() ? -1.0 - c_ : -c_), right_);
    double need = best_need;
    if (complement()) need = std::min(need, (mass - base - target_ + 1.0) / -c_);
    distance = need;
    approach(-1.0, c_ > 0.0 ? c_ : (delta && complement() ? 1.0 + c_ : kInf), left_);
    need = best_need;
    if (c_ > 0.0) need = std::min(need, (mass - base - target_ + 1.0) / c_);
    distance = std::max(distance, need);
    if (!(distance > 0.0 && distance < kInf)) return false;
    // The certified values may be above the estimates.
    for (int i = 0; i < 40 && log_alias(epsilon, epsilon, distance) > target_; ++i) distance *= 1.1;
    if (!std::isfinite(log_alias(epsilon, epsilon, distance))) return false;
    if (lattice_) {
        double n = std::ceil(distance / comp_.lattice.step);
        if (!(n < 0x1p52)) return false;  // nodes beyond number (infinitely many where the step underflows)
        n += 1.0 - std::fmod(n, 2.0);     // odd: no node on the edge of the period
        count_ = n;
        distance_ = n * comp_.lattice.step;
        h_ = 2.0 * kPi / distance_;
    } else {
        h_ = 2.0 * kPi / distance;
        // 26 bits: j h is exact for j < 2^27.
        int exponent = 0;
        const double fraction = std::frexp(h_, &exponent);
        h_ = std::ldexp(std::floor(std::ldexp(fraction, 26)), exponent - 26);
        distance_ = 2.0 * kPi / h_ * (1.0 - 4.0 * kRound);
    }
    // What paths are charged for grows with the copies. A bulk's bound takes over before they are needed, if the
    // rule over outputs, of which it is made, reaches to where they have fallen by as much.
    double sampled = 0.0;
    for (const Term& t : comp_.terms)
        if (t.law->kind() == LawKind::subsampled_gaussian) sampled += t.copies;
    const double farther =
        sampled > kManySteps ? std::min(std::sqrt(2.0 + kPathCharge * sampled / kAim), kMostReach) : 1.0;
    open_lines(std::sqrt(2.0 * (kAim + 3.0) / second) * kFirstReach * farther);
    return true;
}

// Tails with atoms off a lattice: what does not decay is taken away, if that is little.
bool Contour::set_atoms_apart() {
    if (quantity_ == Quantity::tail && !lattice_ && !comp_.smooth) {
        double sum = -log_centre_;
        double size = std::fabs(log_centre_);
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            const double part = comp_.terms[i].copies * lines_[i]->log_atoms();
            sum += part;
            size += std::fabs(part);
            if (comp_.terms[i].law->kind() == LawKind::laplace) laplace_ += comp_.terms[i].copies;
        }
        atoms_ = std::exp(sum + (static_cast<double>(lines_.size()) + 4.0) * kRound * size) * (1.0 + kLibm);
        return laplace_ > 0.0 && atoms_ < kFewAtoms;
    }
    return true;
}

double Contour::log_envelope(double from) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
        const double own = lines_[i]->log_envelope(from);
        // Where the atoms are taken away, of them as well.
        sum += comp_.terms[i].copies * (laplace_ > 0.0 ? std::max(own, lines_[i]->log_atoms()) : own);
    }
    return sum - log_centre_ +
           (static_cast<double>(lines_.size()) + 4.0) * kRound * (std::fabs(sum) + std::fabs(log_centre_));
}

double Contour::tail_after(double from) const {
    // G non-increasing: sum over nodes after `from` <= (1/h) integral from `from`; dyadic pieces.
    double total = 0.0;
    double t = from;
    const double wanted = std::exp(target_) / h_ * 0.1;
    const double period_end = lattice_ ? kPi / comp_.lattice.step : kInf;
    const double x_worst =
        lattice_ && c_ < 0.0 ? comp_.lattice.step : 0.0;  // the offset that makes e^{-cx} largest
    for (int piece = 0; piece < 80; ++piece) {
        const double env = std::exp(std::min(log_envelope(t), 700.0));
        const double next = 2.0 * t;
        if (lattice_) {
            const double stop_at = std::min(next, period_end);
            // bracket <= 1 - e^-d + e^-cd (1 - e^-d) covers every offset
            double bound = kernel_.bound(t, x_worst);
            if (quantity_ == Quantity::delta) {
                const double d = comp_.lattice.step;
                const double here = -std::expm1(-x_worst) + std::exp(-c_ * d - x_worst) * -std::expm1(x_worst - d);
                bound *= (-std::expm1(-d)) * (1.0 + std::exp(-c_ * d)) / here;
            }
            if (stop_at > t) total += env * bound * (stop_at - t) / h_;
            if (next >= period_end) return total * 1.001;
        } else if (quantity_ == Quantity::delta || laplace_ > 0.0) {
            // 1/t^2, or 1/t times what is left of the product without its atoms: a Laplace loss at a time.
            const double rest = env / t / h_ * (quantity_ == Quantity::delta ? 1.0 : 0.5 * laplace_);
            if (rest <= wanted || piece == 79) return (total + rest) * 1.001;
            total += 0.5 * rest;
        } else {
            // The envelope does not grow over 1400 doublings; after them a smooth law is below TV/t.
            const double rest = 1000.0 * env / h_;
            if (comp_.smooth && rest <= wanted * 1e-3) return (total + rest) * 1.001;
            total += 0.6931471805599454 * env / h_;
        }
        t = next;
    }
    return kInf;
}

bool Contour::fill() {
    const double n_terms = static_cast<double>(lines_.size()) + 2.0;
    double largest = 0.0;
    int limit = lattice_ ? static_cast<int>(std::min((count_ - 1.0) / 2.0, 64.0 * kMaxNodes)) : kMaxNodes;
    const double wanted = std::exp(target_) / h_;
    const double slip = lattice_ ? 4.0 * kRound + comp_.lattice.step_err / comp_.lattice.step : 0.0;
    // A Gaussian part makes the envelope fall like e^{-rho t^2}, however slowly the atoms of the others do.
    // So does a window on the large steps.
    double rho = 0.0;
    bool windows = false;
    bool sampled = false;
    for (const Term& t : comp_.terms) {
        sampled = sampled || t.law->kind() == LawKind::subsampled_gaussian;
        if (t.law->kind() == LawKind::gaussian) rho += t.copies * gaussian_rho(*t.law);
        windows = windows || t.law->kind() == LawKind::part;
    }
    const bool falls = windows || rho * (kMaxNodes * h_) * (kMaxNodes * h_) > 2.0 * kAim;
    // The envelope of windows is close to what it bounds: it tells beforehand whether the nodes will do.
    if (windows) {
        // What is left after a node is at least half of its first piece.
        const auto short_of = [&](double at) {
            return std::exp(std::min(log_envelope(at), 700.0)) * (0.5 / (at * h_)) > wanted * kPieceContent ||
                   tail_after(at) > wanted * kPieceContent;
        };
        double end = 4.0 * h_;
        while (end < kMostWindowNodes * h_ && short_of(end)) end *= 2.0;
        for (int i = 1; i <= 3 && end > 4.0 * h_; ++i) {
            const double nearer = end * std::exp2(-std::ldexp(1.0, -i));
            if (!short_of(nearer)) end = nearer;
        }
        if (end >= kMostWindowNodes * h_) return false;
        // Lines of another reach have other bounds: a little further than the end, which may then lie a little
        // further itself.
        if (end + 2.0 * h_ > reach_) open_lines(kBeyondEnd * end + 2.0 * h_);
        while (short_of(end) && 1.1 * end + 2.0 * h_ <= reach_) end *= 1.1;
        limit = static_cast<int>(std::ceil(end / h_)) + 1;
        double cost = 0.0;
        for (const auto& line : lines_) {
            if (!std::isfinite(line->value(0.0).err)) return false;  // its sums are not known to any digit
            cost += line->cost();
        }
        if (cost * end / h_ > kMostWindowWork) return false;
    }
    // Where the last node leaves a tail without bound, so does every earlier one: say so before they are computed.
    // (Sampled steps always have one, and it takes longer than nodes.)
    if (!lattice_ && !windows && !sampled && !std::isfinite(tail_after(limit * h_))) return false;
    double next_check = 0.0;
    double work = 0.0;
    int farther = 0;
    for (int j = 0; j <= limit; ++j) {
        const double t = j * h_;
        double each = 0.0;
        for (const auto& line : lines_) each += line->cost();
        while (t > reach_) {
            // Twice the reach takes up to twice the nodes, and certifying a node takes as long as 150 values of
            // it.
            work += 300.0 * each;
            if (work > kMostWork) return false;
            open_lines(2.0 * reach_);
        }
        if ((work += each) > kMostWork) return false;
        stop_.spend(kUnit * each + kNodeWork);
        if ((j & 15) == 15) stop_();
        Complex sum;
        double err = 0.0;
        double size = 0.0;
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            const double k = comp_.terms[i].copies;
            const Certified v = lines_[i]->value(t);
            sum = sum + k * v.value;
            err += k * v.err;
            size += k * abs(v.value);
            // On a lattice the step h = 2 pi/(n d) is rounded: t is off by 4 roundings, and by the error of d.
            if (lattice_) err += k * slip * t * lines_[i]->derivative_size(t, v.value.re);
        }
        err += n_terms * kRound * size;
        Node node;
        node.t = t;
        if (err < 0.5) {
            node.size = std::exp(sum.re - log_centre_);
            node.phase = sum.im;
            node.err =
                kSlack * (std::expm1(err + 2.0 * kRound * (std::fabs(sum.re) + std::fabs(log_centre_))) + kLibm);
        } else {  // M is nearly zero here: only its size is known
            double upper = 0.0;
            for (std::size_t i = 0; i < lines_.size(); ++i) {
                const Certified v = lines_[i]->value(t);
                const double off = std::isinf(v.err) ? 0.0 : v.err;  // the real part alone is a bound there
                // And at the true place of the node, as above: |M'| = |K'| |M|.
                const double moved =
                    lattice_ ? slip * t * lines_[i]->derivative_size(t, v.value.re - off) * std::exp(off) : 0.0;
                upper += comp_.terms[i].copies * (v.value.re + off + std::log1p(moved));
            }
            node.size = std::exp(std::min(upper - log_centre_ + 1e-9, 700.0));
            node.phase = 0.0;
            node.err = 2.0;
        }
        nodes_.push_back(node);
        largest = std::max(largest, node.size);
        if (lattice_ && j == limit) {
            if (limit < (count_ - 1.0) / 2.0) return false;
            tail_ = 0.0;
            return true;
        }
        const double shape =
            lattice_ ? comp_.lattice.step / std::fabs(c_) + 1.0 : 1.0 / (quantity_ == Quantity::delta ? t * t : t);
        if (j >= 3 && t >= next_check && node.size * shape < wanted * 16.0) {
            const double tail = tail_after(t);
            // Atoms leave a tail that falls like 1/t only: content with 1e-10 where e^-kAim would cost too much.
            const double enough = node.size * shape < wanted / 16.0 ? wanted * kContent : wanted;
            const bool ended = !lattice_ && node.size * shape < wanted / 256.0;
            const bool again = sampled && ended && farther < kMostFarther;
            if (tail <= enough || (ended && !again && !falls && j * (tail / (wanted * kContent)) > kMaxNodes &&
                                   log_envelope(2.0 * t) > log_envelope(t) - 1.0)) {  // it has stopped falling
                tail_ = tail;
                return std::isfinite(tail);
            }
            next_check = t * 1.15;
            // The sum has ended, and only its bound has not: that of sampled steps is sharper within the reach of
            // their lines.
            if (again) {
                ++farther;
                work += 300.0 * each;
                open_lines(4.0 * reach_);
                next_check = t;
            }
        }
    }
    tail_ = tail_after(nodes_.back().t);
    return std::isfinite(tail_);
}

namespace {
// Where something left the range of double nothing is known; a NaN must not pass for a zero.
Contour::Sum known(Contour::Sum out) {
    if (std::isfinite(out.lower) && std::isfinite(out.upper)) return out;
    out.lower = 0.0;
    out.upper = kInf;
    return out;
}
}  // namespace

Contour::Sum Contour::evaluate(double epsilon, bool ties_above) const {
    Offset offset;
    if (lattice_) {
        offset = lattice_offset(comp_.lattice, epsilon);
        // A point within the error of eps may lie on either side. For tails the caller decides; for delta it does
        // not matter (the kernel is continuous there), but the error is to be taken where e^{-zx} is large.
        const bool above = quantity_ == Quantity::tail ? ties_above : c_ > 0.0;
        if (offset.tie) offset.x = above ? 0.0 : comp_.lattice.step;
    }
    const double turn =
        lattice_ ? std::fabs(epsilon) * (4.0 * kRound + comp_.lattice.step_err / comp_.lattice.step) : 0.0;
    stop_.spend(kNodeWork * static_cast<double>(nodes_.size()));
    double sum = 0.0, low = 0.0, slope = 0.0, err = 0.0, size = 0.0;
    for (const Node& n : nodes_) {
        const double twice = n.t > 0.0 ? 2.0 : 1.0;
        const Certified k = kernel_.value(n.t, offset);
        const double total = twice * n.size * abs(k.value);
        if (!(n.err < 1.0)) {
            err += twice * n.size * (abs(k.value) + k.err);
            continue;
        }
        const double angle = n.phase - epsilon * n.t;
        const double cosine = std::cos(angle);
        const double sine = std::sin(angle);
        const double term = twice * n.size * (cosine * k.value.re - sine * k.value.im);
        const Complex full = Complex{cosine, sine} * kernel_.slope(n.t, offset.x, k.value);
        slope += twice * n.size * full.re;
        const double y = term - low;
        const double next = sum + y;
        low = (next - sum) - y;
        sum = next;
        // eps t: two roundings, and on a lattice those of t.
        err += total * (n.err + 2.0 * kRound * (std::fabs(n.phase) + 2.0 * std::fabs(epsilon) * n.t) + turn * n.t +
                        4.0 * kLibm) +
               twice * n.size * k.err * (1.0 + n.err);
        size += std::fabs(term);
    }
    err = kSlack * (err + 4.0 * kRound * size) + 2.0 * tail_;
    // The atoms' part of the nodes, which is not to be there: |kernel| <= 1/|c| and 1/t.
    if (atoms_ > 0.0)
        err += 1.001 * atoms_ *
               (1.0 / std::fabs(c_) + 2.0 / h_ * (1.0 + std::log(static_cast<double>(nodes_.size()))));
    const double weight = h_ / (2.0 * kPi);
    const double sign = complement() ? -1.0 : 1.0;
    const double alias = std::exp(std::min(log_alias(epsilon, epsilon, distance_), 700.0));
    Sum out{};
    out.scale = log_centre_ - epsilon * c_;
    out.scale_err = 3.0 * kRound * (std::fabs(log_centre_) + std::fabs(epsilon * c_));
    out.middle = sign * sum * weight;
    out.slope = slope * weight;
    out.lower = out.middle - err * weight * kSlack - alias - 8.0 * kRound * std::fabs(out.middle);
    out.upper = out.middle + err * weight * kSlack + 8.0 * kRound * std::fabs(out.middle) + atoms_;
    return known(out);
}

Contour::Sum Contour::evaluate(const WeightedPoint* first, const WeightedPoint* last) const {
    // exp(-z x) = exp(-z x0) exp(-z d): the weights take exp(-c d), the points are turned by t d.
    const auto n = static_cast<std::size_t>(last - first);
    double lowest = kInf, highest = -kInf, top = -kInf;
    for (const WeightedPoint* p = first; p < last; ++p) {
        lowest = std::min(lowest, p->x - p->err);
        highest = std::max(highest, p->x + p->err);
        top = std::max(top, p->log_weight - c_ * p->x);
    }
    const double x0 = 0.5 * (lowest + highest);
    std::vector<double> weight(n), distance(n), cosine(n), sine(n), step_cosine(n), step_sine(n);
    double all = 0.0, weight_err = 0.0, shift = 0.0, turn = 0.0;
    stop_.spend(kPointWork * static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
        const WeightedPoint& p = first[i];
        weight[i] = std::exp(p.log_weight - c_ * p.x - top);
        distance[i] = p.x - x0;
        all += weight[i];
        // The exponent: a product and two sums, and those of `top`.
        const double parts = std::fabs(p.log_weight) + std::fabs(c_ * p.x) + std::fabs(top);
        weight_err = std::max(weight_err, kLibm + 4.0 * kRound * parts);
        shift += weight[i] * p.err;
        turn += weight[i] * std::fabs(distance[i]) * 4.0 * kRound;  // of d, of t d
        step_cosine[i] = std::cos(h_ * distance[i]);
        step_sine[i] = std::sin(h_ * distance[i]);
    }
    all *= 1.0 + kRound * static_cast<double>(n);
    const double add = (static_cast<double>(n) / 8.0 + 20.0) * kRound;
    double sum = 0.0, low = 0.0, err = 0.0, size = 0.0;
    int turns = kMostTurns;
    for (const Node& node : nodes_) {
        stop_.spend((turns < kMostTurns ? kTurnWork : kPointWork) * static_cast<double>(n));
        stop_();
        if (turns < kMostTurns) {
            turn_on(cosine.data(), sine.data(), step_cosine.data(), step_sine.data(), n);
            ++turns;
        } else {
            for (std::size_t i = 0; i < n; ++i) {
                cosine[i] = std::cos(node.t * distance[i]);
                sine[i] = std::sin(node.t * distance[i]);
            }
            turns = 0;
        }
        const TurnedSums turned = weigh(weight.data(), cosine.data(), sine.data(), n, false);
        const double turned_err =
            2.0 * all * (turned_error(turns) + add) + node.t * turn + (std::fabs(c_) + node.t) * shift;
        const double twice = node.t > 0.0 ? 2.0 : 1.0;
        const Certified k = kernel_.value(node.t, Offset{});
        if (!(node.err < 1.0)) {
            err += twice * node.size * (abs(k.value) + k.err) * (all + turned_err);
            continue;
        }
        const double angle = node.phase - x0 * node.t;
        const Complex full =
            Complex{std::cos(angle), std::sin(angle)} * k.value * Complex{turned.first, -turned.second};
        const double term = twice * node.size * full.re;
        const double y = term - low;
        const double next = sum + y;
        low = (next - sum) - y;
        sum = next;
        const double own = node.err + 2.0 * kRound * (std::fabs(node.phase) + 2.0 * std::fabs(x0) * node.t) +
                           4.0 * kLibm + 2.0 * kComplexOp;
        err += twice * node.size * (abs(k.value) * (all * own + turned_err) + k.err * all * (1.0 + node.err));
        size += std::fabs(term);
    }
    err = kSlack * (err + 4.0 * kRound * size) + 2.0 * tail_ * all;
    if (atoms_ > 0.0)
        err += 1.001 * atoms_ * all *
               (1.0 / std::fabs(c_) + 2.0 / h_ * (1.0 + std::log(static_cast<double>(nodes_.size()))));
    const double unit = h_ / (2.0 * kPi);
    const double alias = all * std::exp(std::min(log_alias(lowest, highest, distance_), 700.0));
    Sum out{};
    out.scale = log_centre_ + top;
    out.scale_err = 2.0 * kRound * (std::fabs(log_centre_) + std::fabs(top)) + kSlack * weight_err;
    out.middle = (complement() ? -1.0 : 1.0) * sum * unit;
    out.lower = out.middle - err * unit * kSlack - alias - 8.0 * kRound * std::fabs(out.middle);
    out.upper = out.middle + err * unit * kSlack + 8.0 * kRound * std::fabs(out.middle) + atoms_ * all;
    return known(out);
}

}  // namespace dpcore::detail
