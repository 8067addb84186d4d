#include "joint_cell.hpp"

#include <algorithm>

namespace dpcore::detail {

namespace {

using Index = std::ptrdiff_t;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 0x1p-53;

}  // namespace

double log_plus(double a, double b) {
    const double top = std::max(a, b);
    if (top == -kInfinity || top == kInfinity) return top;
    return top + std::log(std::exp(a - top) + std::exp(b - top));
}

CellSum cell_difference(const Part& positive, const Part& negative) {
    CellSum out;
    out.top = std::max(positive.top, negative.top);
    if (out.top == -kInfinity) return out;
    const double a = std::exp(positive.top - out.top);
    const double b = std::exp(negative.top - out.top);
    out.sum = a * positive.sum - b * negative.sum;
    out.absolute = a * positive.sum + b * negative.sum;
    // exp of the difference of two tops: their difference is exact to u, the exponential to 2 u
    const double distance = std::min(700.0, std::fabs(positive.top - negative.top));
    out.error = a * positive.error + b * negative.error + kRounding * (8.0 + distance) * out.absolute;
    const double moment = a * positive.moment + b * negative.moment;
    out.mean = moment / out.absolute;
    out.variance = (a * positive.second + b * negative.second - out.mean * moment) / out.sum;
    out.drift = (a * positive.moment - b * negative.moment) / out.sum - out.mean;
    return out;
}

CellRanges below_cell(const JointLaw& law, Index j) {
    return {{0, std::min(j, law.pivot() - 1)}, {law.pivot(), j}};
}
CellRanges above_cell(const JointLaw& law, Index j) {
    return {{std::max(j + 1, law.pivot()), law.size() - 1}, {j + 1, law.pivot() - 1}};
}
Query cell_query(std::pair<Index, Index> range, double z, Index j, bool tilted) {
    return {range.first, range.second, z, z, j, tilted};
}
CellSum cell_sums(const JointLaw& law, const CellRanges& ranges, double z, Index j, bool tilted) {
    return cell_difference(law.part(cell_query(ranges.positive, z, j, tilted)),
                           law.part(cell_query(ranges.negative, z, j, tilted)));
}

CellValue cell_value(const Difference& s, const Difference& a, const Difference& b, double log_common) {
    CellValue out;
    const double log_root = 0.5 * (a.top + b.top);
    out.top = std::max(s.top, log_root);
    if (out.top == -kInfinity) return out;
    const double scale = std::exp(s.top - out.top);
    const double root_scale = std::exp(log_root - out.top);
    const double root = std::sqrt(std::max(0.0, a.sum) * std::max(0.0, b.sum)) * root_scale;
    const double most = std::sqrt(std::max(0.0, a.sum + a.error) * std::max(0.0, b.sum + b.error)) * root_scale;
    const double least = std::sqrt(std::max(0.0, a.sum - a.error) * std::max(0.0, b.sum - b.error)) * root_scale;
    out.value = s.sum * scale - root;
    const double exponents = std::fabs(s.top) + std::fabs(a.top) + std::fabs(b.top);
    out.error = s.error * scale + (most - least) +
                kRounding * (16.0 + 2.0 * exponents) * (s.absolute * scale + most) +
                kRounding * 8.0 * std::fabs(log_common) * std::fabs(out.value);
    out.top += log_common;
    return out;
}

}  // namespace dpcore::detail
