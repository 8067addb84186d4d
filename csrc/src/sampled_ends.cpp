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

// Probability that some step is beyond its cut less e^epsilon times that without the record. It rises with the
// tails of the sampled part of the mixture and falls with those of the other: P >= Q.
double beyond(const std::vector<Kind>& kinds, double epsilon, double outward) {
    double with = 0.0, without = 0.0;
    for (const Kind& k : kinds) {
        const double q = k.step.q;
        const double plain = tail(k.cut, k.step.sigma, -outward);
        const double shifted = tail(k.cut - 1.0, k.step.sigma, outward);
        const double p = ((1.0 - q) * plain + q * shifted) * (1.0 + outward * 4.0 * kRound);
        with += k.copies * std::log1p(-std::min(1.0, p));
        without += k.copies * std::log1p(-plain);
    }
    const double err = 4.0 * kLibm + static_cast<double>(kinds.size()) * kRound;
    return -std::expm1(with) * (1.0 + outward * err) +
           std::exp(epsilon) * std::expm1(without) * (1.0 - outward * (err + 2.0 * kLibm)) + outward * 1e-318;
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
    log_mass = top + std::log(sum * piece * 0.4 / s);
    return atoms.empty() ? nullptr : atoms_law(std::move(atoms), 0.0);
}

}  // namespace

bool SampledEnds::matter(double c) const {
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].high < (outputs[i].from_top ? kReach * sigmas[i] : 1.0 + c)) return true;
    return false;
}

SampledEnds sampled_ends(const Composition& composition, double epsilon) {
    SampledEnds out;
    std::vector<Kind> kinds;
    DoubleDouble all = {0.0, 0.0};  // the sum of -log(1 - q)
    for (const Term& t : composition.terms) {
        if (t.law->kind() != LawKind::subsampled_gaussian) return out;
        const std::vector<double> p = t.law->parameters();  // sigma, rate, whether a record is removed
        kinds.push_back({{p[0], p[1], p[2] != 0.0}, t.copies, 0.0});
        if (kinds.back().step.removal != kinds[0].step.removal) return out;
        all = all - log(two_sum(1.0, -p[1])) * t.copies;
    }
    if (kinds.empty() || !(epsilon >= 0.0)) return out;
    const bool removal = kinds[0].step.removal;
    const auto most = static_cast<double>(all);
    const auto gap = static_cast<double>(all - epsilon);
    if (!removal && !(gap > 1e-25 * most)) return out;
    out.epsilon = removal ? epsilon : -gap;
    std::vector<Term> outlines;
    for (Kind& k : kinds) {
        const SubsampledStep& step = k.step;
        if (removal) {
            k.cut = step.place(epsilon + most);
            const double needed = (epsilon + (most + std::log1p(-step.q))) + 8.0 * kRound * (epsilon + most) +
                                  kLibm * std::fabs(std::log1p(-step.q));
            const double sure = step.lambda(k.cut) - step.largest_lambda_err(k.cut, k.cut);
            if (!(std::isfinite(k.cut) && sure >= needed)) return out;
        } else {
            const AddedGap below(step);
            k.cut = below.place(gap) + 1e-9 * step.sigma * step.sigma;
            if (!(std::isfinite(k.cut) &&
                  below.of(k.cut) * (1.0 - below.err(k.cut)) >= gap * (1.0 + 4.0 * kRound)))
                return out;
        }
        Outputs kept;
        kept.high = k.cut;
        kept.from_top = !removal;
        double log_mass = 0.0;
        LawPtr law = outline_of(k, kept, log_mass);
        if (law == nullptr) return out;
        out.outline_mass += k.copies * log_mass;
        out.outputs.push_back(kept);
        out.sigmas.push_back(step.sigma);
        outlines.push_back({std::move(law), k.copies});
    }
    out.beyond = {-kInf, -kInf};
    if (removal) {
        const double high = beyond(kinds, epsilon, 1.0);
        const double low = beyond(kinds, epsilon, -1.0);
        const auto logarithm = [](double x, double outward) {
            const double value = std::log(x);
            return value + outward * kLibm * (1.0 + std::fabs(value));
        };
        if (!(high < kInf)) return out;
        out.beyond = {low > 0.0 ? logarithm(low, -1.0) : -kInf, logarithm(std::max(high, 1e-318), 1.0)};
    }
    out.outline = Composition::of(std::move(outlines));
    out.valid = true;
    return out;
}

}  // namespace dpcore::detail
