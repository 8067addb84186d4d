#include <pybind11/pybind11.h>

#include "dpcore/build_info.hpp"

namespace py = pybind11;

void register_build_info(py::module_& module) {
    module.attr("__version__") = dpcore::build_info().version;
    module.def("build_info", [] {
        const dpcore::BuildInfo info = dpcore::build_info();
        py::dict out;
        out["version"] = info.version;
        out["compiler"] = info.compiler;
        out["build_type"] = info.build_type;
        out["flags"] = info.flags;
        out["sanitize"] = info.sanitize;
        out["long_double_is_wider"] = info.long_double_is_wider;
        out["sound_arithmetic"] = info.sound_arithmetic;
        out["pybind11"] = PYBIND11_VERSION_HEX;
        return out;
    });
}
