#include "far_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clones.hpp"
#include "complex_normal.hpp"
#include "dpcore/exp_block.hpp"

namespace dpcore::detail {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
constexpr std::size_t kStride = FarStep::kStride;
constexpr std::size_t kStrides = FarStep::kStrides;
constexpr double kMostBlocks = 4096.0;  // of one polynomial
constexpr std::size_t kChunk = 32;      // terms that are summed by themselves
// What a rule may be off by, relative to M(c), as a logarithm.
constexpr double kLogRule = -39.0;
// A path is taken where the moduli of its terms add up to no more than e^kRaised of M(c).
constexpr double kRaised = 1.0;
// Terms below this share of M(c), over their number, are left out.
constexpr double kLeftOut = 1e-18;
constexpr double kMostTerms = 16384.0;
constexpr double kMostSizes = 1e6;  // of the terms' moduli together, relative to the sum at t = 0
// A window is at most e^kMostWindow in the strip, and nothing so many widths beyond its edges.
constexpr double kMostWindow = 0.5;
constexpr double kFarOut = 7.0;
// |itD| up to which exp(itD) - 1 is not a difference.
constexpr double kSmallTurn = 0.5;
// Library functions of one term; those that a polynomial holds have more roundings (docs, "far_step").
constexpr double kTermErr = 36.0 * kLibm;
// Nanoseconds: a term of a rule when it is made, and of a block when its size is asked for.
constexpr double kRuleWork = 400.0;
constexpr double kSizeWork = 4.0;

// A step of 20 bits: all multiples that are used are exact.
double rounded_step(double h) {
    int exponent = 0;
    const double fraction = std::frexp(h, &exponent);
    return std::ldexp(std::floor(std::ldexp(fraction, 20)), exponent - 20);
}

// Lambda(x + ia) = log(1 - q + q e^{y + iv}), v <= 0.75, and its error.
struct Loss {
    double rate, fall;  // Re, Im
    double err;
};
Loss complex_loss(const SubsampledStep& m, double x, double v) {
    const double q = m.q;
    const double y = m.exponent(x);
    const double cosine = std::cos(v), sine = std::sin(v);
    const double half = std::sin(0.5 * v);
    const double y_err = 3.0 * kRound * (std::fabs(y) + v);
    if (y >= 30.0) {
        // y + iv + log q + log(1 + small), |small| <= (1 - q)/q e^-30 cut at 1 by the other form below.
        const double small = (1.0 - q) / q * std::exp(-y);
        if (small < 0.25) {
            const double re = small * cosine, im = -small * sine;
            const double less = 0.5 * std::log1p(2.0 * re + small * small);
            const double turn = std::atan2(im, 1.0 + re);
            const double lq = std::log(q);
            return {y + lq + less, v + turn,
                    y_err + 8.0 * kLibm * (small + std::fabs(lq)) + 8.0 * kRound * (std::fabs(y) + 1.0)};
        }
    }
    const double rise = q * std::exp(y);
    const double less_one = std::expm1(y) * cosine - 2.0 * half * half;  // e^y cos v - 1
    const double w_re = q * less_one;
    const double w_im = rise * sine;
    // |1 + w| is at least cos v (1 - q + q e^y).
    const double least = cosine * ((1.0 - q) + rise);
    const double parts = q * (std::fabs(std::expm1(y)) + 2.0 * half * half) + w_im;
    double re = 0.0, rounding = 0.0;
    const double real = w_re < -0.5 ? (1.0 - q) + rise * cosine : 1.0 + w_re;
    if (w_re < -0.5) {
        re = 0.5 * std::log(real * real + w_im * w_im);
        rounding = 3.0 * kLibm * rise / least + 8.0 * kRound;
    } else {
        re = 0.5 * std::log1p(2.0 * w_re + (w_re * w_re + w_im * w_im));
        const double size = std::fabs(w_re) + w_im;
        rounding = 4.0 * kLibm * parts / least + 4.0 * kRound * size * (2.0 + size) / (least * least);
    }
    const double fall = std::atan2(w_im, real);
    // 1 + w_re as rounded turns the angle by at most half a rounding of |1 + w| times its sine.
    const double err = rounding + rise / least * y_err + 2.0 * kLibm * std::fabs(re) + (2.0 * kLibm) * fall;
    return {re, fall, 1.01 * err};
}

// A window at x + ia, a <= pi/12 of its edges' width, and its relative error.
struct Weight {
    double log_size, angle, err;
};
Weight complex_weight(const Window& window, double x, double a) {
    const double alpha = a / window.width;
    // Q(sinh(+-(x + ia - edge)/width)): what is on the side of the edge that `way` says.
    const auto side = [&](double edge, double way) -> ScaledComplex {
        const double u = (x - edge) / window.width;
        if (way * u < -StepEnvelope::kInside) return {{1.0, 0.0}, 0.0, 0.0};  // but for 1e-80
        if (way * u > kFarOut) return {{0.0, 0.0}, -kInf, 0.0};
        const double s = std::sinh(u), c = std::cosh(u);
        ScaledComplex out = complex_normal_tail({way * s * std::cos(alpha), way * c * std::sin(alpha)});
        // Of the argument: u has three roundings, alpha two, the functions theirs; |d log Q| <= (|w| + 1) |dw|.
        out.err += (c + 1.0) * c * (2.0 * kLibm + 4.0 * kRound * (1.0 + std::fabs(u)));
        return out;
    };
    ScaledComplex w;
    if (window.below_open()) {
        w = side(window.high, 1.0);
    } else if (window.above_open()) {
        w = side(window.low, -1.0);
    } else {
        // The difference of two edges, from the side on which both are tails.
        const bool left = x < 0.5 * (window.low + window.high);
        const ScaledComplex near = left ? side(window.low, -1.0) : side(window.high, 1.0);
        const ScaledComplex far = left ? side(window.high, -1.0) : side(window.low, 1.0);
        const bool tail = far.log_scale > -kInf && near.log_scale > -kInf;
        const double share = tail ? std::exp(far.log_scale - near.log_scale) : 0.0;
        w = {near.value - share * far.value, near.log_scale, 0.0};
        const double rounding =
            2.0 * kLibm + 4.0 * kRound * (std::fabs(far.log_scale) + std::fabs(near.log_scale));
        const double off = tail ? share * abs(far.value) * (far.err + rounding) : 0.0;
        if (abs(w.value) > 0.0) w.err = (abs(near.value) * (near.err + kRound) + off) / abs(w.value);
    }
    const double size = abs(w.value);
    // So far out only its modulus is bounded.
    if (!(size > 0.0))
        return {window.log_most(x, x, Window::sharpness(alpha)) + Window::log_lead(alpha) + 1e-9, 0.0, 2.0};
    const double log_size = w.log_scale + std::log(size);
    return {log_size, std::atan2(w.value.im, w.value.re),
            w.err + 4.0 * kLibm + 4.0 * kRound * std::fabs(log_size)};
}

DPCORE_CLONES void sum_stride(double* re, double* im, const double* table_re, const double* table_im,
                              const double* at_re, const double* at_im, std::size_t terms) {
    double all_re[kStride] = {}, all_im[kStride] = {};
    for (std::size_t first = 0; first < terms; first += kChunk) {
        const std::size_t last = first + kChunk < terms ? first + kChunk : terms;
        double sum_re[kStride] = {}, sum_im[kStride] = {};
        for (std::size_t n = first; n < last; ++n) {
            const double a = at_re[n], b = at_im[n];
            const double* t_re = table_re + n * kStride;
            const double* t_im = table_im + n * kStride;
            for (std::size_t j = 0; j < kStride; ++j) {
                sum_re[j] += a * t_re[j] - b * t_im[j];
                sum_im[j] += a * t_im[j] + b * t_re[j];
            }
        }
        for (std::size_t j = 0; j < kStride; ++j) {
            all_re[j] += sum_re[j];
            all_im[j] += sum_im[j];
        }
    }
    for (std::size_t j = 0; j < kStride; ++j) {
        re[j] = all_re[j];
        im[j] = all_im[j];
    }
}

DPCORE_CLONES void turn(double* re, double* im, const double* from_re, const double* from_im, const double* by_re,
                        const double* by_im, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const double x = from_re[i] * by_re[i] - from_im[i] * by_im[i];
        im[i] = from_re[i] * by_im[i] + from_im[i] * by_re[i];
        re[i] = x;
    }
}

// Sums of eight parts, in chunks, so that every machine adds in the same order.
DPCORE_CLONES Complex sum_parts(const double* re, const double* im, std::size_t n) {
    double all_re[8] = {}, all_im[8] = {};
    const std::size_t even = n - n % 8;
    for (std::size_t first = 0; first < even; first += 8 * kChunk) {
        const std::size_t last = first + 8 * kChunk < even ? first + 8 * kChunk : even;
        double part_re[8] = {}, part_im[8] = {};
        for (std::size_t i = first; i < last; i += 8)
            for (std::size_t j = 0; j < 8; ++j) {
                part_re[j] += re[i + j];
                part_im[j] += im[i + j];
            }
        for (std::size_t j = 0; j < 8; ++j) {
            all_re[j] += part_re[j];
            all_im[j] += part_im[j];
        }
    }
    Complex out;
    for (std::size_t i = even; i < n; ++i) out = out + Complex{re[i], im[i]};
    for (std::size_t j = 0; j < 8; ++j) out = out + Complex{all_re[j], all_im[j]};
    return out;
}

DPCORE_CLONES void polynomial(double* re, double* im, const double* c_re, const double* c_im, std::size_t degree,
                              double first, double step) {
    double x[kStride];
    for (std::size_t j = 0; j < kStride; ++j) {
        x[j] = first + static_cast<double>(j) * step;
        re[j] = c_re[degree];
        im[j] = c_im[degree];
    }
    for (std::size_t k = degree; k-- > 0;)
        for (std::size_t j = 0; j < kStride; ++j) {
            re[j] = re[j] * x[j] + c_re[k];
            im[j] = im[j] * x[j] + c_im[k];
        }
}

}  // namespace

FarStep::FarStep(const SubsampledStep& step, const Window& window, double c, double spacing, double first,
                 double copies, bool less_one, StopCheck stop)
    : step_(step),
      window_(window),
      c_(c),
      h_(spacing),
      first_(first),
      sum_(step, window, c, first * 1.001, copies, less_one, stop),
      envelope_(sum_) {
    const Certified mass = sum_.log_value(0.0);
    known_ = sum_.known() && std::isfinite(mass.value.re) && mass.err < 1e-6 && sum_.last() > sum_.first();
    if (!known_) return;
    log_mass_ = mass.value.re;
    log_mass_err_ = mass.err;
    sum_.expect(spacing);
    least_ = std::log1p(-step.q);
}

// The strip reaches from the real axis to a rung of the envelope, the path lies in its middle: the highest rung
// for which the moduli add up to little from `from` on; or the next one, if for that they do at t = 0 as well.
int FarStep::choose_path(double from) {
    const double most = log_mass_ - sum_.log_scale() + kRaised;  // as the envelope has it
    int rung = 0;
    while (rung + 2 < StepEnvelope::kRungs && (envelope_.height(rung) > envelope_.edge_height() * (1.0 + 1e-9) ||
                                               envelope_.log_along(rung + 1, from) > most))
        ++rung;
    less_one_ = false;
    for (int lower = rung; lower <= rung + 1 && lower + 2 < StepEnvelope::kRungs && !less_one_; ++lower)
        if ((less_one_ = envelope_.log_along(lower + 1, 0.0) <= most)) rung = lower;
    return rung;
}

void FarStep::make_rule(double from, StopCheck stop) {
    from_ = from;
    until_ = from > 0.0 ? 2.0 * from : first_;
    const double s2 = step_.sigma * step_.sigma;
    const double p = step_.power(c_);
    for (std::vector<double>* v : {&log_size_, &fall_, &angle_, &rate_}) v->clear();
    const double log_mass = log_mass_ - sum_.log_scale();
    const int rung = choose_path(from);
    const double a = 0.5 * envelope_.height(rung);
    const double v = a / s2;
    // What is to be less 1 is summed at t = 0 too.
    const double least_t = less_one_ ? 0.0 : from;
    // (e^beyond + M(c))/(e^{2 pi a/h} - 1), at most 1.001 of that without the 1.
    const double most = std::max(envelope_.log_along(rung, least_t), log_mass) + std::log(2.0) - log_mass;
    const double left = sum_.first(), right = sum_.last();
    double h = 2.0 * kPi * a / (most - kLogRule);
    h = rounded_step(std::max(h, (right - left) / kMostTerms));
    double rule = 1.001 * std::exp(most - 2.0 * kPi * a / h);
    if (!(2.0 * kPi * a / h > 8.0) || envelope_.height(rung) > envelope_.edge_height() * (1.0 + 1e-9)) rule = kInf;
    const double first = std::floor(left / h), last = std::ceil(right / h);
    stop.spend(kRuleWork * (last - first + 1.0));
    const double scale = step_.log_norm() + std::log(h) - log_mass_ + 0.5 * v * a;
    const double scale_size = std::fabs(step_.log_norm()) + std::fabs(std::log(h)) + std::fabs(log_mass_) + v * a;
    const double cut = std::log(kLeftOut / (last - first + 1.0));
    double dropped = 0.0, err = 0.0, slope = 0.0, sizes = 0.0, turns = 0.0, bound_err = 0.0;
    std::vector<double> dead_re, dead_im;
    const double half = static_cast<double>(kStride * kStrides / 2) * h_;
    slow_ = 0;
    double furthest = 0.0;  // the largest |Lambda - least|, about
    for (double n = first; n <= last; n += 1.0) {
        const double x = n * h;
        const Loss loss = complex_loss(step_, x, v);
        const double quadratic = x * x / (2.0 * s2);
        const double log_size = p * loss.rate - quadratic + scale;
        const double now = log_size - least_t * loss.fall;
        if (now < cut - kMostWindow) {
            dropped += std::exp(now + kMostWindow);
            continue;
        }
        const Weight weight = window_.open() ? Weight{0.0, 0.0, 0.0} : complex_weight(window_, x, a);
        if (now + weight.log_size < cut) {
            dropped += std::exp(now + weight.log_size) * (1.0 + weight.err);
            continue;
        }
        const double angle = p * loss.fall - a * x / s2 + weight.angle;
        const double size = std::exp(now + weight.log_size);
        const double rate = loss.rate - least_;
        // Exponent and angle: their roundings, those of Lambda, and library functions; the turning of a block.
        const double own =
            size * (kRound * (8.0 * (quadratic + v * a) + 6.0 * std::fabs(p) * (std::fabs(loss.rate) + loss.fall) +
                              8.0 * std::fabs(a * x) / s2 + 16.0 * scale_size) +
                    1.5 * std::fabs(p) * loss.err + kTermErr + weight.err);
        if (less_one_ && now - from * loss.fall + weight.log_size < cut) {  // of exp(itD) - 1 only the 1 is left
            dropped += std::exp(now - from * loss.fall + weight.log_size) * (1.0 + weight.err);
            dead_re.push_back(size * std::cos(angle));
            dead_im.push_back(size * std::sin(angle));
            err += own;
            turns += size;
            continue;
        }
        // Half a block turns this term by less than a radian, and all before it.
        const double far = std::fabs(rate) + loss.fall;
        const bool slow = slow_ == log_size_.size() && half * far < 1.0;
        if (slow) ++slow_;
        furthest = std::max(furthest, far);
        // |exp(itD) - 1| up to the end of the octave's last block; what is not slow is summed as it is.
        const double dev = less_one_ && slow ? std::min(2.0, (until_ + 2.0 * half) * far) : 2.0;
        err += (less_one_ ? dev : 1.0) * own;
        bound_err += own;
        // Angles at the middle of a polynomial, up to 2 t or t and half a block.
        const double turned_err = 3.0 * loss.err + 12.0 * kRound * far;
        slope += size * turned_err;
        err += size * half * turned_err;
        sizes += size;
        turns += 0.5 * dev * size;
        log_size_.push_back(log_size + weight.log_size);
        fall_.push_back(loss.fall);
        angle_.push_back(angle);
        rate_.push_back(rate);
    }
    std::size_t terms = log_size_.size();
    // Outside of the first and the last output: what the sum of outputs knows, at the path's height.
    const double ends = std::exp(std::min(envelope_.log_outside(a) - log_mass, 700.0));
    // Sizes fall with t, so that all of this holds from `from` on.
    // Sums: 32 terms at a time, or 32 of each of eight parts; of a polynomial e times, for all of its
    // coefficients.
    const double sums =
        2.0 * (static_cast<double>(kChunk) + static_cast<double>(terms + dead_re.size()) / kChunk + 16.0);
    const double add = (slow_ > 0 ? 3.0 : 1.0) * sums * kRound;
    const double outside = (less_one_ ? 2.0 : 1.0) * (rule + 1.01 * dropped + ends + 1e-79 * sizes);
    err_ = kSlack * (err + outside + (add + log_mass_err_) * (less_one_ ? 2.0 * turns : sizes)) +
           (less_one_ ? 0.0 : kRound);
    bound_err_ = kSlack * (bound_err + outside + (add + log_mass_err_) * sizes);
    if (!(err_ < kInf) || !(sizes < kMostSizes)) {  // nothing is known
        err_ = bound_err_ = kInf;
        for (std::vector<double>* w : {&log_size_, &fall_, &angle_, &rate_}) w->clear();
        slow_ = terms = 0;
    }
    slope_ = kSlack * slope;
    for (std::vector<double>* w : {&size_, &re_, &im_, &at_re_, &at_im_, &still_re_, &still_im_}) w->resize(terms);
    Complex gone = {1.0, 0.0};
    if (less_one_) {
        for (std::size_t n = 0; n < terms; ++n) {
            still_re_[n] = std::exp(log_size_[n]) * std::cos(angle_[n]);
            still_im_[n] = std::exp(log_size_[n]) * std::sin(angle_[n]);
        }
        gone = sum_parts(still_re_.data() + slow_, still_im_.data() + slow_, terms - slow_) +
               sum_parts(dead_re.data(), dead_im.data(), dead_re.size());
    }
    gone_re_ = gone.re;
    gone_im_ = gone.im;
    for (std::vector<double>* w : {&power_re_, &power_im_}) w->resize(slow_);
    ends_ = -1.0;
    span_ = slow_ == terms ? std::max(1.0, std::floor(1.0 / (half * std::max(furthest, 1e-300)))) : 1.0;
    // No longer than t itself, so that roundings of angles are those of t.
    span_ = std::min({span_, kMostBlocks, std::max(1.0, std::floor(from / half))});
    for (std::size_t n = 0; n < slow_; ++n) {
        power_re_[n] = -span_ * half * fall_[n];
        power_im_[n] = span_ * half * rate_[n];
    }
    for (std::vector<double>* w : {&table_re_, &table_im_}) w->resize(terms * kStride);
    for (std::vector<double>* w : {&stride_re_, &stride_im_}) w->resize(terms * kStrides);
    stop.spend(kRuleWork * static_cast<double>(terms));
    const auto turned = [&](std::size_t n, double t) {
        const double size = std::exp(-t * fall_[n]);
        return Complex{size * std::cos(t * rate_[n]), size * std::sin(t * rate_[n])};
    };
    for (std::size_t n = 0; n < terms; ++n) {
        for (std::size_t j = 0; j < kStride; ++j) {
            const Complex by = turned(n, static_cast<double>(j) * h_);
            table_re_[n * kStride + j] = by.re;
            table_im_[n * kStride + j] = by.im;
        }
        for (std::size_t k = 0; k < kStrides; ++k) {
            const Complex by = turned(n, static_cast<double>(k * kStride) * h_);
            stride_re_[k * terms + n] = by.re;
            stride_im_[k * terms + n] = by.im;
        }
    }
}

double FarStep::bound(double t, StopCheck stop) {
    if (!(t >= from_ && t < until_)) {
        double from = 0.0;
        if (t >= first_) {
            from = first_;
            while (2.0 * from <= t) from *= 2.0;
        }
        make_rule(from, stop);
    }
    at_ = t;
    // Within a polynomial for many blocks: what held at its beginning.
    if (span_ > 1.0 && t >= begins_ && t <= ends_) return bound_;
    ends_ = -1.0;
    const std::size_t terms = log_size_.size();
    stop.spend(kSizeWork * static_cast<double>(terms));
    for (std::size_t n = 0; n < terms; ++n) size_[n] = std::max(log_size_[n] - t * fall_[n], -700.0);
    exp_block(size_.data(), size_.data(), terms);
    double sum = 0.0;
    for (const double s : size_) sum += s;
    return bound_ = sum * (1.0 + 1e-9) + bound_err_ + slope_ * t + 1e-290;
}

// Of the slow terms, in the distance from the middle of its blocks over their half: the sums of u (i Lambda
// half)^k/k!. What is left out of each is at most e/19! < 3e-17 of it.
void FarStep::make_polynomial() {
    const double half = span_ * static_cast<double>(kStride * kStrides / 2) * h_;
    begins_ = at_;
    middle_ = at_ + half;
    // The last block that lies within it begins here.
    ends_ = at_ + (2.0 - 2.0 / span_) * half * (1.0 + 1e-12);
    for (std::size_t n = 0; n < slow_; ++n) {
        const double x = -middle_ * fall_[n], y = middle_ * rate_[n];
        Complex now, less;  // W exp(itD), and less W
        if (less_one_ && std::fabs(x) + std::fabs(y) < kSmallTurn) {
            const double swing = std::sin(0.5 * y);
            const double grown = std::expm1(x);
            const double lower = 2.0 * swing * swing;
            less = Complex{still_re_[n], still_im_[n]} *
                   Complex{grown * (1.0 - lower) - lower, (1.0 + grown) * std::sin(y)};
            now = Complex{still_re_[n], still_im_[n]} + less;
        } else {
            const double size = size_[n] * std::exp(-half * fall_[n]);
            const double angle = angle_[n] + y;
            now = {size * std::cos(angle), size * std::sin(angle)};
            if (less_one_) less = now - Complex{still_re_[n], still_im_[n]};
        }
        at_re_[n] = now.re;
        at_im_[n] = now.im;
        re_[n] = less.re;
        im_[n] = less.im;
    }
    Complex sum =
        less_one_ ? sum_parts(re_.data(), im_.data(), slow_) : sum_parts(at_re_.data(), at_im_.data(), slow_);
    for (std::size_t k = 0;; ++k) {
        coefficient_re_[k] = sum.re;
        coefficient_im_[k] = sum.im;
        if (k == kDegree) break;
        turn(at_re_.data(), at_im_.data(), at_re_.data(), at_im_.data(), power_re_.data(), power_im_.data(),
             slow_);
        const double next = 1.0 / static_cast<double>(k + 1);
        for (std::size_t n = 0; n < slow_; ++n) {
            at_re_[n] *= next;
            at_im_[n] *= next;
        }
        sum = sum_parts(at_re_.data(), at_im_.data(), slow_);
    }
}

void FarStep::values(double* re, double* im, const bool* wanted) {
    const std::size_t terms = log_size_.size();
    for (std::size_t n = slow_; n < terms; ++n) {
        const double angle = angle_[n] + at_ * rate_[n];
        re_[n] = size_[n] * std::cos(angle);
        im_[n] = size_[n] * std::sin(angle);
    }
    if (slow_ > 0 && ends_ < 0.0) make_polynomial();
    const double half = span_ * static_cast<double>(kStride * kStrides / 2) * h_;
    const double sign = step_.removal ? 1.0 : -1.0;
    for (std::size_t k = 0; k < kStrides; ++k) {
        double* own_re = re + k * kStride;
        double* own_im = im + k * kStride;
        if (!wanted[k]) {
            std::fill_n(own_re, kStride, -1.0);
            std::fill_n(own_im, kStride, 0.0);
            continue;
        }
        turn(at_re_.data(), at_im_.data(), re_.data() + slow_, im_.data() + slow_,
             stride_re_.data() + k * terms + slow_, stride_im_.data() + k * terms + slow_, terms - slow_);
        sum_stride(own_re, own_im, table_re_.data() + slow_ * kStride, table_im_.data() + slow_ * kStride,
                   at_re_.data(), at_im_.data(), terms - slow_);
        if (slow_ > 0) {
            const double from = at_ - middle_ + static_cast<double>(k * kStride) * h_;
            double poly_re[kStride], poly_im[kStride];
            polynomial(poly_re, poly_im, coefficient_re_, coefficient_im_, kDegree, from / half, h_ / half);
            for (std::size_t j = 0; j < kStride; ++j) {
                own_re[j] += poly_re[j];
                own_im[j] += poly_im[j];
            }
        }
        for (std::size_t j = 0; j < kStride; ++j) {
            own_re[j] -= gone_re_;
            own_im[j] = sign * (own_im[j] - gone_im_);
        }
    }
}

}  // namespace dpcore::detail
