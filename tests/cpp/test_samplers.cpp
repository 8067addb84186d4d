#include "dpcore/samplers.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "dpcore/bulk.hpp"
#include "dpcore/selection.hpp"

using namespace dpcore;

namespace {

Extension extension_from(KeyedStream& stream) {
    Extension more;
    for (auto* part : {more.position, more.uniform, more.bin})
        for (int i = 0; i < 3; ++i) part[i] = stream.next();
    return more;
}

// The draws of the first chunk, attempt by attempt: what fill() must give with its blocks of vectors.
template <class S>
std::vector<std::int64_t> one_by_one(const S& sampler, const ChaChaKey& key, std::size_t count) {
    std::vector<std::int64_t> out;
    KeyedStream stream(key, 0);
    std::uint64_t words[256];
    while (out.size() < count) {
        const std::size_t n = std::min<std::size_t>(128, count - out.size());
        const std::size_t stride = (n + 3) / 4 * 4;
        stream.fill(words, 2 * stride);
        for (std::size_t i = 0; i < n; ++i) {
            const auto probe = sampler.probe(words[i], words[stride + i]);
            const Attempt a = probe.undecided
                                  ? sampler.law().resolve(words[i], words[stride + i], extension_from(stream))
                                  : probe.attempt;
            if (a.accepted) out.push_back(a.value);
        }
    }
    return out;
}

template <class S>
void check_bulk(double scale) {
    const S sampler(scale);
    InsecureTestSource source(42);
    for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{127},
                                    std::size_t{1000}, std::size_t{20000}}) {
        const ChaChaKey key = source.next_key();
        std::vector<std::int64_t> out(count + 1, 77);
        sampler.fill(key, out.data(), count);
        CHECK(out.back() == 77);
        out.pop_back();
        bool tabled = false;
        if constexpr (std::is_same_v<S, DiscreteGaussian>) {
            tabled = count >= TabledGaussianLaw::kFrom && scale <= TabledGaussianLaw::kGreatestSigma;
            if (tabled) CHECK(out == one_by_one(TabledGaussian(scale), key, count));
        }
        if (!tabled) CHECK(out == one_by_one(sampler, key, count));
        std::vector<double> scaled(count);
        sampler.fill_scaled(key, 0.5, scaled.data(), count);
        std::vector<std::int64_t> added(count, 1000);
        sampler.add(key, added.data(), added.data(), count);
        bool same = true;
        for (std::size_t i = 0; i < count; ++i)
            same = same && scaled[i] == 0.5 * static_cast<double>(out[i]) && added[i] == 1000 + out[i];
        CHECK(same);
    }
}

}  // namespace

TEST(bulk_draws_equal_single_attempts) {
    for (const double scale : {0.001, 1.0, 10.0, 1e6, 1e15}) {
        check_bulk<DiscreteLaplace>(scale);
        check_bulk<DiscreteGaussian>(scale);
        check_bulk<Geometric>(scale);
        check_bulk<RoundedLaplace>(scale);
        check_bulk<RoundedGaussian>(scale);
    }
}

TEST(tables_of_small_scales) {
    CHECK_THROWS(std::invalid_argument, TabledGaussianLaw(8.5));
    // An undecided choice of magnitude follows the further bits of the threshold.
    const TabledGaussianLaw law(1.0);
    for (std::uint64_t index = 0; index < law.table().size(); ++index) {
        const BinTable::Column c = law.table().column(index);
        if (c.alias == index) continue;
        const std::uint64_t first = index | (c.threshold << 38);
        CHECK(TabledGaussian(1.0).probe(first, 0).undecided);
        Extension more{};
        CHECK(law.resolve(first, 0, more).value == static_cast<std::int64_t>(index) || c.further[0] == 0);
        for (auto& w : more.bin) w = ~std::uint64_t{0};
        CHECK(law.resolve(first, 0, more).value == static_cast<std::int64_t>(c.alias));
    }
}

TEST(results_do_not_depend_on_threads) {
    const DiscreteGaussian sampler(10.0);
    InsecureTestSource source(1);
    const ChaChaKey key = source.next_key();
    const std::size_t n = kParallelFrom + 12345;
    std::vector<std::int64_t> one(n);
    std::vector<std::int64_t> three(n);
    sampler.fill(key, one.data(), n, {}, 1);
    sampler.fill(key, three.data(), n, {}, 3);
    CHECK(one == three);
}

TEST(a_caller_can_stop_a_fill) {
    const DiscreteGaussian sampler(10.0);
    std::vector<std::int64_t> out(kParallelFrom * 4);
    int polls = 0;
    const StopCheck stop{[](void* context) { return ++*static_cast<int*>(context) == 3; }, &polls};
    for (const unsigned threads : {1U, 2U}) {
        polls = 0;
        CHECK_THROWS(Interrupted, sampler.fill(secure_source().next_key(), out.data(), out.size(), stop, threads));
        CHECK(polls == 3);
    }
}

TEST(integers_saturate) {
    const DiscreteLaplace sampler(1e15);
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
    RandomSource& source = secure_source();
    int at_end = 0;
    for (int i = 0; i < 200; ++i) {
        at_end += sampler.add(source, kMost) == kMost ? 1 : 0;
        CHECK(sampler.add(source, kMost) > kMost / 2);
        CHECK(sampler.add(source, kLeast) < kLeast / 2);
    }
    // Half of the draws are >= 0: 200 of them all on one side would be chance of 2^-199.
    CHECK(at_end > 0 && at_end < 200);
}

TEST(grids) {
    CHECK(grid_for(1.0) == 0x1p-40);
    CHECK(grid_for(1.999) == 0x1p-40);
    CHECK(grid_for(2.0) == 0x1p-39);
    CHECK_THROWS(std::invalid_argument, grid_for(0.0));
    CHECK_THROWS(std::invalid_argument, grid_for(std::nan("")));
    CHECK_THROWS(std::invalid_argument, grid_for(std::numeric_limits<double>::infinity()));
    CHECK_THROWS(std::invalid_argument, GridGaussian(1.0, 0.3));
    CHECK_THROWS(std::invalid_argument, GridGaussian(1.0, 0x1p-60));
    CHECK_THROWS(std::invalid_argument, GridGaussian(1.0, 0x1p20));
    CHECK_THROWS(std::invalid_argument, GridGaussian(-1.0, 0.5));
    CHECK_THROWS(std::invalid_argument, DiscreteGaussian(1e-4));
    CHECK_THROWS(std::invalid_argument, DiscreteGaussian(1e16));
    CHECK_THROWS(std::invalid_argument, DiscreteGaussian(std::nan("")));
}

TEST(values_on_a_grid) {
    const GridLaplace noise(1.0, 0.25);
    CHECK(noise.limit() == 0.25 * 0x1p120);
    InsecureTestSource a(3);
    InsecureTestSource b(3);
    // 0.1 rounds to 0, 0.13 to 0.25, ties to even; NaN is 0; infinities are the limit.
    const double pairs[][2] = {{0.1, 0.0}, {0.13, 0.25}, {0.125, 0.0}, {0.375, 0.5}, {-0.375, -0.5}};
    for (const auto& p : pairs) {
        const double shift = noise.draw(b);
        CHECK(noise.add(a, p[0]) == p[1] + shift);
    }
    CHECK(noise.add(a, std::nan("")) == noise.draw(b));
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(noise.add(a, infinity) == noise.limit());
    CHECK(noise.add(a, -infinity) == -noise.limit());
    CHECK(std::isfinite(GridGaussian(1e280).add(a, std::numeric_limits<double>::max())));
    CHECK(GridGaussian(1e-280).add(a, 5e-324) != 0.0);
}

TEST(integers_on_a_grid_keep_their_last_digit) {
    const auto released = [](const GridLaplace& noise, std::int64_t value) {
        InsecureTestSource source(3);
        return noise.add(source, value);
    };
    // Noise is 0 here, but for a chance of exp(-512).
    const GridLaplace unit(0x1p-10, 1.0);
    for (const std::int64_t value : {(std::int64_t{1} << 53) + 1, (std::int64_t{1} << 53) + 2}) {
        InsecureTestSource source(3);
        double out = 0.0;
        unit.add(source.next_key(), &value, &out, 1);
        CHECK(out == static_cast<double>(value));
        CHECK(released(unit, value) == static_cast<double>(value));
    }
    // A coarse grid rounds the exact integer, ties to even. 2^54 + 2 is a tie of 2^54 and 2^54 + 4 and goes down;
    // 2^54 + 3 goes up.
    const GridLaplace four(0x1p-8, 4.0);
    const std::int64_t base = std::int64_t{1} << 54;
    const std::int64_t pairs[][2] = {{base + 1, base},
                                     {base + 2, base},
                                     {base + 3, base + 4},
                                     {base + 6, base + 8},
                                     {-base - 2, -base},
                                     {-base - 3, -base - 4},
                                     {6, 8},
                                     {-6, -8},
                                     {2, 0}};
    for (const auto& p : pairs) CHECK(released(four, p[0]) == static_cast<double>(p[1]));
    // Fine grids clamp at 2^120 cells, as they do for doubles; huge ones round everything to 0.
    const GridLaplace fine(0x1p-100, 0x1p-100);
    CHECK(released(fine, 1 << 21) == fine.limit());
    CHECK(released(fine, -(1 << 21)) == -fine.limit());
    CHECK(released(GridLaplace(0x1p-130, 0x1p-130), 1) == 0x1p-10);
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const std::int64_t least = std::numeric_limits<std::int64_t>::min();
    CHECK(released(GridLaplace(0x1p54, 0x1p64), least) == 0.0);  // a tie between 0 and -1 cell
    CHECK(released(GridLaplace(0x1p53, 0x1p63), most) == 0x1p63);
    CHECK(released(GridLaplace(0x1p70, 0x1p80), most) == 0.0);
}

namespace {

// Words 1, 2, 3, ... of a fixed stream; a fork, as of a signal handler, just before the second is handed out.
class ForkingSource final : public RandomSource {
public:
    ForkingSource() : words_(4) {
        static State state{};  // empty: every word passes through next_from_refill
        state_ = &state;
    }
    pid_t child() const { return child_; }

private:
    std::uint64_t next_from_refill() override {
        if (++given_ == 2) child_ = fork();
        return words_.next();
    }
    InsecureTestSource words_;
    int given_ = 0;
    pid_t child_ = -1;
};

}  // namespace

TEST(a_child_made_in_the_middle_of_a_draw_starts_anew) {
    secure_source().next();  // the handler that counts forks is there from the first secure word on
    const DiscreteLaplace noise(1e9);
    InsecureTestSource same(4);
    const std::int64_t first = noise(same);   // of words 1 and 2
    const std::int64_t second = noise(same);  // of words 3 and 4
    ForkingSource source;
    const std::int64_t drawn = noise(source);
    if (source.child() == 0) _exit(drawn == second ? 0 : 1);
    CHECK(drawn == first);
    int status = 1;
    waitpid(source.child(), &status, 0);
    CHECK(status == 0);

    InsecureTestSource keys(4);
    const ChaChaKey whole = keys.next_key();
    const ChaChaKey next = keys.next_key();
    ForkingSource key_source;
    const ChaChaKey got = key_source.next_key();
    if (key_source.child() == 0) _exit(got.words == next.words ? 0 : 1);
    CHECK(got.words == whole.words);
    waitpid(key_source.child(), &status, 0);
    CHECK(status == 0);
}

TEST(choices_refuse_bad_parameters) {
    const double scores[] = {1.0, 2.0};
    const std::array<std::uint64_t, 4> uniform{1, 2, 3, 4};
    CHECK_THROWS(std::invalid_argument, choose(uniform, scores, 0, 1.0));
    CHECK_THROWS(std::invalid_argument, choose(uniform, scores, 2, -1.0));
    CHECK_THROWS(std::invalid_argument, choose(uniform, scores, 2, std::nan("")));
    CHECK_THROWS(std::invalid_argument, Coin::exp_negative(-1.0));
    CHECK_THROWS(std::invalid_argument, Coin::exp_negative(std::nan("")));
    CHECK_THROWS(std::invalid_argument, RandomizedResponder(0.0, 2));
    CHECK_THROWS(std::invalid_argument, RandomizedResponder(1.0, 1));
    CHECK_THROWS(std::invalid_argument, flip_exp_negative(secure_source(), -0.5));
    std::uint8_t out[1];
    CHECK_THROWS(std::invalid_argument, fill_rational_coin(ChaChaKey(), 2, 1, out, 1));
    CHECK(Coin::exp_negative(0.0).flip(secure_source()));
    CHECK(!Coin::exp_negative(1e300).flip(secure_source()));
}

TEST(private_scores_never_throw) {
    const double nan = std::nan("");
    const double infinity = std::numeric_limits<double>::infinity();
    const double odd[] = {nan, infinity, -infinity, 0.0, 1e308, -1e308};
    InsecureTestSource source(1);
    for (int i = 0; i < 100; ++i) {
        const std::array<std::uint64_t, 4> uniform{source.next(), source.next(), source.next(), source.next()};
        const std::size_t chosen = choose(uniform, odd, 6, 1.0);
        CHECK(chosen == 1 || chosen == 4);  // both are clamped to the highest score
        CHECK(chosen == choose_exactly(uniform, odd, 6, 1.0));
        const double none[] = {nan, nan, -infinity};
        CHECK(choose(uniform, none, 3, 1.0) == choose_exactly(uniform, none, 3, 1.0));
    }
}
