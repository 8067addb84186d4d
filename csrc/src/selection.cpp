#include "dpcore/selection.hpp"

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "dpcore/bulk.hpp"
#include "dpcore/double_double.hpp"
#include "dpcore/fast_exp.hpp"

namespace dpcore {

namespace {

constexpr std::size_t kChunk = 32768;

template <class Draw, class Out>
void fill_with(const ChaChaKey& key, Out* out, std::size_t count, StopCheck stop, unsigned threads, Draw draw) {
    for_chunks(count, kChunk, threads, stop, [&](std::size_t number, std::size_t begin, std::size_t end) {
        BufferedStream stream(key, number);
        for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<Out>(draw(stream, i));
    });
}

void check_non_negative(double value, const char* what) {
    if (!(value >= 0.0 && value <= std::numeric_limits<double>::max())) throw std::invalid_argument(what);
}

void check_response(double epsilon, std::uint64_t categories) {
    if (!(epsilon > 0.0 && epsilon <= std::numeric_limits<double>::max()))
        throw std::invalid_argument("epsilon must be a finite number > 0");
    if (categories < 2 || categories > std::uint64_t{1} << 62)
        throw std::invalid_argument("categories must lie in [2, 2^62]");
}

Fixed256 words_to_fixed(const std::array<std::uint64_t, 4>& words) {
    Fixed256 out;
    out.limb = {words[3], words[2], words[1], words[0], 0};
    return out;
}

}  // namespace

void fill_uniform_below(const ChaChaKey& key, std::uint64_t bound, std::int64_t* out, std::size_t count,
                        StopCheck stop, unsigned threads) {
    if (bound < 1 || bound > std::uint64_t{1} << 63) throw std::invalid_argument("bound must lie in [1, 2^63]");
    fill_with(key, out, count, stop, threads,
              [bound](BufferedStream& stream, std::size_t) { return uniform_below(stream, bound); });
}

Coin Coin::exp_negative(double x) {
    check_non_negative(x, "x must be a finite number >= 0");
    return Coin(dpcore::exp_negative(from_double(x)));
}

Coin Coin::keep(double epsilon, std::uint64_t categories) {
    check_response(epsilon, categories);
    const Fixed256 others = dpcore::exp_negative(from_double(epsilon)) * (categories - 1);
    return Coin(reciprocal(Fixed256::integer(1) + others));
}

void Coin::fill(const ChaChaKey& key, std::uint8_t* out, std::size_t count, StopCheck stop,
                unsigned threads) const {
    fill_with(key, out, count, stop, threads,
              [this](BufferedStream& stream, std::size_t) { return flip(stream); });
}

bool flip_exp_negative(RandomSource& source, double x) {
    check_non_negative(x, "x must be a finite number >= 0");
    // |p - exp(-x)| < 2^-34 and the uniform number is known to 2^-53: a distance of 2^-30 decides.
    const std::uint64_t word = source.next();
    const double d = exp_negative_fast(x) - static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53;
    if (__builtin_expect(std::fabs(d) > 0x1p-30, 1)) return d > 0.0;
    std::array<std::uint64_t, 4> words{word, 0, 0, 0};
    for (std::size_t i = 1; i < words.size(); ++i) words[i] = source.next();
    return words_to_fixed(words) < exp_negative(from_double(x));
}

void fill_rational_coin(const ChaChaKey& key, std::uint64_t numerator, std::uint64_t denominator,
                        std::uint8_t* out, std::size_t count, StopCheck stop, unsigned threads) {
    if (denominator < 1 || numerator > denominator)
        throw std::invalid_argument("a probability needs numerator <= denominator and denominator >= 1");
    fill_with(key, out, count, stop, threads,
              [=](BufferedStream& stream, std::size_t) { return uniform_below(stream, denominator) < numerator; });
}

RandomizedResponder::RandomizedResponder(double epsilon, std::uint64_t categories)
    : epsilon_(epsilon), categories_(categories) {
    check_response(epsilon, categories);
}

template <class Source, class Flip>
std::int64_t RandomizedResponder::one(Source& source, std::int64_t answer, const Flip& flip) const {
    const auto last = static_cast<std::int64_t>(categories_ - 1);
    answer = answer < 0 ? 0 : answer;
    answer = answer > last ? last : answer;
    // The replacement is drawn whether it is used or not: the work does not tell.
    const bool kept = flip(source);
    auto other = static_cast<std::int64_t>(uniform_below(source, categories_ - 1));
    other += other >= answer ? 1 : 0;
    return kept ? answer : other;
}

std::int64_t RandomizedResponder::operator()(RandomSource& source, std::int64_t answer) const {
    return one(source, answer, [this](RandomSource& s) {
        // 1/(1 + (k - 1) e) errs by less than e's relative error, which std::exp keeps below 2^-50, and a few
        // roundings; the uniform number is known to 2^-53. A distance of 2^-40 decides.
        const double p = 1.0 / (1.0 + static_cast<double>(categories_ - 1) * std::exp(-epsilon_));
        const std::uint64_t word = s.next();
        const double d = p - static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53;
        if (__builtin_expect(std::fabs(d) > 0x1p-40, 1)) return d > 0.0;
        return Coin::keep(epsilon_, categories_).flip(s, word);
    });
}

void RandomizedResponder::respond(const ChaChaKey& key, const std::int64_t* answers, std::int64_t* out,
                                  std::size_t count, StopCheck stop, unsigned threads) const {
    const Coin keep = Coin::keep(epsilon_, categories_);
    const auto flip = [&keep](BufferedStream& stream) { return keep.flip(stream); };
    fill_with(key, out, count, stop, threads,
              [&](BufferedStream& stream, std::size_t i) { return one(stream, answers[i], flip); });
}

// ---- exponential mechanism

namespace {

constexpr double kGreatestScore = 0x1p1000;

double clamped(double score) {
    // Comparisons with NaN are false: NaN becomes the lowest score.
    if (!(score > -kGreatestScore)) return -kGreatestScore;
    return score < kGreatestScore ? score : kGreatestScore;
}

// |a * b| as fixed point by its exact value; saturates far beyond where exp(-x) vanishes.
Fixed256 exact_product(double a, double b) {
    int ea = 0;
    int eb = 0;
    const auto ma = static_cast<std::uint64_t>(std::ldexp(std::fabs(std::frexp(a, &ea)), 53));
    const auto mb = static_cast<std::uint64_t>(std::ldexp(std::fabs(std::frexp(b, &eb)), 53));
    const Uint128 product = static_cast<Uint128>(ma) * mb;
    const int exponent = ea + eb - 106;
    const Fixed256 high = from_scaled(static_cast<std::uint64_t>(product >> 64), exponent + 64);
    if (high.integer_part() >= std::uint64_t{1} << 62) return high;
    return high + from_scaled(static_cast<std::uint64_t>(product), exponent);
}

// exp(-factor * (best - score)).
Fixed256 exact_weight(double factor, double best, double score) {
    const DoubleDouble gap = two_sum(best, -score);  // exact; gap.hi >= 0
    const Fixed256 high = exact_product(factor, gap.hi);
    if (high.integer_part() >= 256) return Fixed256();
    const Fixed256 low = exact_product(factor, gap.lo);
    if (gap.lo >= 0.0) return exp_negative(high + low);
    return exp_negative(high < low ? Fixed256() : high - low);
}

// exp(-y) with relative error below 2^-49 for y <= 700: as exp_negative_fast, with ln 2 in two parts (n times the
// first is exact) and degree 13 (0.347^14/14! < 2^-57).
double exp_negative_double(double y) {
    y = y < 700.0 ? y : 700.0;
    const double n = std::nearbyint(y * 1.4426950408889634);
    const double r = (n * 0x1.62e42feep-1 - y) + n * 0x1.a39ef35793c76p-33;
    double p = 0.0;
    constexpr double kInverseFactorial[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    for (int i = 13; i >= 0; --i) p = p * r + kInverseFactorial[i];
    return std::ldexp(p, -static_cast<int>(n));
}

constexpr std::size_t kPollEvery = 4096;

double best_score(const double* scores, std::size_t count, StopCheck stop) {
    double best = -kGreatestScore;
    for (std::size_t i = 0; i < count; ++i) {
        if (i % (16 * kPollEvery) == 0) stop();
        const double s = clamped(scores[i]);
        best = s > best ? s : best;
    }
    return best;
}

}  // namespace

std::size_t choose_exactly(const std::array<std::uint64_t, 4>& uniform, const double* scores, std::size_t count,
                           double factor, StopCheck stop) {
    if (count == 0) throw std::invalid_argument("there must be at least one score");
    check_non_negative(factor, "factor must be a finite number >= 0");
    const double best = best_score(scores, count, stop);
    std::vector<Fixed256> sums;  // after element i; no page is touched before its turn, for the sake of polling
    sums.reserve(count);
    Fixed256 total;
    for (std::size_t i = 0; i < count; ++i) {
        if (i % kPollEvery == 0) stop();
        total = total + exact_weight(factor, best, clamped(scores[i]));
        sums.push_back(total);
    }
    const Fixed256 target = words_to_fixed(uniform) * total;  // below total
    std::size_t chosen = 0;
    for (std::size_t i = 0; i + 1 < count; ++i) {
        if (i % kPollEvery == 0) stop();
        chosen += target < sums[i] ? 0 : 1;
    }
    return chosen;
}

std::size_t choose(const std::array<std::uint64_t, 4>& uniform, const double* scores, std::size_t count,
                   double factor, StopCheck stop) {
    if (count == 0) throw std::invalid_argument("there must be at least one score");
    check_non_negative(factor, "factor must be a finite number >= 0");
    const double best = best_score(scores, count, stop);
    const std::unique_ptr<double[]> sums(new double[count]);  // not set to 0: pages are touched as they are polled
    double total = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
        if (i % (16 * kPollEvery) == 0) stop();
        const double y = factor * (best - clamped(scores[i]));
        total += exp_negative_double(y);
        sums[i] = total;
    }
    // Relative errors: y 2^-52, worth at most y exp(-y) 2^-52 < 2^-53 of the best weight; the exponential 2^-49;
    // each addition 2^-53 of the total. The best weight is 1, so total >= 1, and weights lost below exp(-700)
    // weigh nothing. Hence every sum is within `slack` of its exact value, and so is target within another.
    const double slack = total * (static_cast<double>(count) * 0x1p-51 + 0x1p-47);
    const double target = static_cast<double>(static_cast<std::int64_t>(uniform[0] >> 11)) * 0x1p-53 * total;
    std::size_t chosen = 0;
    std::size_t close = 0;
    for (std::size_t i = 0; i + 1 < count; ++i) {
        if (i % (16 * kPollEvery) == 0) stop();
        chosen += sums[i] <= target ? 1 : 0;
        close += std::fabs(sums[i] - target) <= slack ? 1 : 0;
    }
    if (__builtin_expect(close == 0, 1)) return chosen;
    return choose_exactly(uniform, scores, count, factor, stop);
}

}  // namespace dpcore
