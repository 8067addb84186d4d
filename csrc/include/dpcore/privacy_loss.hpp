// The privacy loss of a programme of releases: mechanisms, how often each is used, and what follows from their
// composition.
//
// Method:    a list of (mechanism, copies) in both directions; a + b joins lists, a * k multiplies copies. Nothing
// is
//            computed before a question is asked. delta is the larger of the two directions.
//            auto: closed form for one Laplace or one subsampled Gaussian release, then the spectral engine, then
//            (where atoms make it decay too slowly) enumeration of all losses or buckets; bounds are intersected.
// Domain:    epsilon in [0, 1e100], delta and rate in [0, 1], ratios sigma/sensitivity and scales in
//            [1e-100, 1e100], whole sensitivities in [1, 10^6], discrete Gaussian sigma >= 0.01, subsampled sigma
//            in [0.05, 1e6], probabilities that sum to 1 within 1e-9, copies whole numbers up to 2^53. Outside:
//            std::invalid_argument. Values are immutable and may be shared between threads.
// Guarantee: lower <= truth <= upper.
// Evidence:  tests/test_accounting.py, tests/cpp/test_privacy_loss.cpp.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore {

// One mechanism with its parameters, and its loss in both directions (the same object where they agree).
struct Mechanism {
    std::string name;
    std::vector<std::pair<std::string, double>> parameters;
    std::vector<double> p, q;  // of a finite pair
    LawPtr forward, backward;

    bool same(const Mechanism& other) const;

    static std::shared_ptr<const Mechanism> gaussian(double sigma, double sensitivity);
    static std::shared_ptr<const Mechanism> laplace(double epsilon);
    static std::shared_ptr<const Mechanism> randomized_response(double epsilon);
    static std::shared_ptr<const Mechanism> pure(double epsilon);
    static std::shared_ptr<const Mechanism> approximate(double epsilon, double delta);
    static std::shared_ptr<const Mechanism> discrete_laplace(double scale, double sensitivity);
    static std::shared_ptr<const Mechanism> discrete_gaussian(double sigma, double sensitivity);
    // neighbours: 'a' add, 'r' remove, 'b' both
    static std::shared_ptr<const Mechanism> subsampled_gaussian(double sigma, double rate, char neighbours);
    static std::shared_ptr<const Mechanism> pmf(std::vector<double> p, std::vector<double> q);
};
using MechanismPtr = std::shared_ptr<const Mechanism>;

enum class Engine { automatic, spectral, buckets };

// How to answer: the engine, and the bucket engine's step (0: from the accuracy it aims at).
struct Method {
    Engine engine = Engine::automatic;
    double step = 0.0;
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
        mutable std::once_flag once;
        mutable Composition forward, backward;
    };
    const State& composed() const;
    std::shared_ptr<const State> state_;
};

}  // namespace dpcore
