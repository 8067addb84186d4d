// Every call of the C interface while memory runs out: each allocation of each call fails once, and the call must
// come back with a status, its outputs untouched, no thread lost and nothing thrown.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "check.hpp"
#include "dpcore/c_api.h"

namespace {

// The allocation that fails, counted down; below zero none does.
std::atomic<long> allocations_left{-1};
std::atomic<bool> refused_one{false};
long refused = 0;  // over all calls

void* allocate(std::size_t bytes) {
    if (allocations_left.load() >= 0 && allocations_left.fetch_sub(1) == 0) {
        refused_one = true;
        throw std::bad_alloc();
    }
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    try {
        return allocate(bytes);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

// Runs the call with its first allocation refused, then its second, ..., until it needs no more. A call may also
// manage without (a thread less); then it must have succeeded.
template <class Call, class Undo>
void starve(Call call, Undo undo) {
    long calls = 0;
    bool more = true;
    // Calls that allocate by the thousand are starved at every place up to the 300th, then at ever fewer.
    for (; more && calls < 1000000; calls += calls < 300 ? 1 : calls / 8) {
        refused_one = false;
        allocations_left = calls;
        const dpcore_status status = call();
        allocations_left = -1;
        more = refused_one;
        refused += more ? 1 : 0;
        CHECK(status == DPCORE_OK || (more && status == DPCORE_NO_MEMORY));
        undo(status);
    }
    CHECK(!more);
    CHECK(calls > 1);  // it did allocate, so this test has seen something
}

template <class Handle, class Make, class Free>
void starve_making(Make make, Free free_handle) {
    Handle* out = nullptr;
    starve([&] { return make(&out); },
           [&](dpcore_status status) {
               CHECK((out != nullptr) == (status == DPCORE_OK));
               free_handle(out);
               out = nullptr;
           });
}

}  // namespace

TEST(samplers_and_noises) {
    starve_making<dpcore_sampler>([](dpcore_sampler** out) { return dpcore_discrete_laplace_new(3.0, out); },
                                  dpcore_sampler_free);
    starve_making<dpcore_sampler>([](dpcore_sampler** out) { return dpcore_discrete_gaussian_new(3.0, out); },
                                  dpcore_sampler_free);
    starve_making<dpcore_noise>([](dpcore_noise** out) { return dpcore_laplace_new(3.0, 0.0, out); },
                                dpcore_noise_free);
    starve_making<dpcore_insecure_test_source>(
        [](dpcore_insecure_test_source** out) { return dpcore_insecure_test_source_new(1, out); },
        dpcore_insecure_test_source_free);
}

TEST(fills_by_many_threads_do_without_those_that_cannot_start) {
    dpcore_sampler* sampler = nullptr;
    CHECK(dpcore_discrete_gaussian_new(3.0, &sampler) == DPCORE_OK);
    std::vector<std::int64_t> out(std::size_t{1} << 18);
    starve([&] { return dpcore_sampler_fill(sampler, nullptr, out.data(), out.size(), 4); },
           [&](dpcore_status status) {
               if (status == DPCORE_OK) CHECK(out.front() < 400 && out.back() < 400);
           });
    dpcore_sampler_free(sampler);
}

TEST(count_calibration) {
    double noise = -1.0;
    double delta = -1.0;
    starve([&] { return dpcore_count_calibrate(0.5, 1e-6, 60, 10, 0.2, 0.4, 2.0, 1, &noise, &delta); },
           [&](dpcore_status status) {
               CHECK((noise > 0.0) == (status == DPCORE_OK));
               noise = delta = -1.0;
           });
}

TEST(losses) {
    const double p[] = {0.75, 0.25};
    const double q[] = {0.25, 0.75};
    const auto make = [&](dpcore_loss** out) { return dpcore_loss_from_pmf(p, q, 2, out); };
    starve_making<dpcore_loss>(make, dpcore_loss_free);
    starve_making<dpcore_loss>([](dpcore_loss** out) { return dpcore_loss_from_laplace(0.5, out); },
                               dpcore_loss_free);
    dpcore_loss* one = nullptr;
    CHECK(make(&one) == DPCORE_OK);
    starve_making<dpcore_loss>([&](dpcore_loss** out) { return dpcore_loss_times(one, 3, out); },
                               dpcore_loss_free);
    starve_making<dpcore_loss>([&](dpcore_loss** out) { return dpcore_loss_compose(one, one, out); },
                               dpcore_loss_free);
    // Each question to a new loss: the composition behind it is made at the first one, and made again if that
    // failed.
    starve(
        [&] {
            double lower = -1.0;
            double upper = -1.0;
            const dpcore_status status = dpcore_loss_epsilon(one, 0.01, &lower, &upper);
            CHECK((upper >= 0.0) == (status == DPCORE_OK));
            return status;
        },
        [](dpcore_status) {});
    dpcore_loss_free(one);
}

// Last, since tests run in the order of this file.
TEST(the_count_is_shown) {
    CHECK(refused > 100);
    std::printf("%ld allocations refused\n", refused);
}
