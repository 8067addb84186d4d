#include "dpcore/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dpcore/double_double.hpp"
#include "hypotenuse.hpp"

namespace dpcore {

namespace {

// Sum with the rounding errors collected apart; value() is the sum of both.
class CompensatedSum {
public:
    void add(double x) {
        const DoubleDouble s = two_sum(sum_, x);
        sum_ = s.hi;
        errors_ += s.lo;
    }
    void add(const CompensatedSum& other) {
        add(other.sum_);
        errors_ += other.errors_;
    }
    double value() const { return sum_ + errors_; }

private:
    double sum_ = 0.0;
    double errors_ = 0.0;
};

void add_record(std::vector<CompensatedSum>& sums, const double* record) {
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j].add(record[j]);
}

void finish_sums(std::vector<CompensatedSum> sums, const double* last, double divisor, double* out) {
    add_record(sums, last);
    for (std::size_t j = 0; j < sums.size(); ++j) out[j] = sums[j].value() / divisor;
}

// Single numbers: a chain of dependent additions would take four times as long as these independent lanes.
CompensatedSum flat_sum(const double* data, std::size_t count) {
    constexpr std::size_t kLanes = 8;
    CompensatedSum lanes[kLanes];
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (std::size_t j = 0; j < kLanes; ++j) lanes[j].add(data[i + j]);
    CompensatedSum total;
    for (const CompensatedSum& lane : lanes) total.add(lane);
    for (; i < count; ++i) total.add(data[i]);
    return total;
}

std::vector<CompensatedSum> shared_sums(const double* data, std::size_t records, std::size_t width) {
    if (width == 1) return {flat_sum(data, records - 1)};
    std::vector<CompensatedSum> sums(width);
    for (std::size_t i = 0; i + 1 < records; ++i) add_record(sums, data + i * width);
    return sums;
}

// The order statistics of the shared records around the quantile, from which that of all records follows.
class SharedQuantile {
public:
    // `work` holds the shared records and is permuted.
    SharedQuantile(std::vector<double>& work, double probability) {
        const std::size_t records = work.size() + 1;
        const double position = static_cast<double>(records - 1) * probability;
        const double floor = std::floor(position);
        const auto rank = std::min(static_cast<std::size_t>(floor), records - 1);
        fraction_ = position - floor;
        invalid_ = std::any_of(work.begin(), work.end(), [](double x) { return std::isnan(x); });
        if (invalid_) return;
        // Ranks rank - 1, rank and rank + 1 of the shared records, each found in what the one before left over.
        std::size_t from = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            if (rank + i < 1) continue;
            const std::size_t at = rank + i - 1;
            if (at >= work.size()) break;
            std::nth_element(work.begin() + static_cast<std::ptrdiff_t>(from),
                             work.begin() + static_cast<std::ptrdiff_t>(at), work.end());
            around_[i] = work[at];
            from = at + 1;
        }
    }

    double with(double last) const {
        if (invalid_ || std::isnan(last)) return std::numeric_limits<double>::quiet_NaN();
        // Order statistic r of the shared records and `last`: `last` clamped to [shared r - 1, shared r].
        const double low = std::max(around_[0], std::min(last, around_[1]));
        if (fraction_ == 0.0) return low;
        const double high = std::max(around_[1], std::min(last, around_[2]));
        if (low == high) return low;
        // From the nearer end, as NumPy does.
        const double gap = high - low;
        return fraction_ < 0.5 ? low + gap * fraction_ : high - gap * (1.0 - fraction_);
    }

private:
    double around_[3] = {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::infinity()};
    double fraction_ = 0.0;
    bool invalid_ = false;
};

void count_into(double x, const double* edges, std::size_t bins, double* counts) {
    // NaN fails both comparisons.
    if (!(x >= edges[0] && x <= edges[bins])) return;
    const double* after = std::upper_bound(edges, edges + bins + 1, x);
    // x equal to the last edge belongs to the last bin.
    const auto bin = static_cast<std::size_t>(after - edges) - 1;
    counts[std::min(bin, bins - 1)] += 1.0;
}

// Upper triangle of the QR factorisation of rows (features, intercept, response) added one after the other.
class LeastSquares {
public:
    LeastSquares(std::size_t width, bool intercept, double ridge)
        : features_(width - 1),
          unknowns_(width - 1 + (intercept ? 1 : 0)),
          stride_(unknowns_ + 1),
          intercept_(intercept),
          triangle_(unknowns_ * stride_, 0.0),
          row_(stride_) {
        // The penalty is one more row sqrt(ridge) e_j for each feature.
        for (std::size_t j = 0; j < features_; ++j) triangle_[j * stride_ + j] = std::sqrt(ridge);
    }

    void add(const double* record) {
        std::copy(record, record + features_, row_.begin());
        if (intercept_) row_[features_] = 1.0;
        row_[unknowns_] = record[features_];
        for (std::size_t j = 0; j < unknowns_; ++j) {
            const double b = row_[j];
            if (b == 0.0) continue;
            double* r = &triangle_[j * stride_];
            const double a = r[j];
            const double length = radius(a, b);
            const double c = a / length;
            const double s = b / length;
            for (std::size_t k = j; k < stride_; ++k) {
                const double upper = r[k];
                r[k] = c * upper + s * row_[k];
                row_[k] = c * row_[k] - s * upper;
            }
            r[j] = length;
        }
        ++rows_;
    }

    void solve(double* out) const {
        for (std::size_t i = unknowns_; i-- > 0;) {
            const double* r = &triangle_[i * stride_];
            if (singular(i)) {
                std::fill(out, out + unknowns_, std::numeric_limits<double>::quiet_NaN());
                return;
            }
            double value = r[unknowns_];
            for (std::size_t k = i + 1; k < unknowns_; ++k) value -= r[k] * out[k];
            out[i] = value / r[i];
        }
    }

private:
    static double radius(double a, double b) {
        const double square = a * a + b * b;
        // Where the square neither overflows nor loses digits to underflow.
        return square > 1e-280 && square < 1e300 ? std::sqrt(square) : detail::hypotenuse(a, b);
    }

    // Whether column i lies, to working precision, in the span of those before it: its part that is orthogonal to
    // them is no larger than the rounding error of the rotations, relative to the column's length.
    bool singular(std::size_t i) const {
        double length = 0.0;
        for (std::size_t k = 0; k <= i; ++k) length = detail::hypotenuse(length, triangle_[k * stride_ + i]);
        const double rounding = std::numeric_limits<double>::epsilon() * static_cast<double>(rows_ + unknowns_);
        return !(std::fabs(triangle_[i * stride_ + i]) > rounding * length);
    }

    std::size_t features_;
    std::size_t unknowns_;
    std::size_t stride_;
    bool intercept_;
    std::vector<double> triangle_;
    std::vector<double> row_;
    std::size_t rows_ = 0;
};

// Calls `one(group, index)` for each group of records and looks at `stop` about every 2^16 numbers.
template <class Group>
void each_group(const NeighbourBlock& block, StopCheck stop, Group&& one) {
    const std::size_t size = (block.records + 1) * block.width;
    const std::size_t between = std::max<std::size_t>(65536 / size, 1);
    for (std::size_t i = 0; i < block.count; ++i) {
        if (i % between == 0) stop();
        one(block.data + i * size, i);
    }
}

}  // namespace

void sum_pairs(const NeighbourBlock& block, double divisor, double* first, double* second, StopCheck stop) {
    each_group(block, stop, [&](const double* group, std::size_t i) {
        const auto shared = shared_sums(group, block.records, block.width);
        const double* last = group + (block.records - 1) * block.width;
        finish_sums(shared, last, divisor, first + i * block.width);
        finish_sums(shared, last + block.width, divisor, second + i * block.width);
    });
}

void sum_single(const double* data, std::size_t records, std::size_t width, double divisor, double* out) {
    finish_sums(shared_sums(data, records, width), data + (records - 1) * width, divisor, out);
}

void quantile_pairs(const NeighbourBlock& block, double probability, double* first, double* second,
                    StopCheck stop) {
    std::vector<double> work;
    each_group(block, stop, [&](const double* group, std::size_t i) {
        const double* last = group + block.records - 1;
        work.assign(group, last);
        const SharedQuantile shared(work, probability);
        first[i] = shared.with(last[0]);
        second[i] = shared.with(last[1]);
    });
}

double quantile_single(const double* data, std::size_t records, double probability) {
    std::vector<double> work(data, data + records - 1);
    return SharedQuantile(work, probability).with(data[records - 1]);
}

void histogram_pairs(const NeighbourBlock& block, const double* edges, std::size_t bins, double* first,
                     double* second, StopCheck stop) {
    each_group(block, stop, [&](const double* group, std::size_t i) {
        double* a = first + i * bins;
        double* b = second + i * bins;
        std::fill(a, a + bins, 0.0);
        for (std::size_t k = 0; k + 1 < block.records; ++k) count_into(group[k], edges, bins, a);
        std::copy(a, a + bins, b);
        count_into(group[block.records - 1], edges, bins, a);
        count_into(group[block.records], edges, bins, b);
    });
}

void histogram_single(const double* data, std::size_t records, const double* edges, std::size_t bins,
                      double* out) {
    std::fill(out, out + bins, 0.0);
    for (std::size_t k = 0; k < records; ++k) count_into(data[k], edges, bins, out);
}

void regression_pairs(const NeighbourBlock& block, bool intercept, double ridge, double* first, double* second,
                      StopCheck stop) {
    const std::size_t unknowns = block.width - 1 + (intercept ? 1 : 0);
    each_group(block, stop, [&](const double* group, std::size_t i) {
        LeastSquares a(block.width, intercept, ridge);
        for (std::size_t k = 0; k + 1 < block.records; ++k) a.add(group + k * block.width);
        LeastSquares b = a;
        a.add(group + (block.records - 1) * block.width);
        b.add(group + block.records * block.width);
        a.solve(first + i * unknowns);
        b.solve(second + i * unknowns);
    });
}

void regression_single(const double* data, std::size_t records, std::size_t width, bool intercept, double ridge,
                       double* out) {
    LeastSquares fit(width, intercept, ridge);
    for (std::size_t k = 0; k < records; ++k) fit.add(data + k * width);
    fit.solve(out);
}

}  // namespace dpcore
