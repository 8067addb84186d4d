#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <mutex>
#include <string>

#include "common.hpp"
#include "dpcore/samplers.hpp"

namespace {

using dpcore_bindings::interruptible;
using Integers = py::array_t<std::int64_t, py::array::c_style>;
using Reals = py::array_t<double, py::array::c_style>;

// The test generator with the lock that lets Python threads share it. The lock is held for a few words only and
// never while the GIL is waited for.
class TestRng {
public:
    explicit TestRng(std::uint64_t seed) : seed_(seed), source_(seed) {}
    template <class Use>
    auto with(Use use) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return use(source_);
    }
    std::uint64_t seed() const { return seed_; }

private:
    std::uint64_t seed_;
    std::mutex mutex_;
    dpcore::InsecureTestSource source_;
};

// use(source) with the generator given, or with this thread's cryptographic stream for None.
template <class Use>
auto with_source(TestRng* rng, Use use) {
    return rng != nullptr ? rng->with(use) : use(dpcore::secure_source());
}

dpcore::ChaChaKey key_of(TestRng* rng) {
    return with_source(rng, [](dpcore::RandomSource& source) { return source.next_key(); });
}

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
    module.def(("sample_" + name + "_add").c_str(), [](double scale, double grid, double value, TestRng* rng) {
        const Noise noise(scale, grid);
        return with_source(rng, [&](dpcore::RandomSource& source) { return noise.add(source, value); });
    });
    module.def(("sample_" + name + "_add_fill").c_str(),
               [](double scale, double grid, const Reals& values, Reals out, TestRng* rng) {
                   if (values.size() != out.size()) throw std::invalid_argument("values and out differ in size");
                   const Noise noise(scale, grid);
                   const dpcore::ChaChaKey key = key_of(rng);
                   const double* from = values.data();
                   double* at = out.mutable_data();
                   const auto count = static_cast<std::size_t>(out.size());
                   interruptible([&](dpcore::StopCheck stop) { noise.add(key, from, at, count, stop); });
               },
               py::arg(), py::arg(), py::arg().noconvert(), py::arg().noconvert(), py::arg());
    module.def(("sample_" + name + "_limit").c_str(),
               [](double scale, double grid) { return Noise(scale, grid).limit(); });
}

py::bytes source_bytes(TestRng* rng, std::size_t count) {
    std::string out(count, '\0');
    with_source(rng, [&](dpcore::RandomSource& source) {
        for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
            const std::uint64_t word = source.next();
            std::memcpy(&out[at], &word, std::min(sizeof word, count - at));
        }
        return 0;
    });
    return py::bytes(out);
}

}  // namespace

void register_samplers(py::module_& module) {
    py::register_exception<dpcore::RandomnessError>(module, "RandomnessError", PyExc_RuntimeError);
    py::class_<TestRng>(module, "InsecureTestRng")
        .def(py::init<std::uint64_t>())
        .def_property_readonly("seed", &TestRng::seed)
        .def("bytes", [](TestRng& rng, std::size_t count) { return source_bytes(&rng, count); })
        .def("__repr__",
             [](const TestRng& rng) { return "InsecureTestRng(seed=" + std::to_string(rng.seed()) + ")"; });
    module.def("secure_bytes", [](std::size_t count) { return source_bytes(nullptr, count); });
    module.def("grid_for", &dpcore::grid_for);
    register_integer_sampler<dpcore::Geometric>(module, "geometric");
    register_integer_sampler<dpcore::DiscreteLaplace>(module, "discrete_laplace");
    register_integer_sampler<dpcore::DiscreteGaussian>(module, "discrete_gaussian");
    register_grid_sampler<dpcore::GridLaplace>(module, "laplace");
    register_grid_sampler<dpcore::GridGaussian>(module, "gaussian");
}
