#include "atom_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace dpcore::detail {

namespace {

// Products of one convolution: about a tenth of a second each (by index; by pairs, which are sorted).
constexpr double kLatticeProducts = 1e8;
constexpr double kPairProducts = 1e6;
constexpr double kProductWork = 0.5;  // nanoseconds
constexpr double kPairWork = 100.0;
constexpr double kMostAtoms = 2e4;
constexpr double kCut = 1e-17;        // of the mass, at each end
constexpr double kExponents = 600.0;  // tilts turn no mass by more than e to this

struct Block {
    AtomBlock atoms;
    std::int64_t first = 0;  // lattice: index of the first atom
};

class Blocks {
public:
    Blocks(const Lattice& lattice, const Tilts& tilts) : tilts_(tilts), lattice_(lattice) {}

    std::optional<Block> one(const LossLaw& law) const {
        struct Entry {
            double loss, log_mass;
        };
        std::vector<Entry> atoms;
        Block out;
        AtomBlock& b = out.atoms;
        double largest = 0.0;  // of the exponents
        b.mass_err = law.log_mass_err();
        if (law.kind() == LawKind::discrete_gaussian) {
            const std::vector<double> p = law.parameters();
            const double s = p[0];
            const double shift = p[1];
            const double slope = shift / (s * s);
            const double rho = 0.5 * shift * slope;
            // Tilted by c it is centred at -c shift: all but 4e-16 under each tilt.
            const double reach = std::sqrt(2.0 * std::log(1e16)) * s + 1.0;
            const double low = -shift * tilts_.far - reach;
            const double high = reach - shift * tilts_.near;
            if (!(high - low < kMostAtoms)) return {};
            const double total = discrete_gaussian_sum(s);
            for (double x = std::floor(high); x >= low; x -= 1.0)
                atoms.push_back({rho - slope * x, -x * x / (2.0 * s * s) - std::log(total)});
            b.loss_err = 4.0 * kRound * (rho + slope * std::max(std::fabs(high), std::fabs(low)));
            b.mass_err += 8.0 * kRound + 3.0 * kLibm;  // the sum, and its logarithm
            b.tail = 4e-16;
        } else if (law.kind() == LawKind::two_point || law.kind() == LawKind::atoms) {
            if (!(law.atom_count() < kMostAtoms)) return {};
            double own_err = 0.0;
            for (const Atom& a : law.atoms()) {
                if (!(a.mass > 1e-290)) return {};
                atoms.push_back({a.loss, std::log(a.mass)});
                own_err = std::max(own_err, a.mass_err);
                b.loss_err = std::max(b.loss_err, a.loss_err);
            }
            b.mass_err += own_err;
            std::sort(atoms.begin(), atoms.end(), [](const Entry& x, const Entry& y) { return x.loss < y.loss; });
        }
        if (atoms.empty()) return {};
        double top = -HUGE_VAL;
        for (const Entry& a : atoms) {
            top = std::max(top, a.log_mass + tilts_.at * a.loss);
            largest = std::max(largest, std::fabs(a.log_mass) + std::fabs(tilts_.at * a.loss));
        }
        b.log_mass = top;
        // The exponent has at most eight roundings of its parts, the logarithm and the exponential their own.
        b.mass_err += 2.0 * kLibm * (1.0 + largest) + 8.0 * kRound * largest;
        const auto tilted = [&](const Entry& a) { return std::exp(a.log_mass + tilts_.at * a.loss - top); };
        if (lattice_.step > 0.0) {
            const auto index = [&](double loss) {
                return std::nearbyint((loss - lattice_.origin) / lattice_.step);
            };
            const double low = index(atoms.front().loss);
            const double count = index(atoms.back().loss) - low + 1.0;
            if (!(count < kMostAtoms && std::fabs(low) < 1e9)) return {};
            out.first = static_cast<std::int64_t>(low);
            b.mass.assign(static_cast<std::size_t>(count), 0.0);
            double moved = 0.0;
            for (const Entry& a : atoms) {
                const double n = index(a.loss);
                b.mass[static_cast<std::size_t>(n - low)] += tilted(a);
                moved = std::max(moved, std::fabs(a.loss - lattice_.origin - lattice_.step * n));
            }
            b.loss_err += moved + 8.0 * kRound *
                                      (std::fabs(atoms.front().loss) + std::fabs(atoms.back().loss) +
                                       std::fabs(lattice_.origin));
            b.mass_err += static_cast<double>(atoms.size()) * kRound;
            place(out);
        } else {
            for (const Entry& a : atoms) {
                b.loss.push_back(a.loss);
                b.mass.push_back(tilted(a));
            }
        }
        if (!in_range(b)) return {};
        return out;
    }

    std::optional<Block> join(const Block& x, const Block& y, StopCheck stop) const {
        const auto nx = static_cast<double>(x.atoms.mass.size());
        const auto ny = static_cast<double>(y.atoms.mass.size());
        const bool lattice = lattice_.step > 0.0;
        if (!(nx * ny <= (lattice ? kLatticeProducts : kPairProducts))) return {};
        stop();
        stop.spend((lattice ? kProductWork : kPairWork) * nx * ny);
        Block out;
        AtomBlock& z = out.atoms;
        z.laws = x.atoms.laws + y.atoms.laws;
        z.log_mass = x.atoms.log_mass + y.atoms.log_mass;
        z.loss_err = x.atoms.loss_err + y.atoms.loss_err;
        z.tail = x.atoms.tail + y.atoms.tail + 2.0 * kCut;
        z.mass_err = x.atoms.mass_err + y.atoms.mass_err + kRound * (8.0 + 2.0 * std::fabs(z.log_mass));
        if (lattice) {
            const std::vector<double>& few = nx < ny ? x.atoms.mass : y.atoms.mass;
            const std::vector<double>& many = nx < ny ? y.atoms.mass : x.atoms.mass;
            z.mass.assign(few.size() + many.size() - 1, 0.0);
            for (std::size_t i = 0; i < few.size(); ++i) {
                if (few[i] == 0.0) continue;
                if (i % 256 == 0) stop();
                double* to = z.mass.data() + i;
                for (std::size_t j = 0; j < many.size(); ++j) to[j] += few[i] * many[j];
            }
            out.first = x.first + y.first;
            z.mass_err += static_cast<double>(few.size()) * kRound;
            place(out);
            z.loss_err +=
                8.0 * kRound *
                (std::fabs(z.loss.front()) + std::fabs(z.loss.back()) + std::fabs(lattice_.origin) * z.laws);
        } else {
            std::vector<std::pair<double, double>> sums;
            sums.reserve(static_cast<std::size_t>(nx * ny));
            for (std::size_t i = 0; i < x.atoms.mass.size(); ++i)
                for (std::size_t j = 0; j < y.atoms.mass.size(); ++j)
                    sums.emplace_back(x.atoms.loss[i] + y.atoms.loss[j], x.atoms.mass[i] * y.atoms.mass[j]);
            std::sort(sums.begin(), sums.end());
            stop();
            const double near = 16.0 * kRound * (std::fabs(sums.front().first) + std::fabs(sums.back().first));
            std::size_t most = 0, same = 0;
            for (const auto& s : sums) {
                if (!z.loss.empty() && s.first - z.loss.back() <= near) {
                    z.mass.back() += s.second;
                    most = std::max(most, ++same);
                } else {
                    z.loss.push_back(s.first);
                    z.mass.push_back(s.second);
                    same = 0;
                }
            }
            z.loss_err += 1.25 * near;
            z.mass_err += static_cast<double>(most) * kRound;
        }
        // Before the ends are cut: what is cut is judged by weights under the other tilts, which are numbers only
        // then.
        if (!in_range(z)) return {};
        cut(out);
        rescale(z);
        return out;
    }

private:
    void place(Block& b) const {
        b.atoms.step = lattice_.step;
        b.atoms.loss.resize(b.atoms.mass.size());
        for (std::size_t i = 0; i < b.atoms.mass.size(); ++i)
            b.atoms.loss[i] = lattice_.origin * b.atoms.laws +
                              lattice_.step * static_cast<double>(b.first + static_cast<std::int64_t>(i));
    }
    bool in_range(const AtomBlock& b) const {
        const double range = b.loss.back() - b.loss.front();
        return range * std::max(tilts_.far - tilts_.at, tilts_.at - tilts_.near) < kExponents;
    }
    // The share of the lower end falls, that of the upper end grows with the tilt: the nearest and the farthest
    // decide.
    void cut(Block& b) const {
        std::vector<double>& mass = b.atoms.mass;
        std::vector<double>& loss = b.atoms.loss;
        const std::size_t n = mass.size();
        const auto end = [&](double tilt, bool top) {
            const double middle = top ? loss.back() : loss.front();
            const auto weight = [&](std::size_t i) { return mass[i] * std::exp(tilt * (loss[i] - middle)); };
            double total = 0.0;
            for (std::size_t i = 0; i < n; ++i) total += weight(i);
            double sum = 0.0;
            std::size_t k = 0;
            if (!(total > 0.0)) return k;
            while (k + 1 < n && (sum += weight(top ? n - 1 - k : k)) <= 0.99 * kCut * total) ++k;
            return k;
        };
        const std::size_t below = end(tilts_.near - tilts_.at, false);
        const std::size_t above = end(tilts_.far - tilts_.at, true);
        if (below + above >= n) return;
        for (std::vector<double>* v : {&mass, &loss}) {
            v->resize(n - above);
            v->erase(v->begin(), v->begin() + static_cast<std::ptrdiff_t>(below));
        }
        b.first += static_cast<std::int64_t>(below);
    }
    // By a power of two: exact.
    static void rescale(AtomBlock& b) {
        double most = 0.0;
        for (const double m : b.mass) most = std::max(most, m);
        int exponent = 0;
        std::frexp(most, &exponent);
        for (double& m : b.mass) m = std::ldexp(m, -exponent);
        b.log_mass += exponent * 0.69314718055994530942;
    }

    Tilts tilts_;
    Lattice lattice_;
};

}  // namespace

double discrete_gaussian_sum(double s) {
    // By Poisson's formula s sqrt(2 pi) (1 + 2 e^{-2 pi^2 s^2} + ...), and the rest is below e^-78 from 2 on.
    if (s >= 2.0) return s * 2.50662827463100050242;
    double sum = 0.0;
    for (double x = 80.0; x >= 1.0; x -= 1.0) sum += std::exp(-x * x / (2.0 * s * s));
    return 1.0 + 2.0 * sum;
}

double spread_share(const AtomBlock& block) {
    double most = 0.0, sum = 0.0;
    for (const double m : block.mass) {
        most = std::max(most, m);
        sum += m;
    }
    return (sum - most) / sum;
}

std::vector<AtomBlock> atom_blocks(const LossLaw& law, double copies, const Tilts& tilts, StopCheck stop) {
    const Blocks blocks(law.lattice(), tilts);
    std::optional<Block> power = blocks.one(law);
    if (!power || !(copies < 9e15)) return {};
    // Powers of two as far as they go; the bits below make up the rest.
    auto left = static_cast<std::uint64_t>(copies);
    std::optional<Block> rest;
    std::vector<AtomBlock> out;
    while (left > 1) {
        std::optional<Block> twice = blocks.join(*power, *power, stop);
        if (!twice) break;
        if ((left & 1U) != 0U) {
            std::optional<Block> more = rest ? blocks.join(*rest, *power, stop) : power;
            if (!more) break;
            rest = std::move(more);
        }
        left >>= 1U;
        power = std::move(twice);
    }
    if (left == 1 && rest) {
        if (std::optional<Block> all = blocks.join(*rest, *power, stop)) {
            power = std::move(all);
            rest.reset();
        }
    }
    power->atoms.copies = static_cast<double>(left);
    out.push_back(std::move(power->atoms));
    if (rest) out.push_back(std::move(rest->atoms));
    return out;
}

std::optional<AtomBlock> joined(const AtomBlock& x, const AtomBlock& y, const Tilts& tilts, StopCheck stop) {
    std::optional<Block> out = Blocks(Lattice{}, tilts).join({x, 0}, {y, 0}, stop);
    if (!out) return {};
    out->atoms.step = 0.0;
    return std::move(out->atoms);
}

}  // namespace dpcore::detail
