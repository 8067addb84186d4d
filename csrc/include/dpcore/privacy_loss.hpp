// The privacy loss of a programme of releases: mechanisms, how often each is used, and what follows from their
// composition.
//
// Method:    a list of (mechanism, copies) in both directions; a + b joins lists, a * k multiplies copies. Nothing
// is
//            computed before a question is asked. delta is the larger of the two directions.
//            auto: closed form for one Laplace or one subsampled Gaussian release, then the spectral engine, then
//            (where atoms make it decay too slowly) enumeration of all losses or buckets; bounds are intersected.
// Domain:    mechanisms of mechanism.hpp, copies whole numbers up to 2^53, epsilon in [0, 1e100], delta in [0, 1].
// Outside:
//            std::invalid_argument. Values are immutable and may be shared between threads.
// Guarantee: lower <= truth <= upper.
// Evidence:  tests/test_accounting.py, tests/cpp/test_privacy_loss.cpp.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dpcore/mechanism.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore {

enum class Engine { automatic, spectral, buckets };

// How to answer: the engine, and the bucket engine's step (0: from the accuracy it aims at).
struct Method {
    Engine engine = Engine::automatic;
    double step = 0.0;
    double content = 1e-9;  // relative width of delta with which contours stop looking for a narrower one
    Method() = default;
    Method(Engine e) : engine(e) {}
    Method(Engine e, double s) : engine(e), step(s) {}
};

class PrivacyLoss {
public:
    struct Entry {
        MechanismPtr mechanism;
        double copies;
    };

    PrivacyLoss() : PrivacyLoss(std::vector<Entry>{}) {}
    explicit PrivacyLoss(MechanismPtr mechanism) : PrivacyLoss(std::vector<Entry>{{std::move(mechanism), 1.0}}) {}
    explicit PrivacyLoss(std::vector<Entry> entries);

    PrivacyLoss compose(const PrivacyLoss& other) const;
    PrivacyLoss times(double copies) const;
    static PrivacyLoss compose_all(const std::vector<PrivacyLoss>& losses);

    LogBounds log_delta(double epsilon, Method method, StopCheck stop = {}) const;
    Interval delta(double epsilon, Method method, StopCheck stop = {}) const;
    Interval epsilon(double delta, Method method, StopCheck stop = {}) const;
    Interval confidence(double epsilon,
                        StopCheck stop = {}) const;  // Pr[|L| <= epsilon], the smaller of both directions
    double mean() const;      // of the loss in the direction with the larger mean; infinite with infinite mass
    double variance() const;  // in that direction
    double max_loss() const;
    Interval infinite_mass() const;

    const std::vector<Entry>& entries() const { return state_->entries; }

private:
    struct State {
        std::vector<Entry> entries;
        bool symmetric = true;
        // Not std::call_once: where pthread_once is replaced (the thread sanitizer) or old (GCC bug 66146), a
        // first call that throws, for want of memory, leaves it so that the next one waits for ever.
        mutable std::mutex composing;
        mutable std::atomic<bool> composed{false};
        mutable Composition forward, backward;
    };
    const State& composed() const;
    std::shared_ptr<const State> state_;
};

}  // namespace dpcore
