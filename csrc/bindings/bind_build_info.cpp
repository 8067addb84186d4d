#include <pybind11/pybind11.h>

#include "dpcore/build_info.hpp"

namespace py = pybind11;

void register_build_info(py::module_& module) {
    const dpcore::BuildInfo info = dpcore::build_info();
    module.attr("__version__") = info.version;
    module.def("build_info", [info] {
        py::dict out;
        out["version"] = info.version;
        out["compiler"] = info.compiler;
        out["build_type"] = info.build_type;
        out["flags"] = info.flags;
        out["sanitize"] = info.sanitize;
        out["long_double_is_wider"] = info.long_double_is_wider;
        out["pybind11"] = PYBIND11_VERSION_HEX;
        return out;
    });
}
