// Sums over points against the same sums one by one: of a Gaussian law, in closed form, and of sampled steps, by
// one contour for every point.
#include "../../csrc/src/point_sums.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "../../csrc/src/closed_forms.hpp"
#include "../../csrc/src/log_sum.hpp"
#include "check.hpp"
#include "dpcore/normal.hpp"

using dpcore::Composition;
using dpcore::LogBounds;
using dpcore::Quantity;
using dpcore::detail::log_add;
using dpcore::detail::WeightedPoint;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<WeightedPoint> points(double mean, double spread, double err, std::size_t count) {
    std::mt19937_64 engine(7);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    std::vector<WeightedPoint> out;
    for (std::size_t i = 0; i < count; ++i) {
        const double at = 2.0 * (static_cast<double>(i) + uniform(engine)) / static_cast<double>(count) - 1.0;
        // Rare above the mean, so that what is far out counts.
        out.push_back({mean + spread * at, err, -30.0 * (at < 0.0 ? -at : 0.0) + std::log(uniform(engine))});
    }
    return out;
}

// delta of the composition at x, of either sign, in closed form.
double gaussian_delta(const Composition& comp, double x) {
    const auto at = [&](double e) { return std::exp(dpcore::detail::all_gaussian(comp, e).log_upper); };
    return x >= 0.0 ? at(x) : -std::expm1(x) + std::exp(x) * at(-x);
}

}  // namespace

TEST(sums_over_points_of_a_gaussian_loss) {
    for (const double sigma : {0.5, 3.0, 40.0}) {
        const Composition comp = Composition::of({{dpcore::gaussian_law(sigma, 1.0), 1.0}});
        const double mean = 0.5 / (sigma * sigma);
        for (const double deviations : {0.5, 6.0, 25.0}) {
            for (const double err : {0.0, 1e-13 / sigma}) {
                const auto all = points(mean, deviations / sigma, err, 300);
                for (const Quantity quantity : {Quantity::delta, Quantity::tail}) {
                    double want = 0.0;
                    for (const WeightedPoint& p : all)
                        want += std::exp(p.log_weight) * (quantity == Quantity::delta
                                                              ? gaussian_delta(comp, p.x)
                                                              : dpcore::normal_tail((p.x - mean) * sigma));
                    const LogBounds found = dpcore::detail::point_sums(comp, quantity, all, -kInf, {});
                    // The reference is good to 1e-12.
                    CHECK(found.log_lower <= std::log(want) + 1e-12);
                    CHECK(std::log(want) - 1e-12 <= found.log_upper);
                    CHECK(found.log_upper - found.log_lower < 2e-10);
                    // What is next to nothing is left out of one side only.
                    const LogBounds less =
                        dpcore::detail::point_sums(comp, quantity, all, std::log(want) - 12.0, {});
                    CHECK(less.log_lower <= std::log(want) + 1e-12);
                    CHECK(std::log(want) - 1e-12 <= less.log_upper);
                    CHECK(less.log_upper - less.log_lower < 1e-3);
                    for (const double c : {0.3 * sigma, 3.0 * sigma})
                        CHECK(std::log(want) <=
                              dpcore::detail::log_point_moment(comp, quantity, all, c, {}) + 1e-12);
                }
            }
        }
    }
}

TEST(a_wrong_weight_would_be_seen) {
    const Composition comp = Composition::of({{dpcore::gaussian_law(3.0, 1.0), 1.0}});
    auto all = points(0.05, 2.0, 0.0, 300);
    const LogBounds right = dpcore::detail::point_sums(comp, Quantity::delta, all, -kInf, {});
    all[290].log_weight += 1e-6;
    const LogBounds wrong = dpcore::detail::point_sums(comp, Quantity::delta, all, -kInf, {});
    all[290].log_weight += 40.0;
    const LogBounds far_off = dpcore::detail::point_sums(comp, Quantity::delta, all, -kInf, {});
    CHECK(wrong.log_lower >= right.log_lower);
    CHECK(far_off.log_lower > right.log_upper);
}

TEST(sums_over_points_of_sampled_steps) {
    for (const bool removal : {false, true}) {
        const Composition comp = Composition::of({{dpcore::subsampled_gaussian_law(1.1, 0.05, removal), 400.0}});
        const auto all = points(0.02, 0.5, 0.0, 60);
        for (const Quantity quantity : {Quantity::delta, Quantity::tail}) {
            LogBounds one_by_one = {-kInf, -kInf};
            for (const WeightedPoint& p : all) {
                LogBounds b;
                if (quantity == Quantity::delta) {
                    if (p.x < 0.0) continue;
                    b = dpcore::spectral_delta(comp, p.x, {});
                } else {
                    const dpcore::Interval t = dpcore::spectral_tails(comp, p.x, {}).above;
                    b = {std::log(t.lower), std::log(t.upper)};
                }
                one_by_one = {log_add(one_by_one.log_lower, b.log_lower + p.log_weight, -1.0),
                              log_add(one_by_one.log_upper, b.log_upper + p.log_weight, 1.0)};
            }
            std::vector<WeightedPoint> asked;
            for (const WeightedPoint& p : all)
                if (quantity == Quantity::tail || p.x >= 0.0) asked.push_back(p);
            const LogBounds found = dpcore::detail::point_sums(comp, quantity, asked, -kInf, {});
            CHECK(found.log_lower <= one_by_one.log_upper);
            CHECK(one_by_one.log_lower <= found.log_upper);
            CHECK(found.log_upper - found.log_lower < 1e-9);
        }
    }
}

TEST(beyond_the_losses_there_is_nothing) {
    const Composition comp = Composition::of({{dpcore::subsampled_gaussian_law(1.0, 0.1, false), 3.0}});
    const std::vector<WeightedPoint> beyond = {{comp.max_loss * 1.01, 0.0, 0.0}};
    CHECK(dpcore::detail::point_sums(comp, Quantity::delta, beyond, -kInf, {}).log_upper == -kInf);
    CHECK(dpcore::detail::point_sums(comp, Quantity::delta, {}, -kInf, {}).log_upper == -kInf);
}

TEST(sums_of_logarithms) {
    CHECK(log_add(0.0, 0.0, 1.0) >= std::log(2.0) && log_add(0.0, 0.0, -1.0) <= std::log(2.0));
    CHECK(log_add(-kInf, -5.0, -1.0) <= -5.0 && log_add(-kInf, -5.0, 1.0) >= -5.0);
    CHECK(log_add(-kInf, -kInf, 1.0) == -kInf);
    CHECK(log_add(std::nan(""), 0.0, 1.0) == kInf && log_add(std::nan(""), 0.0, -1.0) == -kInf);
}
