#include "dpcore/mechanism.hpp"

#include <cmath>
#include <stdexcept>

#include "dpcore/validation.hpp"

namespace dpcore {

namespace {

std::shared_ptr<Mechanism> symmetric(const char* name, std::vector<std::pair<std::string, double>> parameters,
                                     LawPtr law) {
    auto m = std::make_shared<Mechanism>();
    m->name = name;
    m->parameters = std::move(parameters);
    m->forward = law;
    m->backward = std::move(law);
    return m;
}

LawPtr subsampled(double sigma, double rate, bool removal) {
    if (rate == 0.0) return gaussian_law_of_rho(0.0, 0.0);
    if (rate == 1.0) return gaussian_law(sigma, 1.0);
    return subsampled_gaussian_law(sigma, rate, removal);
}

// Whole shifts beyond this make lattices of losses too long to walk.
constexpr double kMostSensitivity = 1e6;

void need_budget(double epsilon) { need_within(epsilon, 0.0, 1e100, "epsilon", "a number in [0, 1e100]"); }

void need_probabilities(const std::vector<double>& values, const char* name) {
    double total = 0.0;
    double lost = 0.0;  // Neumaier: the tolerance below must not be eaten by rounding over many outcomes
    for (const double value : values) {
        need_non_negative(value, name);
        const double sum = total + value;
        lost += total >= value ? (total - sum) + value : (value - sum) + total;
        total = sum;
    }
    total += lost;
    if (!(std::abs(total - 1.0) <= 1e-9)) refuse(name, "probabilities that sum to 1 within 1e-9", total);
}

}  // namespace

bool Mechanism::same(const Mechanism& other) const {
    return this == &other ||
           (name == other.name && parameters == other.parameters && p == other.p && q == other.q);
}

MechanismPtr Mechanism::gaussian(double sigma, double sensitivity) {
    need_positive(sigma, "sigma");
    need_positive(sensitivity, "sensitivity");
    need_within(sigma / sensitivity, 1e-100, 1e100, "sigma/sensitivity", "in [1e-100, 1e100]");
    return symmetric("gaussian", {{"sigma", sigma}, {"sensitivity", sensitivity}},
                     gaussian_law(sigma, sensitivity));
}
MechanismPtr Mechanism::laplace(double epsilon) {
    need_budget(epsilon);
    return symmetric("laplace", {{"epsilon", epsilon}},
                     epsilon > 0.0 ? laplace_law(epsilon) : two_point_law(0.0, 0.0));
}
MechanismPtr Mechanism::randomized_response(double epsilon) {
    need_budget(epsilon);
    return symmetric("randomized_response", {{"epsilon", epsilon}}, two_point_law(epsilon, 0.0));
}
MechanismPtr Mechanism::pure(double epsilon) {
    need_budget(epsilon);
    return symmetric("pure", {{"epsilon", epsilon}}, two_point_law(epsilon, 0.0));
}
MechanismPtr Mechanism::approximate(double epsilon, double delta) {
    need_budget(epsilon);
    need_probability(delta, "delta");
    return symmetric("approximate", {{"epsilon", epsilon}, {"delta", delta}}, two_point_law(epsilon, delta));
}
MechanismPtr Mechanism::discrete_laplace(double scale, double sensitivity) {
    need_within(scale, 1e-100, 1e100, "scale", "a number in [1e-100, 1e100]");
    need_whole(sensitivity, 1.0, kMostSensitivity, "sensitivity");
    return symmetric("discrete_laplace", {{"scale", scale}, {"sensitivity", sensitivity}},
                     discrete_laplace_law(scale, static_cast<std::int64_t>(sensitivity)));
}
MechanismPtr Mechanism::discrete_gaussian(double sigma, double sensitivity) {
    need_within(sigma, 0.01, 1e100, "sigma", "a number in [0.01, 1e100]");
    need_whole(sensitivity, 1.0, kMostSensitivity, "sensitivity");
    return symmetric("discrete_gaussian", {{"sigma", sigma}, {"sensitivity", sensitivity}},
                     discrete_gaussian_law(sigma, sensitivity));
}
MechanismPtr Mechanism::subsampled_gaussian(double sigma, double rate, char neighbours) {
    need_within(sigma, 0.05, 1e6, "sigma", "a number in [0.05, 1e6]");
    need_probability(rate, "rate");
    if (neighbours != 'a' && neighbours != 'r' && neighbours != 'b')
        throw std::invalid_argument("neighbours must be 'a' (add), 'r' (remove) or 'b' (both)");
    auto m = std::make_shared<Mechanism>();
    m->name = "subsampled_gaussian";
    m->parameters = {{"sigma", sigma}, {"rate", rate}, {"neighbours", static_cast<double>(neighbours)}};
    const bool plain = rate == 0.0 || rate == 1.0;
    m->forward = subsampled(sigma, rate, neighbours != 'a');
    m->backward = plain || neighbours != 'b' ? m->forward : subsampled(sigma, rate, false);
    return m;
}
MechanismPtr Mechanism::pmf(std::vector<double> p, std::vector<double> q, StopCheck stop) {
    need_probabilities(p, "p");
    need_probabilities(q, "q");
    auto m = std::make_shared<Mechanism>();
    m->name = "pmf";
    m->forward = pmf_law(p, q, stop);
    m->backward = pmf_law(q, p, stop);
    m->p = std::move(p);
    m->q = std::move(q);
    return m;
}

}  // namespace dpcore
