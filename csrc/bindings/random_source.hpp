// How a binding turns its `rng` argument into a source of random words.
#pragma once

#include <cstdint>
#include <mutex>

#include "dpcore/random_stream.hpp"

namespace dpcore_bindings {

// The test generator with the lock that lets Python threads share it. The lock is held for a few words only and
// never while the GIL is waited for.
class TestRng {
public:
    explicit TestRng(std::uint64_t seed) : seed_(seed), source_(seed) {}
    template <class Use>
    auto with(Use use) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return use(source_);
    }
    std::uint64_t seed() const { return seed_; }

private:
    std::uint64_t seed_;
    std::mutex mutex_;
    dpcore::InsecureTestSource source_;
};

// use(source) with the generator given, or with this thread's cryptographic stream for None.
template <class Use>
auto with_source(TestRng* rng, Use use) {
    return rng != nullptr ? rng->with(use) : use(dpcore::secure_source());
}

inline dpcore::ChaChaKey key_of(TestRng* rng) {
    return with_source(rng, [](dpcore::RandomSource& source) { return source.next_key(); });
}

}  // namespace dpcore_bindings
