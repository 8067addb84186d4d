// The source itself is included, so that the variants for different processors can be compared.
#include "../../csrc/src/ratio_walk.cpp"

#include <cmath>

#include "check.hpp"

using dpcore::DoubleDouble;
using dpcore::RatioLaw;
using dpcore::RatioWalk;
using dpcore::Scaled;

namespace {

RatioLaw<1> binomial(double trials, double odds) {
    RatioLaw<1> law;
    law.top[0] = trials;
    law.bottom[0] = 1.0;
    law.odds = odds;
    law.last = trials;
    return law;
}

RatioLaw<2> hypergeometric(double n, double marked, double drawn) {
    RatioLaw<2> law;
    law.top[0] = drawn;
    law.top[1] = marked;
    law.bottom[0] = 1.0;
    law.bottom[1] = n - marked - drawn + 1.0;
    law.last = marked < drawn ? marked : drawn;
    return law;
}

// Chunks against single steps in double-double, the largest relative difference in units of 2^-53.
template <int F>
double difference(const RatioLaw<F>& law, double from, int points) {
    RatioWalk<F> chunks(law, from, Scaled{1.0, 0});
    RatioWalk<F> steps(law, from, Scaled{1.0, 0});
    double worst = 0.0;
    double block[RatioWalk<F>::kChunk];
    for (int done = 0; done < points;) {
        const int written = chunks.next(block, 0);
        if (written == 0) break;
        for (int i = 0; i < written; ++i) {
            const double want = to_double(steps.value());
            if (want > 0x1p-1000) worst = std::fmax(worst, std::fabs(block[i] / want - 1.0) * 0x1p53);
            if (!steps.at_end()) steps.step();
        }
        done += written;
    }
    return worst;
}

}  // namespace

TEST(chunks_are_single_steps) {
    // Bounds of the Guarantee line, and one rounding of the reference.
    CHECK(difference(binomial(1e6, 1.0), 5e5, 30000) <= 12.0);
    CHECK(difference(binomial(1e12, 1.25), 5.6e11, 3000) <= 12.0);
    CHECK(difference(binomial(200.0, 1.0), 100.0, 200) <= 12.0);
    CHECK(difference(hypergeometric(1e6, 5e5, 5e5), 2.5e5, 10000) <= 20.0);
    CHECK(difference(hypergeometric(0x1p53, 0x1p52, 0x1p52), 0x1p51, 10000) <= 20.0);
    CHECK(difference(hypergeometric(1000.0, 400.0, 300.0), 120.0, 200) <= 20.0);
}

#ifdef DPCORE_X86
TEST(every_processor_gives_the_same_bits) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
    const double forward[5] = {1.0, 1.1, 1.1 * 1.1, 1.331, 1.4641};
    const double backward[5] = {1.0, 1 / 1.1, 1 / 1.21, 1 / 1.331, 1 / 1.4641};
    for (int i = 0; i < 2000; ++i) {
        const double n = 1e4 + 1e9 * i * i;
        const double top[2] = {std::floor(n * 0.7), std::floor(n * 0.6)};
        const double bottom[2] = {1.0, std::floor(n * 0.3)};
        const dpcore::ChunkInput in = {top,
                                       bottom,
                                       std::floor(n * 0.3),
                                       DoubleDouble(1.0 + 0.1 * i, 1e-17),
                                       forward,
                                       backward,
                                       DoubleDouble(2.14358881, 1e-17),
                                       0x1p-3};
        double x[32];
        double y[32];
        DoubleDouble x_end;
        DoubleDouble y_end;
        dpcore::portable::chunk_1(in, x, &x_end);
        dpcore::avx2::chunk_1(in, y, &y_end);
        bool same = x_end.hi == y_end.hi && x_end.lo == y_end.lo;
        for (int j = 0; j < 32; ++j) same = same && x[j] == y[j];
        dpcore::portable::chunk_2(in, x, &x_end);
        dpcore::avx2::chunk_2(in, y, &y_end);
        same = same && x_end.hi == y_end.hi && x_end.lo == y_end.lo;
        for (int j = 0; j < 32; ++j) same = same && x[j] == y[j];
        CHECK(same);
    }
}
#endif
