// The transform of one subsampled Gaussian step at many nodes of a line Re z = c, far out.
//
// Method:    The sum over outputs x of w(x) N(x; 0, s^2) exp((p + it) Lambda(x)), w a window (subsampled_step.hpp)
// or 1
//            (its conjugate, for additions). The path is moved to Im x = a > 0, where |exp(it Lambda)| =
//            exp(-t theta(x)), theta the argument of 1 - q + q e^{y + iv}, v = a/s^2: outputs whose loss turns
//            fast weigh nothing, and the trapezoid rule needs some hundred of them, however large t is. One rule
//            for each octave of t; its error is that of a strip from the real axis to Im x = 2a (step_envelope.hpp
//            has the integral there). Along a block of nodes the terms are turned on, sixteen nodes at a time.
//            Next to the edges of a window only the modulus is known: where that matters (t is small), the sum is
//            taken over real outputs. What is nearly 1 is summed less 1: with D = Lambda - log(1 - q) and weights
//            W that make 1, the sum of W (exp(itD) - 1), whose errors are small with it and not with 1: rare
//            samples have hundreds of thousands of copies.
// Domain:    as StepSum; nodes j h with j h exact.
// Guarantee: values, relative to that at t = 0, without the drift and less 1, are within err() + t slope();
//            bound(t) is at least the modulus from t on: that of the terms, which fall, and of what the rule
//            leaves out.
// Evidence:  docs/accounting_derivations.md, "far_step"; tests/cpp/test_far_step.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include "step_envelope.hpp"
#include "subsampled_step.hpp"

namespace dpcore::detail {

class FarStep {
public:
    // first: up to there the sum over real outputs serves (near). copies, less_one: as StepSum.
    FarStep(const SubsampledStep& step, const Window& window, double c, double spacing, double first,
            double copies, bool less_one, StopCheck stop);

    bool known() const { return known_; }
    // log of the sum at t = 0, within log_mass_err.
    double log_mass() const { return log_mass_; }
    double log_mass_err() const { return log_mass_err_; }
    // log of the sum at t <= first, as exact as the copies need.
    Certified near(double t) const { return sum_.log_value(t); }

    // Nodes of a block are asked for so many at a time.
    static constexpr std::size_t kStride = 16;
    static constexpr std::size_t kStrides = 16;
    // At least the modulus at t, and at every later node.
    double bound(double t, StopCheck stop);
    // Values are exp(it drift()) times 1 and what values() says.
    double drift() const { return step_.removal ? least_ : -least_; }
    // That at kStride kStrides nodes from there on, each within err() + t slope(), where `wanted` says so of a
    // stride; else -1.
    void values(double* re, double* im, const bool* wanted);
    double err() const { return err_; }
    double slope() const { return slope_; }
    // Of a sum at one node, for the work it takes; and of a block besides.
    double terms() const { return static_cast<double>(log_size_.size() - slow_) + 0.25 * kDegree; }
    double near_terms() const { return static_cast<double>(sum_.nodes().size()); }
    double block_terms() const { return static_cast<double>(log_size_.size()) * kDegree / span_; }

private:
    static constexpr std::size_t kDegree = 18;
    void make_rule(double from, StopCheck stop);
    int choose_path(double from);
    void make_polynomial();

    SubsampledStep step_;
    Window window_;
    double c_, h_, first_;
    bool known_ = false;
    double log_mass_ = 0.0, log_mass_err_ = 0.0;
    StepSum sum_;
    StepEnvelope envelope_;
    // The rule of an octave.
    double from_ = -1.0, until_ = -1.0;
    bool less_one_ = false;                 // the sum of W (exp(itD) - 1), or that of W exp(itD)
    double gone_re_ = 1.0, gone_im_ = 0.0;  // what is taken from it to be less 1
    double err_ = 0.0, slope_ = 0.0;
    double bound_err_ = 0.0;                              // of the terms' moduli as a bound
    double at_ = 0.0;                                     // first node of the block
    std::vector<double> log_size_, fall_, angle_, rate_;  // of each term: log |W|, theta, arg W, Re D
    std::vector<double> size_, re_, im_;                  // at the block's first node
    // Turns of each term: by the nodes of a stride, and of each stride by all terms.
    std::vector<double> table_re_, table_im_, stride_re_, stride_im_;
    std::vector<double> at_re_, at_im_;
    std::vector<double> still_re_, still_im_;  // W
    // So many terms, the first, turn by little along half of `span_` blocks; i D times that of each of them.
    std::size_t slow_ = 0;
    double span_ = 1.0, least_ = 0.0;  // log(1 - q), which D is Lambda less
    std::vector<double> power_re_, power_im_;
    // Their polynomial, in the distance from its middle over half its length; where its first and its last block
    // begin.
    double coefficient_re_[kDegree + 1] = {}, coefficient_im_[kDegree + 1] = {};
    double middle_ = 0.0, begins_ = 0.0, ends_ = -1.0;
    double bound_ = 0.0;  // from its beginning on
};

}  // namespace dpcore::detail
