// Coverage-guided fuzzing of the C interface: the input is a programme of calls with their arguments.
//
// Each step takes one byte for the function and what it needs for its arguments; numbers are raw bits, or one of
// the values at which something changes. Checked: no function reports an internal error or gives NaN, an error has
// a message and leaves its outputs alone, numbers are in their ranges, bounds are in order, and (by the sanitizers
// it is built with) no undefined behaviour and no leak.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "dpcore/c_api.h"

namespace {

struct Input {
    const std::uint8_t* at;
    std::size_t left;
    std::uint8_t byte() {
        if (left == 0) return 0;
        --left;
        return *at++;
    }
    template <class T>
    T raw() {
        T out{};
        const std::size_t n = left < sizeof(T) ? left : sizeof(T);
        std::memcpy(&out, at, n);
        at += n;
        left -= n;
        return out;
    }
    double real() {
        static const double kSpecial[] = {0.0,
                                          -0.0,
                                          1.0,
                                          0.5,
                                          -1.0,
                                          2.0,
                                          1e-3,
                                          1e15,
                                          5e-324,
                                          1e-300,
                                          1e300,
                                          1e-280,
                                          1e280,
                                          1e-100,
                                          1e100,
                                          1e-9,
                                          1e-6,
                                          0.05,
                                          0.01,
                                          1e6,
                                          INFINITY,
                                          -INFINITY,
                                          NAN,
                                          1.7976931348623157e308,
                                          9007199254740992.0,
                                          10.0};
        const std::uint8_t which = byte();
        if (which < sizeof(kSpecial) / sizeof(kSpecial[0])) return kSpecial[which];
        if (which < 96) return which / 32.0;
        if (which < 160) return std::ldexp(1.0, which - 128);
        return raw<double>();
    }
    std::int64_t whole() {
        const std::uint8_t which = byte();
        if (which < 128) return which;
        if (which < 192) return std::int64_t{1} << (which - 128);
        return raw<std::int64_t>();
    }
};

void require(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "fuzz_c_api: %s; last error: %s\n", what, dpcore_last_error());
    std::abort();
}

bool checked(dpcore_status status, const char* name) {
    require(status >= DPCORE_OK && status < DPCORE_INTERNAL, name);
    require(status == DPCORE_OK || dpcore_last_error()[0] != '\0', "a failure without a message");
    require(dpcore_status_name(status)[0] != '\0', "a status without a name");
    return status == DPCORE_OK;
}

constexpr int kMostQuestions = 4;

// An output before the call: a call that fails must leave it so.
constexpr double kUntouched = -7.0;

// A number that was asked for: in its range, or untouched.
bool number(dpcore_status status, double value, double least, double most, const char* name) {
    if (checked(status, name)) {
        require(value >= least && value <= most, name);
        return true;
    }
    require(value == kUntouched, "a failure that wrote its output");
    return false;
}

void bounds(dpcore_status status, double lower, double upper, double most, const char* name) {
    if (number(status, lower, 0.0, most, name) | number(status, upper, 0.0, most, name))
        require(lower <= upper, "bounds in the wrong order");
}

template <class Handle>
bool made(dpcore_status status, const Handle* handle, const char* name) {
    require((handle != nullptr) == (status == DPCORE_OK), "a handle where there should be none, or none");
    return checked(status, name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input in{data, size};
    std::vector<dpcore_loss*> losses;
    dpcore_insecure_test_source* source = nullptr;
    checked(dpcore_insecure_test_source_new(7, &source), "source");
    std::vector<std::int64_t> integers(64);
    std::vector<double> reals(64);
    double one = kUntouched;
    int steps = 0;
    int questions = 0;  // about compositions, each of which may take seconds
    while (in.left > 0 && ++steps <= 24) {
        one = kUntouched;
        const std::uint8_t op = in.byte();
        const std::size_t count = in.byte() % 65;
        switch (op % 20) {
            case 0:
            case 1:
            case 2: {
                dpcore_sampler* sampler = nullptr;
                const double scale = in.real();
                const dpcore_status status = op % 20 == 0   ? dpcore_geometric_new(scale, &sampler)
                                             : op % 20 == 1 ? dpcore_discrete_laplace_new(scale, &sampler)
                                                            : dpcore_discrete_gaussian_new(scale, &sampler);
                if (made(status, sampler, "sampler")) {
                    std::int64_t value = in.whole();
                    checked(dpcore_sampler_draw(sampler, source, &value), "draw");
                    checked(dpcore_sampler_add(sampler, source, in.whole(), &value), "add");
                    checked(dpcore_sampler_fill(sampler, source, integers.data(), count, 1), "fill");
                    checked(dpcore_sampler_add_fill(sampler, source, integers.data(), integers.data(), count, 1),
                            "add fill");
                    checked(dpcore_sampler_fill(sampler, nullptr, integers.data(), count, 1), "fill");
                }
                dpcore_sampler_free(sampler);
                break;
            }
            case 3:
            case 4: {
                dpcore_noise* noise = nullptr;
                const double scale = in.real();
                const double grid = in.byte() % 2 == 0 ? 0.0 : in.real();
                const dpcore_status status = op % 20 == 3 ? dpcore_laplace_new(scale, grid, &noise)
                                                          : dpcore_gaussian_new(scale, grid, &noise);
                if (made(status, noise, "noise")) {
                    checked(dpcore_noise_grid(noise, &one), "grid");
                    require(one > 0.0, "a grid that is not positive");
                    checked(dpcore_noise_draw(noise, source, &one), "draw");
                    require(std::isfinite(one), "a draw that is not finite");
                    checked(dpcore_noise_add(noise, source, in.real(), &one), "add");
                    require(std::isfinite(one), "a release that is not finite");
                    for (double& x : reals) x = in.left > 0 ? in.real() : 0.0;
                    checked(dpcore_noise_add_fill(noise, source, reals.data(), reals.data(), count, 1),
                            "add fill");
                    checked(dpcore_noise_fill(noise, source, reals.data(), count, 1), "fill");
                }
                dpcore_noise_free(noise);
                break;
            }
            case 5: {
                const double a = in.real(), b = in.real(), c = in.real();
                const dpcore_status status = dpcore_gaussian_delta(a, b, c, &one);
                number(status, one, 0.0, 1.0, "gaussian delta");
                break;
            }
            case 6: {
                const double a = in.real(), b = in.real(), c = in.real();
                const dpcore_status status = dpcore_gaussian_sigma(a, b, c, in.whole(), &one);
                number(status, one, std::numeric_limits<double>::denorm_min(), INFINITY, "gaussian sigma");
                break;
            }
            case 7: {
                const double a = in.real(), b = in.real(), c = in.real();
                const dpcore_status status = dpcore_gaussian_epsilon(a, b, c, &one);
                number(status, one, 0.0, INFINITY, "gaussian epsilon");
                break;
            }
            case 8:
            case 9:
            case 10: {
                dpcore_loss* loss = nullptr;
                dpcore_status status = DPCORE_OK;
                const double a = in.real(), b = in.real();
                switch (count % 9) {
                    case 0:
                        status = dpcore_loss_from_laplace(a, &loss);
                        break;
                    case 1:
                        status = dpcore_loss_from_gaussian(a, b, &loss);
                        break;
                    case 2:
                        status = dpcore_loss_from_discrete_laplace(a, in.whole(), &loss);
                        break;
                    case 3:
                        status = dpcore_loss_from_discrete_gaussian(a, in.whole(), &loss);
                        break;
                    case 4:
                        status = dpcore_loss_from_randomized_response(a, &loss);
                        break;
                    case 5:
                        status = dpcore_loss_from_pure(a, &loss);
                        break;
                    case 6:
                        status = dpcore_loss_from_approximate(a, b, &loss);
                        break;
                    case 7:
                        status = dpcore_loss_from_subsampled_gaussian(a, b, in.byte() % 4, &loss);
                        break;
                    default: {
                        const std::size_t n = in.byte() % 5;
                        double p[4], q[4];
                        for (std::size_t i = 0; i < n; ++i) p[i] = in.real(), q[i] = in.real();
                        status = dpcore_loss_from_pmf(p, q, n, &loss);
                    }
                }
                if (made(status, loss, "loss")) losses.push_back(loss);
                break;
            }
            case 11: {
                dpcore_loss* loss = nullptr;
                if (losses.empty()) break;
                const dpcore_loss* first = losses[in.byte() % losses.size()];
                const dpcore_loss* second = losses[in.byte() % losses.size()];
                const dpcore_status status = dpcore_loss_compose(first, second, &loss);
                if (made(status, loss, "compose")) losses.push_back(loss);
                break;
            }
            case 12: {
                dpcore_loss* loss = nullptr;
                if (losses.empty()) break;
                const dpcore_loss* first = losses[in.byte() % losses.size()];
                const dpcore_status status = dpcore_loss_times(first, in.whole(), &loss);
                if (made(status, loss, "times")) losses.push_back(loss);
                break;
            }
            case 16: {
                const double epsilon = in.real();
                const std::int64_t records = in.whole(), known = in.whole();
                const double low = in.real(), high = in.byte() % 2 == 0 ? low : in.real();
                const dpcore_status status =
                    dpcore_count_delta(epsilon, records, known, low, high, in.real(), &one);
                number(status, one, 0.0, 1.0, "count delta");
                break;
            }
            case 17: {
                const double epsilon = in.real(), delta = in.real();
                const std::int64_t records = in.whole(), known = in.whole();
                const double low = in.real(), high = in.byte() % 2 == 0 ? low : in.real();
                const double floor = in.byte() % 2 == 0 ? INFINITY : in.real();
                const std::int64_t releases = in.whole();
                double noise = kUntouched, achieved = kUntouched;
                const dpcore_status status = dpcore_count_calibrate(epsilon, delta, records, known, low, high,
                                                                    floor, releases, &noise, &achieved);
                number(status, noise, 0.0, std::numeric_limits<double>::max(), "noise that can be added");
                number(status, achieved, 0.0, delta, "the delta achieved");
                break;
            }
            case 18: {
                const double scale = in.real();
                checked(dpcore_geometric_fill(scale, integers.data(), count), "geometric fill");
                checked(dpcore_discrete_laplace_fill(scale, integers.data(), count), "discrete laplace fill");
                checked(dpcore_discrete_gaussian_fill(scale, integers.data(), count), "discrete gaussian fill");
                checked(dpcore_random_bytes(integers.data(), count), "bytes");
                break;
            }
            case 19: {
                const double scale = in.real();
                const double grid = in.byte() % 2 == 0 ? 0.0 : in.real();
                for (const dpcore_status status : {dpcore_laplace_fill(scale, grid, reals.data(), count),
                                                   dpcore_gaussian_fill(scale, grid, reals.data(), count)})
                    if (checked(status, "fill"))
                        for (std::size_t i = 0; i < count; ++i) require(std::isfinite(reals[i]), "a draw");
                break;
            }
            default: {
                if (losses.empty() || ++questions > kMostQuestions) break;
                const dpcore_loss* loss = losses[in.byte() % losses.size()];
                const double x = in.real();
                double lower = kUntouched, upper = kUntouched;
                const dpcore_status status = op % 20 == 13   ? dpcore_loss_delta(loss, x, &lower, &upper)
                                             : op % 20 == 14 ? dpcore_loss_epsilon(loss, x, &lower, &upper)
                                                             : dpcore_loss_confidence(loss, x, &lower, &upper);
                bounds(status, lower, upper, op % 20 == 14 ? INFINITY : 1.0,
                       op % 20 == 13   ? "delta"
                       : op % 20 == 14 ? "epsilon"
                                       : "confidence");
            }
        }
    }
    for (dpcore_loss* loss : losses) dpcore_loss_free(loss);
    dpcore_insecure_test_source_free(source);
    return 0;
}
