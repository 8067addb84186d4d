#include <cstdint>
#include <stdexcept>

#include "common.hpp"
#include "dpcore/count_delta.hpp"
#include "dpcore/count_range.hpp"
#include "dpcore/count_tilt.hpp"
#include "dpcore/joint_delta.hpp"

using dpcore::CountDelta;
using dpcore::Direction;
using dpcore_bindings::Doubles;
using dpcore_bindings::elementwise;
using dpcore_bindings::interruptible;

namespace {

Direction direction_of(int code) {
    if (code < 0 || code > 2) throw std::invalid_argument("direction must be 0, 1 or 2");
    return static_cast<Direction>(code);
}

std::pair<double, double> pair_of(const CountDelta& value) { return {value.log_delta, value.relative_error}; }

}  // namespace

// direction: 0 add, 1 remove, 2 both. Kernels give (ln delta, bound of the relative error of delta).
void register_count_delta(py::module_& module) {
    module.def("count_delta_bounded",
               [](double epsilon, std::int64_t unknown, double bias, double noise, int code) {
                   const Direction direction = direction_of(code);
                   return pair_of(interruptible([&](dpcore::StopCheck stop) {
                       return dpcore::count_delta(epsilon, unknown, bias, noise, direction, stop);
                   }));
               });
    module.def("log_delta_upper", [](double log_delta, double relative_error) {
        return CountDelta{log_delta, relative_error}.log_delta_upper();
    });
    module.def("count_log_delta", [](const Doubles& epsilon, const Doubles& unknown, const Doubles& bias,
                                     const Doubles& noise, int code) {
        const Direction direction = direction_of(code);
        return elementwise(
            [direction](double e, double m, double p, double b) {
                return dpcore::count_delta(e, static_cast<std::int64_t>(m), p, b, direction).log_delta;
            },
            epsilon, unknown, bias, noise);
    });
    // (lower, upper) bound of ln delta
    module.def("joint_delta_bounds",
               [](double epsilon, std::int64_t unknown, double bias, double noise, double estimate, int code) {
                   const Direction direction = direction_of(code);
                   const dpcore::LogBounds bounds = interruptible([&](dpcore::StopCheck stop) {
                       return dpcore::joint_delta(epsilon, unknown, bias, noise, estimate, direction, stop);
                   });
                   return std::make_pair(bounds.log_lower, bounds.log_upper);
               });
    module.def("count_delta_two_bounded", [](double epsilon, std::int64_t first, double first_bias,
                                             std::int64_t second, double second_bias, double noise, int code) {
        const Direction direction = direction_of(code);
        return pair_of(interruptible([&](dpcore::StopCheck stop) {
            return dpcore::count_delta_two(epsilon, first, first_bias, second, second_bias, noise, direction,
                                           stop);
        }));
    });
    // (ln delta, error, ln of the best vertex, records at low, evaluations, proved)
    module.def(
        "count_delta_range",
        [](double epsilon, std::int64_t unknown, double low, double high, double noise, int code,
           std::int64_t budget) {
            const Direction direction = direction_of(code);
            const dpcore::RangeDelta out = interruptible([&](dpcore::StopCheck stop) {
                return dpcore::count_delta_range(epsilon, unknown, low, high, noise, direction, budget, stop);
            });
            return py::make_tuple(out.delta.log_delta, out.delta.relative_error, out.log_lower, out.at_low,
                                  out.evaluations, out.proved);
        },
        py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg() = dpcore::kRangeBudget);
    module.def("count_delta_window", [](double epsilon, const Doubles& pmf, double value_error, double left_out,
                                        double noise, int code) {
        const Direction direction = direction_of(code);
        dpcore::PmfWindow law;
        law.value.assign(pmf.data(), pmf.data() + pmf.size());
        return pair_of(interruptible([&](dpcore::StopCheck stop) {
            return dpcore::count_delta_window(epsilon, law, value_error, left_out, noise, direction, stop);
        }));
    });
    module.def("count_delta_tilted", [](double epsilon, std::int64_t first, const Doubles& pmf, double log_factor,
                                        double value_error, double left_out, double noise) {
        dpcore::PmfWindow law;
        law.first = first;
        law.value.assign(pmf.data(), pmf.data() + pmf.size());
        return pair_of(interruptible([&](dpcore::StopCheck stop) {
            return dpcore::count_delta_tilted(epsilon, law, log_factor, value_error, left_out, noise, stop);
        }));
    });
    // end: 0 the nearer one, 1 bottom, 2 top. (handed, from top, ln factor, error, left out), one for each group
    module.def("tilt_groups", [](const Doubles& size, const Doubles& bias, bool zeros, double tilt, int end) {
        if (end < 0 || end > 2) throw std::invalid_argument("end must be 0, 1 or 2");
        if (size.size() != bias.size()) throw std::invalid_argument("as many sizes as biases are needed");
        const py::ssize_t count = size.size();
        Doubles handed(count), from_top(count), log_factor(count), error(count), left_out(count);
        for (py::ssize_t i = 0; i < count; ++i) {
            const dpcore::TiltedGroup one = dpcore::tilt_group(size.data()[i], bias.data()[i], zeros, tilt,
                                                               static_cast<dpcore::CountedFrom>(end));
            handed.mutable_data()[i] = one.handed;
            from_top.mutable_data()[i] = one.from_top ? 1.0 : 0.0;
            log_factor.mutable_data()[i] = one.log_factor;
            error.mutable_data()[i] = one.error;
            left_out.mutable_data()[i] = one.left_out;
        }
        return py::make_tuple(handed, from_top, log_factor, error, left_out);
    });
}
