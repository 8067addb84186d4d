#include <pybind11/stl.h>

#include "common.hpp"
#include "dpcore/buckets.hpp"
#include "dpcore/privacy_loss.hpp"

namespace {

using dpcore::Engine;
using dpcore::Interval;
using dpcore::Mechanism;
using dpcore::Method;
using dpcore::PrivacyLoss;

std::pair<double, double> pair(const Interval& i) { return {i.lower, i.upper}; }

// Answers a question for every element; the answers come back as two arrays of the question's shape.
template <class F>
std::pair<dpcore_bindings::Doubles, dpcore_bindings::Doubles> each(const dpcore_bindings::Doubles& questions,
                                                                   F f) {
    const std::vector<py::ssize_t> shape(questions.shape(), questions.shape() + questions.ndim());
    dpcore_bindings::Doubles lower(shape);
    dpcore_bindings::Doubles upper(shape);
    const double* in = questions.data();
    double* lo = lower.mutable_data();
    double* up = upper.mutable_data();
    const auto count = static_cast<std::size_t>(questions.size());
    dpcore_bindings::interruptible([&](dpcore::StopCheck stop) {
        for (std::size_t i = 0; i < count; ++i) {
            stop();
            const Interval answer = f(in[i], stop);
            lo[i] = answer.lower;
            up[i] = answer.upper;
        }
    });
    return {std::move(lower), std::move(upper)};
}

// Registers `name` for a number and for an array.
template <class Class, class F>
void question(Class& c, const char* name, F f) {
    c.def(
        name,
        [f](const PrivacyLoss& self, double x, Engine engine, double step) {
            return pair(dpcore_bindings::interruptible(
                [&](dpcore::StopCheck stop) { return f(self, x, Method(engine, step), stop); }));
        },
        py::arg().noconvert(), py::arg(), py::arg() = 0.0);
    c.def(
        name,
        [f](const PrivacyLoss& self, const dpcore_bindings::Doubles& x, Engine engine, double step) {
            return each(x,
                        [&](double v, dpcore::StopCheck stop) { return f(self, v, Method(engine, step), stop); });
        },
        py::arg().noconvert(), py::arg(), py::arg() = 0.0);
}

}  // namespace

void register_accounting(py::module_& module) {
    py::enum_<Engine>(module, "Engine")
        .value("auto", Engine::automatic)
        .value("spectral", Engine::spectral)
        .value("buckets", Engine::buckets);

    py::class_<PrivacyLoss> loss(module, "PrivacyLoss");
    loss.def(py::init<>())
        .def_static("gaussian", [](double sigma, double s) { return PrivacyLoss(Mechanism::gaussian(sigma, s)); })
        .def_static("laplace", [](double epsilon) { return PrivacyLoss(Mechanism::laplace(epsilon)); })
        .def_static("randomized_response",
                    [](double epsilon) { return PrivacyLoss(Mechanism::randomized_response(epsilon)); })
        .def_static("pure", [](double epsilon) { return PrivacyLoss(Mechanism::pure(epsilon)); })
        .def_static(
            "approximate",
            [](double epsilon, double delta) { return PrivacyLoss(Mechanism::approximate(epsilon, delta)); })
        .def_static("discrete_laplace",
                    [](double scale, double s) { return PrivacyLoss(Mechanism::discrete_laplace(scale, s)); })
        .def_static("discrete_gaussian",
                    [](double sigma, double s) { return PrivacyLoss(Mechanism::discrete_gaussian(sigma, s)); })
        .def_static("subsampled_gaussian",
                    [](double sigma, double rate, char n) {
                        return PrivacyLoss(Mechanism::subsampled_gaussian(sigma, rate, n));
                    })
        .def_static("pmf",
                    [](const dpcore_bindings::Doubles& p, const dpcore_bindings::Doubles& q) {
                        return dpcore_bindings::interruptible([&](dpcore::StopCheck stop) {
                            return PrivacyLoss(Mechanism::pmf({p.data(), p.data() + p.size()},
                                                              {q.data(), q.data() + q.size()}, stop));
                        });
                    })
        .def_static("compose_all", &PrivacyLoss::compose_all)
        .def("compose", &PrivacyLoss::compose)
        .def("times", &PrivacyLoss::times)
        .def("mean", &PrivacyLoss::mean)
        .def("variance", &PrivacyLoss::variance)
        .def("max_loss", &PrivacyLoss::max_loss)
        .def("infinite_mass", [](const PrivacyLoss& self) { return pair(self.infinite_mass()); })
        // (name, {parameter: value}, p, q, copies) for each mechanism.
        .def("entries", [](const PrivacyLoss& self) {
            py::list out;
            for (const PrivacyLoss::Entry& e : self.entries()) {
                py::dict parameters;
                for (const auto& [key, value] : e.mechanism->parameters) parameters[py::str(key)] = value;
                out.append(
                    py::make_tuple(e.mechanism->name, parameters, e.mechanism->p, e.mechanism->q, e.copies));
            }
            return out;
        });
    question(loss, "delta",
             [](const PrivacyLoss& l, double x, Method e, dpcore::StopCheck stop) { return l.delta(x, e, stop); });
    question(loss, "log_delta", [](const PrivacyLoss& l, double x, Method e, dpcore::StopCheck stop) {
        const dpcore::LogBounds b = l.log_delta(x, e, stop);
        return Interval{b.log_lower, b.log_upper};
    });
    question(loss, "epsilon", [](const PrivacyLoss& l, double x, Method e, dpcore::StopCheck stop) {
        return l.epsilon(x, e, stop);
    });
    question(loss, "confidence",
             [](const PrivacyLoss& l, double x, Method, dpcore::StopCheck stop) { return l.confidence(x, stop); });

    using dpcore::Buckets;
    const auto array = [](const std::vector<double>& v) {
        return dpcore_bindings::Doubles(static_cast<py::ssize_t>(v.size()), v.data());
    };
    const auto list = [array](const dpcore::BucketList& l) {
        py::dict out;
        out["mass"] = array(l.mass);
        out["infinite"] = l.infinite;
        out["above"] = l.above;
        out["below"] = l.below;
        return out;
    };
    py::class_<Buckets>(module, "Buckets")
        .def_static("of",
                    [](const PrivacyLoss& one, double step, double low, double high, bool backward) {
                        const dpcore::MechanismPtr m = one.entries().at(0).mechanism;
                        return dpcore_bindings::interruptible([&](dpcore::StopCheck stop) {
                            return Buckets::of(backward ? *m->backward : *m->forward, step, low, high, stop);
                        });
                    })
        .def_readonly("step", &Buckets::step)
        .def_property_readonly("losses",
                               [array](const Buckets& b) {
                                   std::vector<double> v(b.upper.mass.size());
                                   for (std::size_t i = 0; i < v.size(); ++i) v[i] = b.loss(i);
                                   return array(v);
                               })
        .def_property_readonly("upper", [list](const Buckets& b) { return list(b.upper); })
        .def_property_readonly("lower", [list](const Buckets& b) { return list(b.lower); })
        .def(
            "convolve",
            [](const Buckets& a, const Buckets& b) {
                return dpcore_bindings::interruptible([&](dpcore::StopCheck stop) { return a.convolve(b, stop); });
            })
        .def("self_compose",
             [](const Buckets& a, std::uint64_t copies) {
                 return dpcore_bindings::interruptible(
                     [&](dpcore::StopCheck stop) { return a.self_compose(copies, stop); });
             })
        .def("coarsen", &Buckets::coarsen)
        .def("delta", [](const Buckets& b, double epsilon) { return pair(b.delta(epsilon)); });
}
