// Exact choices: uniform integers, coins with a given probability, randomised response, exponential mechanism.
//
// Method:    a coin compares a uniform number, word by word, with its probability in 256-bit fixed point; the next
//            word is drawn only while all bits agree. One-off coins with probability exp(-x) first compare with a
//            double approximation and compute the fixed-point value only when that is too close (2^-29). Uniform
//            integers: Lemire's multiplication with rejection. Exponential mechanism: inversion of the cumulated
//            weights in double with a proven slack; when the uniform number falls within it, the weights are
//            computed again in fixed point with the same uniform number.
// Domain:    given with each function; std::invalid_argument outside, decided by public parameters only. Scores
//            and answers are private: any value is accepted.
// Guarantee: uniform_below and rational coins are exact; the others differ from their law by less than 2^-200 in
//            total variation. Work does not depend on answers or on what was chosen, outside the undecided cases;
//            choose() reads every score whatever they are.
// Evidence:  tests/test_samplers_exact.py, tests/test_selection_law.py.
// Reference: Lemire (2019), "Fast random integer generation in an interval"; McSherry and Talwar (2007).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpcore/fixed_point.hpp"
#include "dpcore/interrupt.hpp"
#include "dpcore/random_stream.hpp"

namespace dpcore {

// A uniform integer in [0, bound), bound >= 1. Source: RandomSource or KeyedStream.
template <class Source>
std::uint64_t uniform_below(Source& source, std::uint64_t bound) {
    Uint128 product = static_cast<Uint128>(source.next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
        const std::uint64_t excess = (0 - bound) % bound;  // 2^64 modulo bound
        while (static_cast<std::uint64_t>(product) < excess) product = static_cast<Uint128>(source.next()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
}

// `count` uniform integers in [0, bound), 1 <= bound <= 2^63.
void fill_uniform_below(const ChaChaKey& key, std::uint64_t bound, std::int64_t* out, std::size_t count,
                        StopCheck stop = {}, unsigned threads = 0);

// A coin that shows 1 with a fixed probability.
class Coin {
public:
    explicit Coin(const Fixed256& probability)
        : always_(probability.integer_part() != 0), threshold_(probability.limb) {}

    // Pr[1] = exp(-x), x >= 0.
    static Coin exp_negative(double x);
    // Pr[1] = 1/(1 + (categories - 1) exp(-epsilon)): an answer is kept. epsilon > 0, categories >= 2.
    static Coin keep(double epsilon, std::uint64_t categories);

    template <class Source>
    bool flip(Source& source) const {
        return flip(source, source.next());
    }
    // The same toss with its first word given.
    template <class Source>
    bool flip(Source& source, std::uint64_t word) const {
        if (__builtin_expect(word == threshold_[3], 0)) return flip_further(source);
        return always_ || word < threshold_[3];
    }

    void fill(const ChaChaKey& key, std::uint8_t* out, std::size_t count, StopCheck stop = {},
              unsigned threads = 0) const;

private:
    template <class Source>
    bool flip_further(Source& source) const {
        for (int i = 2; i >= 0; --i) {
            const std::uint64_t word = source.next();
            if (word != threshold_[i]) return always_ || word < threshold_[i];
        }
        return always_;
    }
    bool always_;
    std::array<std::uint64_t, 5> threshold_;
};

// One Bernoulli(exp(-x)), x >= 0, without building a coin.
bool flip_exp_negative(RandomSource& source, double x);

// `count` Bernoulli(numerator/denominator), numerator <= denominator, 1 <= denominator.
void fill_rational_coin(const ChaChaKey& key, std::uint64_t numerator, std::uint64_t denominator,
                        std::uint8_t* out, std::size_t count, StopCheck stop = {}, unsigned threads = 0);

// Randomised response on {0, .., categories - 1}: an answer is kept with probability
// exp(epsilon)/(exp(epsilon) + categories - 1) and otherwise replaced by one of the others, uniformly. Answers
// outside the set are first moved to its nearest end. A single answer takes the path of flip_exp_negative, an
// array the coin of keep(); both give the same answers for the same words.
class RandomizedResponder {
public:
    RandomizedResponder(double epsilon, std::uint64_t categories);
    std::int64_t operator()(RandomSource& source, std::int64_t answer) const;
    void respond(const ChaChaKey& key, const std::int64_t* answers, std::int64_t* out, std::size_t count,
                 StopCheck stop = {}, unsigned threads = 0) const;

private:
    template <class Source, class Flip>
    std::int64_t one(Source& source, std::int64_t answer, const Flip& flip) const;
    double epsilon_;
    std::uint64_t categories_;
};

// An index i in [0, count) with probability proportional to exp(factor * scores[i]), for the exact values of the
// doubles. count >= 1, factor >= 0 and finite. A score is first clamped to +-2^1000; NaN counts as -2^1000.
// `uniform` holds four independent uniform words.
std::size_t choose(const std::array<std::uint64_t, 4>& uniform, const double* scores, std::size_t count,
                   double factor, StopCheck stop = {});

// The same choice for the same words, in fixed point throughout: the slow path by itself.
std::size_t choose_exactly(const std::array<std::uint64_t, 4>& uniform, const double* scores, std::size_t count,
                           double factor, StopCheck stop = {});

}  // namespace dpcore
