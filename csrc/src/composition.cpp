#include "dpcore/composition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/double_double.hpp"

namespace dpcore {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The common lattice of all terms: steps whose ratios to the smallest are exactly small integers (or all equal).
Lattice common_lattice(const std::vector<Term>& terms) {
    Lattice all;
    double smallest = kInf;
    const auto constant = [](const LossLaw& law) { return law.max_loss() == 0.0 && law.min_loss() == 0.0; };
    for (const Term& t : terms) {
        if (constant(*t.law)) continue;
        const Lattice l = t.law->lattice();
        if (!(l.step > 0.0)) return {};
        smallest = std::min(smallest, l.step);
    }
    if (!(smallest < kInf)) return {};
    DoubleDouble origin;
    const LossLaw* basis = nullptr;
    for (const Term& t : terms)
        if (t.law->lattice().step == smallest) basis = t.law.get();
    for (const Term& t : terms) {
        if (constant(*t.law)) continue;
        const Lattice l = t.law->lattice();
        const double ratio = l.step / smallest;
        const bool same = t.law.get() == basis;
        const bool exact = l.step_err == 0.0 && basis->lattice().step_err == 0.0 &&
                           ratio == std::nearbyint(ratio) && ratio < 1024.0 &&
                           std::fma(ratio, smallest, -l.step) == 0.0;
        if (!same && !exact) return {};
        origin = origin + two_prod(l.origin, t.copies);
        all.origin_err += t.copies * l.origin_err;
        all.step_err = std::max(all.step_err, l.step_err);
    }
    all.step = smallest;
    all.origin = origin.hi;
    all.origin_low = origin.lo;  // exact to 2^-100 of the sum: within lattice_offset's `noise`
    return all;
}

// sum + copies * loss; an infinite loss stays infinite.
DoubleDouble add_product(DoubleDouble sum, double copies, double loss) {
    if (!std::isfinite(sum.hi) || !std::isfinite(loss) || std::fabs(loss) > 1e250)
        return DoubleDouble(sum.hi + copies * loss);
    return sum + two_prod(copies, loss);
}

// The nearest double not on the wrong side; one further where the sum itself was not exact.
double outward(DoubleDouble sum, double direction) {
    const double rounded = static_cast<double>(sum);
    return sum.lo == 0.0 ? rounded : std::nextafter(std::nextafter(rounded, direction), direction);
}

}  // namespace

namespace {
constexpr double kMostCopies = 0x1p53;  // doubles count so far

bool same_law(const LossLaw& a, const LossLaw& b) {
    if (&a == &b) return true;
    // Laws that are made on the way have no parameters.
    if (a.kind() != b.kind() || a.kind() == LawKind::part) return false;
    const std::vector<double> own = a.parameters();
    return !own.empty() && own == b.parameters();
}
}  // namespace

Composition Composition::of(std::vector<Term> given) {
    Composition out;
    // All Gaussians are one; equal laws are one.
    double rho = 0.0;
    double rho_err = 0.0;
    std::size_t gaussians = 0;
    for (Term& t : given) {
        if (t.copies == 0.0) continue;
        // A loss that is always zero changes nothing.
        if (t.law->max_loss() == 0.0 && t.law->min_loss() == 0.0 && t.law->infinite_mass() == 0.0 &&
            t.law->log_total_mass() == 0.0)
            continue;
        if (t.law->kind() == LawKind::gaussian) {
            const double part = t.copies * gaussian_rho(*t.law);
            rho_err = std::max(rho_err, gaussian_rho_err(*t.law) + kRound);
            rho += part;
            ++gaussians;
            continue;
        }
        const auto equal = std::find_if(out.terms.begin(), out.terms.end(), [&](const Term& other) {
            return same_law(*other.law, *t.law) && other.copies + t.copies <= kMostCopies;
        });
        if (equal != out.terms.end())
            equal->copies += t.copies;
        else
            out.terms.push_back(std::move(t));
    }
    if (gaussians > 0 && rho > 0.0)
        out.terms.push_back({gaussian_law_of_rho(rho, rho_err + static_cast<double>(gaussians) * kRound), 1.0});
    out.atomic = true;
    DoubleDouble most, least;
    double infinite = 0.0;
    int sources = 0;
    bool exact = true;
    for (const Term& t : out.terms) {
        most = add_product(most, t.copies, t.law->max_loss());
        least = add_product(least, t.copies, t.law->min_loss());
        out.log_finite_mass += t.copies * t.law->log_finite_mass();
        out.log_total_mass += t.copies * t.law->log_total_mass();
        out.log_mass_err += t.copies * t.law->log_mass_err();
        out.log_finite_share += t.copies * t.law->log_finite_share();
        out.log_finite_share_err = std::max(out.log_finite_share_err, t.law->log_finite_share_err());
        if (t.law->infinite_mass() > 0.0) {
            infinite = t.law->infinite_mass();
            sources += t.copies == 1.0 ? 1 : 2;
        }
        // The infinite mass of the only source is as it is; those of the others would be factors.
        exact = exact && t.law->infinite_mass_exact() &&
                (t.law->infinite_mass() > 0.0 || t.law->log_total_mass() == 0.0);
        const LawKind kind = t.law->kind();
        out.atomic = out.atomic && (kind == LawKind::two_point || kind == LawKind::atoms);
        out.smooth = out.smooth || kind == LawKind::gaussian || kind == LawKind::subsampled_gaussian ||
                     kind == LawKind::part;
    }
    const double n = static_cast<double>(out.terms.size()) + 2.0;
    out.max_loss = outward(most, kInf);
    out.min_loss = outward(least, -kInf);
    if (out.log_finite_mass > -kInf)
        out.log_mass_err += n * kRound * (std::fabs(out.log_finite_mass) + std::fabs(out.log_total_mass));
    out.log_finite_share_err += n * kRound;  // all of one sign
    if (exact && sources <= 1) out.infinite_mass = infinite;
    out.lattice = common_lattice(out.terms);
    return out;
}

Cumulants Composition::cumulants(double c, StopCheck stop) const {
    Cumulants sum;
    for (const Term& t : terms) {
        const Cumulants k = t.law->cumulants(c, stop);
        sum.value += t.copies * k.value;
        sum.first += t.copies * k.first;
        sum.second += t.copies * k.second;
    }
    return sum;
}

namespace {
// Total mass less finite mass: -exp(log_total) expm1(log_finite_share), and its error. A relative error of x < 0
// is at most the same of expm1(x).
Interval infinite_part(const Composition& c) {
    if (c.log_finite_share == 0.0) return {0.0, 0.0};
    constexpr double tiny = std::numeric_limits<double>::min();
    const double p = -std::exp(c.log_total_mass) * std::expm1(c.log_finite_share);
    const bool all = c.log_finite_share == -kInf;
    const double rel = (all ? 0.0 : c.log_finite_share_err + 4.0 * kLibm) +
                       (c.log_total_mass != 0.0 ? 2.0 * c.log_mass_err + 2.0 * kLibm : 0.0);
    // Below the smallest normal number a rounding is absolute.
    const double lost = p < 4.0 * tiny / kRound ? 8.0 * std::numeric_limits<double>::denorm_min() : 0.0;
    const double upper = p * (1.0 + rel) + lost;
    return {std::max(0.0, p * (1.0 - rel) - lost), c.log_total_mass == 0.0 ? std::min(upper, 1.0) : upper};
}
}  // namespace

double Composition::infinite_mass_lower() const {
    return infinite_mass >= 0.0 ? infinite_mass : infinite_part(*this).lower;
}
double Composition::infinite_mass_upper() const {
    return infinite_mass >= 0.0 ? infinite_mass : infinite_part(*this).upper;
}

}  // namespace dpcore
