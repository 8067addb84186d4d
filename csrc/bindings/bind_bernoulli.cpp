#include "dpcore/bernoulli.hpp"

#include "common.hpp"

using dpcore_bindings::Doubles;
using dpcore_bindings::elementwise;

void register_bernoulli(py::module_& module) {
    const auto both = [&module](const char* name, double (*f)(double, double)) {
        module.def(name, f);
        module.def(name, [f](const Doubles& a, const Doubles& b) { return elementwise(f, a, b); });
    };
    both("bernoulli_kl", dpcore::bernoulli_kl);
    both("kl_half_width_below", dpcore::kl_half_width_below);
    both("kl_half_width_above", dpcore::kl_half_width_above);
}
