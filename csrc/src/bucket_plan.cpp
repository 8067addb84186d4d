#include "bucket_plan.hpp"

#include <cmath>
#include <limits>

#include "dpcore/spectral.hpp"

namespace dpcore::detail {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}

Plan place_plan(const Composition& comp, double epsilon, StopCheck stop) {
    Plan plan;
    const Placement place = spectral_placement(comp, epsilon, stop);
    if (!place.valid) return plan;
    plan.tilt = place.c;
    plan.mean = place.mean;
    plan.sd = std::sqrt(place.variance);
    plan.value = place.value;
    plan.far = place.far;
    plan.near = place.near;
    plan.distance = place.distance;
    plan.valid = true;
    return plan;
}

double fitting_step(const Plan& plan, const std::vector<Part>& parts, double width, bool thorough) {
    const double finest = thorough ? 2.0 * plan.distance / (kFinest - 16.0) : 0.0;
    double copies = 0.0;
    for (const Part& t : parts) copies += t.copies;
    // Upper adds about step^2/6 to the variance of each loss, lower takes step^2/12 away; delta changes by
    // c(1+c)/2 times that.
    double step = std::sqrt(2.0 * width / (copies * plan.tilt * (1.0 + plan.tilt)));
    step = std::min(step, plan.sd / 4.0);
    if (step > 0.5 * finest) step = std::max(step, finest);
    // Atoms of the Laplace law of the most copies lie on the grid.
    double largest = 0.0, most = 0.0;
    for (const Part& t : parts)
        if (t.law && t.law->kind() == LawKind::laplace && t.copies > most)
            most = t.copies, largest = t.law->parameters()[0];
    // Atoms off the grid are merged or rounded down in the lower list, by half a step on average: first order.
    double loose = 0.0;
    bool anchored = false;
    for (const Part& t : parts) {
        if (!t.law) continue;  // mostly dense: a finer grid follows where they are not
        const LawKind kind = t.law->kind();
        if (kind == LawKind::laplace) {
            if (t.law->parameters()[0] != largest) loose += t.copies;
        } else if (kind != LawKind::gaussian && kind != LawKind::subsampled_gaussian) {
            if (anchored || largest > 0.0 || !(t.law->lattice().step > 0.0))
                loose += t.copies;
            else {
                step = t.law->lattice().step / std::ceil(t.law->lattice().step / step);
                anchored = true;
            }
        }
    }
    if (loose > 0.0 && !thorough)
        step = std::min(step, std::max(3.0 * width / (loose * plan.tilt), 2.0 * plan.distance / 2e6));
    // What is put on the grid: the Laplace law, or, of composed atoms on lattices, those that would cost more
    // between the points.
    double anchor = 2.0 * largest, costs = anchor;
    for (const Part& t : parts)
        if (t.block && t.block->step > 2.0 * step && t.block->step * spread_share(*t.block) > costs) {
            anchor = t.block->step;
            costs = anchor * spread_share(*t.block);
        }
    if (anchor > 0.0) {
        // The two atoms of other Laplace laws are 2 epsilon apart: of the steps down to half as long the one of
        // which that is nearly a multiple, from below, so that the lower atom is rounded down by little.
        const double least = std::max(1.0, std::ceil(anchor / step));
        const double most_cells = std::min(2.0 * least, std::floor(anchor / finest));
        const bool others = thorough && largest > 0.0 && (loose > 0.0 || anchor != 2.0 * largest);
        double k = std::max(1.0, std::min(least, most_cells));
        double best = kInf;
        for (double cells = k; others && cells <= std::min(most_cells, least + 2e4); cells += 1.0) {
            double off = 0.0;
            for (const Part& t : parts)
                if (t.law && t.law->kind() == LawKind::laplace) {
                    const double apart = 2.0 * t.law->parameters()[0] / anchor * cells;
                    off += t.copies * std::exp(-t.law->parameters()[0]) *
                           (std::ceil(apart - 4.0 * kRound * cells) - apart) / cells;
                }
            if (off < best) best = off, k = cells;
        }
        step = anchor / k;
    }
    return step;
}

}  // namespace dpcore::detail
