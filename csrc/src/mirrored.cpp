#include "mirrored.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "composed_delta.hpp"
#include "contour.hpp"
#include "saddle.hpp"
#include "smoothed.hpp"
#include "work.hpp"

namespace dpcore::detail {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
// Share of the width asked for which smoothing would hardly better.
constexpr double kAsGood = 0.1;
// Beyond it e^eps - 1 is more than a thousand times any delta.
constexpr double kMostEpsilon = 7.0;

// Whether the loss has the same law with P and Q exchanged.
bool own_image(const LossLaw& law) {
    switch (law.kind()) {
        case LawKind::gaussian:
        case LawKind::laplace:
        case LawKind::two_point:
        case LawKind::discrete_gaussian:
            return true;
        case LawKind::atoms: {
            const std::vector<double> p = law.parameters();
            return p.size() == 3 && p[0] == -1.0;  // discrete Laplace
        }
        case LawKind::subsampled_gaussian:
        case LawKind::part:
            break;
    }
    return false;
}

// delta from that of the mirrored composition at -epsilon.
LogBounds back(double epsilon, const LogBounds& image) {
    const double gap = std::expm1(epsilon);
    const double rise = 1.0 + gap;
    // Of the exponentials, 1 + gap and the products; then of the difference.
    const double slip = 3.0 * kLibm + 4.0 * kRound;
    const double above = rise * std::exp(std::min(image.log_upper, 700.0)) * (1.0 + slip);
    const double below = rise * std::exp(image.log_lower) * (1.0 - slip);
    const double high = above - gap * (1.0 - slip) + kRound * above;
    const double low = below - gap * (1.0 + slip) - kRound * below;
    LogBounds out = {-kInf, kInf};
    const auto outward = [](double log_value) { return 2.0 * kLibm * std::fabs(log_value); };
    if (low > 0.0) out.log_lower = std::log(low) - outward(std::log(low));
    if (high > 0.0 && std::isfinite(high)) out.log_upper = std::log(high) + outward(std::log(high));
    return out;
}
}  // namespace

std::optional<Composition> mirrored(const Composition& comp) {
    std::vector<Term> terms;
    for (const Term& t : comp.terms) {
        if (t.law->kind() == LawKind::subsampled_gaussian) {
            const std::vector<double> p = t.law->parameters();
            terms.push_back({subsampled_gaussian_law(p[0], p[1], p[2] == 0.0), t.copies});
        } else if (own_image(*t.law)) {
            terms.push_back(t);
        } else {
            return std::nullopt;
        }
    }
    return Composition::of(std::move(terms));
}

LogBounds mirrored_delta(const Composition& comp, double epsilon, double content, StopCheck stop) {
    LogBounds out = {-kInf, kInf};
    if (!(epsilon < kMostEpsilon)) return out;
    const std::optional<Composition> image = mirrored(comp);
    if (!image || image->lattice.step > 0.0) return out;
    LogBounds found = {-kInf, kInf};
    const auto narrow = [&] {
        out = back(epsilon, found);
        return out.log_upper - out.log_lower <= content;
    };
    within(stop, 0.3, [&](StopCheck own) {
        // Also below the mean above 0: what the complement leaves is only known absolutely.
        const Moments m = moments(*image, own);
        const Saddle s = find_saddle(*image, Quantity::delta, -epsilon, 1, m.mean, m.variance, own);
        if (!std::isfinite(s.value)) return;
        const Contour contour(*image, Quantity::delta, s.c, s.second, -epsilon, own);
        if (contour.usable()) found = add_infinite_mass(*image, positive(contour.evaluate(-epsilon)));
    });
    // What a contour knows as well as that is lost in the difference.
    if (narrow() || found.log_upper - found.log_lower < kAsGood * content) return out;
    // Twice: once to learn how large delta is beside what it is a difference of.
    double width = 0.1 * content;
    for (int tries = 0; tries < 2; ++tries) {
        within(stop, 0.7, [&](StopCheck own) {
            if (const auto smooth = smoothed_delta(*image, -epsilon, width, Effort::if_enough, own))
                found = intersect(found, *smooth);
        });
        if (narrow() || !(out.log_lower > -kInf)) break;
        const double share = std::exp(out.log_lower - found.log_upper);
        if (!(share * 0.1 * content < 0.5 * width)) break;
        width = share * 0.1 * content;
    }
    return out;
}

}  // namespace dpcore::detail
