// The source itself is included, so that the variants for different processors can be compared.
#include "../../csrc/src/poisson_binomial.cpp"

#include "check.hpp"

TEST(equal_records_are_a_binomial) {
    const std::vector<double> p(3000, 0.3);
    const dpcore::ExtendedPmf law = dpcore::poisson_binomial(p.data(), p.size());
    std::vector<double> got(3001);
    std::vector<double> want(3001);
    dpcore::to_doubles(law, 0, got.size(), got.data());
    dpcore::binomial_fill(3000, 0.3, 0, 3001, want.data());
    for (std::size_t k = 0; k < got.size(); ++k)
        if (want[k] > 1e-300) CHECK(std::fabs(got[k] / want[k] - 1.0) <= 1.6e-15);
}

TEST(groups_are_their_records) {
    const std::int64_t sizes[3] = {40, 100, 7};
    const double p[3] = {0.25, 0.9, 1.0};
    std::vector<double> records;
    for (int g = 0; g < 3; ++g) records.insert(records.end(), static_cast<std::size_t>(sizes[g]), p[g]);
    std::vector<double> a(148);
    std::vector<double> b(148);
    dpcore::to_doubles(dpcore::stratified(sizes, p, 3), 0, a.size(), a.data());
    dpcore::to_doubles(dpcore::poisson_binomial(records.data(), records.size()), 0, b.size(), b.data());
    for (std::size_t k = 0; k < a.size(); ++k) CHECK(std::fabs(a[k] - b[k]) <= 2.3e-16 * b[k]);
}

TEST(bad_input_is_refused) {
    const double bad = 1.5;
    CHECK_THROWS(std::invalid_argument, dpcore::poisson_binomial(&bad, 1));
    CHECK_THROWS(std::invalid_argument, dpcore::poisson_binomial(&bad, 0));
    const std::int64_t size = -1;
    const double half = 0.5;
    CHECK_THROWS(std::invalid_argument, dpcore::stratified(&size, &half, 1));
}

TEST(a_caller_can_stop_it) {
    const std::vector<double> p(2000, 0.5);
    const dpcore::StopCheck stop{[](void*) { return true; }, nullptr};
    CHECK_THROWS(dpcore::Interrupted, dpcore::poisson_binomial(p.data(), p.size(), stop));
}

#ifdef DPCORE_X86
TEST(every_processor_gives_the_same_bits) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
    const std::vector<double> p(400, 0.37);
    const dpcore::ExtendedPmf law = dpcore::poisson_binomial(p.data(), p.size());
    const std::vector<double> hi = dpcore::padded(law.hi);
    const std::vector<double> lo = dpcore::padded(law.lo);
    const auto size = static_cast<std::ptrdiff_t>(law.hi.size());
    for (std::ptrdiff_t k = 0; k < 2 * size - 1; k += 8) {
        double x[2][8];
        double y[2][8];
        const std::ptrdiff_t from = std::max<std::ptrdiff_t>(0, k - size + 1);
        const std::ptrdiff_t to = std::min(size - 1, k + 7);
        dpcore::portable::convolve_block(law.hi.data(), law.lo.data(), hi.data() + 8, lo.data() + 8, k, from, to,
                                         x[0], x[1]);
        dpcore::avx2::convolve_block(law.hi.data(), law.lo.data(), hi.data() + 8, lo.data() + 8, k, from, to, y[0],
                                     y[1]);
        bool same = true;
        for (int part = 0; part < 2; ++part)
            for (int j = 0; j < 8; ++j) same = same && x[part][j] == y[part][j];
        CHECK(same);
    }
}
#endif
