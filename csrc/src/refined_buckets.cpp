#include "refined_buckets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bucket_ladder.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr int kFinerGrids = 6;
constexpr double kOneGrid = 1e6;     // buckets up to which one grid for all copies is the shorter way
constexpr double kSeveral = 8.0;     // copies from which on grids may grow with them
constexpr double kShort = 2e5;       // a grid of which may be tried though the one before did not help
constexpr double kWider = 1.3;       // window, where it was too narrow
constexpr double kSparse = 2e5;      // buckets for atoms that lie on no lattice
constexpr double kFineSparse = 1e6;  // and at most
constexpr double kPairs = 4e7;       // of atoms that are put on a grid one by one
constexpr double kCoarsest = 64.0;   // times the step that is right, where one law alone is too wide for that

// Atoms on no lattice.
bool is_sparse(const AtomBlock& block) { return block.step == 0.0 && block.mass.size() > 1; }

// How far below an atom the next one is, on average under the tilt: that times half a step of variance is lost.
double mean_gap(const AtomBlock& block) {
    double sum = 0.0, mass = 0.0;
    for (std::size_t i = 1; i < block.mass.size(); ++i) {
        sum += block.mass[i] * (block.loss[i] - block.loss[i - 1]);
        mass += block.mass[i];
    }
    return mass > 0.0 ? sum / mass : 0.0;
}

// Copies composed on grids that grow with them. Blocks of far apart atoms are composed with them on the finest of
// the grids, and taken from the list: between the points of the last one they would cost to first order.
Discrete composed_list(const Part& part, std::vector<const AtomBlock*>& once, const Plan& plan, double width,
                       StopCheck stop) {
    const double c = plan.tilt;
    const bool laplace = part.law && part.law->kind() == LawKind::laplace;
    const double apart = laplace ? 2.0 * part.law->parameters()[0] : 0.0;
    const LadderPlan ladder = ladder_plan(part.copies, c, width, apart);
    // What atoms between the points cost for a unit of the step.
    const auto between = [&](const AtomBlock& block) { return 0.125 * c * (1.0 + c) * mean_gap(block); };
    double step = ladder.step(part.copies);
    double copies = part.copies;
    std::vector<Discrete> others;
    Discrete list;
    bool sparse = false;
    if (part.block) {
        // Atoms lie between the points, which costs to first order: more points than that.
        const double range = part.block->loss.back() - part.block->loss.front();
        const bool lattice = part.block->step > 0.7 * step;
        sparse = part.block->step == 0.0;
        step = lattice ? part.block->step : sparse ? std::min(step, range / kSparse) : 0.25 * step;
        step = std::max(step, range / 1e6);
        const auto atoms = static_cast<double>(part.block->mass.size());
        // Sums of two lie closer: an odd one goes along.
        std::optional<Discrete> twice;
        const double enough = 0.25 * width / (copies * between(*part.block));
        if (sparse && step > enough && copies >= 2.0 * kSeveral && atoms * atoms < kPairs)
            twice = discretise_twice(*part.block, step, c, stop);
        if (sparse && !twice) step = std::max(std::min(step, enough), range / kFineSparse);
        const bool odd = std::fmod(copies, 2.0) > 0.0;
        if (!twice || odd) list = discretise(*part.block, step, c);
        if (twice) {
            if (odd) {
                tilt(list, {c, c, c});
                others.push_back(std::move(list));
            }
            list = std::move(*twice);
            copies = std::floor(0.5 * copies);
        }
    } else {
        for (const double right = step;; step *= 2.0) {
            if (laplace) step = apart / std::ceil(apart / step);
            try {
                list = discretise(*part.law, step, c, c, c, true, stop, part.outputs);
                break;
            } catch (const std::length_error&) {
                if (step > kCoarsest * right) throw;
            }
        }
    }
    tilt(list, {c, c, c});
    const auto taken = [&](const AtomBlock* block) {
        if (!((block->loss.back() - block->loss.front()) / step < kOneGrid)) return false;
        if (sparse && !(step * between(*block) < 0.25 * width)) return false;
        others.push_back(discretise(*block, step, c));
        tilt(others.back(), {c, c, c});
        return true;
    };
    once.erase(std::remove_if(once.begin(), once.end(), taken), once.end());
    return climb(std::move(list), copies, ladder, sparse, stop, std::move(others));
}

// Blocks that occur once, composed with each other as far as that goes.
void join_blocks(std::vector<AtomBlock>& blocks, const Tilts& tilts, StopCheck stop) {
    const auto spread = [](const AtomBlock& b) { return spread_share(b) > 1e-3; };
    for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t j = i + 1; j < blocks.size();) {
            std::optional<AtomBlock> both;
            if (blocks[i].copies == 1.0 && blocks[j].copies == 1.0 && spread(blocks[i]) && spread(blocks[j]))
                both = joined(blocks[i], blocks[j], tilts, stop);
            if (!both) {
                ++j;
                continue;
            }
            blocks[i] = std::move(*both);
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(j));
        }
}

}  // namespace

void Refined::add(const std::vector<Term>& terms) {
    // Gaussians are one Gaussian.
    double rho = 0.0, rho_err = 0.0;
    for (const Term& t : terms)
        if (t.law->kind() == LawKind::gaussian) {
            const std::vector<double> p = t.law->parameters();
            rho += t.copies * p[0];
            rho_err = std::max(rho_err, p[1]);
        }
    if (rho > 0.0 && rho < kInf) {
        gaussian_ = gaussian_law_of_rho(rho, rho_err + (2.0 + static_cast<double>(terms.size())) * kRound);
        laws_.push_back({&*gaussian_, nullptr, 1.0});
    }
    for (const Term& t : terms) {
        if (gaussian_ && t.law->kind() == LawKind::gaussian) continue;
        std::vector<AtomBlock> made = atom_blocks(*t.law, t.copies, tilts_, stop_);
        if (made.empty()) laws_.push_back({&*t.law, nullptr, t.copies});
        for (AtomBlock& b : made) blocks_.push_back(std::move(b));
    }
}

Answer Refined::bounds(double asked) {
    double width = asked;
    Answer found = attempt(width, true);
    Answer out = found;
    // Finer grids while that helps: the width falls like the square of the step where laws are dense, like the
    // step where atoms lie between its points. Atoms of several laws together lie closer.
    for (int i = 0; i < kFinerGrids && plan_.count < 0.9 * kFinest; ++i) {
        const double now = std::expm1(out.bounds.log_upper - out.bounds.log_lower);
        // Far beyond what was asked for by errors that no grid changes, finer ones are not worth their time.
        const double settled = found.floor - found.beyond;
        const double wanted = std::max(asked, 1.5 * settled);
        if (now <= wanted || settled > 7.0 * asked) break;
        // Next to nothing at epsilon: even what is outside of the window counts.
        if (found.beyond > 0.1 * asked) plan_.distance *= kWider;
        if (i == 0) join_blocks(blocks_, tilts_, stop_);
        const double ratio = std::max(0.01, 0.6 * wanted / now);
        width *= i == 0 ? ratio : ratio * ratio;
        try {
            found = attempt(width, false);
        } catch (const std::length_error&) {
            break;
        }
        out.bounds = intersected(out.bounds, found.bounds);
        if (i > 0 && plan_.count > kShort && std::expm1(out.bounds.log_upper - out.bounds.log_lower) > 0.8 * now)
            break;
    }
    return out;
}

Answer Refined::attempt(double width, bool first) {
    std::vector<Part> parts = laws_;
    for (const AtomBlock& b : blocks_) parts.push_back({nullptr, &b, b.copies});
    set_step(plan_, fitting_step(plan_, parts, width, true));
    const bool one_grid = !(plan_.count > kOneGrid);
    // Atoms on no lattice that occur once, and with what they are composed first: the most copies.
    std::vector<const AtomBlock*> once;
    const Part* most = nullptr;
    for (const Part& t : parts) {
        if (t.block != nullptr && t.copies == 1.0 && is_sparse(*t.block)) once.push_back(t.block);
        if (t.copies >= kSeveral && (most == nullptr || t.copies > most->copies)) most = &t;
    }
    const bool join = !once.empty() && most != nullptr && !first;
    const auto apart = [&](const Part& t) {
        const bool sparse = t.block != nullptr && t.block->step == 0.0;
        return !t.outputs.all() || ((sparse || !one_grid || (join && &t == most)) && t.copies >= kSeveral);
    };
    const auto several = std::count_if(parts.begin(), parts.end(), apart);
    std::vector<Discrete> lists;
    if (several > 0) {
        // Half of the width for the last grid, half for those before.
        lists.reserve(parts.size());
        std::vector<const AtomBlock*> none;
        const double share = 0.5 * width / static_cast<double>(several);
        std::vector<const AtomBlock*> left = once;
        for (Part& t : parts)
            if (apart(t)) {
                lists.push_back(composed_list(t, &t == most ? left : none, plan_, share, stop_));
                if (&t == most) compose_finely(lists.back(), left, 0.1 * width);
                t = {nullptr, nullptr, 1.0, &lists.back()};
            }
        const auto composed = [&](const Part& t) {
            return t.block != nullptr && std::count(once.begin(), once.end(), t.block) > 0 &&
                   std::count(left.begin(), left.end(), t.block) == 0;
        };
        parts.erase(std::remove_if(parts.begin(), parts.end(), composed), parts.end());
        set_step(plan_, fitting_step(plan_, parts, 0.5 * width, true));
    }
    if (plan_.count > kFinest && (!first || plan_.count < 1.9 * kFinest))
        set_step(plan_, 2.0 * plan_.distance / (kFinest - 16.0));
    refuse(plan_.count);
    return grid_delta(parts, epsilon_, plan_, stop_);
}

void Refined::compose_finely(Discrete& list, std::vector<const AtomBlock*>& blocks, double width) {
    constexpr double kMostParts = 64.0;
    constexpr double kWorth = 4.0;
    constexpr double kLongest = 2e6;
    const double c = plan_.tilt;
    const auto done = [&](const AtomBlock* block) {
        const double step = list.buckets.step;
        const double wanted = 0.8 * width / (c * (1.0 + c) * mean_gap(*block));
        const double length = static_cast<double>(list.buckets.upper.mass.size()) +
                              (block->loss.back() - block->loss.front()) / step;
        double parts = 1.0;
        while (parts < kMostParts && step > parts * wanted && 2.0 * parts * length < kLongest) parts *= 2.0;
        if (!((step <= parts * wanted || parts >= kWorth) && parts * length < kLongest)) return false;
        list = composed_with(list, *block, parts, stop_);
        return true;
    };
    blocks.erase(std::remove_if(blocks.begin(), blocks.end(), done), blocks.end());
}

}  // namespace dpcore::detail
