#include "dpcore/binomial.hpp"

#include "window.hpp"

using dpcore_bindings::as_tuple;
using dpcore_bindings::Doubles;
using dpcore_bindings::fill_chunked;
using dpcore_bindings::interruptible;
using dpcore_bindings::whole;

namespace {

// Tails cost up to milliseconds each, so chunks are small.
template <class F>
void register_binomial_pointwise(py::module_& module, const char* name, std::size_t chunk, F f) {
    module.def(name, [f](double k, double trials, double p) {
        return interruptible([&](dpcore::StopCheck stop) { return f(k, trials, p, stop); });
    });
    module.def(name, [f, chunk](const Doubles& k, const Doubles& trials, const Doubles& p) {
        const auto plain = [f](double a, double b, double c) { return f(a, b, c, dpcore::StopCheck{}); };
        return fill_chunked(chunk, dpcore_bindings::detail::Each<decltype(plain), 3>{plain}, k, trials, p);
    });
}

}  // namespace

void register_binomial(py::module_& module) {
    register_binomial_pointwise(
        module, "binomial_log_pmf", 256, [](double k, double trials, double p, dpcore::StopCheck) {
            return static_cast<double>(dpcore::binomial_log_pmf(whole(trials), p, whole(k)));
        });
    register_binomial_pointwise(module, "binomial_cdf", 4,
                                [](double k, double trials, double p, dpcore::StopCheck stop) {
                                    return dpcore::binomial_cdf(whole(trials), p, whole(k), stop);
                                });
    register_binomial_pointwise(module, "binomial_sf", 4,
                                [](double k, double trials, double p, dpcore::StopCheck stop) {
                                    return dpcore::binomial_sf(whole(trials), p, whole(k), stop);
                                });
    module.def("binomial_window",
               [](std::int64_t trials, double p, std::int64_t low, std::int64_t high, double depth) {
                   return as_tuple(interruptible([&](dpcore::StopCheck stop) {
                       return dpcore::binomial_window(trials, p, low, high, depth, stop);
                   }));
               });
    module.def("binomial_tail_window", [](std::int64_t trials, double p, double tail) {
        return as_tuple(interruptible(
            [&](dpcore::StopCheck stop) { return dpcore::binomial_tail_window(trials, p, tail, stop); }));
    });
    module.def("binomial_visible_window", [](std::int64_t trials, double p) {
        return as_tuple(interruptible(
            [&](dpcore::StopCheck stop) { return dpcore::binomial_visible_window(trials, p, stop); }));
    });
    module.def("binomial_fill", [](std::int64_t trials, double p, std::int64_t first, std::int64_t count) {
        Doubles out = dpcore_bindings::zeros(count);
        double* data = out.mutable_data();
        interruptible(
            [&](dpcore::StopCheck stop) { dpcore::binomial_fill(trials, p, first, count, data, true, stop); });
        return out;
    });
}
