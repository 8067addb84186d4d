// Arrays come from dpcore.sensitivity._targets, which checks them; only what would read out of bounds is checked
// here.
#include <stdexcept>
#include <vector>

#include "common.hpp"
#include "dpcore/sensitivity.hpp"

using dpcore_bindings::Doubles;
using dpcore_bindings::interruptible;

namespace {

dpcore::NeighbourBlock block_of(const Doubles& groups) {
    if (groups.ndim() != 3 || groups.shape(1) < 2 || groups.shape(2) < 1)
        throw std::invalid_argument("groups must have shape (count, records + 1, width)");
    return {groups.data(), static_cast<std::size_t>(groups.shape(0)),
            static_cast<std::size_t>(groups.shape(1)) - 1, static_cast<std::size_t>(groups.shape(2))};
}

struct Records {
    const double* data;
    std::size_t records;
    std::size_t width;
};

Records records_of(const Doubles& data) {
    if (data.ndim() != 2 || data.shape(0) < 1 || data.shape(1) < 1)
        throw std::invalid_argument("data must have shape (records, width)");
    return {data.data(), static_cast<std::size_t>(data.shape(0)), static_cast<std::size_t>(data.shape(1))};
}

std::size_t require(bool ok, std::size_t value, const char* message) {
    if (!ok) throw std::invalid_argument(message);
    return value;
}

// Runs kernel(first, second, stop) on two new arrays of shape (count, size).
template <class Kernel>
py::tuple pairs(const dpcore::NeighbourBlock& block, std::size_t size, Kernel&& kernel) {
    const std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(block.count), static_cast<py::ssize_t>(size)};
    Doubles first(shape);
    Doubles second(shape);
    double* a = first.mutable_data();
    double* b = second.mutable_data();
    interruptible([&](dpcore::StopCheck stop) { kernel(a, b, stop); });
    return py::make_tuple(first, second);
}

template <class Kernel>
Doubles single(std::size_t size, Kernel&& kernel) {
    Doubles out(static_cast<py::ssize_t>(size));
    double* result = out.mutable_data();
    interruptible([&](dpcore::StopCheck) { kernel(result); });
    return out;
}

}  // namespace

void register_sensitivity(py::module_& module) {
    module.def("sum_pairs", [](const Doubles& groups, double divisor) {
        const auto block = block_of(groups);
        return pairs(block, block.width, [&](double* a, double* b, dpcore::StopCheck stop) {
            dpcore::sum_pairs(block, divisor, a, b, stop);
        });
    });
    module.def("sum_single", [](const Doubles& data, double divisor) {
        const Records d = records_of(data);
        return single(d.width, [&](double* out) { dpcore::sum_single(d.data, d.records, d.width, divisor, out); });
    });
    module.def("quantile_pairs", [](const Doubles& groups, double probability) {
        const auto block = block_of(groups);
        const std::size_t one = require(block.width == 1, 1, "records must be single numbers");
        return pairs(block, one, [&](double* a, double* b, dpcore::StopCheck stop) {
            dpcore::quantile_pairs(block, probability, a, b, stop);
        });
    });
    module.def("quantile_single", [](const Doubles& data, double probability) {
        const Records d = records_of(data);
        const std::size_t one = require(d.width == 1, 1, "records must be single numbers");
        return single(one, [&](double* out) { *out = dpcore::quantile_single(d.data, d.records, probability); });
    });
    module.def("histogram_pairs", [](const Doubles& groups, const Doubles& edges) {
        const auto block = block_of(groups);
        require(block.width == 1 && edges.ndim() == 1 && edges.size() >= 2, 0, "records and edges must be flat");
        const auto bins = static_cast<std::size_t>(edges.size()) - 1;
        return pairs(block, bins, [&, e = edges.data()](double* a, double* b, dpcore::StopCheck stop) {
            dpcore::histogram_pairs(block, e, bins, a, b, stop);
        });
    });
    module.def("histogram_single", [](const Doubles& data, const Doubles& edges) {
        const Records d = records_of(data);
        require(d.width == 1 && edges.ndim() == 1 && edges.size() >= 2, 0, "records and edges must be flat");
        const auto bins = static_cast<std::size_t>(edges.size()) - 1;
        return single(bins, [&, e = edges.data()](double* out) {
            dpcore::histogram_single(d.data, d.records, e, bins, out);
        });
    });
    module.def("regression_pairs", [](const Doubles& groups, bool intercept, double ridge) {
        const auto block = block_of(groups);
        require(block.width >= 2, 0, "records must have a feature and a response");
        return pairs(block, block.width - 1 + (intercept ? 1 : 0),
                     [&](double* a, double* b, dpcore::StopCheck stop) {
                         dpcore::regression_pairs(block, intercept, ridge, a, b, stop);
                     });
    });
    module.def("regression_single", [](const Doubles& data, bool intercept, double ridge) {
        const Records d = records_of(data);
        require(d.width >= 2, 0, "records must have a feature and a response");
        return single(d.width - 1 + (intercept ? 1 : 0), [&](double* out) {
            dpcore::regression_single(d.data, d.records, d.width, intercept, ridge, out);
        });
    });
}
