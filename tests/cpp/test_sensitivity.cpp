#include "dpcore/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"

using dpcore::NeighbourBlock;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A fixed sequence in (0, 1) (splitmix64).
struct Sequence {
    std::uint64_t state = 7;
    double next() {
        std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
};

// `records` + 1 records with ties, for each of `count` groups.
std::vector<double> groups(std::size_t count, std::size_t records, std::size_t width) {
    Sequence s;
    std::vector<double> out(count * (records + 1) * width);
    for (double& x : out) x = std::floor(s.next() * 64) / 8;
    return out;
}

// The database of group i: the first, or its neighbour.
std::vector<double> database(const std::vector<double>& all, std::size_t i, std::size_t records, std::size_t width,
                             bool neighbour) {
    const double* group = all.data() + i * (records + 1) * width;
    std::vector<double> out(group, group + (records - 1) * width);
    const double* last = group + (records - 1 + (neighbour ? 1 : 0)) * width;
    out.insert(out.end(), last, last + width);
    return out;
}

}  // namespace

TEST(pairs_equal_single_databases) {
    for (const std::size_t records : {1, 2, 3, 10, 57}) {
        const std::size_t count = 5;
        const std::vector<double> flat = groups(count, records, 1);
        const std::vector<double> wide = groups(count, records, 3);
        const NeighbourBlock f{flat.data(), count, records, 1};
        const NeighbourBlock w{wide.data(), count, records, 3};
        const std::vector<double> edges = {0.0, 1.0, 2.5, 7.875};
        std::vector<double> a(count * 3), b(count * 3), one(3);
        for (std::size_t i = 0; i < count; ++i) {
            for (const bool neighbour : {false, true}) {
                const std::vector<double>& got = neighbour ? b : a;
                dpcore::sum_pairs(w, static_cast<double>(records), a.data(), b.data(), {});
                dpcore::sum_single(database(wide, i, records, 3, neighbour).data(), records, 3,
                                   static_cast<double>(records), one.data());
                CHECK(std::equal(one.begin(), one.end(), got.begin() + static_cast<std::ptrdiff_t>(3 * i)));
                const std::vector<double> db = database(flat, i, records, 1, neighbour);
                for (const double p : {0.0, 0.1, 0.5, 0.77, 1.0}) {
                    dpcore::quantile_pairs(f, p, a.data(), b.data(), {});
                    CHECK(dpcore::quantile_single(db.data(), records, p) == got[i]);
                }
                dpcore::histogram_pairs(f, edges.data(), 3, a.data(), b.data(), {});
                dpcore::histogram_single(db.data(), records, edges.data(), 3, one.data());
                CHECK(std::equal(one.begin(), one.end(), got.begin() + static_cast<std::ptrdiff_t>(3 * i)));
                dpcore::regression_pairs(w, true, 0.5, a.data(), b.data(), {});
                dpcore::regression_single(database(wide, i, records, 3, neighbour).data(), records, 3, true, 0.5,
                                          one.data());
                CHECK(std::equal(one.begin(), one.end(), got.begin() + static_cast<std::ptrdiff_t>(3 * i)));
            }
        }
    }
}

TEST(sum_survives_cancellation) {
    const std::vector<double> data = {1.0, 1e100, 1.0, -1e100};
    double out = 0.0;
    dpcore::sum_single(data.data(), data.size(), 1, 1.0, &out);
    CHECK(out == 2.0);
}

TEST(quantile_of_a_sorted_sequence) {
    const std::vector<double> data = {4.0, 0.0, 3.0, 1.0, 2.0};
    CHECK(dpcore::quantile_single(data.data(), 5, 0.0) == 0.0);
    CHECK(dpcore::quantile_single(data.data(), 5, 0.25) == 1.0);
    CHECK(dpcore::quantile_single(data.data(), 5, 0.375) == 1.5);
    CHECK(dpcore::quantile_single(data.data(), 5, 1.0) == 4.0);
    CHECK(dpcore::quantile_single(data.data(), 1, 0.3) == 4.0);
    for (const std::size_t bad : {0, 4}) {
        std::vector<double> with = data;
        with[bad] = kNaN;
        CHECK(std::isnan(dpcore::quantile_single(with.data(), 5, 0.5)));
    }
}

TEST(histogram_edges) {
    const std::vector<double> edges = {0.0, 1.0, 2.0};
    const std::vector<double> data = {0.0, 1.0, 2.0, -1e-300, 2.0000001, kNaN, kInf, 0.9999};
    std::vector<double> counts(2);
    dpcore::histogram_single(data.data(), data.size(), edges.data(), 2, counts.data());
    CHECK(counts[0] == 2.0);
    CHECK(counts[1] == 2.0);
}

TEST(regression_recovers_a_line) {
    std::vector<double> rows;
    Sequence s;
    for (int i = 0; i < 200; ++i) {
        const double x = s.next();
        const double y = s.next();
        rows.insert(rows.end(), {x, y, 3.0 * x - 2.0 * y + 0.25});
    }
    std::vector<double> out(3);
    dpcore::regression_single(rows.data(), 200, 3, true, 0.0, out.data());
    CHECK(std::fabs(out[0] - 3.0) < 1e-13);
    CHECK(std::fabs(out[1] + 2.0) < 1e-13);
    CHECK(std::fabs(out[2] - 0.25) < 1e-13);
}

TEST(singular_designs_give_nan) {
    // Two equal columns; fewer rows than unknowns; a NaN.
    const std::vector<double> equal = {1, 1, 5, 2, 2, 6, 3, 3, 9, 4, 4, 1};
    std::vector<double> out(3);
    dpcore::regression_single(equal.data(), 4, 3, true, 0.0, out.data());
    CHECK(std::isnan(out[0]));
    dpcore::regression_single(equal.data(), 4, 3, true, 1e-3, out.data());
    CHECK(std::isfinite(out[0]));
    dpcore::regression_single(equal.data(), 1, 3, true, 0.0, out.data());
    CHECK(std::isnan(out[2]));
    std::vector<double> bad = {1, 2, 5, 2, 7, 6, 3, 3, 9, 4, kNaN, 1};
    dpcore::regression_single(bad.data(), 4, 3, true, 1.0, out.data());
    CHECK(!(std::isfinite(out[0]) && std::isfinite(out[1]) && std::isfinite(out[2])));
}

TEST(regression_at_extreme_scales) {
    for (const double scale : {1e-200, 1e200}) {
        const std::vector<double> rows = {1 * scale, 2 * scale, 2 * scale, 4 * scale, 3 * scale, 6 * scale};
        double out = 0.0;
        dpcore::regression_single(rows.data(), 3, 2, false, 0.0, &out);
        CHECK(std::fabs(out - 2.0) < 1e-14);
    }
}

TEST(stops_when_asked) {
    const std::vector<double> flat = groups(3, 4, 1);
    double a[3], b[3];
    const dpcore::StopCheck stop = {[](void*) { return true; }, nullptr};
    CHECK_THROWS(dpcore::Interrupted,
                 (dpcore::sum_pairs(NeighbourBlock{flat.data(), 3, 4, 1}, 1.0, a, b, stop), 0));
}
