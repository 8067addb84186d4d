#include "common.hpp"
#include "dpcore/normal.hpp"

using dpcore_bindings::Doubles;
using dpcore_bindings::elementwise;

void register_normal(py::module_& module) {
    module.def("mills",
               [](const Doubles& t) { return elementwise([](double x) { return dpcore::mills(x); }, t); });
    module.def("mills_difference", [](const Doubles& a, const Doubles& b) {
        return elementwise([](double x, double y) { return dpcore::mills_difference(x, y); }, a, b);
    });
    module.def("mills_slope", [](const Doubles& t) { return elementwise(dpcore::mills_slope, t); });
    module.def("normal_tail", [](const Doubles& x) { return elementwise(dpcore::normal_tail, x); });
    module.def("log_normal_tail", [](const Doubles& x) { return elementwise(dpcore::log_normal_tail, x); });
    module.def("normal_quantile_tail",
               [](const Doubles& p) { return elementwise(dpcore::normal_quantile_tail, p); });
}
