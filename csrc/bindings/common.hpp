// What all bindings share: broadcasting without the GIL, Ctrl-C, error translation.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <utility>

#include "dpcore/interrupt.hpp"

namespace py = pybind11;

namespace dpcore_bindings {

using Doubles = py::array_t<double, py::array::c_style>;

// A StopCheck that runs Python's signal handlers: long kernels stop at Ctrl-C. To be used in a call that has
// released the GIL; the pending Python exception travels out as py::error_already_set (see interruptible).
inline dpcore::StopCheck signal_check() {
    return {[](void*) {
                const py::gil_scoped_acquire gil;
                return PyErr_CheckSignals() != 0;
            },
            nullptr};
}

// Runs a long kernel without the GIL and turns an interruption into the pending Python exception.
template <class Kernel>
auto interruptible(Kernel&& kernel) {
    try {
        const py::gil_scoped_release release;
        return kernel(signal_check());
    } catch (const dpcore::Interrupted&) {
        throw py::error_already_set();
    }
}

// Applies f elementwise to N arrays. Each array is either one element or C-contiguous of the result's shape
// (the Python layer, dpcore._validation.broadcast, makes it so). The GIL is released.
template <std::size_t N, class F, std::size_t... I>
void apply_elementwise(const std::array<const double*, N>& in, const std::array<std::size_t, N>& step, double* out,
                       std::size_t count, F f, std::index_sequence<I...>) {
    for (std::size_t i = 0; i < count; ++i) out[i] = f(in[I][i * step[I]]...);
}

template <class F, class... Arrays>
Doubles elementwise(F f, const Doubles& first, const Arrays&... rest) {
    constexpr std::size_t N = 1 + sizeof...(Arrays);
    const std::array<const Doubles*, N> arrays = {&first, &rest...};
    const Doubles* widest = &first;
    for (const Doubles* a : arrays)
        if (a->size() != 1) widest = a;
    Doubles out(std::vector<py::ssize_t>(widest->shape(), widest->shape() + widest->ndim()));
    std::array<const double*, N> in{};
    std::array<std::size_t, N> step{};
    for (std::size_t i = 0; i < N; ++i) {
        if (arrays[i]->size() != 1 && arrays[i]->size() != widest->size())
            throw std::invalid_argument("arrays of different size reached the core");
        in[i] = arrays[i]->data();
        step[i] = arrays[i]->size() == 1 ? 0 : 1;
    }
    double* result = out.mutable_data();
    const auto count = static_cast<std::size_t>(out.size());
    constexpr std::size_t kChunk = 65536;  // about a millisecond between looks at Ctrl-C
    interruptible([&](dpcore::StopCheck stop) {
        for (std::size_t done = 0; done < count; done += kChunk) {
            stop();
            std::array<const double*, N> at = in;
            for (std::size_t i = 0; i < N; ++i) at[i] += done * step[i];
            apply_elementwise(at, step, result + done, std::min(kChunk, count - done), f,
                              std::make_index_sequence<N>());
        }
    });
    return out;
}

}  // namespace dpcore_bindings
