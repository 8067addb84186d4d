#include "bin_masses.hpp"

#include "dpcore/exp_block.hpp"

namespace dpcore::detail {

void integrate_mixture(Collector& out, double step, double low, double high, double longest, double s2, double q,
                       bool removal, double loss_low, double loss_high, StopCheck check) {
    constexpr std::size_t kNodes = 512;
    double x[kNodes], y[kNodes], density[kNodes], weight[kNodes], origin[kNodes];
    std::size_t cell[kNodes];
    bool second[kNodes];
    std::size_t count = 0;
    const double unit = 0.39894228040143267794 / std::sqrt(s2);
    const double most = out.largest_fall();
    const auto flush = [&] {
        for (std::size_t i = 0; i < count; ++i) {
            y[i] = (x[i] - 0.5) / s2;
            density[i] = -x[i] * x[i] / (2.0 * s2);
        }
        exp_block(y, y, count);
        exp_block(density, density, count);
        for (std::size_t i = 0; i < count; ++i) {
            const double ratio = (1.0 - q) + q * y[i];
            const double down = removal ? origin[i] / ratio : origin[i] * ratio;
            const double mass = weight[i] * unit * density[i] * (removal ? ratio : 1.0);
            out.add_fallen(cell[i], std::min(most, std::max(0.0, 1.0 - down)), mass, second[i]);
        }
        count = 0;
    };
    const double half = 0.5 * step;
    const double offset = out.point(0.0);
    const double from = std::floor((loss_low - offset) / half);
    const double last = std::floor((loss_high - offset) / half);
    refuse(0.5 * (last - from));
    refuse((high - low) / longest);  // far out in the tail the panels, not the buckets, are the work
    const double sign = removal ? 1.0 : -1.0;
    double edge = removal ? low : high;  // where the last panel ended
    double base = 1.0;                   // e^{point of the cell}
    std::size_t turns = 0;
    for (double m = from; m <= last; m += 1.0) {
        const double n = std::floor(0.5 * m);
        const bool second_half = m - 2.0 * n > 0.5;
        if (!second_half || m == from) base = std::exp(offset + step * n);
        double a = edge;
        double b = removal ? high : low;
        if (m != last) {
            const double v = (std::exp(sign * (offset + half * (m + 1.0))) - (1.0 - q)) / q;
            b = v > 0.0 ? std::min(high, std::max(low, 0.5 + s2 * std::log(v))) : low;
        }
        b = removal ? std::max(a, b) : std::min(a, b);  // rounding must not turn a panel round
        edge = b;
        if (a > b) std::swap(a, b);
        const double pieces = std::max(1.0, std::ceil((b - a) / longest));
        for (double p = 0.0; p < pieces; p += 1.0) {
            if (turns++ % 16384 == 0) check();
            const double left = a + (b - a) * (p / pieces);
            const double right = a + (b - a) * ((p + 1.0) / pieces);
            const double middle = 0.5 * (left + right);
            const double radius = 0.5 * (right - left);
            const Rule& rule = rule_for(right - left, longest);
            if (count + static_cast<std::size_t>(rule.points) > kNodes) flush();
            for (int k = 0; k < rule.points; ++k) {
                x[count] = middle + radius * rule.node[k];
                weight[count] = radius * rule.weight[k];
                origin[count] = base;
                cell[count] = out.index(n);
                second[count] = second_half;
                ++count;
            }
        }
    }
    flush();
}

}  // namespace dpcore::detail
