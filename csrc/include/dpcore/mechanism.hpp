// One release: the mechanism, its parameters, and the law of its privacy loss in both directions.
//
// Domain:    epsilon in [0, 1e100], delta and rate in [0, 1], ratios sigma/sensitivity and scales in
//            [1e-100, 1e100], whole sensitivities in [1, 10^6], discrete Gaussian sigma >= 0.01, subsampled sigma
//            in [0.05, 1e6], probabilities that sum to 1 within 1e-9. Outside: std::invalid_argument.
// Evidence:  tests/cpp/test_privacy_loss.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/loss_law.hpp"

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
    static std::shared_ptr<const Mechanism> pmf(std::vector<double> p, std::vector<double> q, StopCheck stop = {});
};
using MechanismPtr = std::shared_ptr<const Mechanism>;

}  // namespace dpcore
