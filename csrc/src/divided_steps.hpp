// A composition with sampled Gaussian steps, divided at cuts of the outputs into pieces with so many large steps.
//
// Method:    Outputs are cut softly at rising x_1 < x_2 < ...: with A_i the sum over the outputs below x_i, B_i
//            that over those from x_i to x_{i+1}, and M the sum over all of them,
//                M^k = A_1^k + sum over i, and m >= 1, of C(k, m) A_i^{k-m} B_i^m :
//            the highest window that is reached, and by how many steps. Several kinds of step are cut at outputs
//            of equal loss. What is beside the steps belongs to every piece; its listed losses are kept apart, and
//            pieces have some of them, or a law of few atoms that stands for these.
// Domain:    compositions with at least one subsampled Gaussian term, all in one direction.
// Guarantee: the laws of all pieces of one set of cuts add up to that of the composition, infinite losses left
//            out; each is a positive measure. Those with an outline only place contours.
// Evidence:  docs/accounting_derivations.md, "divided_steps"; tests/cpp/test_large_steps.cpp,
//            tests/test_accounting_subsampled.py.
#pragma once

#include <optional>
#include <vector>

#include "dpcore/composition.hpp"
#include "large_steps_law.hpp"
#include "loss_list.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

class DividedSteps {
public:
    // only: the one kind of step that is divided; none: all are.
    DividedSteps(const Composition& comp, double epsilon, StopCheck stop, const Term* only = nullptr);

    // What the steps lose where it matters: outputs at which one beside unsampled ones loses as much are the
    // largest that contours of removals ask for.
    void set_distance(double loss);

    // Edges are made for cuts up to this output.
    void set_edges(double furthest) { edges_for_ = furthest; }
    double width() const;

    SubsampledStep base() const;  // the first kind, in whose outputs cuts are given
    double copies() const;        // of all kinds

    // The law of so many large steps between two cuts (in outputs of the first kind), the others below the lower
    // one.
    LawPtr steps(double low, double high, LargeStepsCount count, LargeStepsUse use = LargeStepsUse::bounds);

    // Lists the losses of others, if there are some of which that can be done; c as in LossList.
    void list(double c);
    const std::optional<LossList>& listed() const { return list_; }
    // StepPieces have those losses from the first to before the last from now on, their mass made 1.
    void choose(std::size_t first, std::size_t last);
    // What is left of epsilon for the others, weighted by the masses of those losses.
    std::vector<WeightedPoint> points(double epsilon) const { return list_->points(first_, last_, epsilon); }
    double points_err() const { return list_->points_err(first_, last_); }

    // A piece: such steps (or all of them, as they are) and everything else, but for the listed losses.
    Composition bare(std::vector<Term> steps) const;
    // With them, about.
    Composition outline(std::vector<Term> steps) const;
    // Whether contours of pieces are given up soon, and pieces smoothed instead.
    void set_smoothed(bool smoothed) { smoothed_ = smoothed; }
    bool smoothed() const { return smoothed_; }
    bool all_listed() const { return list_ && unlisted_.empty(); }
    const std::vector<Term>& all_steps() const { return steps_; }
    // The steps beside what is not listed.
    Composition alone() const;

private:
    double cut(const SubsampledStep& step, double at) const;

    std::vector<Term> steps_, others_, unlisted_;
    std::optional<LossList> list_;
    std::size_t first_ = 0, last_ = 0;
    LawPtr outline_;
    StopCheck stop_;
    double distance_ = 0.0, edges_for_ = 0.0;
    bool smoothed_ = false;
    StepSumCache cache_;
};

}  // namespace dpcore::detail
