// A window of a pmf as Python sees it: (first, values, exponent, below_upper, above_upper), the values not copied.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common.hpp"
#include "dpcore/pmf_window.hpp"

namespace dpcore_bindings {

inline Doubles take(std::vector<double>&& values) {
    auto owner = std::make_unique<std::vector<double>>(std::move(values));
    const py::capsule base(owner.get(), [](void* p) { delete static_cast<std::vector<double>*>(p); });
    std::vector<double>* held = owner.release();
    return Doubles(static_cast<py::ssize_t>(held->size()), held->data(), base);
}

inline py::tuple as_tuple(dpcore::PmfWindow&& window) {
    return py::make_tuple(window.first, take(std::move(window.value)), window.exponent, window.below_upper,
                          window.above_upper);
}

// An array of zeros that the system provides page by page: what is never written costs nothing.
inline Doubles zeros(std::int64_t count) {
    return py::module_::import("numpy").attr("zeros")(count).cast<Doubles>();
}

// A function of whole numbers that arrive as doubles (checked by the Python layer to be whole and at most 2^53).
inline std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }

}  // namespace dpcore_bindings
