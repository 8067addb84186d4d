// The loss of a composition of subsampled Gaussian steps, so many of which have large outputs and the others small
// ones: the pieces into which divided_steps.hpp divides a composition.
//
// Method:    With A the sum over the outputs below a cut, B that over the outputs between it and a higher one (or
//            infinity), the transform of m large steps among k is C(k, m) A^{k-m} B^m; with several kinds of step
//            the coefficient of u^m in the product of (A_i + u B_i)^{k_i}.
//            At least m large steps: the same with the sum over all outputs below the higher cut for A, which is
//            an upper bound.
// Domain:    subsampled Gaussian steps in one direction; cuts in the outputs of each kind.
// Guarantee: as a LossLaw; a positive measure whose mass is that of the piece.
// Evidence:  docs/accounting_derivations.md, "divided_steps"; tests/cpp/test_large_steps.cpp.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "dpcore/loss_law.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

struct LargeStepsPart {  // one kind of step
    SubsampledStep step;
    double copies;
    double low, high;  // large are the outputs between these; low is infinite where none is
    double width;      // of the edges
};

// How many steps are large; `at_least`: or more of them (an upper bound of that law).
struct LargeStepsCount {
    int large;
    bool at_least;
};

// What a law is made for: bounds; or only to see where contours would stand, in which case its mass is not known.
enum class LargeStepsUse { bounds, placing };

// Sums at real points that several pieces of one division ask for.
class StepSumCache {
public:
    Certified log_sum(const SubsampledStep& step, const Window& window, double c, double copies, bool near_one,
                      StopCheck stop);

private:
    struct Sum {
        Certified value;
        double copies;
    };
    std::map<std::vector<double>, Sum> known_;
};

// log C(n, m).
Certified certified_choose(double n, int m);

// A piece of one kind of step, as its factors: exp(log_choose) small^few large^many.
struct LargeStepsFactors {
    SubsampledStep step;
    Window small, large;
    double few, many;
    Certified log_choose;
};
// Nothing for any other law, and for pieces of several kinds.
std::optional<LargeStepsFactors> large_steps_factors(const LossLaw& law);

// furthest: outputs beyond it are not needed to place contours. The cache outlives the law.
LawPtr large_steps_law(std::vector<LargeStepsPart> parts, LargeStepsCount count, double furthest,
                       LargeStepsUse use, StepSumCache& cache, StopCheck stop);

}  // namespace dpcore::detail
