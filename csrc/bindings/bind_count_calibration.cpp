#include <pybind11/functional.h>

#include <cstdint>

#include "common.hpp"
#include "dpcore/count_calibration.hpp"

using dpcore_bindings::interruptible;

void register_count_calibration(py::module_& module) {
    module.def("log_delta_goal", &dpcore::log_delta_goal);
    module.def("noise_per_release", &dpcore::noise_per_release);
    module.def("solve_noise", &dpcore::solve_noise);  // with the GIL: the function is Python's
    module.def("least_count_noise",
               [](double epsilon, double goal, std::int64_t unknown, double low, double high, double plain) {
                   return interruptible([&](dpcore::StopCheck stop) {
                       return dpcore::least_count_noise(epsilon, goal, unknown, low, high, plain, stop);
                   });
               });
}
