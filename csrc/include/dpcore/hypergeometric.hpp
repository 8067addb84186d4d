// Hypergeometric probabilities: one of them to full accuracy, the whole support, windows, tails, and single
// steps.
//
// X is the number of marked records among `drawn` ones taken without replacement from `population`, of which
// `marked` are marked.
//
// Method:    log pmf from the 2x2 table (k, marked - k, drawn - k, population - marked - drawn + k): Stirling
//            errors of margins minus cells, and the deviance of each cell from its expectation row * column /
//            population (factorial.hpp), in double-double. Everything else walks outward from one such value
//            with the exact ratio (drawn - k)(marked - k) / ((k + 1)(population - marked - drawn + k + 1))
//            (ratio_walk.hpp).
// Domain:    0 <= marked, drawn <= population <= 2^53. A support of one point has probability exactly 1.
// Guarantee: log pmf: absolute error <= 2^-90 (1 + |log pmf|) before its rounding to double. Probabilities
//            above 2^-1022: relative error <= 20 u = 2.3e-15 (u = 2^-53); below, half a unit of the subnormal
//            grid more. A window whose largest value has |log pmf| > 2^36 carries its error, 2^-90 |log pmf|,
//            as a common factor. cdf and sf: 2.9e-15 relative. Bounds of the mass left out are upper bounds,
//            rounding included.
// Evidence:  docs/distributions.md, tests/test_distributions.py, tests/cpp/test_hypergeometric.cpp.
// Reference: Loader 2000; thesis Lemma 5.1 and Corollary 5.2, whose n' is drawn (or marked) here, c marked,
//            hits k.
#pragma once

#include <cstdint>

#include "dpcore/double_double.hpp"
#include "dpcore/double_double_functions.hpp"
#include "dpcore/interrupt.hpp"
#include "dpcore/pmf_window.hpp"
#include "dpcore/ratio_walk.hpp"

namespace dpcore {

struct Hypergeometric {
    std::int64_t population = 0;
    std::int64_t marked = 0;
    std::int64_t drawn = 0;

    // std::invalid_argument unless 0 <= marked, drawn <= population <= 2^53. Every function below calls it.
    void check() const;
    std::int64_t lowest() const;   // max(0, marked + drawn - population)
    std::int64_t highest() const;  // min(marked, drawn)
    std::int64_t mode() const;     // a most probable value
};

// ln Pr[X = k]; hi is -infinity for an impossible k.
DoubleDouble hypergeometric_log_pmf(const Hypergeometric& law, std::int64_t k);

// Pr[X <= k] and Pr[X > k] for any k.
double hypergeometric_cdf(const Hypergeometric& law, std::int64_t k, StopCheck stop = {});
double hypergeometric_sf(const Hypergeometric& law, std::int64_t k, StopCheck stop = {});

// Windows as in binomial.hpp; lowest() <= low <= high <= highest().
PmfWindow hypergeometric_window(const Hypergeometric& law, std::int64_t low, std::int64_t high, double depth,
                                StopCheck stop = {});
PmfWindow hypergeometric_tail_window(const Hypergeometric& law, double tail, StopCheck stop = {});
PmfWindow hypergeometric_visible_window(const Hypergeometric& law, StopCheck stop = {});

// Pr[X = first + i], i < count, all within the support; 0 where it is below the smallest double.
// is_zero: `out` holds zeros already, so that only the other values need writing.
void hypergeometric_fill(const Hypergeometric& law, std::int64_t first, std::int64_t count, double* out,
                         bool is_zero = false, StopCheck stop = {});

// One value that moves by one k at a time in either direction, at the price of one double-double ratio a step; the
// relative error grows by 2^-97 a step, and nothing under- or overflows. Corollary 5.2 without logarithms.
class HypergeometricStepper {
public:
    HypergeometricStepper(const Hypergeometric& law, std::int64_t k);  // k within the support

    std::int64_t k() const { return k_; }
    double pmf() const { return to_double(value_); }
    double log_pmf() const;
    bool at_lowest() const { return k_ == lowest_; }
    bool at_highest() const { return k_ == highest_; }
    void up();    // std::out_of_range at the highest k
    void down();  // std::out_of_range at the lowest k

private:
    std::int64_t k_;
    std::int64_t lowest_;
    std::int64_t highest_;
    RatioLaw<2> ratio_;
    Scaled value_;
};

}  // namespace dpcore
