#include "dpcore/c_api.h"

#include <cmath>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <variant>
#include <vector>

#include "dpcore/count_calibration.hpp"
#include "dpcore/gaussian.hpp"
#include "dpcore/privacy_loss.hpp"
#include "dpcore/samplers.hpp"
#include "dpcore/validation.hpp"
#include "dpcore/version.hpp"

struct dpcore_insecure_test_source {
    explicit dpcore_insecure_test_source(std::uint64_t seed) : source(seed) {}
    dpcore::InsecureTestSource source;
};

struct dpcore_sampler {
    std::variant<dpcore::Geometric, dpcore::DiscreteLaplace, dpcore::DiscreteGaussian> law;
};

struct dpcore_noise {
    std::variant<dpcore::GridLaplace, dpcore::GridGaussian> law;
};

struct dpcore_loss {
    dpcore::PrivacyLoss loss;
};

namespace {

// Fixed storage: reporting that memory is out must not need any.
struct Message {
    char text[256] = "";
};
Message& last_message() noexcept {
    thread_local Message message;
    return message;
}

dpcore_status failure(dpcore_status status, const char* text) noexcept {
    std::snprintf(last_message().text, sizeof(Message::text), "%s", text);
    return status;
}

// The border: whatever the core throws ends here as a status.
template <class Body>
dpcore_status guarded(Body&& body) noexcept {
    try {
        body();
        return DPCORE_OK;
    } catch (const std::invalid_argument& error) {
        return failure(DPCORE_INVALID_ARGUMENT, error.what());
    } catch (const dpcore::RandomnessError& error) {
        return failure(DPCORE_NO_RANDOMNESS, error.what());
    } catch (const std::bad_alloc&) {
        return failure(DPCORE_NO_MEMORY, "out of memory");
    } catch (const std::exception& error) {
        return failure(DPCORE_INTERNAL, error.what());
    } catch (...) {
        return failure(DPCORE_INTERNAL, "an exception of unknown type");
    }
}

void need(const void* pointer, const char* name) {
    if (pointer != nullptr) return;
    char text[sizeof(Message::text)];
    std::snprintf(text, sizeof text, "%s must not be NULL", name);
    throw std::invalid_argument(text);
}

// An array may be NULL if it is empty.
void need_array(const void* pointer, std::size_t count, const char* name) {
    if (count != 0) need(pointer, name);
}

constexpr std::int64_t kMostCopies = std::int64_t{1} << 53;

std::int64_t unknown_records(std::int64_t records, std::int64_t known) {
    dpcore::need_whole(records, 1, kMostCopies, "records");
    dpcore::need_whole(known, 0, records - 1, "known");
    return records - known - 1;
}

dpcore::RandomSource& source_of(dpcore_insecure_test_source* source) {
    if (source != nullptr) return source->source;
    return dpcore::secure_source();
}

template <class Law>
dpcore_status sampler_new(double scale, const char* name, dpcore_sampler** out) {
    return guarded([&] {
        need(out, "out");
        dpcore::need_within(scale, dpcore::kLeastScale, dpcore::kGreatestScale, name, "a number in [1e-3, 1e15]");
        *out = new dpcore_sampler{Law(scale)};
    });
}

template <class Law>
dpcore_status law_fill(double scale, const char* name, std::int64_t* out, std::size_t count) {
    return guarded([&] {
        need_array(out, count, "out");
        dpcore::need_within(scale, dpcore::kLeastScale, dpcore::kGreatestScale, name, "a number in [1e-3, 1e15]");
        Law(scale).fill(dpcore::secure_source().next_key(), out, count);
    });
}

template <class Law>
Law grid_law(double scale, const char* name, double grid) {
    dpcore::need_within(scale, 1e-280, 1e280, name, "a number in [1e-280, 1e280]");
    int exponent = 0;
    const bool power = std::isfinite(grid) && grid > 0.0 && std::frexp(grid, &exponent) == 0.5;
    if (grid != 0.0 && !(power && scale / grid >= 0x1p-10 && scale / grid <= 0x1p49))
        dpcore::refuse("grid", "0 or a power of two with scale/grid in [2^-10, 2^49]", grid);
    return Law(scale, grid);
}

template <class Law>
dpcore_status noise_new(double scale, const char* name, double grid, dpcore_noise** out) {
    return guarded([&] {
        need(out, "out");
        *out = new dpcore_noise{grid_law<Law>(scale, name, grid)};
    });
}

template <class Law>
dpcore_status grid_fill(double scale, const char* name, double grid, double* out, std::size_t count) {
    return guarded([&] {
        need_array(out, count, "out");
        grid_law<Law>(scale, name, grid).fill(dpcore::secure_source().next_key(), out, count);
    });
}

template <class Make>
dpcore_status loss_new(dpcore_loss** out, Make make) {
    return guarded([&] {
        need(out, "out");
        *out = new dpcore_loss{dpcore::PrivacyLoss(make())};
    });
}

template <class Question>
dpcore_status loss_question(const dpcore_loss* loss, double* lower, double* upper, Question question) {
    return guarded([&] {
        need(loss, "loss");
        need(lower, "lower");
        need(upper, "upper");
        const dpcore::Interval answer = question(loss->loss);
        *lower = answer.lower;
        *upper = answer.upper;
    });
}

}  // namespace

extern "C" {

// ---- status and version

int dpcore_abi_version(void) { return DPCORE_ABI_VERSION; }
const char* dpcore_version(void) { return DPCORE_VERSION; }
const char* dpcore_last_error(void) { return last_message().text; }

const char* dpcore_status_name(dpcore_status status) {
    switch (status) {
        case DPCORE_OK:
            return "ok";
        case DPCORE_INVALID_ARGUMENT:
            return "invalid argument";
        case DPCORE_NO_RANDOMNESS:
            return "no randomness";
        case DPCORE_NO_MEMORY:
            return "no memory";
        case DPCORE_INTERNAL:
            return "internal error";
        default:
            return "unknown status";
    }
}

// ---- random sources

dpcore_status dpcore_insecure_test_source_new(uint64_t seed, dpcore_insecure_test_source** out) {
    return guarded([&] {
        need(out, "out");
        *out = new dpcore_insecure_test_source(seed);
    });
}
void dpcore_insecure_test_source_free(dpcore_insecure_test_source* source) { delete source; }

dpcore_status dpcore_random_bytes(void* out, size_t count) {
    return guarded([&] {
        need_array(out, count, "out");
        dpcore::secure_bytes(out, count);
    });
}

// ---- integer noise

dpcore_status dpcore_geometric_new(double scale, dpcore_sampler** out) {
    return sampler_new<dpcore::Geometric>(scale, "scale", out);
}
dpcore_status dpcore_discrete_laplace_new(double scale, dpcore_sampler** out) {
    return sampler_new<dpcore::DiscreteLaplace>(scale, "scale", out);
}
dpcore_status dpcore_discrete_gaussian_new(double sigma, dpcore_sampler** out) {
    return sampler_new<dpcore::DiscreteGaussian>(sigma, "sigma", out);
}
void dpcore_sampler_free(dpcore_sampler* sampler) { delete sampler; }

dpcore_status dpcore_sampler_draw(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                  int64_t* out) {
    return guarded([&] {
        need(sampler, "sampler");
        need(out, "out");
        *out = std::visit([&](const auto& law) { return law(source_of(source)); }, sampler->law);
    });
}

dpcore_status dpcore_sampler_add(const dpcore_sampler* sampler, dpcore_insecure_test_source* source, int64_t value,
                                 int64_t* out) {
    return guarded([&] {
        need(sampler, "sampler");
        need(out, "out");
        *out = std::visit([&](const auto& law) { return law.add(source_of(source), value); }, sampler->law);
    });
}

dpcore_status dpcore_sampler_fill(const dpcore_sampler* sampler, dpcore_insecure_test_source* source, int64_t* out,
                                  size_t count, unsigned threads) {
    return guarded([&] {
        need(sampler, "sampler");
        need_array(out, count, "out");
        const dpcore::ChaChaKey key = source_of(source).next_key();
        std::visit([&](const auto& law) { law.fill(key, out, count, {}, threads); }, sampler->law);
    });
}

dpcore_status dpcore_sampler_add_fill(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                      const int64_t* values, int64_t* out, size_t count, unsigned threads) {
    return guarded([&] {
        need(sampler, "sampler");
        need_array(values, count, "values");
        need_array(out, count, "out");
        const dpcore::ChaChaKey key = source_of(source).next_key();
        std::visit([&](const auto& law) { law.add(key, values, out, count, {}, threads); }, sampler->law);
    });
}

dpcore_status dpcore_geometric_fill(double scale, int64_t* out, size_t count) {
    return law_fill<dpcore::Geometric>(scale, "scale", out, count);
}
dpcore_status dpcore_discrete_laplace_fill(double scale, int64_t* out, size_t count) {
    return law_fill<dpcore::DiscreteLaplace>(scale, "scale", out, count);
}
dpcore_status dpcore_discrete_gaussian_fill(double sigma, int64_t* out, size_t count) {
    return law_fill<dpcore::DiscreteGaussian>(sigma, "sigma", out, count);
}

// ---- real noise on a grid

dpcore_status dpcore_laplace_new(double scale, double grid, dpcore_noise** out) {
    return noise_new<dpcore::GridLaplace>(scale, "scale", grid, out);
}
dpcore_status dpcore_gaussian_new(double sigma, double grid, dpcore_noise** out) {
    return noise_new<dpcore::GridGaussian>(sigma, "sigma", grid, out);
}
void dpcore_noise_free(dpcore_noise* noise) { delete noise; }

dpcore_status dpcore_noise_grid(const dpcore_noise* noise, double* out) {
    return guarded([&] {
        need(noise, "noise");
        need(out, "out");
        *out = std::visit([](const auto& law) { return law.grid(); }, noise->law);
    });
}

dpcore_status dpcore_noise_draw(const dpcore_noise* noise, dpcore_insecure_test_source* source, double* out) {
    return guarded([&] {
        need(noise, "noise");
        need(out, "out");
        *out = std::visit([&](const auto& law) { return law.draw(source_of(source)); }, noise->law);
    });
}

dpcore_status dpcore_noise_add(const dpcore_noise* noise, dpcore_insecure_test_source* source, double value,
                               double* out) {
    return guarded([&] {
        need(noise, "noise");
        need(out, "out");
        *out = std::visit([&](const auto& law) { return law.add(source_of(source), value); }, noise->law);
    });
}

dpcore_status dpcore_noise_fill(const dpcore_noise* noise, dpcore_insecure_test_source* source, double* out,
                                size_t count, unsigned threads) {
    return guarded([&] {
        need(noise, "noise");
        need_array(out, count, "out");
        const dpcore::ChaChaKey key = source_of(source).next_key();
        std::visit([&](const auto& law) { law.fill(key, out, count, {}, threads); }, noise->law);
    });
}

dpcore_status dpcore_noise_add_fill(const dpcore_noise* noise, dpcore_insecure_test_source* source,
                                    const double* values, double* out, size_t count, unsigned threads) {
    return guarded([&] {
        need(noise, "noise");
        need_array(values, count, "values");
        need_array(out, count, "out");
        const dpcore::ChaChaKey key = source_of(source).next_key();
        std::visit([&](const auto& law) { law.add(key, values, out, count, {}, threads); }, noise->law);
    });
}

dpcore_status dpcore_laplace_fill(double scale, double grid, double* out, size_t count) {
    return grid_fill<dpcore::GridLaplace>(scale, "scale", grid, out, count);
}
dpcore_status dpcore_gaussian_fill(double sigma, double grid, double* out, size_t count) {
    return grid_fill<dpcore::GridGaussian>(sigma, "sigma", grid, out, count);
}

// ---- calibration of Gaussian noise

dpcore_status dpcore_gaussian_delta(double epsilon, double sigma, double sensitivity, double* out) {
    return guarded([&] {
        need(out, "out");
        *out = dpcore::gaussian_delta(epsilon, sigma, sensitivity);
    });
}

dpcore_status dpcore_gaussian_sigma(double epsilon, double delta, double sensitivity, int64_t compositions,
                                    double* out) {
    return guarded([&] {
        need(out, "out");
        dpcore::need_whole(compositions, 1, kMostCopies, "compositions");
        *out = dpcore::gaussian_sigma(epsilon, delta, sensitivity, static_cast<double>(compositions));
    });
}

dpcore_status dpcore_gaussian_epsilon(double sigma, double delta, double sensitivity, double* out) {
    return guarded([&] {
        need(out, "out");
        *out = dpcore::gaussian_epsilon(sigma, delta, sensitivity);
    });
}

// ---- calibration of counts against attackers with partial knowledge

dpcore_status dpcore_count_delta(double epsilon, int64_t records, int64_t known, double bias_low, double bias_high,
                                 double noise_scale, double* out) {
    return guarded([&] {
        need(out, "out");
        const std::int64_t unknown = unknown_records(records, known);
        *out = dpcore::count_delta_upper(epsilon, unknown, bias_low, bias_high, noise_scale);
    });
}

dpcore_status dpcore_count_calibrate(double epsilon, double delta, int64_t records, int64_t known, double bias_low,
                                     double bias_high, double worst_case_epsilon, int64_t releases,
                                     double* noise_scale, double* achieved_delta) {
    return guarded([&] {
        need(noise_scale, "noise_scale");
        need(achieved_delta, "achieved_delta");
        const std::int64_t unknown = unknown_records(records, known);
        dpcore::need_whole(releases, 1, kMostCopies, "releases");
        const dpcore::CountNoise answer = dpcore::calibrate_count(
            epsilon, delta, unknown, bias_low, bias_high, worst_case_epsilon, static_cast<double>(releases));
        *noise_scale = answer.noise_scale;
        *achieved_delta = answer.delta;
    });
}

// ---- accounting

dpcore_status dpcore_loss_from_laplace(double epsilon, dpcore_loss** out) {
    return loss_new(out, [=] { return dpcore::Mechanism::laplace(epsilon); });
}

dpcore_status dpcore_loss_from_gaussian(double sigma, double sensitivity, dpcore_loss** out) {
    return loss_new(out, [=] { return dpcore::Mechanism::gaussian(sigma, sensitivity); });
}

dpcore_status dpcore_loss_from_discrete_laplace(double scale, int64_t sensitivity, dpcore_loss** out) {
    return loss_new(out,
                    [=] { return dpcore::Mechanism::discrete_laplace(scale, static_cast<double>(sensitivity)); });
}

dpcore_status dpcore_loss_from_discrete_gaussian(double sigma, int64_t sensitivity, dpcore_loss** out) {
    return loss_new(out,
                    [=] { return dpcore::Mechanism::discrete_gaussian(sigma, static_cast<double>(sensitivity)); });
}

dpcore_status dpcore_loss_from_randomized_response(double epsilon, dpcore_loss** out) {
    return loss_new(out, [=] { return dpcore::Mechanism::randomized_response(epsilon); });
}

dpcore_status dpcore_loss_from_pure(double epsilon, dpcore_loss** out) {
    return loss_new(out, [=] { return dpcore::Mechanism::pure(epsilon); });
}

dpcore_status dpcore_loss_from_approximate(double epsilon, double delta, dpcore_loss** out) {
    return loss_new(out, [=] { return dpcore::Mechanism::approximate(epsilon, delta); });
}

dpcore_status dpcore_loss_from_subsampled_gaussian(double sigma, double rate, int neighbours, dpcore_loss** out) {
    return loss_new(out, [=] {
        dpcore::need_whole(std::int64_t{neighbours}, DPCORE_NEIGHBOURS_BOTH, DPCORE_NEIGHBOURS_REMOVE,
                           "neighbours");
        return dpcore::Mechanism::subsampled_gaussian(sigma, rate, "bar"[neighbours]);
    });
}

dpcore_status dpcore_loss_from_pmf(const double* p, const double* q, size_t count, dpcore_loss** out) {
    return loss_new(out, [=] {
        need(p, "p");
        need(q, "q");
        return dpcore::Mechanism::pmf(std::vector<double>(p, p + count), std::vector<double>(q, q + count));
    });
}

void dpcore_loss_free(dpcore_loss* loss) { delete loss; }

dpcore_status dpcore_loss_compose(const dpcore_loss* first, const dpcore_loss* second, dpcore_loss** out) {
    return guarded([&] {
        need(first, "first");
        need(second, "second");
        need(out, "out");
        *out = new dpcore_loss{first->loss.compose(second->loss)};
    });
}

dpcore_status dpcore_loss_times(const dpcore_loss* loss, int64_t copies, dpcore_loss** out) {
    return guarded([&] {
        need(loss, "loss");
        need(out, "out");
        dpcore::need_whole(copies, 0, kMostCopies, "copies");
        *out = new dpcore_loss{loss->loss.times(static_cast<double>(copies))};
    });
}

dpcore_status dpcore_loss_delta(const dpcore_loss* loss, double epsilon, double* lower, double* upper) {
    return loss_question(loss, lower, upper, [=](const dpcore::PrivacyLoss& l) {
        return l.delta(epsilon, dpcore::Engine::automatic);
    });
}

dpcore_status dpcore_loss_epsilon(const dpcore_loss* loss, double delta, double* lower, double* upper) {
    return loss_question(loss, lower, upper, [=](const dpcore::PrivacyLoss& l) {
        return l.epsilon(delta, dpcore::Engine::automatic);
    });
}

dpcore_status dpcore_loss_confidence(const dpcore_loss* loss, double epsilon, double* lower, double* upper) {
    return loss_question(loss, lower, upper, [=](const dpcore::PrivacyLoss& l) { return l.confidence(epsilon); });
}

}  // extern "C"
