#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <string>

#include "common.hpp"
#include "dpcore/fast_exp.hpp"
#include "dpcore/samplers.hpp"
#include "random_source.hpp"

namespace {

using dpcore_bindings::interruptible;
using dpcore_bindings::key_of;
using dpcore_bindings::TestRng;
using dpcore_bindings::with_source;
using Integers = py::array_t<std::int64_t, py::array::c_style>;
using Reals = py::array_t<double, py::array::c_style>;

template <class Sampler>
void register_integer_sampler(py::module_& module, const std::string& name) {
    module.def(("sample_" + name).c_str(), [](double scale, TestRng* rng) {
        const Sampler sampler(scale);
        return with_source(rng, [&](dpcore::RandomSource& source) { return sampler(source); });
    });
    module.def(("sample_" + name + "_fill").c_str(),
               [](double scale, Integers out, TestRng* rng) {
                   const Sampler sampler(scale);
                   const dpcore::ChaChaKey key = key_of(rng);
                   std::int64_t* at = out.mutable_data();
                   const auto count = static_cast<std::size_t>(out.size());
                   interruptible([&](dpcore::StopCheck stop) { sampler.fill(key, at, count, stop); });
               },
               py::arg(), py::arg().noconvert(), py::arg());
    module.def(("sample_" + name + "_add").c_str(), [](double scale, std::int64_t value, TestRng* rng) {
        const Sampler sampler(scale);
        return with_source(rng, [&](dpcore::RandomSource& source) { return sampler.add(source, value); });
    });
    module.def(("sample_" + name + "_add_fill").c_str(),
               [](double scale, const Integers& values, Integers out, TestRng* rng) {
                   if (values.size() != out.size()) throw std::invalid_argument("values and out differ in size");
                   const Sampler sampler(scale);
                   const dpcore::ChaChaKey key = key_of(rng);
                   const std::int64_t* from = values.data();
                   std::int64_t* at = out.mutable_data();
                   const auto count = static_cast<std::size_t>(out.size());
                   interruptible([&](dpcore::StopCheck stop) { sampler.add(key, from, at, count, stop); });
               },
               py::arg(), py::arg().noconvert(), py::arg().noconvert(), py::arg());
}

// For tests of exactness: one attempt on the fast path, and the same decided in full.
template <class Sampler>
void register_probe(py::module_& module, const std::string& name) {
    module.def(("probe_" + name).c_str(), [](double scale, std::uint64_t first, std::uint64_t second) {
        const auto p = Sampler(scale).probe(first, second);
        return py::make_tuple(p.attempt.value, p.attempt.accepted, p.undecided);
    });
    module.def(("resolve_" + name).c_str(), [](double scale, std::uint64_t first, std::uint64_t second,
                                               const std::vector<std::uint64_t>& more) {
        if (more.size() != 9) throw std::invalid_argument("an extension has nine words");
        dpcore::Extension e;
        for (int i = 0; i < 3; ++i) {
            e.position[i] = more[i];
            e.uniform[i] = more[3 + i];
            e.bin[i] = more[6 + i];
        }
        const dpcore::Attempt a = Sampler(scale).law().resolve(first, second, e);
        return py::make_tuple(a.value, a.accepted);
    });
}

py::list table_columns(const dpcore::BinTable& table) {
    py::list out;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const dpcore::BinTable::Column c = table.column(i);
        out.append(py::make_tuple(c.threshold, c.further[0], c.further[1], c.further[2], c.alias));
    }
    return out;
}

// Noise added to private values of one type: `name` for one of them, `name`_fill for an array.
template <class Noise, class Value>
void register_grid_add(py::module_& module, const std::string& name) {
    module.def(name.c_str(), [](double scale, double grid, Value value, TestRng* rng) {
        const Noise noise(scale, grid);
        return with_source(rng, [&](dpcore::RandomSource& source) { return noise.add(source, value); });
    });
    module.def((name + "_fill").c_str(),
               [](double scale, double grid, const py::array_t<Value, py::array::c_style>& values, Reals out,
                  TestRng* rng) {
                   if (values.size() != out.size()) throw std::invalid_argument("values and out differ in size");
                   const Noise noise(scale, grid);
                   const dpcore::ChaChaKey key = key_of(rng);
                   const Value* from = values.data();
                   double* at = out.mutable_data();
                   const auto count = static_cast<std::size_t>(out.size());
                   interruptible([&](dpcore::StopCheck stop) { noise.add(key, from, at, count, stop); });
               },
               py::arg(), py::arg(), py::arg().noconvert(), py::arg().noconvert(), py::arg());
}

template <class Noise>
void register_grid_sampler(py::module_& module, const std::string& name) {
    module.def(("sample_" + name).c_str(), [](double scale, double grid, TestRng* rng) {
        const Noise noise(scale, grid);
        return with_source(rng, [&](dpcore::RandomSource& source) { return noise.draw(source); });
    });
    module.def(("sample_" + name + "_fill").c_str(),
               [](double scale, double grid, Reals out, TestRng* rng) {
                   const Noise noise(scale, grid);
                   const dpcore::ChaChaKey key = key_of(rng);
                   double* at = out.mutable_data();
                   const auto count = static_cast<std::size_t>(out.size());
                   interruptible([&](dpcore::StopCheck stop) { noise.fill(key, at, count, stop); });
               },
               py::arg(), py::arg(), py::arg().noconvert(), py::arg());
    register_grid_add<Noise, double>(module, "sample_" + name + "_add");
    register_grid_add<Noise, std::int64_t>(module, "sample_" + name + "_add_integer");
    module.def(("sample_" + name + "_limit").c_str(),
               [](double scale, double grid) { return Noise(scale, grid).limit(); });
}

// Straight into the object that is returned: filling 200 MB with zeros first, or copying them last, would each
// take longer than Ctrl-C may. Between pieces signals are looked at and other threads get their turn. Not in one
// piece without the GIL: a test generator is locked while it is used, and a thread that waits for it may hold the
// GIL.
py::bytes source_bytes(TestRng* rng, std::size_t count) {
    constexpr std::size_t kPiece = std::size_t{1} << 22;  // whole words, some milliseconds
    PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count));
    if (made == nullptr) throw py::error_already_set();
    auto out = py::reinterpret_steal<py::bytes>(made);
    char* to = PyBytes_AS_STRING(made);
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
        if (begin > 0) {
            if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            const py::gil_scoped_release others;
        }
        const std::size_t end = std::min(count, begin + kPiece);
        with_source(rng, [&](dpcore::RandomSource& source) {
            for (std::size_t at = begin; at < end; at += sizeof(std::uint64_t)) {
                const std::uint64_t word = source.next();
                std::memcpy(to + at, &word, std::min(sizeof word, end - at));
            }
            return 0;
        });
    }
    return out;
}

}  // namespace

void register_samplers(py::module_& module) {
    py::register_exception<dpcore::RandomnessError>(module, "RandomnessError", PyExc_RuntimeError);
    py::class_<TestRng>(module, "InsecureTestRng",
                        R"(A predictable generator, for tests only: the same seed gives the same noise.

Examples
--------
>>> from dpcore import samplers
>>> draw = lambda: samplers.discrete_laplace(5.0, 3, rng=samplers.InsecureTestRng(1)).tolist()
>>> draw() == draw()
True
)")
        .def(py::init<std::uint64_t>(), py::arg("seed"))
        .def_property_readonly("seed", &TestRng::seed)
        .def("bytes", [](TestRng& rng, std::size_t count) { return source_bytes(&rng, count); })
        .def("__reduce__",
             [](const TestRng&) -> py::tuple {
                 throw py::type_error("an InsecureTestRng cannot be pickled or copied: make one from its seed");
             })
        .def("__repr__",
             [](const TestRng& rng) { return "InsecureTestRng(seed=" + std::to_string(rng.seed()) + ")"; });
    module.def("secure_bytes", [](std::size_t count) { return source_bytes(nullptr, count); });
    module.def("grid_for", &dpcore::grid_for);
    register_integer_sampler<dpcore::Geometric>(module, "geometric");
    register_integer_sampler<dpcore::DiscreteLaplace>(module, "discrete_laplace");
    register_integer_sampler<dpcore::DiscreteGaussian>(module, "discrete_gaussian");
    register_grid_sampler<dpcore::GridLaplace>(module, "laplace");
    register_grid_sampler<dpcore::GridGaussian>(module, "gaussian");

    register_probe<dpcore::Geometric>(module, "geometric");
    register_probe<dpcore::DiscreteLaplace>(module, "discrete_laplace");
    register_probe<dpcore::DiscreteGaussian>(module, "discrete_gaussian");
    register_probe<dpcore::RoundedLaplace>(module, "laplace");
    register_probe<dpcore::RoundedGaussian>(module, "gaussian");
    module.def("probe_exponential_table", [] { return table_columns(dpcore::BinTable::exponential()); });
    module.def("probe_half_normal_table", [] { return table_columns(dpcore::BinTable::half_normal()); });
    module.def("probe_gaussian_table",
               [](double sigma) { return table_columns(dpcore::TabledGaussianLaw(sigma).table()); });
    module.def("probe_exp_negative_fast", [](double y) { return dpcore::exp_negative_fast(y); });
    module.def("probe_exp_negative", [](double y) {
        const dpcore::Fixed256 p = dpcore::exp_negative(dpcore::from_double(y));
        return py::make_tuple(p.limb[4], p.limb[3], p.limb[2], p.limb[1], p.limb[0]);
    });
}
