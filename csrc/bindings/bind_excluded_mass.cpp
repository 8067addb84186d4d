#include "dpcore/excluded_mass.hpp"

#include "common.hpp"

using dpcore_bindings::Doubles;

void register_excluded_mass(py::module_& module) {
    module.def("exclude_mass", [](const Doubles& losses, const Doubles& masses, double budget) {
        if (losses.size() != masses.size())
            throw std::invalid_argument("losses and masses must have the same length");
        const dpcore::ExcludedMass found = dpcore_bindings::interruptible([&](dpcore::StopCheck stop) {
            return dpcore::exclude_mass(losses.data(), masses.data(), static_cast<std::size_t>(losses.size()),
                                        budget, stop);
        });
        return py::make_tuple(found.kept, found.excluded, found.mass);
    });
}
