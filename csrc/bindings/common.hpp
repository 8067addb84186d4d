// What all bindings share: broadcasting without the GIL, Ctrl-C, error translation.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/parallel.hpp"

namespace py = pybind11;

namespace dpcore_bindings {

using Doubles = py::array_t<double, py::array::c_style>;

// A StopCheck that runs Python's signal handlers: long kernels stop at Ctrl-C. To be used in a call that has
// released the GIL; the pending Python exception travels out as py::error_already_set (see interruptible). Kernels
// may ask as often as they like: it takes the GIL, for which other threads may be waiting, every 20 ms at most.
inline dpcore::StopCheck signal_check() {
    return {[](void*) {
                static thread_local std::chrono::steady_clock::time_point last;
                const auto now = std::chrono::steady_clock::now();
                if (now - last < std::chrono::milliseconds(20)) return false;
                last = now;
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

// Calls kernel(pointer_1, step_1, ..., pointer_N, step_N, out, count) in chunks, on all cores, without the GIL.
// Each array is either one element (step 0) or C-contiguous of the result's shape (step 1); the Python layer,
// dpcore._validation.broadcast, makes it so. Chunks are small enough that Ctrl-C is seen soon even where an
// element costs a millisecond.
namespace detail {

template <class Kernel, std::size_t N, std::size_t... I>
void call_fill(Kernel& kernel, const std::array<const double*, N>& in, const std::array<std::size_t, N>& step,
               std::size_t done, double* out, std::size_t count, std::index_sequence<I...>) {
    std::apply(kernel, std::tuple_cat(std::make_tuple(in[I] + done * step[I], step[I])...,
                                      std::make_tuple(out + done, count)));
}

// The loop over a scalar function, with call_fill's argument list.
template <class F, std::size_t N>
struct Each {
    F f;
    template <class... Arguments>
    void operator()(Arguments... arguments) const {
        run(std::make_tuple(arguments...), std::make_index_sequence<N>());
    }
    template <class Tuple, std::size_t... I>
    void run(const Tuple& t, std::index_sequence<I...>) const {
        double* out = std::get<2 * N>(t);
        const std::size_t count = std::get<2 * N + 1>(t);
        for (std::size_t i = 0; i < count; ++i) out[i] = f(std::get<2 * I>(t)[i * std::get<2 * I + 1>(t)]...);
    }
};

}  // namespace detail

template <class Kernel, class... Arrays>
Doubles fill_chunked(std::size_t chunk, Kernel kernel, const Doubles& first, const Arrays&... rest) {
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
    interruptible([&](dpcore::StopCheck stop) {
        dpcore::parallel_chunks(count, chunk, stop, [&](std::size_t begin, std::size_t end) {
            detail::call_fill(kernel, in, step, begin, result, end - begin, std::make_index_sequence<N>());
        });
    });
    return out;
}

// For kernels that walk arrays themselves (a few tens of nanoseconds an element): a chunk is about a millisecond.
template <class Kernel, class... Arrays>
Doubles fill(Kernel kernel, const Arrays&... arrays) {
    return fill_chunked(1 << 15, kernel, arrays...);
}

// Applies a scalar function to each element.
template <class F, class... Arrays>
Doubles elementwise(F f, const Arrays&... arrays) {
    return fill_chunked(256, detail::Each<F, sizeof...(Arrays)>{f}, arrays...);
}

}  // namespace dpcore_bindings
