#include "bucket_collector.hpp"

#include "bucket_limit.hpp"
#include "dpcore/certified.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// e^x - 1, by its series where x is small as within a cell: the library would be most of the work.
double quick_expm1(double x) {
    if (!(std::fabs(x) < 0.01)) return std::expm1(x);
    return x *
           (1.0 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x / 5040))))));
}

}  // namespace

Collector::Collector(double step, double offset, double low, double high, bool dense, double tilt)
    : step_(step), offset_(offset), tilt_(tilt), dense_(dense) {
    const double from = std::floor((low - offset) / step) - 1.0;
    const double to = std::ceil((high - offset) / step) + 1.0;
    refuse(to - from + 1.0);
    first_ = static_cast<std::int64_t>(from);
    size_ = static_cast<std::size_t>(to - from) + 1;
    upper_.assign(size_, 0.0);
    if (dense) points_.assign(2 * size_, {0.0, 0.0});
    denominator_ = -std::expm1(-step);
    half_ = -std::expm1(-0.5 * step) * (1.0 - 1e-9);
    for (std::size_t n = 0; n <= kNear; ++n) {
        const double distance = step * static_cast<double>(n);
        below_[n] = {std::expm1(distance), std::exp(distance), std::exp(tilt * distance)};
    }
}

void Collector::add_point(double loss, double upper, double lower, double moved) {
    const double n = std::floor((loss - offset_) / step_);
    double above = loss - point(n);
    double at = n;
    if (above < 0.0) {
        at -= 1.0;
        above += step_;
    }
    if (above > step_) {
        at += 1.0;
        above -= step_;
    }
    const double snap = moved + 4.0 * kRound * (std::fabs(loss) + std::fabs(offset_));
    if (step_ - above <= snap) {
        at += 1.0;
        above = 0.0;
    }
    if (above <= snap) above = 0.0;
    const std::size_t i = index(at);
    const double fall = -quick_expm1(-above);
    const double share = std::min(1.0, fall / denominator_);
    const double turn = tilt_ == 0.0 ? 1.0 : std::exp(-tilt_ * above);
    upper_[i + 1] += upper * share * (turn * below_[1].turn);
    upper_[i] += upper * (1.0 - share) * turn;
    lower *= turn;
    if (dense_) {
        add_lower(points_[2 * i + (above < 0.5 * step_ ? 0 : 1)], lower, fall);
    } else {
        points_.push_back({lower, lower * fall});
        cells_.push_back(static_cast<std::uint32_t>(i));
    }
    run_ = i == last_ ? run_ + 1 : 1;
    last_ = i;
    longest_run_ = std::max(longest_run_, run_);
}

Buckets Collector::finish() {
    Buckets out;
    out.step = step_;
    out.offset = offset_;
    out.first = first_;
    out.upper.mass = std::move(upper_);
    out.mass_err = kMassErr;
    sort_points();
    out.lower.mass.assign(size_, 0.0);
    gather_points(out.lower.mass);
    return out;
}

void Collector::sort_points() {
    // 1 - e^-above is known to the error of the rule, or of its rounding: the points are put where that is
    // surely reached. Next to 1, in cells of many units, that leaves much of the cell open.
    constexpr double kSurely = 1.0 - kSurplus;
    for (Placed& p : points_) p.fall *= kSurely;
    if (dense_) return;
    const auto lower = [&](std::size_t a, std::size_t b) {
        if (cells_[a] != cells_[b]) return cells_[a] < cells_[b];
        return points_[a].fall * points_[b].mass < points_[b].fall * points_[a].mass;
    };
    const auto sorted = [&] {
        for (std::size_t k = 1; k < points_.size(); ++k)
            if (lower(k, k - 1)) return false;
        return true;
    };
    if (sorted()) return;
    std::reverse(points_.begin(), points_.end());
    std::reverse(cells_.begin(), cells_.end());
    if (sorted()) return;
    std::vector<std::size_t> order(points_.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::sort(order.begin(), order.end(), lower);
    std::vector<Placed> points;
    std::vector<std::uint32_t> cells;
    for (const std::size_t k : order) {
        points.push_back(points_[k]);
        cells.push_back(cells_[k]);
    }
    points_.swap(points);
    cells_.swap(cells);
}

void Collector::gather_points(std::vector<double>& lower) {
    if (points_.empty()) return;
    const bool fine =
        static_cast<double>(points_.size()) > 1.5 * static_cast<double>(cell(points_.size() - 1) - cell(0));
    for (std::size_t k = points_.size(); k > 0;) {
        if (!(points_[k - 1].mass > 0.0)) {
            --k;
            continue;
        }
        const std::size_t end = k;
        // Surplus: sum of mass (1 - e^{-(l - point)}) over the points above it.
        Group group = {cell(k - 1), 0.0, 0.0, 0.0};
        for (; k > 0 && cell(k - 1) == group.point; --k) {
            group.merged += points_[k - 1].mass;
            group.surplus += points_[k - 1].fall;
        }
        group.count = static_cast<double>(end - k);
        // Less than the surplus allows by more than its sums' roundings and those of the deficits.
        group.surplus *= 1.0 - 1e-12 - 4.0 * kRound * group.count;
        take_below(group, k, fine);
        // An even share leaves what rounding has left of the surplus.
        if (group.surplus > 1e-9 * step_ * group.merged) group.merged -= raise(lower, k, end, group);
        lower[group.point] += group.merged;
        most_merged_ = std::max(most_merged_, group.count);
    }
}

Collector::Below Collector::below(std::size_t n) const {
    if (n <= kNear) return below_[n];
    const double distance = step_ * static_cast<double>(n);
    return {std::expm1(distance), std::exp(distance), tilt_ == 0.0 ? 1.0 : std::exp(tilt_ * distance)};
}

void Collector::take(Group& group, std::size_t k) {
    Placed& p = points_[k];
    const Below b = below(group.point - cell(k));
    const double deficit = deficit_of(p, b);
    group.count += 1.0;
    if (deficit * (1.0 + 1e-14) <= group.surplus) {
        group.surplus = (group.surplus - deficit) * (1.0 - 4.0 * kRound) - 4.0 * kRound * group.surplus;
        group.merged += p.mass * b.turn;
        p = {0.0, 0.0};
        return;
    }
    // What is out of the range of double is left where it is.
    const double share = deficit < kInf && b.turn < kInf ? group.surplus / deficit * (1.0 - 1e-14) : 0.0;
    if (share > 0.0) group.merged += share * p.mass * b.turn;
    p = {p.mass * (1.0 - share), p.fall * (1.0 - share)};
    group.surplus = 0.0;
}

void Collector::take_below(Group& group, std::size_t k, bool fine) {
    std::size_t q = k;
    const auto within = [&](std::size_t cells) { return q > 0 && group.point - cell(q - 1) <= cells; };
    if (fine) {
        for (; group.surplus > 0.0 && within(1) && points_[q - 1].fall >= half_ * points_[q - 1].mass; --q)
            if (points_[q - 1].mass > 0.0) take(group, q - 1);
        for (const std::size_t reach : {std::size_t{2}, std::size_t{8}, kNear}) {
            if (!(group.surplus > 0.0)) return;
            const std::size_t from = q;
            double deficit = 0.0, mass = 0.0;
            for (; within(reach); --q) {
                const Below b = below_[group.point - cell(q - 1)];
                deficit += deficit_of(points_[q - 1], b);
                mass += points_[q - 1].mass * b.turn;
            }
            if (!(deficit < kInf && mass < kInf)) break;
            const double number = static_cast<double>(from - q);
            const double most = group.surplus * (1.0 - 1e-12 - 8.0 * kRound * number);
            const double share = deficit > 0.0 ? std::min(0.5, most / deficit) : 0.5;
            for (std::size_t i = from; i > q; --i) {
                points_[i - 1].mass *= 1.0 - share;
                points_[i - 1].fall *= 1.0 - share;
            }
            group.merged += share * mass;
            group.count += number;
            group.surplus -= share * deficit * (1.0 + 8.0 * kRound * (number + 1.0));
            if (share < 0.5) return;
        }
        q = k;
    }
    for (; q > 0 && group.surplus > 0.0; --q)
        if (points_[q - 1].mass > 0.0) take(group, q - 1);
}

double Collector::raise(std::vector<double>& lower, std::size_t k, std::size_t end, const Group& group) const {
    const std::size_t next = group.point + 1;
    // All that would have to be raised, and what that needs. Points next to the grid point have no surplus to
    // speak of: raising them would cost a step.
    constexpr double kNext = 1e-3;
    const double surplus = group.surplus * (1.0 - 1e-12 - 4.0 * kRound * static_cast<double>(end - k));
    double left = surplus, leaves = 0.0, arrives = 0.0, deficit = 0.0;
    for (std::size_t i = end; i > k && left > 1e-6 * surplus; --i) {
        const Placed& p = points_[i - 1];
        if (!(p.mass > 0.0)) continue;
        if (p.fall < kNext * denominator_ * p.mass) break;
        const double share = p.fall <= left ? 1.0 : left / p.fall;
        left -= share * p.fall;
        leaves += share * p.mass;
        arrives += share * p.mass * below_[1].turn;
        deficit += share * deficit_of(p, below_[1]);
    }
    if (!(deficit > 0.0 && deficit < kInf)) return 0.0;
    deficit *= 1.0 + 1e-11;
    // Half of what lies beyond, as far as it takes: an atom at the lowest loss of a density needs that of some
    // square root of its own distance. e^{-n step} and 1 - e^{-n step} of what is n cells beyond.
    constexpr std::size_t kFarthest = 8192;
    const std::size_t most = std::min(size_, next + 1 + kFarthest);
    std::size_t last = next + 1;
    double available = 0.0;
    for (; last < most && !(available > deficit); ++last)
        if (lower[last] > 0.0) {
            const Below b = below(last - next);
            if (!(b.grow < kInf && b.turn < kInf)) break;
            available += 0.5 * lower[last] / b.turn * (b.rise / b.grow);
        }
    if (!(available > 0.0)) return 0.0;
    // Sums of at most kFarthest terms: below 1e-12.
    const double part = std::min(1.0, available / deficit * (1.0 - 1e-11));
    const double share = 0.5 * std::min(1.0, part * deficit / available);
    double received = part * arrives;
    for (std::size_t j = next + 1; j < last; ++j) {
        if (!(lower[j] > 0.0)) continue;
        const double taken = share * lower[j];
        lower[j] -= taken;
        received += taken / below(j - next).turn;
    }
    lower[next] += received * (1.0 - 1e-12);
    return part * leaves;
}

}  // namespace dpcore::detail
