// The transform of one subsampled Gaussian step at many nodes of a line Re z = c, far out.
//
// Method:    M(c + it) is an integral over outputs x of N(x; 0, s^2) exp((p + it) Lambda(x)) (or its conjugate,
// for
//            additions). The path is moved to Im x = a > 0, where |exp(it Lambda)| = exp(-t theta(x)), theta the
//            argument of 1 - q + q e^{y + iv}, v = a/s^2: outputs whose loss turns fast weigh nothing, and the
//            trapezoid rule needs some hundred of them, however large t is. One rule for each octave of t; its
//            error is that of a strip from the real axis to Im x = 2a (step_envelope.hpp has the integral there).
//            Along a block of nodes the terms are turned on, sixteen nodes at a time.
// Domain:    as StepSum without a window; nodes j h with j h exact, asked in rising order of blocks.
// Guarantee: values, relative to M(c), are within err(); bound() is at least their modulus.
// Evidence:  docs/accounting_derivations.md, "far_step"; tests/cpp/test_far_step.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include "step_envelope.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

class FarStep {
public:
    // first: nodes up to there have one rule together, and the sum of outputs as it is (near) reaches so far.
    FarStep(const SubsampledStep& step, double c, double spacing, double first, double copies, StopCheck stop);

    bool known() const { return known_; }
    // log M(c), within log_mass_err.
    double log_mass() const { return log_mass_; }
    double log_mass_err() const { return log_mass_err_; }
    // log M(c + it) at t <= first, as exact as the copies need.
    Certified near(double t) const { return sum_.log_value(t); }

    // A block of nodes from t to last: at least the modulus at all of them, errors included.
    double bound(double t, double last, StopCheck stop);
    // The values there, each within err() + t slope(); after bound.
    void values(double* re, double* im, std::size_t count);
    double err() const { return err_; }
    double slope() const { return slope_; }
    double terms() const { return static_cast<double>(size_.size()); }

private:
    void make_rule(double from, StopCheck stop);

    SubsampledStep step_;
    double c_, h_, first_;
    bool known_ = false;
    double log_mass_ = 0.0, log_mass_err_ = 0.0;
    StepSum sum_;
    StepEnvelope envelope_;
    // The rule of an octave.
    double from_ = -1.0, until_ = -1.0;
    double most_ = 0.0;  // sum of sizes at its beginning
    double err_ = 0.0, slope_ = 0.0;
    double at_ = 0.0;                                             // first node of the block
    std::vector<double> log_size_, fall_, angle_, rate_;          // of each term: log |W|, theta, arg W, Re Lambda
    std::vector<double> size_, re_, im_, stride_re_, stride_im_;  // at the block's first node, and sixteen on
    std::vector<double> table_re_, table_im_;                     // sixteen nodes of each term
};

}  // namespace dpcore::detail
