#include "dpcore/poisson_binomial.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "window.hpp"

using dpcore_bindings::Doubles;
using dpcore_bindings::interruptible;

namespace {

// The whole support low .. high as (low, values) if it has at most `most` points, else the values that are not 0.
py::tuple as_support(const dpcore::ExtendedPmf& law, std::int64_t low, std::int64_t high, std::int64_t most) {
    const bool whole = high - low < most;
    std::vector<double> visible;
    if (!whole) {
        low = law.first;
        visible.resize(law.hi.size());
        dpcore::to_doubles(law, low, visible.size(), visible.data());
        std::size_t first = 0;
        while (first + 1 < visible.size() && visible[first] == 0.0) ++first;
        while (visible.size() > first + 1 && visible.back() == 0.0) visible.pop_back();
        visible.erase(visible.begin(), visible.begin() + static_cast<std::ptrdiff_t>(first));
        return py::make_tuple(low + static_cast<std::int64_t>(first), dpcore_bindings::take(std::move(visible)));
    }
    Doubles out(static_cast<py::ssize_t>(high - low + 1));
    dpcore::to_doubles(law, low, static_cast<std::size_t>(high - low + 1), out.mutable_data());
    return py::make_tuple(low, out);
}

}  // namespace

void register_poisson_binomial(py::module_& module) {
    module.def("poisson_binomial", [](const Doubles& probabilities, std::int64_t most) {
        const double* p = probabilities.data();
        const auto count = static_cast<std::size_t>(probabilities.size());
        const dpcore::ExtendedPmf law =
            interruptible([&](dpcore::StopCheck stop) { return dpcore::poisson_binomial(p, count, stop); });
        const auto ones = static_cast<std::int64_t>(std::count(p, p + count, 1.0));
        const auto zeros = static_cast<std::int64_t>(std::count(p, p + count, 0.0));
        return as_support(law, ones, static_cast<std::int64_t>(count) - zeros, most);
    });
    module.def("stratified", [](const Doubles& sizes, const Doubles& probabilities, std::int64_t most) {
        if (sizes.size() != probabilities.size()) throw std::invalid_argument("as many sizes as probabilities");
        const auto count = static_cast<std::size_t>(sizes.size());
        std::vector<std::int64_t> whole(count);
        std::int64_t low = 0;
        std::int64_t high = 0;
        for (std::size_t i = 0; i < count; ++i) {
            whole[i] = dpcore_bindings::whole(sizes.data()[i]);
            if (probabilities.data()[i] == 1.0) low += whole[i];
            if (probabilities.data()[i] > 0.0) high += whole[i];
        }
        const dpcore::ExtendedPmf law = interruptible([&](dpcore::StopCheck stop) {
            return dpcore::stratified(whole.data(), probabilities.data(), count, stop);
        });
        return as_support(law, low, high, most);
    });
}
