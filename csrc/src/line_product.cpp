#include "line_product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clones.hpp"
#include "large_steps_law.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kFewAtoms = 64.0;      // of a law that is turned on before any other kind of factor
constexpr double kTurnedAtoms = 512.0;  // a node of a line takes as long as so many oscillators
constexpr double kMostAtoms = 8192.0;   // of all laws together: 32 MB of tables
constexpr double kSoonDead = 1024.0;    // of so many oscillators few are left to turn on before all is negligible
constexpr double kProduct = 4.0 * kRound;  // of two complex numbers: sqrt(5) roundings; and of two bounds
constexpr double kFewCopies = 64.0;
constexpr double kManyCopies = 16384.0;  // 7e-12, times what cancels
constexpr double kHardlyAny = 4.0;       // copies whose roundings do not matter
constexpr double kMostCopies = 1e6;      // of atoms: rounding errors grow with their number
// Nanoseconds: of a block, of an oscillator in it, of a node of a periodic line.
constexpr double kBlockWork = 300.0;
constexpr double kPartWork = 120.0;
constexpr double kPeriodicWork = 150.0;
// |log| of a sum from which on it is summed itself, and not less 1.
constexpr double kFarFromOne = 5.0;
constexpr double kStepSumWork = 0.4;  // of a term of a step at a node
constexpr double kLogarithmWork = 100.0;

// Loops run over multiples of this many nodes.
constexpr std::size_t kLanes = 8;
std::size_t whole_lanes(std::size_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

DPCORE_CLONES void add_rotated(double* re, double* im, const double* table_re, const double* table_im, double a,
                               double b, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        re[j] += a * table_re[j] - b * table_im[j];
        im[j] += a * table_im[j] + b * table_re[j];
    }
}

DPCORE_CLONES void add_rotated_end(double* re, double* im, const double* table_re, const double* table_im,
                                   double a, double b, const double* u_re, const double* u_im, double sign,
                                   std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        const double x = a * table_re[j] - b * table_im[j];
        const double y = a * table_im[j] + b * table_re[j];
        const double p = 1.0 + sign * u_re[j];
        const double q = sign * u_im[j];
        re[j] += x * p - y * q;
        im[j] += x * q + y * p;
    }
}

DPCORE_CLONES void multiply(double* re, double* im, const double* by_re, const double* by_im, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        const double x = re[j] * by_re[j] - im[j] * by_im[j];
        im[j] = re[j] * by_im[j] + im[j] * by_re[j];
        re[j] = x;
    }
}

DPCORE_CLONES void square(double* re, double* im, double* bound, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        const double x = re[j] * re[j] - im[j] * im[j];
        im[j] = 2.0 * re[j] * im[j];
        re[j] = x;
        bound[j] *= bound[j];
    }
}

// b >= |value| + err, and rel += copies err/b, err = err0 + slope t.
DPCORE_CLONES void bound_of(double* b, double* rel, const double* re, const double* im, double copies, double err0,
                            double slope, double start, double h, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        const double err = err0 + slope * (start + static_cast<double>(j) * h);
        b[j] = (std::sqrt(re[j] * re[j] + im[j] * im[j]) + err) * (1.0 + 8.0 * kRound);
        rel[j] += copies * err / b[j];
    }
}

DPCORE_CLONES void multiply(double* bound, const double* by, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) bound[j] *= by[j];
}

DPCORE_CLONES double largest(const double* bound, std::size_t count) {
    double most[kLanes] = {};
    for (std::size_t j = 0; j < count; j += kLanes)
        for (std::size_t k = 0; k < kLanes; ++k) most[k] = bound[j + k] > most[k] ? bound[j + k] : most[k];
    double out = 0.0;
    for (const double m : most) out = std::max(out, m);
    return out;
}

}  // namespace

bool LineProduct::accepts(const Composition& comp) {
    if (comp.lattice.step > 0.0 || comp.terms.empty() || comp.log_finite_mass == -kInf) return false;
    double atoms = 0.0;
    for (const Term& t : comp.terms) {
        const LawKind kind = t.law->kind();
        if (kind == LawKind::laplace || kind == LawKind::gaussian) continue;
        if (kind == LawKind::subsampled_gaussian) {
            if (!(t.copies <= kMostCopies)) return false;
            continue;
        }
        if (const auto piece = large_steps_factors(*t.law)) {
            if (!(t.copies == 1.0 && piece->few <= kMostCopies)) return false;
            continue;
        }
        if (is_periodic(*t.law)) {
            atoms += std::min(t.law->atom_count(), kTurnedAtoms);
        } else {
            if (kind != LawKind::two_point && kind != LawKind::atoms) return false;
            atoms += t.law->atom_count();
            if (!(t.copies <= kMostCopies)) return false;
        }
        if (!(atoms <= kMostAtoms)) return false;
    }
    return true;
}

LineProduct::Factor LineProduct::factor_of(const Term& term, double c, double log_mass) {
    const LossLaw& law = *term.law;
    Factor out;
    out.copies = term.copies;
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
    double total = 0.0;
    for (const Atom& a : law.atoms())
        if (a.mass > 0.0) {
            const double w =
                weight(std::log(a.mass) + c * a.loss, std::fabs(c * a.loss) + std::fabs(std::log(a.mass)),
                       a.mass_err + std::fabs(c) * a.loss_err);
            add(a.loss, w, a.loss_err, 0.0);
            total += w;
        }
    // The sum of many terms: one rounding each.
    out.err += 2.0 * total * kRound * static_cast<double>(out.parts.size());
    return out;
}

// Where no window is narrower than the period the atoms that matter, if they are few enough, are turned on like
// any others.
bool LineProduct::better_turned(const LossLaw& law, const Periodic& p) {
    // Of few copies atoms are known as well as logarithms.
    if (law.atom_count() > 0.0 && law.atom_count() <= kFewAtoms && p.copies <= kFewCopies) return true;
    if (p.copies > kMostCopies || p.log_envelope(0.5 * p.line.period() * (1.0 - 1e-9)) < -20.0) return false;
    if (law.kind() != LawKind::discrete_gaussian) return law.atom_count() <= kTurnedAtoms;
    return law.parameters()[0] <= 3.0 && law.parameters()[0] >= 0.1;
}

LineProduct::Factor LineProduct::atoms_of(const LossLaw& law, const Periodic& p, double c) {
    const double sigma = law.parameters()[0];
    const double shift = law.parameters()[1];
    const double s2 = sigma * sigma;
    Factor out;
    out.copies = p.copies;
    // Under the law tilted by c the noise x has the weights exp(-d^2/(2 sigma^2)), d = x + shift c, over their
    // sum.
    const double away = shift * c;
    const double centre = std::nearbyint(away);
    const double reach = std::ceil(9.3 * sigma) + 1.0;
    double sum = 0.0;
    for (double n = -reach; n <= reach; n += 1.0) {
        const double d = n + (away - centre);
        const double w = std::exp(-d * d / (2.0 * s2));
        const double loss = shift / s2 * (0.5 * shift - (n - centre));
        out.parts.push_back({loss, w, 0.0, {}, {}});
        // The exponent's roundings, and that of shift c; then as for other atoms.
        out.err += w * (4.0 * kRound * (d * d + std::fabs(d) * (std::fabs(away) + 1.0)) / s2 + 20.0 * kLibm);
        out.slope += 2.0 * w * 8.0 * kRound * std::fabs(loss);
        sum += w;
    }
    for (Oscillator& o : out.parts) o.weight /= sum;
    // Each weight is a share of a sum with the same errors. Left out of both: |d| > R = 9.3 sigma + 1.5, beside a
    // largest term of |d| <= 1/2, hence at most 2 e^{-(R^2 - 1/4)/(2 sigma^2)}/(1 - e^{-R/sigma^2}) < 1e-18.
    out.err = 2.0 * out.err / sum + 4.0 * kRound * static_cast<double>(out.parts.size()) + 4e-18;
    out.slope /= sum;
    return out;
}

double LineProduct::Periodic::log_envelope(double from) const {
    const double log_size = line.log_envelope(from);
    if (std::isnan(log_size)) return 0.0;
    const double log_mass = line.log_mass();
    const double fall = log_size - log_mass + 4.0 * kRound * (std::fabs(log_size) + std::fabs(log_mass));
    return copies * std::min(fall, 0.0);
}

double LineProduct::Periodic::distance(double from, double to) const {
    const double p = line.period();
    const double past = from - std::nearbyint(from / p) * p;
    const double length = to - from;
    const double gap = past > 0.0 ? std::min(past, p - past - length) : -past - length;
    return std::max(0.0, gap - 8.0 * kRound * to);
}

LineProduct::LineProduct(const Composition& comp, double c, double spacing, StopCheck stop) : c_(c), h_(spacing) {
    double size = 0.0;
    for (const Term& term : comp.terms) {
        double log_mass = 0.0;
        const LawKind kind = term.law->kind();
        if (kind == LawKind::gaussian) {
            // exp(rho z(1+z)), relative to its value at c: exp(-rho t^2 + i rho t(1+2c)).
            const double part = term.copies * gaussian_rho(*term.law);
            log_mass = term.law->cumulants(c, stop).value * term.copies;
            rho_ += part;
            rho_rel_ = std::max(rho_rel_, gaussian_rho_err(*term.law) + 8.0 * kRound);
            scale_err_ += std::fabs(log_mass) * rho_rel_;
        } else if (kind == LawKind::subsampled_gaussian) {
            const std::vector<double> p = term.law->parameters();
            log_mass = add_steps({p[0], p[1], p[2] != 0.0}, {}, term.copies, true, stop);
        } else if (const auto piece = large_steps_factors(*term.law)) {
            log_mass = piece->log_choose.value.re;
            scale_err_ += piece->log_choose.err;
            size += std::fabs(log_mass);
            if (piece->few > 0.0) log_mass += add_steps(piece->step, piece->small, piece->few, true, stop);
            if (piece->many > 0.0) log_mass += add_steps(piece->step, piece->large, piece->many, false, stop);
        } else if (is_periodic(*term.law)) {
            Periodic own = {PeriodicLine(*term.law, c, term.copies, stop), term.copies};
            log_mass = term.copies * own.line.log_mass();
            scale_err_ += term.copies * own.line.log_mass_err();
            if (!better_turned(*term.law, own)) {
                periodic_.push_back(std::move(own));
            } else {
                const bool many = kind != LawKind::discrete_gaussian && term.law->atom_count() > kFewAtoms;
                Factor turned = kind == LawKind::discrete_gaussian ? atoms_of(*term.law, own, c)
                                                                   : factor_of(term, c, own.line.log_mass());
                if (term.copies > kFewCopies) turned.exact = std::make_unique<Periodic>(std::move(own));
                (many ? many_ : few_).push_back(std::move(turned));
            }
        } else {
            const double own = term.law->cumulants(c, stop).value;
            log_mass = term.copies * own;
            laplace_ = laplace_ || kind == LawKind::laplace;
            Factor turned = factor_of(term, c, own);
            if (term.copies > kHardlyAny) {
                turned.near = term.law->line(c, static_cast<double>(kBlock) * h_, term.copies, false, stop);
                turned.log_mass = own;
            }
            (term.law->atom_count() > kFewAtoms ? many_ : few_).push_back(std::move(turned));
        }
        log_scale_ += log_mass;
        size += std::fabs(log_mass);
    }
    scale_err_ += (static_cast<double>(comp.terms.size()) + 4.0) * kRound * size;
    const auto spread = [](const Factor& f) {
        double mean = 0.0, square = 0.0;
        for (const Oscillator& o : f.parts) {
            mean += o.weight * o.loss;
            square += o.weight * o.loss * o.loss;
        }
        return f.copies * (square - mean * mean);
    };
    for (std::vector<Factor>* factors : {&few_, &many_}) {
        // The strongest first: their product is soon negligible.
        std::stable_sort(factors->begin(), factors->end(),
                         [&](const Factor& a, const Factor& b) { return spread(a) > spread(b); });
        for (Factor& f : *factors) {
            err_ += f.copies * f.err;
            slope_ += f.copies * f.slope;
            // A power by squaring: as many products as copies at the most; so is that of its bound.
            power_err_ += f.copies * kProduct;
            if (!f.better_known()) near_power_err_ += f.copies * kProduct;
            for (Oscillator& o : f.parts) {
                o.re.resize(kBlock);
                o.im.resize(kBlock);
                for (std::size_t j = 0; j < kBlock; ++j) {
                    const double angle = static_cast<double>(j) * h_ * o.loss;
                    o.re[j] = std::cos(angle);
                    o.im[j] = std::sin(angle);
                }
            }
        }
    }
    for (std::vector<double>* a :
         {&re_, &im_, &err_of_, &rel_, &bound_, &turned_, &turned_rel_, &m_re_, &m_im_, &u_re_, &u_im_, &b_})
        a->resize(kBlock);
}

// log of their mass.
double LineProduct::add_steps(const SubsampledStep& step, const Window& window, double copies, bool less_one,
                              StopCheck stop) {
    const double first = static_cast<double>(kBlock) * h_;
    Steps own = {std::make_unique<FarStep>(step, window, c_, h_, first, copies, less_one, stop), copies};
    if (less_one && !(own.one->known() && std::fabs(own.one->log_mass()) < kFarFromOne))
        own.one = std::make_unique<FarStep>(step, window, c_, h_, first, copies, false, stop);
    known_ = known_ && own.one->known();
    scale_err_ += copies * own.one->log_mass_err();
    err_ += copies * own.one->log_mass_err();
    if (!by_logarithm(copies)) power_err_ += copies * kProduct;
    drift_ += copies * own.one->drift();
    drift_size_ += copies * std::fabs(own.one->drift());
    const double log_mass = copies * own.one->log_mass();
    steps_.push_back(std::move(own));
    return log_mass;
}

double LineProduct::weight() const {
    double parts = 0.0;
    for (const Factor& f : few_) parts += static_cast<double>(f.parts.size());
    parts = std::min(parts, kSoonDead);
    for (const Factor& f : many_) parts += static_cast<double>(f.parts.size());
    return 1.0 + std::max(0.0, parts - 256.0) / 256.0 + static_cast<double>(periodic_.size() + steps_.size());
}

LineProduct::Windows LineProduct::windows(double outside) const {
    Windows out;
    const double goal = std::log(outside);
    for (const Periodic& p : periodic_) {
        double low = 0.0;
        double high = 0.5 * p.line.period() * (1.0 - 1e-9);
        if (!(p.log_envelope(high) <= goal)) continue;
        for (int i = 0; i < 30; ++i) {
            const double middle = 0.5 * (low + high);
            (p.log_envelope(middle) <= goal ? high : low) = middle;
        }
        const double half = std::max(high, 4.0 * h_);
        const double share = (2.0 * half + h_) / p.line.period();
        if (share < 0.7 * out.share) out = {p.line.period(), half, share};
    }
    return out;
}

void LineProduct::multiply_by(const Factor& f, double start, std::size_t count) {
    std::fill_n(m_re_.begin(), count, 0.0);
    std::fill_n(m_im_.begin(), count, 0.0);
    for (const Oscillator& o : f.parts) {
        const double angle = start * o.loss;
        const double x = o.weight * std::cos(angle);
        const double y = o.weight * std::sin(angle);
        if (o.end == 0.0)
            add_rotated(m_re_.data(), m_im_.data(), o.re.data(), o.im.data(), x, y, count);
        else
            add_rotated_end(m_re_.data(), m_im_.data(), o.re.data(), o.im.data(), x, y, u_re_.data(), u_im_.data(),
                            o.end, count);
    }
    bound_of(b_.data(), turned_rel_.data(), m_re_.data(), m_im_.data(), f.copies, kSlack * f.err, kSlack * f.slope,
             start, h_, count);
    raise(f.copies, count);
}

// Of so many copies roundings of products would count; and the steps are rare, so that logarithms are small.
bool LineProduct::by_logarithm(double copies) { return copies > kManyCopies; }

double LineProduct::power_bound(const Steps& s, double one) {
    return one < 1.0 ? std::exp(s.copies * std::log(one)) * (1.0 + 1e-9) : 1.0;
}

// The product times a power of m_, whose moduli are at most b_.
void LineProduct::raise(double copies, std::size_t count) {
    for (auto n = static_cast<std::uint64_t>(copies); n > 0; n >>= 1U) {
        if ((n & 1U) != 0U) {
            multiply(re_.data(), im_.data(), m_re_.data(), m_im_.data(), count);
            multiply(turned_.data(), b_.data(), count);
        }
        if (n > 1U) square(m_re_.data(), m_im_.data(), b_.data(), count);
    }
}

// After their bound at this block. Strides that are not wanted become 0, their bound stays that of the others.
void LineProduct::multiply_by(const Steps& steps, double start, const bool* wanted) {
    steps.one->values(m_re_.data(), m_im_.data(), wanted);
    const double err = kSlack * steps.one->err();
    const double slope = kSlack * steps.one->slope();
    if (by_logarithm(steps.copies)) {
        for (std::size_t j = 0; j < kBlock; ++j) {
            if (!wanted[j / FarStep::kStride]) continue;
            const double t = start + static_cast<double>(j) * h_;
            multiply_power(j, certified_log1p({{m_re_[j], m_im_[j]}, err + slope * t}), 0.0, 0.0, steps.copies);
        }
        return;
    }
    for (std::size_t j = 0; j < kBlock; ++j) m_re_[j] += 1.0;
    bound_of(b_.data(), turned_rel_.data(), m_re_.data(), m_im_.data(), steps.copies, err + kRound, slope, start,
             h_, kBlock);
    for (std::size_t k = 0; k < FarStep::kStrides; ++k)
        if (!wanted[k])
            std::fill_n(b_.begin() + static_cast<std::ptrdiff_t>(k * FarStep::kStride), FarStep::kStride, 1.0);
    raise(steps.copies, kBlock);
}

double LineProduct::falling(double t, StopCheck stop) {
    // The others are at most 1, but for what their logarithms at t = 0 are off by.
    double out = std::exp(std::min(scale_err_ + err_, 1.0) - rho_ * t * t * (1.0 - 1e-9)) * (1.0 + 1e-9);
    for (const Steps& s : steps_) out *= power_bound(s, s.one->bound(t, stop));
    return out;
}

// bound_ collects the moduli of the factors that are known by their logarithms, rel_ their relative errors,
// infinite where only the modulus is bounded.
// one: log M of one copy, which is off by `slip` of exp(log_mass) in addition to its err.
void LineProduct::multiply_power(std::size_t j, const Certified& v, double slip, double log_mass, double copies) {
    const double one = std::exp(std::min(v.value.re - log_mass, 1.0));
    const double off = copies * (v.err + slip / one);
    if (!(off < 1e-4)) {  // nearly a zero; an infinite err says that the value is an upper bound
        const double most = one * std::exp(v.err < 1.0 ? v.err : (std::isinf(v.err) ? 0.0 : kInf)) + slip;
        const double power = std::exp(copies * std::log(most)) * (1.0 + 1e-9);
        bound_[j] *= power < 1.0 ? power : 1.0;  // also where it is not a number
        rel_[j] = kInf;
        return;
    }
    const double log_size = copies * (v.value.re - log_mass);
    const double size = std::exp(std::min(log_size, 1.0));
    const double phase = copies * v.value.im;
    const double rel = off + 2.0 * kLibm + kComplexOp +
                       4.0 * kRound *
                           (4.0 + std::fabs(phase) + std::fabs(log_size) +
                            copies * (std::fabs(v.value.re) + std::fabs(log_mass)));
    rel_[j] += rel;
    bound_[j] *= std::min(1.0, size * std::exp(rel));
    const double x = size * std::cos(phase);
    const double y = size * std::sin(phase);
    const double re = re_[j] * x - im_[j] * y;
    im_[j] = re_[j] * y + im_[j] * x;
    re_[j] = re;
}

// The first block.
void LineProduct::multiply_near(const Factor& f, std::size_t count) {
    if (f.exact) return multiply_by(*f.exact, 0.0, count);
    for (std::size_t j = 0; j < count; ++j)
        multiply_power(j, f.near->value(static_cast<double>(j) * h_), 0.0, f.log_mass, f.copies);
}

void LineProduct::multiply_by(const Periodic& p, double start, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
        const PeriodicLine::Node v = p.line.at(start + static_cast<double>(j) * h_);
        multiply_power(j, {v.value, v.err}, v.slip, p.line.log_mass(), p.copies);
    }
}

double LineProduct::evaluate(double first, std::size_t count, double negligible, StopCheck stop) {
    stop.spend(kBlockWork);
    const double start = first * h_;
    const double last = start + static_cast<double>(count - 1) * h_;
    double log_bound = -rho_ * start * start * (1.0 - 1e-9);
    for (const Periodic& p : periodic_) log_bound += p.log_envelope(p.distance(start, last));
    // A factor that is left out is at most 1, or what its errors make of it.
    const double powers = first == 0.0 ? near_power_err_ : power_err_;
    const double left = 1.0 + kSlack * std::expm1(err_ + slope_ * last + power_err_);
    double envelope = std::exp(log_bound) * (1.0 + 1e-9) * left;
    if (envelope <= negligible) return envelope;
    const std::size_t lanes = whole_lanes(count);
    std::fill_n(re_.begin(), lanes, 1.0);
    std::fill_n(im_.begin(), lanes, 0.0);
    std::fill_n(bound_.begin(), lanes, 1.0);
    std::fill_n(rel_.begin(), lanes, 0.0);
    std::fill_n(turned_.begin(), lanes, 1.0);
    std::fill_n(turned_rel_.begin(), lanes, kSlack * std::expm1(powers));
    if (laplace_)
        for (std::size_t j = 0; j < lanes; ++j) {
            const double t = start + static_cast<double>(j) * h_;
            const Complex u = Complex{1.0, 0.0} / Complex{1.0 + 2.0 * c_, 2.0 * t};
            u_re_[j] = u.re;
            u_im_[j] = u.im;
        }
    const auto enough = [&] { return largest(turned_.data(), lanes) * envelope; };
    const double share = static_cast<double>(lanes) / static_cast<double>(kBlock);
    const auto part_work = [&](const Factor& f) {
        return share * kPartWork * (static_cast<double>(f.parts.size()) + 2.0 * std::log2(f.copies + 1.0));
    };
    for (const Factor& f : few_) {
        if (first == 0.0 && f.better_known()) continue;
        stop.spend(part_work(f));
        multiply_by(f, start, lanes);
        const double most = enough();
        if (most <= negligible) return most * (1.0 + 1e-9);
    }
    for (const Factor& f : many_) {
        if (first == 0.0 && f.better_known()) continue;
        stop.spend(part_work(f));
        multiply_by(f, start, lanes);
        const double most = enough();
        if (most <= negligible) return most * (1.0 + 1e-9);
    }
    // In the first block steps are known better by their logarithms.
    const bool near = first == 0.0;
    double steps_bound = 1.0;
    for (const Steps& s : steps_) {
        if (near) break;
        steps_bound *= power_bound(s, s.one->bound(start, stop));
    }
    envelope *= steps_bound;
    if (const double most = enough(); !steps_.empty() && most <= negligible) return most * (1.0 + 1e-9);
    // Of the others' strides of nodes only some may be left.
    bool wanted[FarStep::kStrides] = {};
    double strides = 0.0;
    for (std::size_t k = 0; k < FarStep::kStrides && k * FarStep::kStride < lanes; ++k) {
        const std::size_t own = std::min(FarStep::kStride, lanes - k * FarStep::kStride);
        wanted[k] = largest(turned_.data() + k * FarStep::kStride, own) * envelope > negligible;
        strides += wanted[k] ? 1.0 : 0.0;
    }
    for (const Steps& s : steps_) {
        stop.spend(kStepSumWork * (near ? 2.0 * static_cast<double>(kBlock) * s.one->near_terms()
                                        : s.one->terms() * 16.0 * (strides + 2.0) + s.one->block_terms()));
        if (!near && by_logarithm(s.copies)) stop.spend(kLogarithmWork * 16.0 * strides);
        if (!near) {
            multiply_by(s, start, wanted);
            continue;
        }
        for (std::size_t j = 0; j < count; ++j) {
            multiply_power(j, s.one->near(static_cast<double>(j) * h_), 0.0, s.one->log_mass(), s.copies);
        }
    }
    if (!near && !steps_.empty())
        for (std::size_t j = 0; j < lanes; ++j)
            if (!wanted[j / FarStep::kStride]) {
                // The others as they were, and the steps' bound.
                bound_[j] *= steps_bound;
                rel_[j] = kInf;
            }
    stop.spend(kPeriodicWork * static_cast<double>(periodic_.size() * count));
    for (const Periodic& p : periodic_) multiply_by(p, start, count);
    if (first == 0.0)
        for (const std::vector<Factor>* factors : {&few_, &many_})
            for (const Factor& f : *factors)
                if (f.better_known()) multiply_near(f, count);
    const double power = kSlack * std::exp(powers);
    for (std::size_t j = 0; j < count; ++j) {
        const double t = start + static_cast<double>(j) * h_;
        const double drift = near ? 0.0 : drift_ * t;
        if (rho_ > 0.0 || drift != 0.0) {
            const double fall = std::exp(-rho_ * t * t);
            const double wind = rho_ * t * (1.0 + 2.0 * c_);
            const Complex v = value(j) * Complex{fall * std::cos(wind + drift), fall * std::sin(wind + drift)};
            re_[j] = v.re;
            im_[j] = v.im;
            // The drift: a rounding for each term of its sum, and three.
            const double rel = rho_rel_ * (rho_ * t * t + std::fabs(wind)) + 2.0 * kLibm + kComplexOp +
                               kRound * (static_cast<double>(steps_.size()) + 3.0) * (drift_size_ * t) +
                               2.0 * kRound * std::fabs(wind);
            bound_[j] *= fall * (1.0 + 2.0 * rel);
            rel_[j] += rel;
        }
        const double most = bound_[j] * turned_[j] * power;
        if (rel_[j] < 1e-3) {
            // What underflows is below 1e-300.
            err_of_[j] = most * (turned_rel_[j] + 1.002 * rel_[j]) + 1e-300;
        } else {
            err_of_[j] = most + 1e-300;
            re_[j] = 0.0;
            im_[j] = 0.0;
        }
    }
    return -1.0;
}

}  // namespace dpcore::detail
