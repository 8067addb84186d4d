// The border of the C interface: what is refused, what a refusal leaves behind, and that nothing is thrown.
#include "dpcore/c_api.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

// Stands in for the C library's getrandom, so that a test can take the randomness away.
static std::atomic<bool> refuse_randomness{false};
extern "C" ssize_t getrandom(void* out, size_t bytes, unsigned flags) {
    if (refuse_randomness.load()) {
        errno = EPERM;
        return -1;
    }
    return syscall(SYS_getrandom, out, bytes, flags);
}

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool says(const char* part) { return std::strstr(dpcore_last_error(), part) != nullptr; }

template <class F>
void refused(F make, const char* message) {
    const dpcore_status status = make();
    CHECK(status == DPCORE_INVALID_ARGUMENT);
    CHECK(says(message));
    if (!says(message)) std::fprintf(stderr, "  said: %s\n", dpcore_last_error());
}

}  // namespace

TEST(versions_and_names) {
    CHECK(dpcore_abi_version() == DPCORE_ABI_VERSION);
    CHECK(std::strlen(dpcore_version()) >= 5);
    CHECK(std::string(dpcore_status_name(DPCORE_OK)) == "ok");
    CHECK(std::string(dpcore_status_name(99)) == "unknown status");
}

TEST(bad_scales_are_refused_and_the_output_is_untouched) {
    auto* const before = reinterpret_cast<dpcore_sampler*>(std::uintptr_t{8});
    for (const double scale : {0.0, -1.0, kNan, kInfinity, 0.999e-3, 1.001e15}) {
        dpcore_sampler* sampler = before;
        refused([&] { return dpcore_geometric_new(scale, &sampler); }, "scale must be a number in [1e-3, 1e15]");
        refused([&] { return dpcore_discrete_laplace_new(scale, &sampler); }, "scale must be");
        refused([&] { return dpcore_discrete_gaussian_new(scale, &sampler); }, "sigma must be");
        CHECK(sampler == before);
        std::int64_t out = 7;
        refused([&] { return dpcore_discrete_laplace_fill(scale, &out, 1); }, "scale must be");
        CHECK(out == 7);
    }
    for (const double scale : {0.0, -1.0, kNan, kInfinity, 1e-281, 1e281}) {
        dpcore_noise* noise = nullptr;
        refused([&] { return dpcore_laplace_new(scale, 0.0, &noise); }, "scale must be");
        refused([&] { return dpcore_gaussian_new(scale, 0.0, &noise); }, "sigma must be");
    }
    for (const double grid : {-1.0, 3.0, kNan, kInfinity, 2048.0, 0x1p-50}) {
        dpcore_noise* noise = nullptr;
        refused([&] { return dpcore_laplace_new(1.0, grid, &noise); }, "grid must be");
    }
    for (const double scale : {1e-3, 1e15}) {
        dpcore_sampler* sampler = nullptr;
        CHECK(dpcore_discrete_laplace_new(scale, &sampler) == DPCORE_OK);
        dpcore_sampler_free(sampler);
    }
}

TEST(null_pointers_are_refused) {
    std::int64_t whole = 0;
    double real = 0.0;
    dpcore_sampler* sampler = nullptr;
    dpcore_noise* noise = nullptr;
    CHECK(dpcore_discrete_laplace_new(2.0, &sampler) == DPCORE_OK);
    CHECK(dpcore_laplace_new(2.0, 0.0, &noise) == DPCORE_OK);
    refused([&] { return dpcore_discrete_laplace_new(2.0, nullptr); }, "out must not be NULL");
    refused([&] { return dpcore_sampler_draw(nullptr, nullptr, &whole); }, "sampler must not be NULL");
    refused([&] { return dpcore_sampler_draw(sampler, nullptr, nullptr); }, "out must not be NULL");
    refused([&] { return dpcore_sampler_fill(sampler, nullptr, nullptr, 1, 0); }, "out must not be NULL");
    refused([&] { return dpcore_sampler_add_fill(sampler, nullptr, nullptr, &whole, 1, 0); }, "values must not");
    refused([&] { return dpcore_noise_add(nullptr, nullptr, 1.0, &real); }, "noise must not be NULL");
    refused([&] { return dpcore_noise_add(noise, nullptr, 1.0, nullptr); }, "out must not be NULL");
    refused([&] { return dpcore_random_bytes(nullptr, 1); }, "out must not be NULL");
    refused([&] { return dpcore_gaussian_sigma(1.0, 1e-6, 1.0, 1, nullptr); }, "out must not be NULL");
    refused([&] { return dpcore_loss_delta(nullptr, 1.0, &real, &real); }, "loss must not be NULL");
    refused([&] { return dpcore_loss_from_pmf(nullptr, &real, 1, nullptr); }, "out must not be NULL");
    CHECK(dpcore_sampler_fill(sampler, nullptr, nullptr, 0, 0) == DPCORE_OK);
    CHECK(dpcore_random_bytes(nullptr, 0) == DPCORE_OK);
    dpcore_sampler_free(sampler);
    dpcore_noise_free(noise);
    dpcore_sampler_free(nullptr);
    dpcore_noise_free(nullptr);
    dpcore_loss_free(nullptr);
    dpcore_insecure_test_source_free(nullptr);
}

TEST(bad_privacy_parameters_are_refused) {
    double out = 5.0;
    refused([&] { return dpcore_gaussian_delta(kNan, 1.0, 1.0, &out); }, "epsilon must be a finite number > 0");
    refused([&] { return dpcore_gaussian_delta(1.0, 0.0, 1.0, &out); }, "sigma must be");
    refused([&] { return dpcore_gaussian_sigma(1.0, 1.0, 1.0, 1, &out); }, "delta must be");
    refused([&] { return dpcore_gaussian_sigma(1.0, 1e-6, 1.0, 0, &out); }, "compositions must be an integer");
    refused([&] { return dpcore_gaussian_epsilon(1.0, 1e-6, -2.0, &out); }, "sensitivity must be");
    CHECK(says("got -2"));
    CHECK(out == 5.0);
    dpcore_loss* loss = nullptr;
    refused([&] { return dpcore_loss_from_laplace(-0.1, &loss); }, "epsilon must be a number in [0, 1e100]");
    refused([&] { return dpcore_loss_from_gaussian(1e200, 1.0, &loss); }, "sigma/sensitivity must be");
    refused([&] { return dpcore_loss_from_discrete_laplace(1.0, 0, &loss); }, "sensitivity must be an integer");
    refused([&] { return dpcore_loss_from_discrete_gaussian(0.001, 1, &loss); }, "sigma must be");
    refused([&] { return dpcore_loss_from_approximate(1.0, 1.5, &loss); }, "delta must be");
    refused([&] { return dpcore_loss_from_subsampled_gaussian(1.0, 2.0, 0, &loss); }, "rate must be");
    refused([&] { return dpcore_loss_from_subsampled_gaussian(1.0, 0.1, 3, &loss); }, "neighbours must be");
    const double p[] = {0.5, 0.5};
    const double q[] = {0.5, 0.4};
    const double n[] = {1.5, -0.5};
    refused([&] { return dpcore_loss_from_pmf(p, q, 2, &loss); }, "q must be probabilities that sum to 1");
    refused([&] { return dpcore_loss_from_pmf(n, p, 2, &loss); }, "p must be a finite number >= 0");
    refused([&] { return dpcore_loss_from_pmf(p, p, 0, &loss); }, "sum to 1");
    CHECK(loss == nullptr);
    CHECK(dpcore_loss_from_pmf(p, p, 2, &loss) == DPCORE_OK);
    double lower = 0.0;
    double upper = 0.0;
    refused([&] { return dpcore_loss_delta(loss, kNan, &lower, &upper); }, "epsilon must be");
    refused([&] { return dpcore_loss_epsilon(loss, 1.0000001, &lower, &upper); }, "delta must be");
    refused([&] { return dpcore_loss_confidence(loss, -1.0, &lower, &upper); }, "epsilon must be");
    dpcore_loss* many = nullptr;
    refused([&] { return dpcore_loss_times(loss, -1, &many); }, "copies must be an integer");
    dpcore_loss* most = nullptr;
    CHECK(dpcore_loss_times(loss, std::int64_t{1} << 53, &most) == DPCORE_OK);
    refused([&] { return dpcore_loss_compose(most, most, &many); }, "copies");
    CHECK(many == nullptr);
    dpcore_loss_free(most);
    dpcore_loss_free(loss);
}

TEST(bad_counts_are_refused) {
    double noise = 5.0;
    double delta = 5.0;
    const auto calibrate = [&](double e, double d, std::int64_t n, std::int64_t k, double low, double high,
                               double worst, std::int64_t times) {
        return dpcore_count_calibrate(e, d, n, k, low, high, worst, times, &noise, &delta);
    };
    refused([&] { return calibrate(0.0, 1e-6, 10, 1, 0.1, 0.2, kInfinity, 1); }, "epsilon must be");
    refused([&] { return calibrate(kNan, 1e-6, 10, 1, 0.1, 0.2, kInfinity, 1); }, "epsilon must be");
    refused([&] { return calibrate(1.0, 1.0, 10, 1, 0.1, 0.2, kInfinity, 1); }, "delta must be");
    refused([&] { return calibrate(1.0, 1e-6, 0, 0, 0.1, 0.2, kInfinity, 1); }, "records must be an integer");
    refused([&] { return calibrate(1.0, 1e-6, 10, 10, 0.1, 0.2, kInfinity, 1); },
            "known must be an integer in [0, 9]");
    refused([&] { return calibrate(1.0, 1e-6, 10, -1, 0.1, 0.2, kInfinity, 1); }, "known must be");
    refused([&] { return calibrate(1.0, 1e-6, 10, 1, -0.1, 0.2, kInfinity, 1); }, "bias_low must be");
    refused([&] { return calibrate(1.0, 1e-6, 10, 1, 0.1, kNan, kInfinity, 1); }, "bias_high must be");
    refused([&] { return calibrate(1.0, 1e-6, 10, 1, 0.2, 0.1, kInfinity, 1); }, "bias_high must be at least");
    refused([&] { return calibrate(1.0, 1e-6, 10, 1, 0.1, 0.2, 0.5, 1); }, "worst_case_epsilon must be");
    refused([&] { return calibrate(1.0, 1e-6, 10, 1, 0.1, 0.2, kNan, 1); }, "worst_case_epsilon must be");
    refused([&] { return calibrate(1.0, 1e-6, 10, 1, 0.1, 0.2, kInfinity, 0); }, "releases must be");
    refused([&] { return dpcore_count_calibrate(1.0, 0.1, 9, 1, 0.1, 0.2, 2.0, 1, nullptr, &delta); },
            "noise_scale must not be NULL");
    refused([&] { return dpcore_count_calibrate(1.0, 0.1, 9, 1, 0.1, 0.2, 2.0, 1, &noise, nullptr); },
            "achieved_delta must not be NULL");
    refused([&] { return dpcore_count_delta(1.0, 10, 1, 0.1, 0.2, -1.0, &delta); }, "noise_scale must be");
    // Found by the fuzzer: e^epsilon beyond exponents of 64 bits was an internal error.
    refused([&] { return dpcore_count_delta(1e19, 108, 97, 0.1, 0.1, 0.0, &delta); },
            "epsilon must be a number in");
    refused([&] { return dpcore_count_delta(1e300, 108, 97, 0.1, 0.2, 1.0, &delta); },
            "epsilon must be a number in");
    refused([&] { return calibrate(1e19, 1e-6, 10, 1, 0.1, 0.2, kInfinity, 1); }, "epsilon must be a number in");
    refused([&] { return dpcore_count_delta(1.0, 10, 1, 0.1, 0.2, 1.0, nullptr); }, "out must not be NULL");
    CHECK(noise == 5.0);
    CHECK(delta == 5.0);
}

TEST(sums_saturate) {
    dpcore_sampler* sampler = nullptr;
    CHECK(dpcore_geometric_new(1e6, &sampler) == DPCORE_OK);
    std::int64_t out = 0;
    for (int i = 0; i < 100; ++i) {
        const std::int64_t value = std::numeric_limits<std::int64_t>::max() - 1;
        CHECK(dpcore_sampler_add(sampler, nullptr, value, &out) == DPCORE_OK);
        CHECK(out >= value);
    }
    dpcore_sampler_free(sampler);
}

TEST(private_values_never_make_an_error) {
    dpcore_noise* noise = nullptr;
    CHECK(dpcore_gaussian_new(1.0, 0.0, &noise) == DPCORE_OK);
    for (const double value : {kNan, kInfinity, -kInfinity, 1e308, -0.0}) {
        double out = kNan;
        CHECK(dpcore_noise_add(noise, nullptr, value, &out) == DPCORE_OK);
        CHECK(std::isfinite(out));
        CHECK(dpcore_noise_add_fill(noise, nullptr, &value, &out, 1, 1) == DPCORE_OK);
        CHECK(std::isfinite(out));
    }
    dpcore_noise_free(noise);
}

TEST(threads_do_not_change_a_fill) {
    dpcore_sampler* sampler = nullptr;
    CHECK(dpcore_discrete_gaussian_new(33.3, &sampler) == DPCORE_OK);
    std::vector<std::vector<std::int64_t>> results;
    for (const unsigned threads : {0U, 1U, 3U}) {
        dpcore_insecure_test_source* source = nullptr;
        CHECK(dpcore_insecure_test_source_new(5, &source) == DPCORE_OK);
        std::vector<std::int64_t> out(100001);
        CHECK(dpcore_sampler_fill(sampler, source, out.data(), out.size(), threads) == DPCORE_OK);
        results.push_back(out);
        dpcore_insecure_test_source_free(source);
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
    dpcore_sampler_free(sampler);
}

TEST(no_randomness_is_a_status_and_nothing_is_released) {
    dpcore_sampler* sampler = nullptr;
    CHECK(dpcore_discrete_laplace_new(10.0, &sampler) == DPCORE_OK);
    refuse_randomness = true;
    std::thread([&] {  // a new thread has no stream yet and must ask the system
        std::int64_t out = 7;
        CHECK(dpcore_sampler_add(sampler, nullptr, 1, &out) == DPCORE_NO_RANDOMNESS);
        CHECK(out == 7);
        CHECK(says("no randomness"));
        CHECK(dpcore_sampler_fill(sampler, nullptr, &out, 1, 1) == DPCORE_NO_RANDOMNESS);
        CHECK(out == 7);
        CHECK(dpcore_random_bytes(&out, sizeof out) == DPCORE_NO_RANDOMNESS);
        refuse_randomness = false;
        CHECK(dpcore_sampler_add(sampler, nullptr, 1, &out) == DPCORE_OK);
    })
        .join();
    dpcore_sampler_free(sampler);
}

TEST(messages_belong_to_their_thread) {
    dpcore_sampler* sampler = nullptr;
    CHECK(dpcore_geometric_new(-1.0, &sampler) == DPCORE_INVALID_ARGUMENT);
    std::thread([] { CHECK(std::string(dpcore_last_error()).empty()); }).join();
    CHECK(says("scale"));
}
