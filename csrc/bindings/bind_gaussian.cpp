#include "common.hpp"
#include "dpcore/gaussian.hpp"
#include "dpcore/normal.hpp"

using dpcore_bindings::Doubles;
using dpcore_bindings::elementwise;

void register_gaussian(py::module_& module) {
    // Each function twice: scalars first (no array is made), then arrays.
    module.def("gaussian_delta", &dpcore::gaussian_delta);
    module.def("gaussian_delta", [](const Doubles& e, const Doubles& g, const Doubles& s) {
        return dpcore_bindings::fill(dpcore::gaussian_delta_fill, e, g, s);
    });
    module.def("gaussian_log_delta", &dpcore::gaussian_log_delta);
    module.def("gaussian_log_delta", [](const Doubles& e, const Doubles& g, const Doubles& s) {
        return elementwise(dpcore::gaussian_log_delta, e, g, s);
    });
    const auto register_sigma = [&module](const char* name, double (*sigma)(double, double, double, double)) {
        module.def(name, sigma);
        module.def(name, [sigma](const Doubles& e, const Doubles& d, const Doubles& s, const Doubles& k) {
            return elementwise(sigma, e, d, s, k);
        });
    };
    register_sigma("gaussian_sigma", dpcore::gaussian_sigma);
    register_sigma("gaussian_sigma_probabilistic", dpcore::gaussian_sigma_probabilistic);
    register_sigma("gaussian_sigma_classical", dpcore::gaussian_sigma_classical);
    module.def("gaussian_epsilon", &dpcore::gaussian_epsilon);
    module.def("gaussian_epsilon", [](const Doubles& g, const Doubles& d, const Doubles& s) {
        return elementwise(dpcore::gaussian_epsilon, g, d, s);
    });
    module.def("gaussian_delta_certified", &dpcore::gaussian_delta_certified);
}
