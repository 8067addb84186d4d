// delta of a composition by buckets: declared in buckets.hpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bucket_ladder.hpp"
#include "grid_delta.hpp"
#include "large_steps.hpp"
#include "large_steps_law.hpp"
#include "sampled_ends.hpp"
#include "single_delta.hpp"

namespace dpcore {

using detail::Answer;
using detail::AtomBlock;
using detail::Discrete;
using detail::discretise;
using detail::Part;
using detail::Plan;
using detail::refuse;
using detail::set_step;

namespace {

// Where fewer steps than this are sampled on average, single outputs decide.
constexpr double kFewSamples = 8.0;
// And of more than so many lists of outputs take too long.
constexpr double kFewCopies = 1000.0;

constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr double kFinest = 0.99 * static_cast<double>(kMaxBuckets);  // what a finer grid may take

std::vector<Part> laws_of(const Composition& comp) {
    std::vector<Part> parts;
    for (const Term& t : comp.terms) parts.push_back({&*t.law, nullptr, t.copies});
    return parts;
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

// The step for a width, among those on which the atoms of one law lie.
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
        if (t.block && t.block->step > 2.0 * step && t.block->step * detail::spread_share(*t.block) > costs) {
            anchor = t.block->step;
            costs = anchor * detail::spread_share(*t.block);
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

Plan make_plan(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    Plan plan = place_plan(comp, epsilon, stop);
    if (!plan.valid) return plan;
    if (query.step > 0.0)
        set_step(plan, query.step);
    else if (comp.lattice.step > 0.0)
        set_step(plan, comp.lattice.step);
    else
        set_step(plan, fitting_step(plan, laws_of(comp), query.width, query.thorough));
    return plan;
}

// All of delta, from what is known of its finite part.
LogBounds with_infinite(const Composition& comp, LogBounds finite, double epsilon, double c, StopCheck stop) {
    const double all = comp.log_finite_mass + comp.log_mass_err;
    if (!(finite.log_upper < all)) finite.log_upper = all;
    const double chernoff = log_chernoff_at(comp, epsilon, c, stop);
    if (chernoff < finite.log_upper) finite.log_upper = chernoff;
    return add_infinite_mass(comp, finite);
}

LogBounds intersected(const LogBounds& a, const LogBounds& b) {
    return {std::max(a.log_lower, b.log_lower), std::min(a.log_upper, b.log_upper)};
}

// log(e^a + e^b), to a few roundings.
double log_sum(double a, double b) {
    const double top = std::max(a, b);
    return std::isinf(top) ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}

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
    const detail::LadderPlan ladder = detail::ladder_plan(part.copies, c, width, apart);
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
            twice = detail::discretise_twice(*part.block, step, c, stop);
        if (sparse && !twice) step = std::max(std::min(step, enough), range / kFineSparse);
        const bool odd = std::fmod(copies, 2.0) > 0.0;
        if (!twice || odd) list = discretise(*part.block, step, c);
        if (twice) {
            if (odd) {
                detail::tilt(list, {c, c, c});
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
    detail::tilt(list, {c, c, c});
    const auto taken = [&](const AtomBlock* block) {
        if (!((block->loss.back() - block->loss.front()) / step < kOneGrid)) return false;
        if (sparse && !(step * between(*block) < 0.25 * width)) return false;
        others.push_back(discretise(*block, step, c));
        detail::tilt(others.back(), {c, c, c});
        return true;
    };
    once.erase(std::remove_if(once.begin(), once.end(), taken), once.end());
    return detail::climb(std::move(list), copies, ladder, sparse, stop, std::move(others));
}

// Blocks that occur once, composed with each other as far as that goes.
void join_blocks(std::vector<AtomBlock>& blocks, const detail::Tilts& tilts, StopCheck stop) {
    const auto spread = [](const AtomBlock& b) { return detail::spread_share(b) > 1e-3; };
    for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t j = i + 1; j < blocks.size();) {
            std::optional<AtomBlock> both;
            if (blocks[i].copies == 1.0 && blocks[j].copies == 1.0 && spread(blocks[i]) && spread(blocks[j]))
                both = detail::joined(blocks[i], blocks[j], tilts, stop);
            if (!both) {
                ++j;
                continue;
            }
            blocks[i] = std::move(*both);
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(j));
        }
}

// Laws composed before they are put on a grid, which is made finer until a width is reached.
class Refined {
public:
    Refined(const Plan& plan, double epsilon, StopCheck stop)
        : plan_(plan), tilts_{plan.near, plan.tilt, plan.far}, epsilon_(epsilon), stop_(stop) {}

    void add(const std::vector<Term>& terms) {
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
            std::vector<AtomBlock> made = detail::atom_blocks(*t.law, t.copies, tilts_, stop_);
            if (made.empty()) laws_.push_back({&*t.law, nullptr, t.copies});
            for (AtomBlock& b : made) blocks_.push_back(std::move(b));
        }
    }
    void add(const LossLaw& law, double copies, const detail::Outputs& outputs) {
        laws_.push_back({&law, nullptr, copies, nullptr, outputs});
    }

    // The finite part of delta.
    Answer bounds(double asked) {
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
            if (i > 0 && plan_.count > kShort &&
                std::expm1(out.bounds.log_upper - out.bounds.log_lower) > 0.8 * now)
                break;
        }
        return out;
    }

private:
    Answer attempt(double width, bool first) {
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
        return detail::grid_delta(parts, epsilon_, plan_, stop_);
    }

    // Blocks that are too wide for the finest grid, composed with the list on one as fine as they need, as far as
    // that goes.
    void compose_finely(Discrete& list, std::vector<const AtomBlock*>& blocks, double width) {
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
            list = detail::composed_with(list, *block, parts, stop_);
            return true;
        };
        blocks.erase(std::remove_if(blocks.begin(), blocks.end(), done), blocks.end());
    }

    Plan plan_;
    detail::Tilts tilts_;
    double epsilon_;
    StopCheck stop_;
    LawPtr gaussian_;
    std::vector<Part> laws_;
    std::vector<AtomBlock> blocks_;
};

// The one kind of sampled step that has two humps under the tilt c, removed records; none where there are several.
const Term* two_humps(const Composition& comp, double c) {
    const Term* out = nullptr;
    for (const Term& t : comp.terms) {
        if (t.law->kind() != LawKind::subsampled_gaussian) continue;
        const std::vector<double> p = t.law->parameters();  // sigma, rate, whether a record is removed
        if (p[2] == 0.0) return nullptr;
        if (!(1.0 + c > 4.0 * p[0] * p[0])) continue;  // log-concave
        if (out != nullptr) return nullptr;
        out = &t;
    }
    return out;
}

// Compositions whose tilted law has several humps, with epsilon in a valley between them: by the number of steps
// with outputs beyond a cut (large_steps.hpp), each of which has a tilt of its own. The finite part.
class ByLargeSteps {
public:
    ByLargeSteps(const Composition& comp, const Term& sampled, double epsilon, StopCheck stop)
        : sampled_(sampled), epsilon_(epsilon), stop_(stop), places_(comp, sampled, epsilon, stop) {
        for (const Term& t : comp.terms)
            if (&t != &sampled) others_.push_back(t);
    }

    LogBounds bounds(double width) {
        constexpr double kMostPieces = 32.0;
        constexpr std::ptrdiff_t kWorth = 24;  // pieces that are worth their time
        const double negligible = std::log(width) - 5.0;
        struct Piece {
            Plan plan;
            double estimate;
        };
        std::vector<Piece> pieces;
        double best = -kInf;
        for (double m = 0.0; m <= std::min(kMostPieces, sampled_.copies); m += 1.0) {
            stop_();
            const Composition about = places_.piece(static_cast<int>(m));
            pieces.push_back({place_plan(about, epsilon_, stop_), log_delta_estimate(about, epsilon_, stop_)});
            const Piece& p = pieces.back();
            if (std::isnan(p.estimate)) return {-kInf, kInf};
            best = std::max(best, p.estimate);
            // What is next to nothing need not be placed.
            if (!p.plan.valid && !(p.estimate < best + negligible)) return {-kInf, kInf};
            if (m > 0.0 && p.estimate < best + negligible && p.estimate < pieces[pieces.size() - 2].estimate)
                break;
        }
        const auto matter = [&](const Piece& p) { return !(p.estimate < best + negligible); };
        if (std::count_if(pieces.begin(), pieces.end(), matter) > kWorth) return {-kInf, kInf};
        LogBounds sum = {-kInf, -kInf};
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const int m = static_cast<int>(i);
            const Plan& plan = pieces[i].plan;
            const double enough = best + negligible + 2.0;
            // The last one stands for all that follow.
            const bool last = i + 1 == pieces.size() && m < sampled_.copies;
            if (last || !matter(pieces[i])) {
                double most = kInf;
                for (const double c :
                     plan.valid ? std::vector<double>{plan.tilt} : std::vector<double>{0.1, 1.0, 10.0})
                    most = std::min(most, moment_bound(m, c, last));
                if (last || most < enough) {
                    sum.log_upper = log_sum(sum.log_upper, most);
                    continue;
                }
            }
            if (!plan.valid) return {-kInf, kInf};
            Refined piece(plan, epsilon_, stop_);
            piece.add(others_);
            if (m < sampled_.copies) piece.add(*sampled_.law, sampled_.copies - m, {-kInf, places_.cut()});
            if (m > 0) piece.add(*sampled_.law, m, {places_.cut(), kInf});
            const LogBounds found = piece.bounds(0.7 * width).bounds;
            const Certified choose = detail::certified_choose(sampled_.copies, m);
            const double slip = choose.err + 8.0 * kLibm * (1.0 + std::fabs(choose.value.re + found.log_upper));
            sum = {log_sum(sum.log_lower, found.log_lower + choose.value.re - slip),
                   log_sum(sum.log_upper, found.log_upper + choose.value.re + slip)};
        }
        const double slip = 8.0 * kLibm * (1.0 + std::fabs(sum.log_upper)) * static_cast<double>(pieces.size());
        return {sum.log_lower - slip, sum.log_upper + slip};
    }

private:
    // log of an upper bound of the moment with exponent c of some outputs.
    double log_moment(double c, const detail::Outputs& outputs) {
        Discrete list = discretise(*sampled_.law, 0.1 / ((1.0 + c) * std::sqrt(sampled_.copies)), c, c, c, true,
                                   stop_, outputs);
        const double log_mass = detail::tilt(list, {c, c, c}).at;
        return log_mass + list.tail + list.buckets.mass_err + c * list.loss_err;
    }

    // log of an upper bound of the piece from one moment: C(k, m) A^{k-m} B^m and that of the others. This many or
    // more: at most the same with all outputs for A.
    double moment_bound(int m, double c, bool or_more) {
        const Certified choose = detail::certified_choose(sampled_.copies, m);
        const double large = m > 0 || or_more ? log_moment(c, {places_.cut(), kInf}) : -kInf;
        double small = log_moment(c, {-kInf, places_.cut()});
        if (or_more) small = log_sum(small, large) + 4.0 * kLibm;
        double out = c * std::log(c) - (1.0 + c) * std::log1p(c) - c * epsilon_;
        if (!others_.empty()) out = log_chernoff_at(Composition::of(others_), epsilon_, c, stop_);
        out += choose.value.re + choose.err + (sampled_.copies - m) * small + (m > 0 ? m * large : 0.0);
        return out + 16.0 * kLibm *
                         (1.0 + std::fabs(c * epsilon_) + std::fabs(out) + sampled_.copies * std::fabs(small));
    }

    const Term& sampled_;
    double epsilon_;
    StopCheck stop_;
    detail::LargeStepsPlaces places_;
    std::vector<Term> others_;
};

// Whether the law, tilted so that its mean is about epsilon, has next to nothing there: delta by pieces is far
// below what the tilt of the whole suggests.
bool in_a_valley(const Composition& comp, const Term& sampled, double epsilon, StopCheck stop) {
    detail::LargeStepsPlaces places(comp, sampled, epsilon, stop);
    double sum = -kInf, last = -kInf, before = -kInf;
    for (int m = 0; m < 4; ++m) {
        before = last;
        last = log_delta_estimate(places.piece(m), epsilon, stop);
        if (!std::isnan(last)) sum = log_sum(sum, last);
    }
    if (!(last < before)) return false;  // many large steps
    return sum < log_delta_estimate(comp, epsilon, stop) - 5.0;
}

// Sampled steps less the outputs that decide by themselves. The finite part.
LogBounds without_ends(const Composition& comp, const detail::SampledEnds& ends, double width, StopCheck stop) {
    const Plan plan = place_plan(ends.outline, ends.epsilon, stop);
    if (!plan.valid) return {-kInf, kInf};
    Refined rest(plan, ends.epsilon, stop);
    for (std::size_t i = 0; i < comp.terms.size(); ++i)
        rest.add(*comp.terms[i].law, comp.terms[i].copies, ends.outputs[i]);
    // Beside what the others pay it may be little, and need not be known as well.
    constexpr double kWidest = 0.1;
    const double estimate = log_delta_estimate(ends.outline, ends.epsilon, stop) + ends.outline_mass;
    const double share = ends.beyond.log_lower - estimate;
    if (share > 0.0) width = std::max(width, std::min(kWidest, 0.5 * width * std::exp(std::min(share, 100.0))));
    try {
        const LogBounds found = rest.bounds(width).bounds;
        const LogBounds sum = {log_sum(found.log_lower, ends.beyond.log_lower),
                               log_sum(found.log_upper, ends.beyond.log_upper)};
        const double slip = 8.0 * kLibm * (1.0 + std::fabs(sum.log_upper));
        return {sum.log_lower - slip, sum.log_upper + slip};
    } catch (const std::length_error&) {
        return {-kInf, kInf};
    }
}

LogBounds whole_delta(const Composition& comp, const Plan& plan, double epsilon, const BucketQuery& query,
                      StopCheck stop) {
    // No saddle point, or losses next to the range of double: what holds without a grid.
    if (!plan.valid) return trivial_delta(comp, epsilon);
    const Term* sampled = two_humps(comp, plan.tilt);
    LogBounds out = {-kInf, kInf};
    const auto by_pieces = [&] {
        try {
            out = intersected(out, ByLargeSteps(comp, *sampled, epsilon, stop).bounds(query.width));
        } catch (const std::length_error&) {  // what is known stands
        }
    };
    const auto narrow = [&] { return std::expm1(out.log_upper - out.log_lower) <= query.width; };
    const bool valley = sampled != nullptr && in_a_valley(comp, *sampled, epsilon, stop);
    if (valley) by_pieces();
    if (!narrow()) {
        Refined whole(plan, epsilon, stop);
        whole.add(comp.terms);
        const Answer found = whole.bounds(query.width);
        out = intersected(out, found.bounds);
        if (sampled != nullptr && !valley && !narrow() && found.floor > 0.7 * query.width) by_pieces();
    }
    return with_infinite(comp, out, epsilon, plan.tilt, stop);
}

LogBounds thorough_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.terms.size() == 1 && comp.terms[0].copies == 1.0 && detail::has_single_delta(*comp.terms[0].law)) {
        const LossLaw& law = *comp.terms[0].law;
        const LogBounds found = detail::single_delta_within(law, epsilon, query.width, stop);
        return intersected(trivial_delta(comp, epsilon), add_infinite_mass(comp, found));
    }
    const Plan plan = place_plan(comp, epsilon, stop);
    const auto narrow = [&](const LogBounds& b) { return std::expm1(b.log_upper - b.log_lower) <= query.width; };
    // Of many sampled steps no single output decides.
    double copies = 0.0;
    for (const Term& t : comp.terms) copies += t.copies;
    const bool few = detail::expected_samples(comp) < kFewSamples && copies <= kFewCopies;
    const detail::SampledEnds ends = few ? detail::sampled_ends(comp, epsilon) : detail::SampledEnds{};
    LogBounds known = trivial_delta(comp, epsilon);
    const auto try_ends = [&] {
        if (ends.valid) known = intersected(known, without_ends(comp, ends, query.width, stop));
    };
    const bool first = ends.valid && (!plan.valid || ends.matter(plan.tilt));
    if (first) try_ends();
    if (narrow(known)) return known;
    try {
        known = intersected(known, whole_delta(comp, plan, epsilon, query, stop));
    } catch (const std::length_error&) {
        if (!first) try_ends();
        if (!ends.valid || !(known.log_lower > -kInf)) throw;
        return known;
    }
    if (!first && !narrow(known)) try_ends();
    return known;
}

}  // namespace

double bucket_count(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.terms.empty() || epsilon >= comp.max_loss || comp.log_finite_mass == -kInf) return 0.0;
    return make_plan(comp, epsilon, query, stop).count;
}

LogBounds bucket_delta(const Composition& comp, double epsilon, const BucketQuery& query, StopCheck stop) {
    if (comp.log_finite_mass == -kInf || comp.terms.empty() || epsilon >= comp.max_loss)
        return spectral_delta(comp, epsilon, stop);
    const bool on_lattice = comp.lattice.step > 0.0 && query.step == 0.0;
    const bool thorough = query.thorough && query.step == 0.0;
    if (thorough && comp.infinite_mass_lower() > 0.0) {
        // Beside infinite mass the rest may be nothing.
        const double rest = log_chernoff_above(comp, epsilon, stop);
        const LogBounds out = add_infinite_mass(comp, {-kInf, rest});
        if (std::expm1(out.log_upper - out.log_lower) < 0.01 * query.width) return out;
    }
    if (thorough && !on_lattice) return thorough_delta(comp, epsilon, query, stop);
    const Plan plan = make_plan(comp, epsilon, query, stop);
    if (thorough && plan.valid && !(plan.count <= kFinest)) return thorough_delta(comp, epsilon, query, stop);
    refuse(plan.count);
    LogBounds out = with_infinite(comp, detail::grid_delta(laws_of(comp), epsilon, plan, stop).bounds, epsilon,
                                  plan.tilt, stop);
    if (!thorough || std::expm1(out.log_upper - out.log_lower) <= query.width) return out;
    try {
        out = intersected(out, thorough_delta(comp, epsilon, query, stop));
    } catch (const std::length_error&) {  // what is known stands
    }
    return out;
}

}  // namespace dpcore
