#include "dpcore/hypergeometric.hpp"

#include "window.hpp"

using dpcore::Hypergeometric;
using dpcore::StopCheck;
using dpcore_bindings::as_tuple;
using dpcore_bindings::Doubles;
using dpcore_bindings::fill_chunked;
using dpcore_bindings::interruptible;
using dpcore_bindings::whole;

namespace {

template <class F>
void register_hypergeometric_pointwise(py::module_& module, const char* name, std::size_t chunk, F f) {
    module.def(name, [f](double k, double n, double marked, double drawn) {
        return interruptible([&](StopCheck stop) {
            return f(Hypergeometric{whole(n), whole(marked), whole(drawn)}, whole(k), stop);
        });
    });
    module.def(name, [f, chunk](const Doubles& k, const Doubles& n, const Doubles& marked, const Doubles& drawn) {
        const auto plain = [f](double at, double a, double b, double c) {
            return f(Hypergeometric{whole(a), whole(b), whole(c)}, whole(at), StopCheck{});
        };
        return fill_chunked(chunk, dpcore_bindings::detail::Each<decltype(plain), 4>{plain}, k, n, marked, drawn);
    });
}

}  // namespace

void register_hypergeometric(py::module_& module) {
    register_hypergeometric_pointwise(module, "hypergeometric_log_pmf", 256,
                                      [](const Hypergeometric& law, std::int64_t k, StopCheck) {
                                          return static_cast<double>(dpcore::hypergeometric_log_pmf(law, k));
                                      });
    register_hypergeometric_pointwise(module, "hypergeometric_cdf", 4,
                                      [](const Hypergeometric& law, std::int64_t k, StopCheck stop) {
                                          return dpcore::hypergeometric_cdf(law, k, stop);
                                      });
    register_hypergeometric_pointwise(module, "hypergeometric_sf", 4,
                                      [](const Hypergeometric& law, std::int64_t k, StopCheck stop) {
                                          return dpcore::hypergeometric_sf(law, k, stop);
                                      });
    module.def("hypergeometric_window", [](std::int64_t n, std::int64_t marked, std::int64_t drawn,
                                           std::int64_t low, std::int64_t high, double depth) {
        return as_tuple(interruptible([&](StopCheck stop) {
            return dpcore::hypergeometric_window({n, marked, drawn}, low, high, depth, stop);
        }));
    });
    module.def("hypergeometric_tail_window",
               [](std::int64_t n, std::int64_t marked, std::int64_t drawn, double tail) {
                   return as_tuple(interruptible([&](StopCheck stop) {
                       return dpcore::hypergeometric_tail_window({n, marked, drawn}, tail, stop);
                   }));
               });
    module.def("hypergeometric_visible_window", [](std::int64_t n, std::int64_t marked, std::int64_t drawn) {
        return as_tuple(interruptible(
            [&](StopCheck stop) { return dpcore::hypergeometric_visible_window({n, marked, drawn}, stop); }));
    });
    module.def("hypergeometric_fill", [](std::int64_t n, std::int64_t marked, std::int64_t drawn,
                                         std::int64_t first, std::int64_t count) {
        Doubles out = dpcore_bindings::zeros(count);
        double* data = out.mutable_data();
        interruptible([&](StopCheck stop) {
            dpcore::hypergeometric_fill({n, marked, drawn}, first, count, data, true, stop);
        });
        return out;
    });
    using Stepper = dpcore::HypergeometricStepper;
    py::class_<Stepper>(module, "HypergeometricStepper")
        .def(py::init([](std::int64_t n, std::int64_t marked, std::int64_t drawn, std::int64_t k) {
            return Stepper({n, marked, drawn}, k);
        }))
        .def_property_readonly("k", &Stepper::k)
        .def_property_readonly("pmf", &Stepper::pmf)
        .def_property_readonly("log_pmf", &Stepper::log_pmf)
        .def_property_readonly("at_lowest", &Stepper::at_lowest)
        .def_property_readonly("at_highest", &Stepper::at_highest)
        .def("up", &Stepper::up)
        .def("down", &Stepper::down);
}
