// K on a line Re z = c, far out, for laws on a lattice of their own: discrete Gaussian, discrete Laplace, two
// points e and -e.
//
// Method:    M(z + i period) = +-M(z) with period 2 pi/step; t is reduced to one period in double-double
//            arithmetic, where the law's own line is accurate, however large t is.
// Domain:    every c; 0 <= t < 2^50 periods.
// Guarantee: |M(c + it) - exp(value)| <= |exp(value)| (e^err - 1) + M(c) slip; where err is infinite
//            |M(c + it)| <= exp(Re value) + M(c) slip.
// Evidence:  tests/test_accounting_smoothed.py.
#pragma once

#include <memory>

#include "dpcore/double_double.hpp"
#include "dpcore/loss_law.hpp"

namespace dpcore::detail {

bool is_discrete_laplace(const LossLaw& law);
bool is_periodic(const LossLaw& law);

class PeriodicLine {
public:
    PeriodicLine(const LossLaw& law, double c, double copies, StopCheck stop);
    struct Node {
        Complex value;  // up to turns of which as many as there are copies make whole ones
        double err;
        double slip;
    };
    Node at(double t) const;
    double period() const { return period_.hi; }
    double log_mass() const { return log_mass_; }  // K(c), off by at most log_mass_err
    double log_mass_err() const { return log_mass_err_; }
    double mean_size() const { return mean_size_; }  // at least E|L| under the law tilted by c
    // At least log |M(c + it)| for from <= t <= period/2.
    double log_envelope(double from) const { return line_->log_envelope(from); }

private:
    // In the first period, where the kernels are large, as accurate as so many copies need; one copy's accuracy,
    // which is faster, in the others.
    std::unique_ptr<LossLine> first_, line_;
    DoubleDouble period_;
    double turn_ = 0.0;  // of one copy, by one period: pi over an odd number of copies, or none
    double log_mass_ = 0.0, log_mass_err_ = 0.0, mean_size_ = 0.0;
};

}  // namespace dpcore::detail
