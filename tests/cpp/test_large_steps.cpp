#include <cmath>
#include <limits>
#include <vector>

#include "../../csrc/src/large_steps.hpp"
#include "../../csrc/src/large_steps_law.hpp"
#include "../../csrc/src/step_envelope.hpp"
#include "check.hpp"

using namespace dpcore;
using namespace dpcore::detail;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Two kinds of removal, or one.
std::vector<LargeStepsPart> parts(int kinds, double low, double high) {
    std::vector<LargeStepsPart> out = {{{1.1, 0.02, true}, 5.0, low, high, 0.2}};
    if (kinds == 2) out.push_back({{0.8, 0.05, true}, 3.0, low - 0.3, high - 0.3, 0.1});
    return out;
}

// log of the whole's M(c).
double whole_mass(const std::vector<Term>& whole, double c) {
    double sum = 0.0;
    for (const Term& t : whole) sum += t.copies * t.law->cumulants(c, {}).value;
    return sum;
}

}  // namespace

TEST(pieces_add_up_to_the_whole) {
    // At real and complex points: the sum over all numbers of large steps, in two windows, is the product of M^k.
    for (const int kinds : {1, 2}) {
        const int steps = kinds == 1 ? 5 : 8;
        std::vector<Term> whole = {{subsampled_gaussian_law(1.1, 0.02, true), 5.0}};
        if (kinds == 2) whole.push_back({subsampled_gaussian_law(0.8, 0.05, true), 3.0});
        StepSumCache cache;
        for (const double c : {0.0, 1.5, 6.0}) {
            for (const double t : {0.0, 0.7, 3.0}) {
                double re = 0.0, im = 0.0, err = 0.0;
                const auto add = [&](double low, double high, int large) {
                    const LawPtr law = large_steps_law(parts(kinds, low, high), {large, false}, 20.0,
                                                       LargeStepsUse::bounds, cache, {});
                    const Certified v = law->line(c, 5.0, 1.0, false, {})->value(t);
                    CHECK(std::isfinite(v.err));
                    const double size = std::exp(v.value.re);
                    re += size * std::cos(v.value.im);
                    im += size * std::sin(v.value.im);
                    err += size * std::expm1(v.err);
                };
                add(1.4, kInf, 0);
                for (int m = 1; m <= steps; ++m) {
                    add(1.4, 3.0, m);
                    add(3.0, kInf, m);
                }
                double log_re = 0.0, log_im = 0.0, log_err = 0.0;
                for (const Term& term : whole) {
                    const Certified v = term.law->line(c, 5.0, term.copies, false, {})->value(t);
                    log_re += term.copies * v.value.re;
                    log_im += term.copies * v.value.im;
                    log_err += term.copies * v.err;
                }
                const double size = std::exp(log_re);
                const double gap = std::hypot(re - size * std::cos(log_im), im - size * std::sin(log_im));
                CHECK(gap <= err + size * std::expm1(log_err) + 1e-13 * (size + std::hypot(re, im)));
                CHECK(err < 1e-9 * std::exp(whole_mass(whole, c)));
            }
        }
    }
}

TEST(at_least_is_an_upper_bound) {
    StepSumCache cache;
    for (int m = 1; m <= 4; ++m) {
        double sum = 0.0;
        for (int j = m; j <= 5; ++j)
            sum +=
                std::exp(large_steps_law(parts(1, 1.4, kInf), {j, false}, 20.0, LargeStepsUse::bounds, cache, {})
                             ->log_finite_mass());
        const LawPtr more =
            large_steps_law(parts(1, 1.4, kInf), {m, true}, 20.0, LargeStepsUse::bounds, cache, {});
        CHECK(std::exp(more->log_finite_mass() + more->log_mass_err()) >= sum * (1.0 - 1e-12));
    }
}

TEST(envelopes_of_sums_bound_them) {
    // Open and windowed, removals and additions, also next to the largest loss (c = 3000), one copy and many.
    struct Case {
        SubsampledStep step;
        Window window;
        double c;
        bool near_one;
    };
    const Case cases[] = {
        {{0.8, 0.02, true}, {}, 3.0, true},
        {{0.8, 0.02, true}, {-kInf, 2.5, 0.1}, 3.0, true},
        {{0.8, 0.02, true}, {2.5, kInf, 0.1}, 3.0, false},
        {{0.8, 0.02, true}, {2.5, 3.5, 0.1}, 3.0, false},
        {{2.0, 0.001, true}, {20.0, kInf, 0.6}, 30.0, false},
        {{2.0, 0.001, true}, {-kInf, 20.0, 0.6}, 30.0, true},
        {{0.5, 0.03, false}, {}, 3000.0, false},
        {{1.5, 0.1, false}, {}, 4.0, true},
        {{0.4, 0.01, false}, {-0.3, 0.2, 0.08}, 50.0, false},
        {{0.8, 0.02, true}, {}, -0.4, true},
    };
    for (const Case& k : cases) {
        for (const double copies : {1.0, 1e5, 1e9}) {
            const double end = 60.0 * std::max(1.0, k.c / 10.0);
            const StepSum sum(k.step, k.window, k.c, end, copies, k.near_one, {});
            for (double from = 1e-3 * end; from < end; from *= 1.6) {
                const double bound = sum.log_envelope(from);
                for (double t = from; t <= end; t += end / 89.0) {
                    const Certified v = sum.log_value(t);
                    if (std::isfinite(v.err)) CHECK(v.value.re - v.err <= bound);
                }
            }
        }
    }
}

TEST(a_wrong_envelope_would_be_seen) {
    // The same check fails for an envelope that is too low by a tenth.
    const StepSum sum({0.8, 0.02, true}, {}, 3.0, 60.0, 1.0, true, {});
    bool seen = false;
    for (double t = 0.05; t < 60.0; t += 0.5) {
        const Certified v = sum.log_value(t);
        seen = seen || v.value.re - v.err > sum.log_envelope(t) - 0.1;
    }
    CHECK(seen);
}
