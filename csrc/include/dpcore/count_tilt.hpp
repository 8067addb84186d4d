// Groups of independent records whose odds are multiplied by e^tilt, for deltas far below the range of double.
//
// Notation:  s and f the probabilities that a record of the group counts and does not, n its size, X how many
//            count, x = e^-tilt f/s the odds of a tilted record not to count.
// Method:    the law of X times e^(tilt X), normalised, is binomial with success probability 1/(1 + x); its norm
//            is E e^(tilt X) = [f (1 + 1/x)]^n = e^(tilt n) [s (1 + x)]^n. Counting from the end that is nearer,
//            the first form or the second without e^(tilt n) is the factor, and nothing cancels. x is formed in
//            double-double with an exponent of its own, so that e^-tilt need not be in the range of double.
// Domain:    tilt in (0, 2^60], bias in [0, 1], size a whole number >= 0.
// Guarantee: with each field.
// Evidence:  docs/partial_knowledge.md, theorem 4b; tests/test_partial_knowledge_deep.py.
#pragma once

namespace dpcore {

enum class CountedFrom { nearer_end, bottom, top };

struct TiltedGroup {
    double handed = 0.0;    // probability of a tilted record to count, from the bottom; not to count, from the top
    bool from_top = false;  // X is n less the records handed
    double log_factor = 0.0;  // ln of E e^(tilt X), over e^(tilt n) from the top
    double error = 0.0;     // bound on the relative error of factor times probability that `handed` and log_factor
                            // lead to, where that probability is not among those left out
    double left_out = 0.0;  // tilted probability that they lack
};

// `zeros`: what counts is records that are 0.
TiltedGroup tilt_group(double size, double bias, bool zeros, double tilt, CountedFrom end);

}  // namespace dpcore
