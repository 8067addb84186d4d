// Releases and accounting inside a C++ program: many threads, no locks, errors as exceptions.
#include <dpcore/count_calibration.hpp>
#include <dpcore/gaussian.hpp>
#include <dpcore/privacy_loss.hpp>
#include <dpcore/random_stream.hpp>
#include <dpcore/samplers.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

int main() {
    try {
        // Calibrations return the safe side.
        const double sigma = dpcore::gaussian_sigma(1.0, 1e-6, 1.0, 4.0);
        std::printf("sigma %.6f\n", sigma);

        // A sampler is immutable, so the threads share it; each draws from its own cryptographic stream.
        const dpcore::DiscreteGaussian noise(sigma);
        const std::vector<std::int64_t> counts = {120, 4711, 0, 35};
        std::vector<std::int64_t> released(counts.size());
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < counts.size(); ++i)
            threads.emplace_back([&, i] { released[i] = noise.add(dpcore::secure_source(), counts[i]); });
        for (std::thread& thread : threads) thread.join();
        for (const std::int64_t value : released) std::printf("released %lld\n", static_cast<long long>(value));

        const dpcore::PrivacyLoss one(dpcore::Mechanism::discrete_gaussian(sigma, 1.0));
        const dpcore::Interval epsilon = one.times(4.0).epsilon(1e-6, dpcore::Engine::automatic);
        std::printf("epsilon at most %.6f\n", epsilon.upper);

        // A count against attackers who know at most half of 10000 records, of which 20 to 30 percent count;
        // whatever they know, (1, 1e-6)-differential privacy holds as well.
        const dpcore::CountNoise count = dpcore::calibrate_count(0.2, 1e-6, 10000 - 5000 - 1, 0.2, 0.3, 1.0, 1.0);
        std::printf("count noise %.6f\n", count.noise_scale);
        const dpcore::GridGaussian gaussian(count.noise_scale);
        std::printf("noisy count %.1f\n", gaussian.add(dpcore::secure_source(), 2417.0));
        return 0;
    } catch (const std::exception& error) {  // RandomnessError, std::invalid_argument, std::bad_alloc
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
