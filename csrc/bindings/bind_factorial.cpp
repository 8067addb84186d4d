#include "dpcore/factorial.hpp"

#include "window.hpp"

using dpcore::DoubleDouble;
using dpcore_bindings::Doubles;
using dpcore_bindings::elementwise;
using dpcore_bindings::whole;

void register_factorial(py::module_& module) {
    const auto both = [&module](const char* name, auto f) {
        module.def(name, [f](double n) { return f(n); });
        module.def(name, [f](const Doubles& n) { return elementwise(f, n); });
    };
    both("log_factorial", [](double n) { return dpcore::log_factorial(whole(n)).hi; });
    both("log_factorial_rest", [](double n) { return dpcore::log_factorial(whole(n)).lo; });
    both("stirling_error", [](double n) { return dpcore::stirling_error(whole(n)).hi; });
    const auto deviance = [](double x, double mean) {
        return static_cast<double>(
            dpcore::deviance(DoubleDouble(x), DoubleDouble(mean), dpcore::two_sum(x, -mean)));
    };
    module.def("deviance", [deviance](double x, double mean) { return deviance(x, mean); });
    module.def("deviance",
               [deviance](const Doubles& x, const Doubles& mean) { return elementwise(deviance, x, mean); });
}
