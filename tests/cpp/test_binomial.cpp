#include "dpcore/binomial.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "check.hpp"

using dpcore::binomial_fill;
using dpcore::binomial_log_pmf;
using dpcore::binomial_mode;
using dpcore::binomial_tail_window;
using dpcore::binomial_window;
using dpcore::PmfWindow;

namespace {

// The pmf by the recurrence in __float128 from q^m: another way, good to 30 digits for small m.
__extension__ typedef __float128 Quad;
std::vector<Quad> exact(int trials, double probability) {
    const Quad p = probability;
    const Quad q = 1 - p;
    std::vector<Quad> out(static_cast<std::size_t>(trials) + 1);
    Quad value = 1;
    for (int i = 0; i < trials; ++i) value *= q;
    for (int k = 0; k <= trials; ++k) {
        out[static_cast<std::size_t>(k)] = value;
        value = value * (trials - k) / (k + 1) * p / q;
    }
    return out;
}

double relative(double got, Quad want) { return std::fabs(static_cast<double>((got - want) / want)); }

}  // namespace

TEST(values_match_the_recurrence) {
    for (const double p : {0.5, 0.25, 0.001, 0.9, 1e-12}) {
        for (const int m : {1, 2, 7, 8, 9, 63, 64, 65, 300}) {
            const std::vector<Quad> want = exact(m, p);
            std::vector<double> got(want.size());
            binomial_fill(m, p, 0, m + 1, got.data());
            for (std::size_t k = 0; k < got.size(); ++k)
                if (want[k] > 1e-300) CHECK(relative(got[k], want[k]) <= 2.1e-15);
        }
    }
}

TEST(log_pmf_of_known_values) {
    // C(10, 3) / 2^10
    CHECK(std::fabs(binomial_log_pmf(10, 0.5, 3).hi - std::log(120.0 / 1024.0)) <= 4e-16);
    CHECK(binomial_log_pmf(5, 0.0, 0).hi == 0.0);
    CHECK(binomial_log_pmf(5, 1.0, 5).hi == 0.0);
    CHECK(std::isinf(binomial_log_pmf(5, 0.0, 1).hi));
    CHECK(std::isinf(binomial_log_pmf(5, 0.5, 6).hi));
    CHECK(binomial_log_pmf(0, 0.3, 0).hi == 0.0);
}

TEST(far_windows_keep_their_scale) {
    // 10^12 trials, 200 standard deviations out: probabilities near e^-20000.
    const PmfWindow w = binomial_window(1000000000000, 0.5, 500100000000, 1000000000000, 700.0);
    CHECK(w.first == 500100000000);
    CHECK(w.value.front() >= 1.0 && w.value.front() < 2.0);
    CHECK(w.value.back() > 0.0);
    const double log_front = binomial_log_pmf(1000000000000, 0.5, w.first).hi;
    const double exponent = static_cast<double>(w.exponent);
    CHECK(std::fabs(std::log(w.value.front()) + exponent * std::log(2.0) - log_front) <=
          1e-15 * std::fabs(log_front) + 1e-11);
    CHECK(std::fabs(std::log(w.value.back()) + exponent * std::log(2.0) -
                    binomial_log_pmf(1000000000000, 0.5, w.last()).hi) <= 1e-11);
    CHECK(std::isinf(w.below_upper));
    CHECK(w.above_upper > 0.0 && w.above_upper < 1e-290);
}

TEST(window_holds_what_it_promises) {
    const PmfWindow w = binomial_window(1000, 0.3, 0, 1000, 50.0);
    const double peak = binomial_log_pmf(1000, 0.3, binomial_mode(1000, 0.3)).hi;
    CHECK(binomial_log_pmf(1000, 0.3, w.first).hi >= peak - 50.0 - 1e-12);
    CHECK(binomial_log_pmf(1000, 0.3, w.first - 1).hi < peak - 50.0);
    CHECK(binomial_log_pmf(1000, 0.3, w.last()).hi >= peak - 50.0 - 1e-12);
    CHECK(binomial_log_pmf(1000, 0.3, w.last() + 1).hi < peak - 50.0);
}

TEST(left_out_mass_is_bounded_and_tight) {
    for (const double tail : {0.4, 1e-3, 1e-15, 1e-100}) {
        for (const double p : {0.5, 0.03, 0.99}) {
            const std::vector<Quad> want = exact(400, p);
            const PmfWindow w = binomial_tail_window(400, p, tail);
            Quad below = 0;
            Quad above = 0;
            for (std::int64_t k = 0; k < w.first; ++k) below += want[static_cast<std::size_t>(k)];
            for (std::int64_t k = 400; k > w.last(); --k) above += want[static_cast<std::size_t>(k)];
            CHECK(below <= w.below_upper && w.below_upper <= tail);
            CHECK(above <= w.above_upper && w.above_upper <= tail);
            // One point fewer would leave out more than the tail asked.
            if (w.value.size() > 1) CHECK(w.below_upper + w.value.front() > tail * 0.99);
            if (w.value.size() > 1) CHECK(w.above_upper + w.value.back() > tail * 0.99);
        }
    }
}

TEST(degenerate_laws_are_point_masses) {
    const PmfWindow zero = binomial_window(10, 0.0, 0, 10, 100.0);
    CHECK(zero.first == 0 && zero.value.size() == 1 && zero.value[0] == 1.0);
    const PmfWindow outside = binomial_window(10, 0.0, 2, 10, 100.0);
    CHECK(outside.value.empty() && outside.below_upper == 1.0 && outside.above_upper == 0.0);
    const PmfWindow one = binomial_tail_window(10, 1.0, 1e-9);
    CHECK(one.first == 10 && one.value.size() == 1 && one.value[0] == 1.0);
}

TEST(bad_input_is_refused) {
    CHECK_THROWS(std::invalid_argument, binomial_log_pmf(-1, 0.5, 0));
    CHECK_THROWS(std::invalid_argument, binomial_log_pmf(10, std::numeric_limits<double>::quiet_NaN(), 0));
    CHECK_THROWS(std::invalid_argument, binomial_window(10, 0.5, 3, 2, 10.0));
    CHECK_THROWS(std::invalid_argument, binomial_window(10, 0.5, 0, 11, 10.0));
    CHECK_THROWS(std::invalid_argument, binomial_window(10, 0.5, 0, 10, 701.0));
    CHECK_THROWS(std::invalid_argument, binomial_tail_window(10, 0.5, 0.0));
}

TEST(a_caller_can_stop_it) {
    dpcore::StopCheck stop{[](void*) { return true; }, nullptr};
    CHECK_THROWS(dpcore::Interrupted, binomial_window(1000000000000, 0.5, 0, 1000000000000, 700.0, stop));
}
