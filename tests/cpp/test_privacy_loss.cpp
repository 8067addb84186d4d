// What a C++ program may ask of a loss, and what it is refused.
#include "dpcore/privacy_loss.hpp"

#include <limits>
#include <stdexcept>

#include "check.hpp"

using dpcore::Engine;
using dpcore::Mechanism;
using dpcore::PrivacyLoss;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST(mechanisms_outside_their_domain_are_refused) {
    for (const double bad : {kNan, kInfinity, -kInfinity, -1.0, 2e100}) {
        CHECK_THROWS(std::invalid_argument, Mechanism::laplace(bad));
        CHECK_THROWS(std::invalid_argument, Mechanism::randomized_response(bad));
        CHECK_THROWS(std::invalid_argument, Mechanism::pure(bad));
        CHECK_THROWS(std::invalid_argument, Mechanism::approximate(bad, 0.1));
        CHECK_THROWS(std::invalid_argument, Mechanism::approximate(1.0, bad));
        CHECK_THROWS(std::invalid_argument, Mechanism::gaussian(bad, 1.0));
        CHECK_THROWS(std::invalid_argument, Mechanism::discrete_laplace(bad, 1.0));
        CHECK_THROWS(std::invalid_argument, Mechanism::discrete_laplace(1.0, bad));
        CHECK_THROWS(std::invalid_argument, Mechanism::discrete_gaussian(bad, 1.0));
        CHECK_THROWS(std::invalid_argument, Mechanism::subsampled_gaussian(bad, 0.1, 'b'));
        CHECK_THROWS(std::invalid_argument, Mechanism::subsampled_gaussian(1.0, bad, 'b'));
    }
    CHECK_THROWS(std::invalid_argument, Mechanism::gaussian(1.0, 0.0));
    CHECK_THROWS(std::invalid_argument, Mechanism::gaussian(1.0, kNan));
    CHECK_THROWS(std::invalid_argument, Mechanism::discrete_gaussian(1.0, 1.5));
    CHECK_THROWS(std::invalid_argument, Mechanism::subsampled_gaussian(1.0, 0.1, 'x'));
    CHECK_THROWS(std::invalid_argument, Mechanism::pmf({0.5, 0.4}, {0.5, 0.5}));
    CHECK_THROWS(std::invalid_argument, Mechanism::pmf({1.5, -0.5}, {0.5, 0.5}));
    CHECK_THROWS(std::invalid_argument, Mechanism::pmf({1.0}, {0.5, 0.5}));
}

TEST(questions_outside_their_domain_are_refused) {
    const PrivacyLoss loss(Mechanism::laplace(1.0));
    for (const double bad : {kNan, -1.0, kInfinity}) {
        CHECK_THROWS(std::invalid_argument, loss.delta(bad, Engine::automatic));
        CHECK_THROWS(std::invalid_argument, loss.log_delta(bad, Engine::automatic));
        CHECK_THROWS(std::invalid_argument, loss.epsilon(bad, Engine::automatic));
        CHECK_THROWS(std::invalid_argument, loss.confidence(bad));
        CHECK_THROWS(std::invalid_argument, loss.times(bad));
    }
    CHECK_THROWS(std::invalid_argument, loss.times(1.5));
    CHECK(loss.times(0.0).epsilon(0.0, Engine::automatic).upper == 0.0);
    CHECK(loss.epsilon(0.0, Engine::automatic).upper == 1.0);
}
