// Many threads over shared objects: what ThreadSanitizer is to look at, and that no two threads draw the same
// words.
#include <algorithm>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "check.hpp"
#include "dpcore/c_api.h"
#include "dpcore/gaussian.hpp"
#include "dpcore/privacy_loss.hpp"
#include "dpcore/samplers.hpp"

namespace {

constexpr unsigned kThreads = 4;

template <class Body>
void in_threads(Body body) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST(first_use_of_the_tables_in_many_threads) {
    std::vector<std::int64_t> out(kThreads);
    in_threads([&](unsigned i) {
        const dpcore::DiscreteLaplace laplace(10.0);
        const dpcore::DiscreteGaussian gaussian(10.0);
        out[i] = laplace(dpcore::secure_source()) + gaussian(dpcore::secure_source());
    });
    CHECK(*std::max_element(out.begin(), out.end()) < 4000);
}

TEST(one_sampler_in_many_threads) {
    const dpcore::DiscreteLaplace sampler(1e15);  // two of 4000 draws are alike with probability 1e-8
    std::vector<std::vector<std::int64_t>> out(kThreads);
    in_threads([&](unsigned i) {
        for (int k = 0; k < 500; ++k) out[i].push_back(sampler(dpcore::secure_source()));
        std::vector<std::int64_t> bulk(500);
        sampler.fill(dpcore::secure_source().next_key(), bulk.data(), bulk.size());
        out[i].insert(out[i].end(), bulk.begin(), bulk.end());
    });
    std::set<std::int64_t> distinct;
    for (const auto& part : out) distinct.insert(part.begin(), part.end());
    CHECK(distinct.size() == kThreads * 1000);
}

TEST(bulk_calls_in_many_threads) {
    const dpcore::GridGaussian noise(3.0);
    in_threads([&](unsigned) {
        std::vector<double> values(100000, 1.0);
        noise.add(dpcore::secure_source().next_key(), values.data(), values.data(), values.size());
        CHECK(std::all_of(values.begin(), values.end(), [](double v) { return v > -400 && v < 400; }));
    });
}

TEST(one_loss_asked_by_many_threads) {
    // The composition behind a loss is made at the first question: all threads ask at once.
    const dpcore::PrivacyLoss loss = dpcore::PrivacyLoss(dpcore::Mechanism::laplace(0.1))
                                         .times(100.0)
                                         .compose(dpcore::PrivacyLoss(dpcore::Mechanism::gaussian(20.0, 1.0)));
    std::vector<dpcore::Interval> answers(kThreads);
    in_threads([&](unsigned i) { answers[i] = loss.epsilon(1e-6, dpcore::Engine::automatic); });
    for (const dpcore::Interval& answer : answers) {
        CHECK(answer.lower == answers[0].lower);
        CHECK(answer.upper == answers[0].upper);
    }
}

TEST(calibration_and_messages_in_many_threads) {
    std::vector<double> sigma(kThreads);
    in_threads([&](unsigned i) {
        for (int k = 0; k < 50; ++k) {
            sigma[i] = dpcore::gaussian_sigma(1.0, 1e-6, 1.0, 1.0);
            dpcore_sampler* sampler = nullptr;
            if (dpcore_geometric_new(-1.0, &sampler) != DPCORE_INVALID_ARGUMENT) sigma[i] = 0.0;
            if (dpcore_last_error()[0] != 's') sigma[i] = 0.0;
        }
    });
    for (const double s : sigma) CHECK(s == sigma[0] && s > 4.0);
}
