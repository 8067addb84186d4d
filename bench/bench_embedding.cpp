// What one release and one bulk call cost inside a C++ or C program; built and run against the installed package
// by bench_embedding.py, or built with the core by -DDPCORE_BUILD_BENCHMARKS=ON.
#include <dpcore/c_api.h>
#include <dpcore/build_info.hpp>
#include <dpcore/samplers.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

std::int64_t sink = 0;

// Best of several samples, seconds a call.
template <class F>
double best(int samples, int repeats, F call) {
    double least = 1e9;
    for (int s = 0; s < samples; ++s) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) call(i);
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        least = std::min(least, elapsed.count() / repeats);
    }
    return least;
}

// Correlation between the magnitude of a draw and the time it took, over a million draws one by one. Times are cut
// at their 99th percentile: interruptions by the system have nothing to do with the draw.
template <class Sampler>
double time_and_magnitude(const Sampler& sampler) {
    constexpr std::size_t kDraws = 1'000'000;
    std::vector<double> magnitude(kDraws), spent(kDraws);
    for (std::size_t i = 0; i < kDraws; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const std::int64_t x = sampler.add(dpcore::secure_source(), 0);
        spent[i] = static_cast<double>((std::chrono::steady_clock::now() - start).count());
        magnitude[i] = std::fabs(static_cast<double>(x));
    }
    std::vector<double> sorted = spent;
    std::nth_element(sorted.begin(), sorted.begin() + kDraws / 100 * 99, sorted.end());
    const double cut = sorted[kDraws / 100 * 99];
    double mean_x = 0.0, mean_y = 0.0;
    for (std::size_t i = 0; i < kDraws; ++i) {
        spent[i] = std::min(spent[i], cut);
        mean_x += magnitude[i] / kDraws;
        mean_y += spent[i] / kDraws;
    }
    double xx = 0.0, xy = 0.0, yy = 0.0;
    for (std::size_t i = 0; i < kDraws; ++i) {
        const double x = magnitude[i] - mean_x;
        const double y = spent[i] - mean_y;
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    return xy / std::sqrt(xx * yy);
}

}  // namespace

int main() {
    const dpcore::BuildInfo info = dpcore::build_info();
    if (std::strcmp(info.build_type, "Release") != 0 || info.sanitize[0] != '\0') {
        std::fprintf(stderr, "refusing to time a %s build %s\n", info.build_type, info.sanitize);
        return 1;
    }
    const dpcore::DiscreteLaplace laplace(10.0);
    const dpcore::DiscreteGaussian gaussian(10.0);
    const dpcore::GridLaplace real(10.0);
    std::printf("cpp_discrete_laplace %.3e\n",
                best(400, 2000, [&](int i) { sink += laplace.add(dpcore::secure_source(), i); }));
    std::printf("cpp_discrete_gaussian %.3e\n",
                best(400, 2000, [&](int i) { sink += gaussian.add(dpcore::secure_source(), i); }));
    std::printf("cpp_laplace %.3e\n", best(400, 2000, [&](int i) {
                    sink += static_cast<std::int64_t>(real.add(dpcore::secure_source(), i));
                }));
    dpcore_sampler* sampler = nullptr;
    if (dpcore_discrete_laplace_new(10.0, &sampler) != DPCORE_OK) return 1;
    std::printf("c_discrete_laplace %.3e\n", best(400, 2000, [&](int i) {
                    std::int64_t out = 0;
                    (void)dpcore_sampler_add(sampler, nullptr, i, &out);
                    sink += out;
                }));
    // About ten milliseconds a call: long beside the start of a thread, short beside the pauses of a busy machine.
    std::vector<std::int64_t> bulk(1 << 20);
    for (const unsigned threads : {1U, 2U})
        std::printf("fill_%u %.3e\n", threads, best(100, 1, [&](int) {
                                                   (void)dpcore_sampler_fill(sampler, nullptr, bulk.data(),
                                                                             bulk.size(), threads);
                                                   sink += bulk[7];
                                               }) / static_cast<double>(bulk.size()));
    dpcore_sampler_free(sampler);
    for (const double scale : {1.0, 10.0, 1000.0, 1e6, 1e9}) {
        std::printf("correlation_discrete_laplace_%g %.3e\n", scale,
                    time_and_magnitude(dpcore::DiscreteLaplace(scale)));
        std::printf("correlation_discrete_gaussian_%g %.3e\n", scale,
                    time_and_magnitude(dpcore::DiscreteGaussian(scale)));
    }
    return sink == 42 ? 2 : 0;
}
