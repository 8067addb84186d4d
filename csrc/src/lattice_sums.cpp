#include "lattice_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clones.hpp"
#include "periodic_line.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMostAtoms = 4096.0;
// Tilted mass that is cut off at either end of a law: nothing, also beside sums that are 1e-20 of what the tilt
// makes of them.
constexpr double kCut = 1e-50;
// Points beyond so many standard deviations weigh less than that.
constexpr double kReach = 15.3;
constexpr std::size_t kChunk = 64;
constexpr double kProductWork = 0.5;  // nanoseconds of a product in a convolution
constexpr double kExponential = kLibm + 4.0 * kRound;

// e^x to kLibm and a few roundings of it, however large x is.
double exponential(DoubleDouble x) { return std::exp(x.hi) * (1.0 + x.lo); }

DPCORE_CLONES void add_multiple(double* out, const double* b, double by, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) out[j] += by * b[j];
}

struct Sums {
    std::vector<double> mass;
    double first = 0.0, rel = 0.0, lost = 0.0;
};

// Cuts the ends off.
void trim(Sums& s) {
    std::size_t low = 0;
    std::size_t high = s.mass.size();
    double below = 0.0, above = 0.0;
    while (low + 1 < high && below + s.mass[low] <= kCut) below += s.mass[low++];
    while (low + 1 < high && above + s.mass[high - 1] <= kCut) above += s.mass[--high];
    s.mass.assign(s.mass.begin() + static_cast<std::ptrdiff_t>(low),
                  s.mass.begin() + static_cast<std::ptrdiff_t>(high));
    s.first += static_cast<double>(low);
    s.lost += 2.0 * (below + above);  // with all errors of the masses
}

Sums convolve(const Sums& one, const Sums& other, StopCheck stop) {
    const Sums& a = one.mass.size() <= other.mass.size() ? one : other;  // the shorter
    const Sums& b = one.mass.size() <= other.mass.size() ? other : one;
    const std::size_t n = a.mass.size();
    const std::size_t m = b.mass.size();
    stop.spend(kProductWork * static_cast<double>(n) * static_cast<double>(m));
    Sums out;
    out.mass.assign(n + m - 1, 0.0);
    std::vector<double> part(m + kChunk);
    for (std::size_t start = 0; start < n; start += kChunk) {
        stop();
        const std::size_t count = std::min(kChunk, n - start);
        std::fill(part.begin(), part.end(), 0.0);
        for (std::size_t i = 0; i < count; ++i) add_multiple(part.data() + i, b.mass.data(), a.mass[start + i], m);
        for (std::size_t j = 0; j < m + count - 1; ++j) out.mass[start + j] += part[j];
    }
    out.first = a.first + b.first;
    // A product, kChunk additions and those of the chunks.
    out.rel = a.rel + b.rel + kRound * (2.0 + kChunk + static_cast<double>(n / kChunk + 1));
    // What underflows is below 1e-300 a product.
    out.lost = a.lost + b.lost + 1e-300 * static_cast<double>(n) * static_cast<double>(m);
    trim(out);
    return out;
}

// One loss: its places on the lattice and their tilted masses.
std::optional<Sums> single(const LossLaw& law, double c, LatticeSums& place, double copies) {
    const std::vector<double> p = law.parameters();
    Sums out;
    double rel = 0.0;  // of a weight, before they are divided by their sum
    if (law.kind() == LawKind::discrete_gaussian) {
        // Losses shift/sigma^2 (shift/2 + n), n = -x; tilted by c the weights are exp(-(n - shift c)^2/(2
        // sigma^2)).
        const double sigma = p[0];
        const double shift = p[1];
        const DoubleDouble square = two_prod(sigma, sigma);
        place.unit = DoubleDouble(shift) / square;
        place.offset = 0.5 * shift * copies;
        const DoubleDouble away = two_prod(shift, c);
        const double centre = std::nearbyint(away.hi);
        const double reach = std::ceil(kReach * sigma) + 1.0;
        if (!(2.0 * reach <= kMostLatticeSums && std::fabs(centre) < 0x1p50 && place.offset < 0x1p50))
            return std::nullopt;
        const DoubleDouble past = away - centre;
        for (double n = -reach; n <= reach; n += 1.0) {
            const DoubleDouble d = past - n;
            out.mass.push_back(exponential(-((d * d) / (square * 2.0))));
        }
        out.first = centre - reach;
        // The exponents are at most 700 and good to 2^-95 of that.
        rel = kExponential;
        // Left out: |d| >= R = reach + 1/2 on either side, beside a largest weight of |d| <= 1/2: at most
        // 2 e^{-(R^2 - 1/4)/(2 sigma^2)}/(1 - e^{-R/sigma^2}) of it, and R > 15.3 sigma + 1.5 makes the
        // exponential less than e^-117, the denominator at least 15.3/sigma/2 or 1/2; the sum of all weights is 2
        // sigma or more.
        if (!(sigma >= 0.1)) return std::nullopt;
        out.lost = 1e-49;
    } else {
        double n = 1.0;
        if (law.kind() == LawKind::two_point) {
            place.unit = p[0];
        } else {
            place.unit = DoubleDouble(1.0) / DoubleDouble(p[1]);
            n = p[2];
        }
        if (!(n < kMostAtoms && n * copies < 0x1p50)) return std::nullopt;
        place.slope = 2.0;
        place.offset = -n * copies;
        // From the largest loss down the weights are ends, inner e^{-ax}, ..., ends e^{-an}, a = unit (1 + 2c).
        // Two points are the case n = 1.
        const DoubleDouble a = place.unit * (two_sum(1.0, 2.0 * c));
        const double e = place.unit.hi;
        const double ends = 1.0 / (1.0 + std::exp(-e));
        const double inner = std::tanh(0.5 * e);
        out.mass.resize(static_cast<std::size_t>(n) + 1);
        for (double x = 0.0; x <= n; x += 1.0) {
            const double edge = x == 0.0 || x == n ? ends : inner;
            out.mass[static_cast<std::size_t>(n - x)] = edge * exponential(-(a * x));
        }
        if (!(a.hi * n < 1e6)) return std::nullopt;
        rel = kExponential + 2.0 * kLibm + 8.0 * kRound;
        out.lost = 1e-300 * (n + 1.0);
    }
    double sum = 0.0;
    for (const double w : out.mass) sum += w;
    if (!(sum > 0.0 && std::isfinite(sum))) return std::nullopt;
    for (double& w : out.mass) w /= sum;
    out.rel = kSlack * (2.0 * rel + kRound * static_cast<double>(out.mass.size() + 2));
    trim(out);
    return out;
}

}  // namespace

double lattice_sums_size(const Term& term, double c, StopCheck stop) {
    const LossLaw& law = *term.law;
    if (!is_periodic(law)) return kInf;
    const double step = law.lattice().step;
    const double spread = std::sqrt(std::max(term.copies * law.cumulants(c, stop).second, 0.0)) / step;
    const double most =
        law.kind() == LawKind::discrete_gaussian ? kInf : term.copies * (law.atom_count() - 1.0) + 1.0;
    return std::min(2.0 * kReach * spread + 4.0, most);
}

std::optional<LatticeSums> lattice_sums(const Term& term, double c, StopCheck stop) {
    if (!(lattice_sums_size(term, c, stop) <= kMostLatticeSums)) return std::nullopt;
    LatticeSums out;
    auto power = single(*term.law, c, out, term.copies);
    if (!power) return std::nullopt;
    Sums all = {{1.0}, 0.0, 0.0, 0.0};
    for (auto n = static_cast<std::uint64_t>(term.copies); n > 0; n >>= 1U) {
        if ((n & 1U) != 0U) all = convolve(all, *power, stop);
        if (n > 1U) power = convolve(*power, *power, stop);
        if (all.mass.size() > 2 * static_cast<std::size_t>(kMostLatticeSums)) return std::nullopt;
        if (power->mass.size() > 2 * static_cast<std::size_t>(kMostLatticeSums)) return std::nullopt;
    }
    out.mass = std::move(all.mass);
    out.first = all.first;
    out.rel = kSlack * all.rel;
    out.lost = all.lost;
    const Certified k = term.law->line(c, 0.0, term.copies, true, stop)->value(0.0);
    out.log_mass = term.copies * k.value.re;
    out.log_mass_err = term.copies * k.err + kRound * std::fabs(out.log_mass);
    if (!(out.rel < 1e-6) || !std::isfinite(out.log_mass_err)) return std::nullopt;
    return out;
}

}  // namespace dpcore::detail
