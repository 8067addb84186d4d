#include "dpcore/direct_spectrum.hpp"

#include <cmath>

#include "check.hpp"
#include "dpcore/certified.hpp"
#include "dpcore/exp_block.hpp"

using namespace dpcore;

namespace {

using Long = std::vector<long double>;

// Copies of a list folded into the period, by plain convolution: every product is positive.
Long composed(const std::vector<TiltedList>& lists, std::size_t period, bool upper) {
    Long out(period, 0.0L);
    out[0] = 1.0L;
    for (const TiltedList& list : lists) {
        const std::vector<double>& mass = upper ? list.upper : list.lower;
        for (double k = 0; k < list.copies; k += 1.0) {
            Long next(period, 0.0L);
            for (std::size_t i = 0; i < period; ++i)
                for (std::size_t j = 0; j < mass.size(); ++j) {
                    const auto at =
                        (static_cast<std::int64_t>(i + j) + list.first) % static_cast<std::int64_t>(period);
                    next[static_cast<std::size_t>(at < 0 ? at + static_cast<std::int64_t>(period) : at)] +=
                        out[i] * mass[j];
                }
            out = next;
        }
    }
    return out;
}

long double plain_sum(const Long& mass, const PayoffWeights& w) {
    long double sum = 0.0L;
    const auto period = static_cast<std::int64_t>(mass.size());
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(w.count); ++n) {
        const long double x = static_cast<long double>(w.x0) + static_cast<long double>(w.step) * n;
        const std::int64_t at = ((w.first + n) % period + period) % period;
        sum += mass[static_cast<std::size_t>(at)] * std::exp(-w.tilt * x) * -std::expm1(-x);
    }
    return sum;
}

// A bump, optionally with atoms at both ends as a Laplace law has; the lower list is a little shifted.
TiltedList bump(std::size_t length, std::int64_t first, double copies, double atom) {
    TiltedList out;
    double total = 0.0;
    for (std::size_t i = 0; i < length; ++i) {
        const double x =
            (static_cast<double>(i) - 0.45 * static_cast<double>(length)) / (0.13 * static_cast<double>(length));
        double mass = (1.0 - atom) * std::exp(-0.5 * x * x);
        if (atom > 0.0 && (i == 0 || i + 1 == length))
            mass += atom * static_cast<double>(length) * (i == 0 ? 0.1 : 0.2);
        out.upper.push_back(mass);
        total += mass;
    }
    for (double& m : out.upper) m /= total;
    out.lower = out.upper;
    for (std::size_t i = 0; i + 1 < length; ++i) {
        const double moved = 0.01 * out.lower[i + 1];
        out.lower[i + 1] -= moved;
        out.lower[i] += moved;
    }
    out.first = first;
    out.copies = copies;
    return out;
}

void compare(const std::vector<TiltedList>& lists, std::size_t period, const PayoffWeights& w, double width) {
    const DirectSum sum = direct_spectrum(lists, period, w, 1e9);
    CHECK(sum.valid);
    const long double upper = plain_sum(composed(lists, period, true), w);
    const long double lower = plain_sum(composed(lists, period, false), w);
    CHECK(std::fabs(upper - sum.upper) <= sum.err);
    CHECK(std::fabs(lower - sum.lower) <= sum.err);
    CHECK(sum.err <= width * sum.upper);
    CHECK(std::fabs(upper - lower) > 10.0L * sum.err);  // one for the other would be seen
}

}  // namespace

TEST(few_frequencies_give_the_plain_sum) {
    // The period is about twelve deviations of the composition and more.
    compare({bump(61, -20, 40.0, 0.0)}, 1024, {1.3, 0.01, 0.004, 300, 600.0}, 1e-8);
    compare({bump(61, -20, 40.0, 0.0)}, 1024, {30.0, 0.01, 0.01, 290 - 3072, 700.0}, 1e-7);
    compare({bump(200, 7, 33.0, 0.0)}, 2048, {0.5, 1e-3, 1e-4, 2900, 1700.0}, 1e-8);
    compare({bump(61, -20, 20.0, 0.0), bump(30, 3, 25.0, 0.0), bump(17, -9, 9.0, 0.3)}, 1024,
            {1.3, 0.01, 0.004, 300, 700.0}, 1e-8);
    compare({bump(101, -50, 120.0, 0.02)}, 4096, {2.0, 0.003, 0.002, -500, 2500.0}, 1e-7);
}

TEST(few_frequencies_refuse_what_they_cannot_bound) {
    const PayoffWeights w = {1.3, 0.01, 0.004, 300, 600.0};
    CHECK(!direct_spectrum({bump(61, -20, 40.0, 0.0)}, 1024, w, 1.0).valid);  // no budget
    TiltedList two;  // two atoms on every second point: the transform has modulus 1 at half the period
    two.upper = two.lower = {0.5, 0.0, 0.5};
    two.copies = 1000.0;
    CHECK(!direct_spectrum({two}, 1024, w, 1e9).valid);
    CHECK(!direct_spectrum({bump(61, -20, 1e15, 0.0)}, 1024, w, 1e9).valid);  // errors beyond first order
    CHECK(!direct_spectrum({bump(61, -20, 40.0, 0.0)}, 1024, {1.3, 0.01, -0.004, 300, 600.0}, 1e9).valid);
    CHECK(!direct_spectrum({bump(61, -20, 40.0, 0.0)}, 1024, {1.3, 0.01, 0.004, 300, 0.0}, 1e9).valid);
}

TEST(exp_block_is_within_its_error) {
    std::vector<double> x, y(40003);
    for (std::size_t i = 0; i < y.size(); ++i) x.push_back(-700.0 + 1400.0 * static_cast<double>(i) / 40002.0);
    for (std::size_t i = 0; i < 4000; ++i)
        x[i] = std::ldexp(static_cast<double>(i) - 2000.0, -static_cast<int>(i % 60));
    for (double& v : x) v = std::fmax(-700.0, std::fmin(700.0, v));
    exp_block(x.data(), y.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const long double truth = std::exp(static_cast<long double>(x[i]));
        CHECK(std::fabs(y[i] - truth) <= 6.0L * kRound * truth);
    }
}
