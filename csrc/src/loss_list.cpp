#include "loss_list.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dpcore/enumeration.hpp"
#include "lattice_sums.hpp"
#include "periodic_line.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLossWork = 200.0;  // nanoseconds of a loss: a logarithm, and the sorting
constexpr double kUnderflow = 1e-300;
constexpr std::size_t kOutline = 48;  // losses of an outline

// How many sums a term has.
double sums_size(const Term& term, double c, StopCheck stop) {
    if (is_periodic(*term.law)) return lattice_sums_size(term, c, stop);
    return term.law->atom_count() > 0.0 ? Enumeration::size(Composition::of({term})) : kInf;
}

}  // namespace

LossList::Division LossList::divide(const std::vector<Term>& terms, double c, StopCheck stop) {
    struct Choice {
        const Term* term;
        double size;
    };
    std::vector<Choice> rising;
    rising.reserve(terms.size());
    for (const Term& t : terms) rising.push_back({&t, sums_size(t, c, stop)});
    std::stable_sort(rising.begin(), rising.end(),
                     [](const Choice& a, const Choice& b) { return a.size < b.size; });
    Division out;
    double count = 1.0;
    for (const Choice& choice : rising) {
        count *= choice.size;
        (count <= kMostLosses ? out.listed : out.others).push_back(*choice.term);
    }
    return out;
}

std::optional<LossList> LossList::of(const std::vector<Term>& terms, double c, StopCheck stop) {
    LossList out;
    std::vector<LatticeSums> lattices;
    std::vector<Term> atoms;
    double log_mass = 0.0;
    for (const Term& t : terms) {
        if (!is_periodic(*t.law)) {
            atoms.push_back(t);
            continue;
        }
        auto sums = lattice_sums(t, c, stop);
        if (!sums) return std::nullopt;
        log_mass += sums->log_mass;
        out.rel_ += sums->rel + sums->log_mass_err + kRound * (1.0 + std::fabs(log_mass));
        out.lost_ += sums->lost;
        lattices.push_back(std::move(*sums));
    }
    const Composition apart = Composition::of(std::move(atoms));
    const Enumeration all(apart, stop);
    const double size = size_of(lattices, std::max(std::fabs(apart.max_loss), std::fabs(apart.min_loss)));
    double count = static_cast<double>(all.points().size());
    out.underflow_ = kUnderflow * count;
    for (const LatticeSums& t : lattices) count *= static_cast<double>(t.mass.size());
    if (!(count <= 16.0 * kMostLosses)) return std::nullopt;  // lattice_sums_size is approximate
    stop.spend(kLossWork * count);
    const double off = 0x1p-94 * size + all.loss_err();
    double lost = 0.0;
    double largest = 0.0;  // of what goes into a logarithm
    for (const Enumeration::Point& p : all.points()) {
        if (!(p.mass > 0.0)) continue;
        const double log_point = std::log(p.mass);
        const auto use = [&](DoubleDouble loss, double tilted) {
            const DoubleDouble sum = loss + p.loss;
            const double slip = std::fabs(sum.lo) + off;
            const double log_tilted = std::log(tilted);
            out.losses_.push_back({std::nextafter(sum.hi - slip, -kInf), std::nextafter(sum.hi + slip, kInf),
                                   log_point + log_tilted + (log_mass - c * loss.hi)});
            largest = std::max(largest, std::fabs(log_point) + std::fabs(log_tilted) + std::fabs(log_mass) +
                                            std::fabs(c * loss.hi));
        };
        lost = each_sum(lattices, 0, DoubleDouble(), 1.0, use) * (1.0 + 1e-6);  // the same for all of them
    }
    out.lost_ += lost;
    // Logarithms and their sum; c loss has an error of two roundings, and that of the loss's own rounding.
    out.rel_ = kSlack * (out.rel_ + all.mass_err() + 2.0 * kLibm + (2.0 * kLibm + 8.0 * kRound) * largest);
    std::sort(out.losses_.begin(), out.losses_.end(), [](const Loss& a, const Loss& b) { return a.low < b.low; });
    std::size_t kept = 0;
    for (const Loss& l : out.losses_) {
        if (kept == 0 || l.low > out.losses_[kept - 1].high) {
            out.losses_[kept++] = l;
            continue;
        }
        Loss& same = out.losses_[kept - 1];
        const double top = std::max(same.log_mass, l.log_mass);
        same.high = std::max(same.high, l.high);
        same.log_mass = top + std::log1p(std::exp(std::min(same.log_mass, l.log_mass) - top));
        out.rel_ += 2.0 * kLibm + kRound * (1.0 + std::fabs(top));
    }
    out.losses_.resize(kept);
    if (out.losses_.empty() || !(out.rel_ < 1e-6)) return std::nullopt;
    return out;
}

LossList::Mass LossList::mass(std::size_t first, std::size_t last) const {
    Mass out = {-kInf, 0.0};
    for (std::size_t i = first; i < last; ++i) out.log_top = std::max(out.log_top, losses_[i].log_mass);
    for (std::size_t i = first; i < last; ++i) out.sum += std::exp(losses_[i].log_mass - out.log_top);
    return out;
}

LogBounds LossList::log_mass(std::size_t first, std::size_t last) const {
    const Mass m = mass(first, last);
    const double log_mass = m.log_top + std::log(m.sum);
    const double off = rel_ + kRound * static_cast<double>(last - first + 2) + 3.0 * kLibm +
                       4.0 * kRound * (std::fabs(m.log_top) + std::fabs(log_mass));
    return {log_mass - kSlack * off, log_mass + kSlack * off};
}

std::vector<WeightedPoint> LossList::points(std::size_t first, std::size_t last, double epsilon) const {
    const Mass m = mass(first, last);
    const double log_mass = m.log_top + std::log(m.sum);
    std::vector<WeightedPoint> out;
    out.reserve(last - first);
    for (std::size_t i = last; i-- > first;) {
        const Loss& l = losses_[i];
        const double low = std::nextafter(epsilon - l.high, -kInf);
        const double high = std::nextafter(epsilon - l.low, kInf);
        const double x = 0.5 * (low + high);
        out.push_back({x, std::nextafter(std::max(high - x, x - low), kInf), l.log_mass - log_mass});
    }
    return out;
}

double LossList::points_err(std::size_t first, std::size_t last) const {
    double largest = 0.0;
    for (std::size_t i = first; i < last; ++i) largest = std::max(largest, std::fabs(losses_[i].log_mass));
    return kSlack *
           (2.0 * rel_ + kRound * static_cast<double>(last - first + 4) + 4.0 * kLibm + 4.0 * kRound * largest);
}

LawPtr LossList::outline(std::size_t first, std::size_t last) const {
    const Mass m = mass(first, last);
    const std::size_t block = (last - first + kOutline - 1) / kOutline;
    std::vector<Atom> atoms;
    for (std::size_t from = first; from < last; from += block) {
        double p = 0.0, loss = 0.0;
        const std::size_t to = std::min(from + block, last);
        for (std::size_t i = from; i < to; ++i) {
            const double own = std::exp(losses_[i].log_mass - m.log_top) / m.sum;
            p += own;
            loss += own * losses_[i].low;
        }
        if (p > 1e-290) atoms.push_back({loss / p, 0.0, p, 0.0});
    }
    return atoms_law(std::move(atoms), 0.0);
}

}  // namespace dpcore::detail
