#include "smoothed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "clones.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr std::size_t kBlock = 256;
constexpr double kMostNodes = 6e6;
constexpr double kMostAtoms = 64.0;
constexpr double kMostCopies = 1e6;  // rounding errors grow with their number

// One loss value: weight * exp(i t loss), the weight (at Re z = c, relative to exp(K(c))) times (1 +- u), u = 1/(1
// + 2z), for the two ends of a Laplace loss.
struct Oscillator {
    double loss;
    double weight;
    double end;                  // 0 for an atom, 1 and -1 for the ends of a Laplace loss
    std::vector<double> re, im;  // exp(i j h loss), j in a block
};

struct Factor {
    std::vector<Oscillator> parts;
    double copies;
    double err = 0.0;    // of the transform, absolute, at t = 0
    double slope = 0.0;  // and its growth with t
};

DPCORE_CLONES void add_rotated(double* re, double* im, const double* table_re, const double* table_im, double a,
                               double b) {
    for (std::size_t j = 0; j < kBlock; ++j) {
        re[j] += a * table_re[j] - b * table_im[j];
        im[j] += a * table_im[j] + b * table_re[j];
    }
}

DPCORE_CLONES void add_rotated_end(double* re, double* im, const double* table_re, const double* table_im,
                                   double a, double b, const double* u_re, const double* u_im, double sign) {
    for (std::size_t j = 0; j < kBlock; ++j) {
        const double x = a * table_re[j] - b * table_im[j];
        const double y = a * table_im[j] + b * table_re[j];
        const double p = 1.0 + sign * u_re[j];
        const double q = sign * u_im[j];
        re[j] += x * p - y * q;
        im[j] += x * q + y * p;
    }
}

DPCORE_CLONES void multiply(double* re, double* im, const double* by_re, const double* by_im) {
    for (std::size_t j = 0; j < kBlock; ++j) {
        const double x = re[j] * by_re[j] - im[j] * by_im[j];
        im[j] = re[j] * by_im[j] + im[j] * by_re[j];
        re[j] = x;
    }
}

DPCORE_CLONES double largest(const double* re, const double* im) {
    double most[8] = {};
    for (std::size_t j = 0; j < kBlock; j += 8)
        for (std::size_t k = 0; k < 8; ++k) {
            const double n = re[j + k] * re[j + k] + im[j + k] * im[j + k];
            most[k] = n > most[k] ? n : most[k];
        }
    double out = 0.0;
    for (const double m : most) out = std::max(out, m);
    return std::sqrt(out);
}

Factor factor_of(const Term& term, double c) {
    const LossLaw& law = *term.law;
    Factor out;
    out.copies = term.copies;
    const double log_mass = law.cumulants(c).value;
    const auto weight = [&](double log_weight, double size, double err) {
        const double w = std::exp(log_weight - log_mass);
        out.err += w * (2.0 * kLibm + 2.0 * kRound * (size + std::fabs(log_mass)) + err);
        return w;
    };
    const auto add = [&](double loss, double w, double loss_err, double end) {
        out.parts.push_back({loss, w, end, {}, {}});
        // Two sines and cosines, three products, and the arguments' roundings.
        out.err += 2.0 * w * (4.0 * kLibm + 24.0 * kRound);
        out.slope += 2.0 * w * (4.0 * kRound * std::fabs(loss) + loss_err);
    };
    if (law.kind() == LawKind::laplace) {
        const double e0 = law.parameters()[0];
        add(e0, weight(c * e0 - std::log(2.0), c * e0, 0.0), 0.0, 1.0);
        add(-e0, weight(-e0 - c * e0 - std::log(2.0), (1.0 + c) * e0, 0.0), 0.0, -1.0);
        return out;
    }
    for (const Atom& a : law.atoms())
        if (a.mass > 0.0)
            add(a.loss,
                weight(std::log(a.mass) + c * a.loss, std::fabs(c * a.loss) + std::fabs(std::log(a.mass)),
                       a.mass_err + std::fabs(c) * a.loss_err),
                a.loss_err, 0.0);
    return out;
}

// The two factors by which smoothing multiplies the transform.
struct Smoothing {
    double eta2, c;
    double log_at(double shift, double scale, double t) const {  // Re of eta^2 (shift + scale z)^2/2
        const double x = shift + scale * c;
        return 0.5 * eta2 * (x * x - scale * scale * t * t);
    }
    Complex exponential(double shift, double scale, double t) const {
        const double r = std::exp(log_at(shift, scale, t));
        const double angle = eta2 * (shift + scale * c) * scale * t;
        return {r * std::cos(angle), r * std::sin(angle)};
    }
    Complex upper(double t) const {  // z(1+z) = (z + 1/2)^2 - 1/4
        return std::exp(-0.125 * eta2) * exponential(0.5, 1.0, t);
    }
    Complex lower(double t) const {
        return exponential(0.0, 1.0, t) + exponential(1.0, 1.0, t) - exponential(1.0, 2.0, t);
    }
    // At least either of them in modulus, from t on.
    double most(double t) const {
        return 3.0 * std::exp(0.5 * eta2 * ((1.0 + 2.0 * c) * (1.0 + 2.0 * c) - t * t)) * (1.0 + 1e-9);
    }
};

}  // namespace

bool smoothable(const Composition& comp) {
    if (comp.lattice.step > 0.0 || comp.terms.empty() || comp.log_finite_mass == -kInf) return false;
    return std::all_of(comp.terms.begin(), comp.terms.end(), [](const Term& t) {
        const LawKind kind = t.law->kind();
        return kind == LawKind::laplace || kind == LawKind::gaussian ||
               ((kind == LawKind::two_point || kind == LawKind::atoms) && t.law->atom_count() <= kMostAtoms &&
                t.copies <= kMostCopies);
    });
}

std::optional<LogBounds> smoothed_delta(const Composition& comp, double epsilon, double width, StopCheck stop) {
    if (!smoothable(comp)) return std::nullopt;
    const ContourPlace place = spectral_place(comp, epsilon);
    if (!place.valid) return std::nullopt;
    const double c = place.c;
    const double h = place.spacing;
    std::vector<Factor> factors;
    double err = 0.0, slope = 0.0;  // of the product of all factors, and its growth with t
    double rho = 0.0;
    double log_scale = -epsilon * c;
    double size = std::fabs(epsilon * c);
    for (const Term& term : comp.terms) {
        const double log_mass = term.copies * term.law->cumulants(c).value;
        log_scale += log_mass;
        size += std::fabs(log_mass);
        if (term.law->kind() == LawKind::gaussian) {
            // exp(rho z(1+z)), relative to its value at c: exp(-rho t^2 + i rho t(1+2c)).
            const double part = term.copies * gaussian_rho(*term.law);
            rho += part;
            err += (2.0 + part * c * (1.0 + c) + (1.0 + 2.0 * c) * std::sqrt(part)) *
                   (gaussian_rho_err(*term.law) + 8.0 * kRound);
            continue;
        }
        factors.push_back(factor_of(term, c));
    }
    // The strongest first: their product is soon negligible.
    const auto spread = [&](const Factor& f) {
        double mean = 0.0, square = 0.0;
        for (const Oscillator& o : f.parts) {
            mean += o.weight * o.loss;
            square += o.weight * o.loss * o.loss;
        }
        return f.copies * (square - mean * mean);
    };
    std::stable_sort(factors.begin(), factors.end(),
                     [&](const Factor& a, const Factor& b) { return spread(a) > spread(b); });
    for (Factor& f : factors) {
        // A power by squaring: as many products as copies at the most.
        err += f.copies * (f.err + 12.0 * kRound);
        slope += f.copies * f.slope;
        for (Oscillator& o : f.parts) {
            o.re.resize(kBlock);
            o.im.resize(kBlock);
            for (std::size_t j = 0; j < kBlock; ++j) {
                const double angle = static_cast<double>(j) * h * o.loss;
                o.re[j] = std::cos(angle);
                o.im[j] = std::sin(angle);
            }
        }
    }
    // Both bounds together are off by 1.5 eta^2 c(1+c).
    Smoothing smoothing = {width / (1.5 * c * (1.0 + c)), c};
    const double total = std::exp(place.log_estimate) * 2.0 * kPi / h;  // of the sum over all nodes, about
    double end = 3.0 / std::sqrt(smoothing.eta2 + 2.0 * rho);
    const auto rest = [&](double t) { return 2.0 * smoothing.most(t) * std::exp(-rho * t * t) / (t * h); };
    while (rest(end) > 0.1 * width * total) end *= 1.1;
    if (end / h > kMostNodes) {
        const double wider = end / h / kMostNodes;
        smoothing.eta2 *= wider * wider;
        end /= wider;
    }
    std::vector<double> re(kBlock), im(kBlock), m_re(kBlock), m_im(kBlock), q_re(kBlock), q_im(kBlock),
        u_re(kBlock), u_im(kBlock);
    double above = 0.0, above_low = 0.0, below = 0.0, below_low = 0.0, error = 0.0, sizes = 0.0;
    const auto accumulate = [](double& sum, double& low, double term) {
        const double y = term - low;
        const double next = sum + y;
        low = (next - sum) - y;
        sum = next;
    };
    const auto blocks = static_cast<std::size_t>(std::ceil(end / (h * static_cast<double>(kBlock))));
    for (std::size_t b = 0; b < blocks; ++b) {
        if ((b & 63U) == 63U) stop();
        const double start = static_cast<double>(b * kBlock) * h;
        std::fill(re.begin(), re.end(), 1.0);
        std::fill(im.begin(), im.end(), 0.0);
        for (std::size_t j = 0; j < kBlock; ++j) {
            const double t = start + static_cast<double>(j) * h;
            const Complex u = Complex{1.0, 0.0} / Complex{1.0 + 2.0 * c, 2.0 * t};
            u_re[j] = u.re;
            u_im[j] = u.im;
        }
        // What a whole block may add without being seen: its nodes' share of 1e-13, h/t of all.
        const double kernel =
            b == 0 ? kInf : 2.0 * smoothing.most(0.0) * std::exp(-rho * start * start) / (start * start);
        const double unseen = 1e-3 * width * 1e-1 * total * h / std::max(start, h);
        bool skipped = false;
        for (const Factor& f : factors) {
            std::fill(m_re.begin(), m_re.end(), 0.0);
            std::fill(m_im.begin(), m_im.end(), 0.0);
            for (const Oscillator& o : f.parts) {
                const double angle = start * o.loss;
                const double x = o.weight * std::cos(angle);
                const double y = o.weight * std::sin(angle);
                if (o.end == 0.0)
                    add_rotated(m_re.data(), m_im.data(), o.re.data(), o.im.data(), x, y);
                else
                    add_rotated_end(m_re.data(), m_im.data(), o.re.data(), o.im.data(), x, y, u_re.data(),
                                    u_im.data(), o.end);
            }
            for (auto n = static_cast<std::uint64_t>(f.copies); n > 0; n >>= 1U) {
                if ((n & 1U) != 0U) multiply(re.data(), im.data(), m_re.data(), m_im.data());
                if (n > 1U) {
                    q_re = m_re;
                    q_im = m_im;
                    multiply(m_re.data(), m_im.data(), q_re.data(), q_im.data());
                }
            }
            const double most = largest(re.data(), im.data());
            const double slip = kSlack * (err + slope * (start + static_cast<double>(kBlock) * h));
            if (b > 0 && (most + slip) * kernel <= unseen) {
                error += (most * (1.0 + slip) + slip) * kernel * static_cast<double>(kBlock) * kSlack;
                skipped = true;
                break;
            }
        }
        if (skipped) continue;
        for (std::size_t j = 0; j < kBlock; ++j) {
            const double t = start + static_cast<double>(j) * h;
            const double twice = t > 0.0 ? 2.0 : 1.0;
            const double angle = epsilon * t;
            const Complex turn = {std::cos(angle), -std::sin(angle)};
            const double fall = std::exp(-rho * t * t);
            const double wind = rho * t * (1.0 + 2.0 * c);
            const Complex product = Complex{re[j], im[j]} * Complex{fall * std::cos(wind), fall * std::sin(wind)};
            const Complex f = product * turn / (Complex{c, t} * Complex{1.0 + c, t});
            const Complex up = f * smoothing.upper(t);
            const Complex down = f * smoothing.lower(t);
            accumulate(above, above_low, twice * up.re);
            accumulate(below, below_low, twice * down.re);
            const double kernel_size = twice * smoothing.most(t) / abs(Complex{c, t} * Complex{1.0 + c, t});
            sizes += kernel_size * abs(product);
            // The products above, the sine and cosine of eps t and of the smoothing: 12 operations, 5 functions.
            error += kernel_size *
                     ((err + slope * t) * kSlack + abs(Complex{re[j], im[j]}) * (12.0 * kComplexOp + 10.0 * kLibm +
                                                                                 4.0 * kRound * (angle + 1.0)));
        }
    }
    // Beyond the last block every factor is at most 1, and its error.
    const double last = static_cast<double>(blocks * kBlock) * h;
    error += rest(last - h) * (1.0 + err) * kSlack;
    error += 8.0 * kRound * (sizes + std::fabs(above) + std::fabs(below));
    const double share = h / (2.0 * kPi);
    const double alias = std::exp(std::min(place.log_alias, 700.0));
    const double scale_err = (static_cast<double>(comp.terms.size()) + 6.0) * kRound * size + 8.0 * kLibm;
    const double high = (above + error) * share * (1.0 + 8.0 * kRound);
    const double low = (below - error) * share * (1.0 - 8.0 * kRound) - alias;
    LogBounds out = {-kInf, kInf};
    if (high > 0.0 && std::isfinite(high)) out.log_upper = log_scale + std::log(high) + scale_err;
    if (low > 0.0 && std::isfinite(low)) out.log_lower = log_scale + std::log(low) - scale_err;
    const double outward = 4.0 * kRound * (std::fabs(log_scale) + 1e3);
    return add_infinite_mass(comp, {out.log_lower - outward, out.log_upper + outward});
}

}  // namespace dpcore::detail
