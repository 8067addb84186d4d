// The cryptographic stream behind NumPy's BitGenerator interface.
#include <pybind11/pybind11.h>

#include <cstdint>

#include "dpcore/random_stream.hpp"

namespace py = pybind11;

namespace {

// NumPy's bitgen_t (numpy/random/bitgen.h), the interface that its random C API has had since version 1.17.
struct BitGen {
    void* state;
    std::uint64_t (*next_uint64)(void*);
    std::uint32_t (*next_uint32)(void*);
    double (*next_double)(void*);
    std::uint64_t (*next_raw)(void*);
};

// NumPy's loops in C cannot be told of an error. noexcept: if the operating system stops giving randomness in the
// middle of a draw the process ends, since the alternative is a number that is not random.
std::uint64_t next_uint64(void*) noexcept { return dpcore::secure_source().next(); }
std::uint32_t next_uint32(void*) noexcept {
    return static_cast<std::uint32_t>(dpcore::secure_source().next() >> 32);
}
double next_double(void*) noexcept {
    return static_cast<double>(dpcore::secure_source().next() >> 11) * 0x1p-53;  // as NumPy's own generators do
}

}  // namespace

void register_bit_generator(py::module_& module) {
    // Puts the stream into the interface of a NumPy BitGenerator, whose capsule this is.
    module.def("install_secure_stream", [](const py::capsule& capsule) {
        auto* interface = static_cast<BitGen*>(PyCapsule_GetPointer(capsule.ptr(), "BitGenerator"));
        if (interface == nullptr) throw py::error_already_set();
        dpcore::secure_source().next();  // a system without randomness is refused here, where it can be said
        *interface = {nullptr, next_uint64, next_uint32, next_double, next_uint64};
    });
}
