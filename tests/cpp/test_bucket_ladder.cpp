#include "../../csrc/src/bucket_ladder.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../../csrc/src/grid_delta.hpp"
#include "check.hpp"
#include "dpcore/spectral.hpp"

using namespace dpcore;
using namespace dpcore::detail;

namespace {

struct Sequence {
    std::uint64_t state = 88172645463325252ULL;
    double next() {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        return static_cast<double>(state >> 11U) * 0x1p-53;
    }
};

// Sum of mass e^{-c l} (1 - e^{eps - l}) over the losses above eps.
long double hockey_stick(const std::vector<double>& mass, const Buckets& b, double c, long double eps) {
    long double sum = 0.0L;
    for (std::size_t i = 0; i < mass.size(); ++i) {
        const long double loss = static_cast<long double>(b.offset) +
                                 static_cast<long double>(b.step) * static_cast<long double>(b.first) +
                                 static_cast<long double>(b.step) * static_cast<long double>(i);
        if (loss > eps) sum += mass[i] * std::exp(-static_cast<long double>(c) * loss) * -std::expm1(eps - loss);
    }
    return sum;
}

// Lists of different shapes: smooth, atoms far apart, both, rising and falling steeply, heaps at an end.
Discrete list_of(int shape, Sequence& s, double c) {
    Discrete out;
    out.tilt = c;
    Buckets& b = out.buckets;
    b.step = 0.001 * (0.5 + s.next());
    b.offset = b.step * s.next();
    b.first = -150 + static_cast<std::int64_t>(60.0 * s.next());
    const std::size_t n = 300;
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const double x = (static_cast<double>(i) - 150.0) / 40.0;
        double m = std::exp(-0.5 * x * x);
        if (shape == 1) m = i % 37 == 5 ? s.next() : 0.0;
        if (shape == 2) m += i % 50 == 0 ? 20.0 * s.next() : 0.0;
        if (shape == 3) m = std::exp(0.05 * static_cast<double>(i));
        if (shape == 4) m = std::exp(-0.05 * static_cast<double>(i)) + (i == 0 ? 3.0 : 0.0);
        if (shape == 5) m = s.next() < 0.3 ? s.next() : 0.0;
        if (shape == 6) m = i + 1 == n ? 5.0 : 1e-3;
        b.upper.mass.push_back(m);
        sum += m;
    }
    for (double& m : b.upper.mass) m /= sum;
    b.lower.mass = b.upper.mass;
    return out;
}

// Of a list that stands for a whole composition.
LogBounds delta_of(const Discrete& list, const Placement& place, double epsilon, double step) {
    Plan plan;
    plan.tilt = place.c;
    plan.far = place.far;
    plan.near = place.near;
    plan.mean = place.mean;
    plan.sd = std::sqrt(place.variance);
    plan.distance = place.distance;
    plan.valid = true;
    set_step(plan, step);
    Part part;
    part.list = &list;
    return grid_delta({part}, epsilon, plan, {}).bounds;
}

}  // namespace

TEST(another_grid_brackets_every_delta) {
    Sequence s;
    for (int shape = 0; shape < 7; ++shape)
        for (const double c : {0.0, 3.0, 60.0})
            for (const double ratio : {0.3, 0.9, 1.3, 2.0, 3.7, 11.0, 40.0}) {
                const Discrete from = list_of(shape, s, c);
                const Buckets& b = from.buckets;
                const Discrete to = regrid(from, ratio * b.step);
                const long double err = to.buckets.mass_err;
                const long double shift = to.loss_err;
                for (int k = 0; k < 80; ++k) {
                    const long double eps = b.loss(0) - 2.0 * to.buckets.step +
                                            (b.loss(299) - b.loss(0) + 4.0 * to.buckets.step) * s.next();
                    const long double truth = hockey_stick(b.upper.mass, b, c, eps);
                    CHECK(hockey_stick(to.buckets.upper.mass, to.buckets, c, eps - shift) * (1.0L + err) >= truth);
                    CHECK(hockey_stick(to.buckets.lower.mass, to.buckets, c, eps + shift) * (1.0L - err) <= truth);
                }
                // Smooth ones keep the mean ratio: rounding down would lose half a step of it.
                if (shape == 0 && ratio < 12.0) {
                    const long double low = -30.0L;
                    const long double q = hockey_stick(b.upper.mass, b, c, low);
                    const long double kept = hockey_stick(to.buckets.lower.mass, to.buckets, c, low);
                    // The total less e^low times the mass under Q.
                    CHECK(std::fabs(kept / q - 1.0L) < 1e-6L * to.buckets.step);
                }
            }
}

// Cells of many units, in which 1 - e^-above is 1 in double nearly everywhere, and distances beyond its range.
TEST(coarse_grids_bracket_every_delta) {
    Sequence s;
    for (int shape = 0; shape < 7; ++shape)
        for (const double c : {0.0, 0.01})
            for (const double unit : {0.02, 0.3, 5.0})
                for (const double ratio : {3.7, 40.0, 170.0}) {
                    Discrete from = list_of(shape, s, c);
                    Buckets& b = from.buckets;
                    b.step = unit * (0.5 + s.next());
                    b.offset = b.step * s.next();
                    const Discrete to = regrid(from, ratio * b.step);
                    const long double err = to.buckets.mass_err;
                    const long double shift = to.loss_err;
                    for (int k = 0; k < 80; ++k) {
                        // Next to the losses, where little is enough to tell, and anywhere.
                        const auto near = static_cast<std::size_t>(299.0 * s.next());
                        const long double eps =
                            b.loss(near) +
                            (k % 2 == 0 ? -1e-3 * b.step : 2.0 * to.buckets.step * (s.next() - 0.5));
                        const long double truth = hockey_stick(b.upper.mass, b, c, eps);
                        CHECK(hockey_stick(to.buckets.upper.mass, to.buckets, c, eps - shift) * (1.0L + err) >=
                              truth);
                        CHECK(hockey_stick(to.buckets.lower.mass, to.buckets, c, eps + shift) * (1.0L - err) <=
                              truth);
                    }
                }
}

TEST(copies_on_growing_grids_bracket_the_contour) {
    struct Case {
        LawPtr law;
        double copies, sds;
    };
    const std::vector<Case> cases = {
        {gaussian_law(50.0, 1.0), 20000.0, 4.0},
        {laplace_law(0.003), 100000.0, 3.0},
        {laplace_law(0.05), 333.0, 5.0},
        {subsampled_gaussian_law(2.0, 0.01, true), 50000.0, 4.0},
        {subsampled_gaussian_law(1.0, 0.02, false), 3001.0, 2.0},
        {discrete_gaussian_law(30.0, 1), 5000.0, 4.0},
    };
    for (const Case& one : cases)
        for (const double width : {1e-3, 2e-5}) {
            const Composition comp = Composition::of({{one.law, one.copies}});
            const Cumulants at = comp.cumulants(0.0, {});
            const double epsilon = at.first + one.sds * std::sqrt(at.second);
            const Placement place = spectral_placement(comp, epsilon);
            const double c = place.c;
            const bool laplace = one.law->kind() == LawKind::laplace;
            const double apart = laplace ? 2.0 * one.law->parameters()[0] : 0.0;
            const LadderPlan plan = ladder_plan(one.copies, c, width, apart);
            const double lattice = one.law->lattice().step;
            Discrete list =
                discretise(*one.law, lattice > 0.0 ? lattice : plan.step(one.copies), c, c, c, true, {});
            tilt(list, {c, c, c});
            const Discrete all = climb(std::move(list), one.copies, plan, false, {});
            const LogBounds exact = spectral_delta(comp, epsilon);
            const LogBounds found = delta_of(all, place, epsilon, plan.step(1.0));
            CHECK(found.log_lower <= exact.log_upper);
            CHECK(found.log_upper >= exact.log_lower);
            CHECK(found.log_upper - found.log_lower < 2.0 * width);
        }
}

TEST(some_outputs_and_the_others_are_all) {
    const LawPtr law = subsampled_gaussian_law(1.5, 0.01, true);
    for (const double c : {2.0, 20.0})
        for (const double cut : {1.0, 4.0}) {
            const double inf = std::numeric_limits<double>::infinity();
            double log_mass[2];
            int i = 0;
            for (const Outputs& outputs : {Outputs{-inf, cut}, Outputs{cut, inf}}) {
                Discrete list = discretise(*law, 1e-4, c, c, c, true, {}, outputs);
                log_mass[i++] = tilt(list, {c, c, c}).at;
                CHECK(list.tail < 1e-12);
            }
            const double sum = std::log(std::exp(log_mass[0]) + std::exp(log_mass[1]));
            CHECK(std::fabs(sum - law->cumulants(c, {}).value) < 1e-6 * (1.0 + c * c) * 1e-2);
        }
}

// Lists of one point whose tails lie at that point too: the composition is (1 + tail)^copies times as much, at the
// loss of the largest weight.
TEST(tails_of_copies_multiply) {
    for (const double copies : {1.0, 4.0, 1000.0})
        for (const double all : {1e-3, 0.1, 1.0, 2.0}) {
            const double c = 2.0;
            Discrete list;
            list.tilt = c;
            list.tail = all / copies;
            list.underflows = false;
            list.buckets.step = 0.01;
            list.buckets.offset = 0.25;
            list.buckets.upper.mass = list.buckets.lower.mass = {1.0};
            Plan plan;
            plan.tilt = c;
            plan.far = 3.0;
            plan.near = 1.0;
            plan.mean = 0.25 * copies;
            plan.distance = plan.sd = 1.0;
            plan.valid = true;
            set_step(plan, 0.01);
            Part part;
            part.list = &list;
            part.copies = copies;
            const double x = std::log1p(1.0 / c);
            const double epsilon = 0.25 * copies - x;
            const LogBounds found = grid_delta({part}, epsilon, plan, {}).bounds;
            const double truth = -c * 0.25 * copies + std::log(-std::expm1(-x)) + copies * std::log1p(list.tail);
            CHECK(found.log_upper >= truth);
        }
}
