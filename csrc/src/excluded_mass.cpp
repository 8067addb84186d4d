#include "dpcore/excluded_mass.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "dpcore/double_double.hpp"

namespace dpcore {

namespace {

// Whether the losses fall before some place and rise after it. Equal neighbours are left to the sort, so that ties
// are left out in the same order on both ways.
bool is_valley(const double* losses, std::size_t count) {
    std::size_t i = 1;
    while (i < count && losses[i] < losses[i - 1]) ++i;
    while (i < count && losses[i] > losses[i - 1]) ++i;
    return i >= count;
}

class Budget {
public:
    explicit Budget(double budget) : budget_(budget) {}
    // Takes the mass off the budget if that leaves something.
    bool take(double mass) {
        const DoubleDouble more = sum_ + mass;
        if (!((more - budget_).hi < 0.0)) return false;
        sum_ = more;
        return true;
    }
    // An upper bound: the sum itself may be off by 2^-100.
    double taken() const {
        if (sum_.hi == 0.0 || sum_.lo < -0x1p-100 * sum_.hi) return sum_.hi;
        return std::nextafter(sum_.hi, std::numeric_limits<double>::infinity());
    }

private:
    DoubleDouble sum_;
    double budget_;
};

}  // namespace

ExcludedMass exclude_mass(const double* losses, const double* masses, std::size_t count, double budget,
                          StopCheck stop) {
    if (count == 0) throw std::invalid_argument("there must be at least one class");
    if (!(budget >= 0.0 && budget < std::numeric_limits<double>::infinity()))
        throw std::invalid_argument("budget must be a finite number >= 0");
    for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan(losses[i])) throw std::invalid_argument("losses must not be NaN");
        if (!(masses[i] >= 0.0 && masses[i] < std::numeric_limits<double>::infinity()))
            throw std::invalid_argument("masses must be finite numbers >= 0");
    }
    stop();
    Budget left(budget);
    if (is_valley(losses, count)) {
        std::size_t low = 0;
        std::size_t high = count;  // one past the last that stays
        while (low < high) {
            const std::size_t worst = losses[low] >= losses[high - 1] ? low : high - 1;
            if (!left.take(masses[worst])) return {worst, low + (count - high), left.taken()};
            worst == low ? ++low : --high;
        }
    } else {
        std::vector<std::size_t> order(count);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return losses[a] > losses[b]; });
        for (std::size_t i = 0; i < count; ++i)
            if (!left.take(masses[order[i]])) return {order[i], i, left.taken()};
    }
    throw std::invalid_argument("budget must be at most the mass of all classes together, got " +
                                std::to_string(budget));
}

}  // namespace dpcore
