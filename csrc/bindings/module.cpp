// Registers the concepts; each has a bind_<concept>.cpp of its own.
#include <pybind11/pybind11.h>

namespace py = pybind11;

void register_bernoulli(py::module_& module);
void register_binomial(py::module_& module);
void register_build_info(py::module_& module);
void register_excluded_mass(py::module_& module);
void register_factorial(py::module_& module);
void register_count_calibration(py::module_& module);
void register_count_delta(py::module_& module);
void register_gaussian(py::module_& module);
void register_hypergeometric(py::module_& module);
void register_normal(py::module_& module);
void register_poisson_binomial(py::module_& module);
void register_confidence(py::module_& module);
void register_samplers(py::module_& module);
void register_bit_generator(py::module_& module);
void register_accounting(py::module_& module);
void register_sensitivity(py::module_& module);
void register_selection(py::module_& module);

PYBIND11_MODULE(_core, module) {
    module.doc() = "Kernels of dpcore. Private: use the functions of the dpcore package.";
    register_build_info(module);
    register_bernoulli(module);
    register_binomial(module);
    register_excluded_mass(module);
    register_factorial(module);
    register_hypergeometric(module);
    register_poisson_binomial(module);
    register_count_delta(module);
    register_count_calibration(module);
    register_gaussian(module);
    register_normal(module);
    register_confidence(module);
    register_samplers(module);
    register_bit_generator(module);
    register_accounting(module);
    register_sensitivity(module);
    register_selection(module);
}
