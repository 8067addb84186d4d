#include "dpcore/selection.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common.hpp"
#include "random_source.hpp"

namespace {

using dpcore_bindings::interruptible;
using dpcore_bindings::key_of;
using dpcore_bindings::TestRng;
using dpcore_bindings::with_source;
using Integers = py::array_t<std::int64_t, py::array::c_style>;
using Reals = py::array_t<double, py::array::c_style>;
using Bools = py::array_t<bool, py::array::c_style>;

static_assert(sizeof(bool) == sizeof(std::uint8_t));
std::uint8_t* bytes_of(Bools& out) { return reinterpret_cast<std::uint8_t*>(out.mutable_data()); }

}  // namespace

void register_selection(py::module_& module) {
    module.def("uniform_below", [](std::uint64_t bound, TestRng* rng) {
        if (bound == 0) throw std::invalid_argument("bound must be >= 1");
        return with_source(rng, [&](dpcore::RandomSource& s) { return dpcore::uniform_below(s, bound); });
    });
    module.def(
        "uniform_below_fill",
        [](std::uint64_t bound, Integers out, TestRng* rng) {
            const dpcore::ChaChaKey key = key_of(rng);
            std::int64_t* at = out.mutable_data();
            const auto count = static_cast<std::size_t>(out.size());
            interruptible(
                [&](dpcore::StopCheck stop) { dpcore::fill_uniform_below(key, bound, at, count, stop); });
        },
        py::arg(), py::arg().noconvert(), py::arg());
    module.def("bernoulli_exp", [](double x, TestRng* rng) {
        return with_source(rng, [&](dpcore::RandomSource& s) { return dpcore::flip_exp_negative(s, x); });
    });
    module.def(
        "bernoulli_exp_fill",
        [](double x, Bools out, TestRng* rng) {
            const dpcore::Coin coin = dpcore::Coin::exp_negative(x);
            const dpcore::ChaChaKey key = key_of(rng);
            std::uint8_t* at = bytes_of(out);
            const auto count = static_cast<std::size_t>(out.size());
            interruptible([&](dpcore::StopCheck stop) { coin.fill(key, at, count, stop); });
        },
        py::arg(), py::arg().noconvert(), py::arg());
    module.def("bernoulli", [](std::uint64_t numerator, std::uint64_t denominator, TestRng* rng) {
        if (denominator == 0) throw std::invalid_argument("denominator must be >= 1");
        return with_source(
            rng, [&](dpcore::RandomSource& s) { return dpcore::uniform_below(s, denominator) < numerator; });
    });
    module.def(
        "bernoulli_fill",
        [](std::uint64_t numerator, std::uint64_t denominator, Bools out, TestRng* rng) {
            const dpcore::ChaChaKey key = key_of(rng);
            std::uint8_t* at = bytes_of(out);
            const auto count = static_cast<std::size_t>(out.size());
            interruptible([&](dpcore::StopCheck stop) {
                dpcore::fill_rational_coin(key, numerator, denominator, at, count, stop);
            });
        },
        py::arg(), py::arg(), py::arg().noconvert(), py::arg());
    module.def("randomized_response",
               [](double epsilon, std::uint64_t categories, std::int64_t answer, TestRng* rng) {
                   const dpcore::RandomizedResponder responder(epsilon, categories);
                   return with_source(rng, [&](dpcore::RandomSource& s) { return responder(s, answer); });
               });
    module.def(
        "randomized_response_fill",
        [](double epsilon, std::uint64_t categories, const Integers& answers, Integers out, TestRng* rng) {
            if (answers.size() != out.size()) throw std::invalid_argument("answers and out differ in size");
            const dpcore::RandomizedResponder responder(epsilon, categories);
            const dpcore::ChaChaKey key = key_of(rng);
            const std::int64_t* from = answers.data();
            std::int64_t* at = out.mutable_data();
            const auto count = static_cast<std::size_t>(out.size());
            interruptible([&](dpcore::StopCheck stop) { responder.respond(key, from, at, count, stop); });
        },
        py::arg(), py::arg(), py::arg().noconvert(), py::arg().noconvert(), py::arg());
    module.def(
        "choose",
        [](const Reals& scores, double factor, TestRng* rng) {
            const double* at = scores.data();
            const auto count = static_cast<std::size_t>(scores.size());
            const auto uniform = with_source(rng, [](dpcore::RandomSource& s) {
                return std::array<std::uint64_t, 4>{s.next(), s.next(), s.next(), s.next()};
            });
            return interruptible(
                [&](dpcore::StopCheck stop) { return dpcore::choose(uniform, at, count, factor, stop); });
        },
        py::arg().noconvert(), py::arg(), py::arg());
    module.def(
        "choose_exactly",
        [](const std::vector<std::uint64_t>& words, const Reals& scores, double factor) {
            if (words.size() != 4) throw std::invalid_argument("a uniform number has four words");
            std::array<std::uint64_t, 4> uniform{};
            std::copy(words.begin(), words.end(), uniform.begin());
            const double* at = scores.data();
            const auto count = static_cast<std::size_t>(scores.size());
            return interruptible(
                [&](dpcore::StopCheck stop) { return dpcore::choose_exactly(uniform, at, count, factor, stop); });
        },
        py::arg(), py::arg().noconvert(), py::arg());
}
