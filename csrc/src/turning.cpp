#include "turning.hpp"

#include "clones.hpp"

namespace dpcore::detail {

DPCORE_CLONES void turn_on(double* cosine, double* sine, const double* step_cosine, const double* step_sine,
                           std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const double c = cosine[i] * step_cosine[i] - sine[i] * step_sine[i];
        sine[i] = sine[i] * step_cosine[i] + cosine[i] * step_sine[i];
        cosine[i] = c;
    }
}

DPCORE_CLONES TurnedSums weigh(const double* weight, const double* cosine, const double* sine, std::size_t n,
                               bool less_one) {
    double first[8] = {}, second[8] = {};
    const std::size_t even = n - n % 8;
    if (less_one) {
        for (std::size_t i = 0; i < even; i += 8)
            for (std::size_t j = 0; j < 8; ++j) {
                const double swing = weight[i + j] * sine[i + j];
                first[j] += swing * sine[i + j];
                second[j] += swing * cosine[i + j];
            }
    } else {
        for (std::size_t i = 0; i < even; i += 8)
            for (std::size_t j = 0; j < 8; ++j) {
                first[j] += weight[i + j] * cosine[i + j];
                second[j] += weight[i + j] * sine[i + j];
            }
    }
    TurnedSums out;
    for (std::size_t i = even; i < n; ++i) {
        const double swing = weight[i] * (less_one ? sine[i] : 1.0);
        out.first += swing * (less_one ? sine[i] : cosine[i]);
        out.second += swing * (less_one ? cosine[i] : sine[i]);
    }
    for (std::size_t j = 0; j < 8; ++j) {
        out.first += first[j];
        out.second += second[j];
    }
    return out;
}

}  // namespace dpcore::detail
