#include <algorithm>
#include <cstdint>

#include "common.hpp"
#include "dpcore/confidence.hpp"

using dpcore::LaplaceDifference;
using dpcore_bindings::Doubles;
using dpcore_bindings::elementwise;

namespace {

double largest(const Doubles& values) {
    double most = 0.0;
    for (py::ssize_t i = 0; i < values.size(); ++i) most = std::max(most, values.data()[i]);
    return most;
}

// The table of weights costs up to a fifth of a second at the largest dimension: not under the GIL.
LaplaceDifference law_of(std::int64_t dimension, double most) {
    const py::gil_scoped_release release;
    return LaplaceDifference(dimension, most);
}

}  // namespace

void register_confidence(py::module_& module) {
    module.attr("MAX_DIMENSION") = LaplaceDifference::kMaxDimension;
    module.def("laplace_difference_cdf", [](const Doubles& x, std::int64_t dimension) {
        const LaplaceDifference law = law_of(dimension, largest(x));
        return elementwise([&](double v) { return law.cdf(v); }, x);
    });
    module.def("laplace_difference_pdf", [](const Doubles& x, std::int64_t dimension) {
        const LaplaceDifference law = law_of(dimension, largest(x));
        return elementwise([&](double v) { return law.pdf(v); }, x);
    });
    module.def("published_laplace_confidence", [](const Doubles& epsilon, const Doubles& epsilon0,
                                                  std::int64_t dimension) {
        const LaplaceDifference law = law_of(dimension, largest(epsilon0));
        if (epsilon0.size() != 1)
            return elementwise([&](double e, double e0) { return law.confidence(e, e0); }, epsilon, epsilon0);
        const double e0 = *epsilon0.data();  // the common case: one mechanism, the same denominator throughout
        const double all = law.cdf(e0);
        return elementwise([&](double e) { return e >= e0 ? 1.0 : law.cdf(e) / all; }, epsilon);
    });
    module.def("published_laplace_epsilon_at", [](const Doubles& wanted, const Doubles& epsilon0,
                                                  std::int64_t dimension) {
        const LaplaceDifference law = law_of(dimension, largest(epsilon0));
        return elementwise([&](double c, double e0) { return law.epsilon_at(c, e0); }, wanted, epsilon0);
    });
    module.def("published_laplace_epsilon0_for",
               [](const Doubles& epsilon, const Doubles& wanted, std::int64_t dimension) {
                   const LaplaceDifference law = law_of(dimension, 2.0 * static_cast<double>(dimension) + 100.0);
                   return elementwise([&](double e, double c) { return law.epsilon0_for(e, c); }, epsilon, wanted);
               });
    module.def("exact_laplace_confidence", [](const Doubles& epsilon, const Doubles& epsilon0) {
        return elementwise(dpcore::exact_laplace_confidence, epsilon, epsilon0);
    });
    module.def("exact_laplace_epsilon_at", [](const Doubles& wanted, const Doubles& epsilon0) {
        return elementwise(dpcore::exact_laplace_epsilon_at, wanted, epsilon0);
    });
    module.def("exact_laplace_epsilon0_for", [](const Doubles& epsilon, const Doubles& wanted) {
        return elementwise(dpcore::exact_laplace_epsilon0_for, epsilon, wanted);
    });
    module.def("gaussian_confidence",
               [](const Doubles& epsilon, const Doubles& sigma, const Doubles& sensitivity) {
                   return elementwise(dpcore::gaussian_confidence, epsilon, sigma, sensitivity);
               });
}
