#include "dpcore/joint_delta.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "count_points.hpp"
#include "half_line.hpp"

namespace dpcore {

namespace {

using detail::SignedPoints;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Gauss-Legendre on [0, 1]. Over a unit cell the integrand varies like exp(+-y/scale) and with the threshold: 4
// points for a scale of 16 or more (error (1/scale)^8 / 8! / 4^8), 16 points below.
constexpr double kGauss4[2][2] = {{0.33998104358485626, 0.65214515486254614},
                                  {0.86113631159405258, 0.34785484513745386}};
constexpr double kGauss16[8][2] = {
    {0.095012509837637440185, 0.18945061045506849629}, {0.28160355077925891323, 0.18260341504492358887},
    {0.45801677765722738634, 0.16915651939500253819},  {0.61787624440264374845, 0.14959598881657673208},
    {0.7554044083550030339, 0.12462897125553387205},   {0.86563120238783174388, 0.09515851168249278481},
    {0.94457502307323257608, 0.062253523938647892863}, {0.9894009349916499326, 0.027152459411754094852}};

// The integrand in y, in units of exp(log_unit).
class Given {
public:
    Given(const SignedPoints& points, double beta, double scale, StopCheck stop)
        : points_(points), base_(points), beta_(beta), scale_(scale), stop_(stop) {
        const double width = points.offset.back() - points.offset.front();
        if (width / scale > 600.0 || !points.log_scale.empty()) points_.log_scale.resize(points.offset.size());
        points_.total = 0.0;  // the sum of the reweighted points is not known
        points_.log_unit = 0.0;
    }

    // y relative to kappa.
    double operator()(double y) {
        const double at_kappa = std::fabs(y);
        for (std::size_t i = 0; i < base_.offset.size(); ++i) {
            const double exponent = (at_kappa - std::fabs(y - base_.offset[i])) / scale_;
            if (points_.log_scale.empty())
                points_.weight[i] = base_.weight[i] * std::exp(exponent);
            else
                points_.log_scale[i] = exponent + (base_.log_scale.empty() ? 0.0 : base_.log_scale[i]);
        }
        const detail::HalfLineSum sum = detail::half_line_sum(points_, beta_, stop_, guess_);
        guess_ = sum.threshold;
        cut_ = cut_ || sum.cut_below || sum.cut_above;
        return std::exp(sum.log_value - at_kappa / scale_) / (2.0 * scale_);
    }
    bool cut() const { return cut_; }

private:
    SignedPoints points_;
    const SignedPoints& base_;
    double beta_;
    double scale_;
    StopCheck stop_;
    double guess_ = 0.0;
    bool cut_ = false;
};

double cell(Given& given, double from, double scale) {
    double sum = 0.0;
    const auto add = [&](const double(&node)[2]) {
        sum += 0.5 * node[1] * (given(from + 0.5 - 0.5 * node[0]) + given(from + 0.5 + 0.5 * node[0]));
    };
    if (scale >= 16.0)
        for (const auto& node : kGauss4) add(node);
    else
        for (const auto& node : kGauss16) add(node);
    return sum;
}

constexpr int kNodes = 11;

// Weights w with sum_{i<length} p(i) = sum_n w_n p(x_n) for every polynomial p of degree < count.
std::vector<double> summation_weights(const std::vector<double>& x, double length) {
    const std::size_t n = x.size();
    // Moments in the Chebyshev basis on [0, length - 1]; the sums of the basis over the integers are plain sums.
    std::vector<double> matrix(n * n);
    std::vector<double> right(n, 0.0);
    const auto basis = [&](double at, std::vector<double>& out) {
        const double u = 2.0 * at / (length - 1.0) - 1.0;
        out[0] = 1.0;
        if (n > 1) out[1] = u;
        for (std::size_t k = 2; k < n; ++k) out[k] = 2.0 * u * out[k - 1] - out[k - 2];
    };
    std::vector<double> values(n);
    for (double i = 0.0; i < length; i += 1.0) {
        basis(i, values);
        for (std::size_t k = 0; k < n; ++k) right[k] += values[k];
    }
    for (std::size_t column = 0; column < n; ++column) {
        basis(x[column], values);
        for (std::size_t row = 0; row < n; ++row) matrix[row * n + column] = values[row];
    }
    for (std::size_t pivot = 0; pivot < n; ++pivot) {
        std::size_t best = pivot;
        for (std::size_t row = pivot + 1; row < n; ++row)
            if (std::fabs(matrix[row * n + pivot]) > std::fabs(matrix[best * n + pivot])) best = row;
        for (std::size_t k = 0; k < n; ++k) std::swap(matrix[pivot * n + k], matrix[best * n + k]);
        std::swap(right[pivot], right[best]);
        for (std::size_t row = pivot + 1; row < n; ++row) {
            const double factor = matrix[row * n + pivot] / matrix[pivot * n + pivot];
            for (std::size_t k = pivot; k < n; ++k) matrix[row * n + k] -= factor * matrix[pivot * n + k];
            right[row] -= factor * right[pivot];
        }
    }
    std::vector<double> out(n);
    for (std::size_t row = n; row-- > 0;) {
        double value = right[row];
        for (std::size_t k = row + 1; k < n; ++k) value -= matrix[row * n + k] * out[k];
        out[row] = value / matrix[row * n + row];
    }
    return out;
}

// 7-point Gauss and 15-point Kronrod on [-1, 1]: node, weight of the 15, weight of the 7 (0 where it is not one).
constexpr double kKronrod[8][3] = {
    {0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0},
    {0.949107912342758524526189684047851, 0.063092092629978553290700663189204,
     0.129484966168869693270611432679082},
    {0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0},
    {0.741531185599394439863864773280788, 0.140653259715525918745189590510238,
     0.279705391489276667901467771423780},
    {0.586087235467691130294144691692986, 0.169004726639267902826583426598550, 0.0},
    {0.405845151377397166906606412076961, 0.190350578064785409913256402421014,
     0.381830050505118944950369775488975},
    {0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0},
    {0.0, 0.209482141084727828012999174891714, 0.417959183673469387755102040816327}};

// A stretch of y with its integral: a panel of whole cells, or (cells == 0) an interval inside one cell.
struct Stretch {
    double from;
    double length;
    double cells;
    double value;
    double error;
    bool operator<(const Stretch& other) const { return error < other.error; }
};

// A rule of about half the degree errs by `gap` of the value: the rule itself by about its square where the
// integrand is smooth, of which 1.5 is a pessimistic version, and by no less where it is not.
double estimated_error(double fine, double coarse) {
    const double gap = std::fabs(fine - coarse);
    const double share = gap / std::max(std::fabs(fine), 1e-300);
    return share > 1e-3 ? gap : gap * std::sqrt(share);
}

Stretch interval(Given& given, double from, double length) {
    double fine = 0.0;
    double coarse = 0.0;
    for (const auto& node : kKronrod) {
        const double half = 0.5 * length;
        const double value = node[0] == 0.0
                                 ? given(from + half)
                                 : given(from + half - half * node[0]) + given(from + half + half * node[0]);
        fine += half * node[1] * value;
        coarse += half * node[2] * value;
    }
    return {from, length, 0.0, fine, estimated_error(fine, coarse)};
}

Stretch panel(Given& given, double from, double cells, double scale) {
    std::vector<double> nodes;
    std::vector<double> values;
    for (int n = 0; n < kNodes; ++n) {
        nodes.push_back(std::round((cells - 1.0) * 0.5 * (1.0 - std::cos(M_PI * n / (kNodes - 1.0)))));
        values.push_back(cell(given, from + nodes.back(), scale));
    }
    const std::vector<double> weights = summation_weights(nodes, cells);
    std::vector<double> few;
    for (std::size_t n = 0; n < nodes.size(); n += 2) few.push_back(nodes[n]);
    const std::vector<double> coarse_weights = summation_weights(few, cells);
    double fine = 0.0;
    double coarse = 0.0;
    for (std::size_t n = 0; n < nodes.size(); ++n) fine += weights[n] * values[n];
    for (std::size_t n = 0; n < few.size(); ++n) coarse += coarse_weights[n] * values[2 * n];
    return {from, cells, cells, fine, estimated_error(fine, coarse)};
}

struct Integral {
    double value = 0.0;
    double error = 0.0;
    bool cut = false;
};

// Stretches are divided where their estimated error is largest, until it is below this share of the whole.
constexpr double kAccuracy = 1e-9;
constexpr int kMostDivisions = 2000;

Integral integrate(const SignedPoints& points, double beta, double scale, double deviation, StopCheck stop) {
    Given given(points, beta, scale, stop);
    const double first = points.offset.front();
    const double last = points.offset.back();
    // Beyond the points the integrand falls as exp(-|y|/scale).
    const double outside = scale * (given(first) + given(last));
    const double cells = last - first;
    std::vector<Stretch> heap;
    const auto add = [&](double from, double count) {
        if (count >= 2.0 * kNodes) {
            heap.push_back(panel(given, from, count, scale));
            std::push_heap(heap.begin(), heap.end());
            return;
        }
        for (double i = 0.0; i < count; i += 1.0) {
            heap.push_back(interval(given, from + i, 1.0));
            std::push_heap(heap.begin(), heap.end());
        }
    };
    // Panels about as long as the integrand is smooth.
    const double length = std::max(1.0, std::floor(std::min({2.0 * deviation, 2.0 * scale, cells})));
    for (double start = 0.0; start < cells; start += length) add(first + start, std::min(length, cells - start));
    Integral out;
    for (int i = 0;; ++i) {
        out.value = outside;
        out.error = 0.0;
        for (const Stretch& stretch : heap) {
            out.value += stretch.value;
            out.error += stretch.error;
        }
        if (!(out.error > kAccuracy * out.value) || i == kMostDivisions) break;
        // A sixteenth of the error is left behind at a time, so that the sums above cost little.
        for (double left = out.error; left > 0.9375 * out.error && i < kMostDivisions; ++i) {
            std::pop_heap(heap.begin(), heap.end());
            const Stretch top = heap.back();
            heap.pop_back();
            left -= top.error;
            if (top.cells > 0.0) {
                const double part = std::floor(0.5 * top.cells);
                add(top.from, part);
                add(top.from + part, top.cells - part);
            } else {
                for (const double from : {top.from, top.from + 0.5 * top.length}) {
                    heap.push_back(interval(given, from, 0.5 * top.length));
                    std::push_heap(heap.begin(), heap.end());
                }
            }
        }
    }
    out.cut = given.cut();
    return out;
}

CountDelta one_direction(double epsilon, std::int64_t unknown, double bias, double beta, double scale,
                         bool reflected, StopCheck stop) {
    const detail::Problem problem = detail::make_problem(epsilon, unknown, bias, reflected);
    for (double widen = 1.3;; widen *= 1.5) {
        // The Laplace factor tilts the law by up to 1/scale in either direction: look as far as the noise and the
        // law themselves reach for the epsilons between.
        const detail::Extent extent = detail::extent_of(problem, beta, widen);
        SignedPoints points;
        if (detail::is_deep(problem, extent))
            detail::deep_points(problem, extent, beta, true, points, stop);
        else
            detail::window_points(problem, extent, beta, true, points, stop);
        const Integral sum = integrate(points, beta, scale, extent.deviation, stop);
        if (sum.cut && widen < 20.0) continue;
        const double log_value = std::log(sum.value) + points.log_unit;
        return {std::min(0.0, log_value),
                sum.error / sum.value + (1000.0 + 100.0 * std::fabs(log_value)) * 0x1p-53};
    }
}

}  // namespace

CountDelta joint_delta(double epsilon, std::int64_t unknown, double bias, double noise_scale,
                       double estimate_scale, Direction direction, StopCheck stop) {
    if (!(estimate_scale > 0.0 && estimate_scale < kInfinity))
        throw std::invalid_argument("estimate_scale must be finite and > 0");
    // Without noise the second release is the count itself and the first adds nothing.
    if (noise_scale < detail::kLeastNoise)
        return count_delta(epsilon, unknown, bias, noise_scale, direction, stop);
    if (direction == Direction::both) {
        const CountDelta add =
            joint_delta(epsilon, unknown, bias, noise_scale, estimate_scale, Direction::add, stop);
        const CountDelta remove =
            joint_delta(epsilon, unknown, bias, noise_scale, estimate_scale, Direction::remove, stop);
        return add.log_delta >= remove.log_delta ? add : remove;
    }
    if (!(epsilon > 0.0 && epsilon < kInfinity)) throw std::invalid_argument("epsilon must be finite and > 0");
    if (!(noise_scale < kInfinity)) throw std::invalid_argument("noise_scale must be finite and >= 0");
    if (unknown < 0 || unknown >= (std::int64_t{1} << 53))
        throw std::invalid_argument("unknown must be in [0, 2^53)");
    if (!(bias >= 0.0 && bias <= 1.0)) throw std::invalid_argument("bias must be in [0, 1]");
    // No unknown record is one record that never counts in disguise: the two-point law is the same for any bias.
    if (unknown == 0 || bias < detail::kNoBias || bias == 1.0) {
        unknown = 0;
        bias = 0.5;
    }
    return one_direction(epsilon, unknown, bias, noise_scale, estimate_scale, direction == Direction::remove,
                         stop);
}

}  // namespace dpcore
