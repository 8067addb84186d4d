#include "sampled_ends.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "added_gap.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/normal.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kReach = 9.0;  // standard deviations of an outline
constexpr double kMostAtoms = 4096.0;

struct Kind {
    SubsampledStep step;
    double copies, cut;
};

// The mass beyond x, a few roundings of x/s and of the tail outward.
double tail(double x, double s, double outward) {
    const double z = x / s;
    const double err = (16.0 + 4.0 * (z * z + std::fabs(z) + 1.0)) * kRound;
    return std::max(0.0, normal_tail(std::min(z, 1e150)) * (1.0 + outward * err) + outward * 1e-320);
}

// Probability that some step is beyond its cut less e^epsilon times that without the record, or, at an epsilon of
// minus infinity, the former alone. The difference rises with the tails of the sampled part of the mixture and
// falls with those of the other: P >= Q, and epsilon is at least 0.
double beyond(const std::vector<Kind>& kinds, double epsilon, double outward) {
    const bool alone = epsilon == -kInf;
    double with = 0.0, without = 0.0;
    for (const Kind& k : kinds) {
        const double q = k.step.q;
        const double plain = tail(k.cut, k.step.sigma, alone ? outward : -outward);
        const double shifted = tail(k.cut - 1.0, k.step.sigma, outward);
        const double p = ((1.0 - q) * plain + q * shifted) * (1.0 + outward * 4.0 * kRound);
        with += k.copies * std::log1p(-std::min(1.0, p));
        without += k.copies * std::log1p(-plain);
    }
    const double err = 4.0 * kLibm + static_cast<double>(kinds.size()) * kRound;
    const double paid = -std::expm1(with) * (1.0 + outward * err) + outward * 1e-318;
    if (alone) return paid;
    return paid + std::exp(epsilon) * std::expm1(without) * (1.0 - outward * (err + 2.0 * kLibm));
}

// Atoms of mass 1 together; log_mass: what it is.
LawPtr outline_of(const Kind& kind, const Outputs& outputs, double& log_mass) {
    const SubsampledStep& step = kind.step;
    const double s = step.sigma;
    const double s2 = s * s;
    double low = -kReach * s - 1.0;
    double high = std::min(outputs.high, 4.0 * kReach * s + 1.0);
    if (!step.removal) {
        high = std::min(high, kReach * s + 1.0);
        low = std::max(-4.0 * kReach * s, std::min(high, 0.0) - kReach * s);
    }
    const double piece = std::max((high - low) / kMostAtoms, std::min(0.05 * s, 0.02 * s2));
    const auto height = [&](double x) { return (step.removal ? step.lambda(x) : 0.0) - x * x / (2.0 * s2); };
    double top = -kInf, sum = 0.0;
    for (double x = high; x > low; x -= piece) top = std::max(top, height(x));
    for (double x = high; x > low; x -= piece) sum += std::exp(height(x) - top);
    std::vector<Atom> atoms;
    for (double x = high; x > low; x -= piece) {
        const double mass = std::exp(height(x) - top) / sum;
        if (mass > 1e-290)
            atoms.push_back({step.removal ? step.lambda(x) : -AddedGap(step).of(x), 0.0, mass, 0.0});
    }
    log_mass = top + std::log(sum * piece * 0.39894228040143267794 / s);
    return atoms.empty() ? nullptr : atoms_law(std::move(atoms), 0.0);
}

}  // namespace

bool SampledEnds::matter(double c) const {
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].high < (outputs[i].from_top ? kReach * sigmas[i] : 1.0 + c)) return true;
    return false;
}

namespace {

// The output from which on the steps of a kind hold, without the record, at most e^{log_aim} in all, T(z) <=
// e^{-z^2/2}/2; or with it, where rates are so small that this is lower.
double rare_from(const Kind& k, double epsilon, double log_aim) {
    const double s = k.step.sigma;
    const auto place = [&](double log_tail) { return s * std::sqrt(std::max(1.0, -2.0 * log_tail)); };
    const double share = log_aim - std::log(k.copies);
    const double cut = place(share - std::max(epsilon, 0.0));
    // Half for the sampled part, all of which may be beyond.
    return std::log(2.0 * k.step.q) < share ? std::min(cut, place(share)) : cut;
}

// log of the mass of the other releases' finite losses, with the record and without.
struct OtherMass {
    double with = 0.0, with_err = 0.0, without = 0.0, without_err = 0.0;
};

OtherMass other_mass(const std::vector<Term>& others, StopCheck stop) {
    OtherMass out;
    const Composition all = Composition::of(others);
    out.with = all.log_finite_mass;
    out.with_err = all.log_mass_err + 2.0 * kRound * std::fabs(out.with);
    double size = 0.0;
    for (const Term& t : others) {
        // Densities have no mass beside that of the record.
        const LawKind kind = t.law->kind();
        if (kind == LawKind::gaussian || kind == LawKind::laplace || kind == LawKind::subsampled_gaussian)
            continue;
        const Certified v = t.law->line(-1.0, 0.0, t.copies, false, stop)->value(0.0);
        out.without += t.copies * v.value.re;
        size += t.copies * std::fabs(v.value.re);
        out.without_err += t.copies * v.err;
    }
    out.without_err += (static_cast<double>(others.size()) + 4.0) * kRound * size;
    return out;
}

}  // namespace

SampledEnds sampled_ends(const Composition& composition, double epsilon, double c, double log_aim,
                         StopCheck stop) {
    SampledEnds out;
    std::vector<Kind> kinds;  // one for each term, those that are not cut with an infinite cut
    std::vector<Term> others;
    double removals = 0.0, additions = 0.0;
    DoubleDouble all = {0.0, 0.0};  // the sum of -log(1 - q)
    for (const Term& t : composition.terms) {
        if (t.law->kind() != LawKind::subsampled_gaussian) {
            kinds.push_back({{1.0, 0.5, false}, t.copies, kInf});
            others.push_back(t);
            continue;
        }
        const std::vector<double> p = t.law->parameters();  // sigma, rate, whether a record is removed
        kinds.push_back({{p[0], p[1], p[2] != 0.0}, t.copies, kInf});
        (kinds.back().step.removal ? removals : additions) += 1.0;
        all = all - log(two_sum(1.0, -p[1])) * t.copies;
    }
    const bool from_top = others.empty() && removals == 0.0;
    if (kinds.empty() || !(epsilon >= 0.0) || !(removals > 0.0 || from_top)) return out;
    const auto gap = static_cast<double>(all - epsilon);
    if (from_top && !(gap > 1e-25 * static_cast<double>(all))) return out;
    out.epsilon = from_top ? -gap : epsilon;
    // With a loss beyond that, and no more than a rounding for each of its terms, nothing takes the sum below
    // epsilon.
    const double least = composition.min_loss;
    const double sure_loss = epsilon - least;
    const double rounded = 8.0 * kRound * (epsilon - least) + 2.0 * kLibm * std::fabs(least);
    bool certain = true;
    std::vector<Term> outlines;
    std::vector<Kind> cut;
    double max_loss = 0.0, size = 0.0;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        Kind& k = kinds[i];
        const Term& term = composition.terms[i];
        const SubsampledStep& step = k.step;
        const bool sampled = term.law->kind() == LawKind::subsampled_gaussian;
        Outputs kept;
        if (from_top) {
            const AddedGap below(step);
            k.cut = below.place(gap) + 1e-9 * step.sigma * step.sigma;
            if (!(std::isfinite(k.cut) &&
                  below.of(k.cut) * (1.0 - below.err(k.cut)) >= gap * (1.0 + 4.0 * kRound)))
                return out;
        } else if (sampled && step.removal) {
            k.cut = sure_loss < kInf ? step.place(sure_loss) : kInf;
            bool sure = false;
            if (std::isfinite(k.cut)) {
                const double needed = (sure_loss + std::log1p(-step.q)) + rounded;
                sure = step.lambda(k.cut) - step.largest_lambda_err(k.cut, k.cut) >= needed;
                if (!sure) k.cut = kInf;
            }
            const double rare = rare_from(k, epsilon, log_aim - std::log(removals));
            if (rare < k.cut) {
                k.cut = rare;
                sure = false;
            }
            // Far beyond what the tilt looks at nothing needs to be cut off.
            constexpr double kSeen = 4.0;
            if (!(k.cut < 1.0 + c + kSeen * step.sigma)) k.cut = kInf;
            if (std::isfinite(k.cut)) certain = certain && sure;
        }
        kept.high = k.cut;
        kept.from_top = from_top;
        out.outputs.push_back(kept);
        out.sigmas.push_back(step.sigma);
        const double most =
            std::isinf(k.cut) ? term.law->max_loss() : step.lambda(k.cut) + step.largest_lambda_err(k.cut, k.cut);
        max_loss += term.copies * most;
        size += term.copies * std::fabs(most);
        if (std::isinf(k.cut)) {
            outlines.push_back(term);
            continue;
        }
        double log_mass = 0.0;
        LawPtr law = outline_of(k, kept, log_mass);
        if (law == nullptr) return out;
        out.outline_mass += k.copies * log_mass;
        outlines.push_back({std::move(law), k.copies});
        cut.push_back(k);
    }
    if (cut.empty()) return out;
    out.beyond = {-kInf, -kInf};
    if (!from_top) {
        const OtherMass mass = other_mass(others, stop);
        const double moved = mass.without - mass.with;
        const double moved_err = mass.without_err + mass.with_err + 2.0 * kRound * (std::fabs(moved) + epsilon);
        const double inner = epsilon + moved - moved_err;
        const double high = beyond(cut, certain && inner >= 0.0 ? inner : -kInf, 1.0);
        const double low = beyond(cut, std::max(0.0, epsilon + moved + moved_err), -1.0);
        const auto logarithm = [&](double x, double outward) {
            const double value = std::log(x) + mass.with;
            return value + outward * (kLibm * (1.0 + std::fabs(value)) + mass.with_err);
        };
        if (!(high < kInf)) return out;
        out.beyond = {low > 0.0 ? logarithm(low, -1.0) : -kInf, logarithm(std::max(high, 1e-318), 1.0)};
    }
    if (!from_top) out.max_loss = max_loss + (2.0 + static_cast<double>(kinds.size())) * kRound * size;
    out.outline = Composition::of(std::move(outlines));
    out.valid = true;
    return out;
}

}  // namespace dpcore::detail
