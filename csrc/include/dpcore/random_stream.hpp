// Where random bits come from: one cryptographic stream a thread, keyed by the operating system.
//
// Method:    ChaCha20 with fast key erasure: every refill draws a buffer, the first 32 bytes of which become the
//            next key and are erased; words are erased as they are handed out. A fresh 256-bit key comes from
//            getrandom() at the start, after every kReseedBlocks blocks (1 MiB), and in a forked child. The state
//            lies in a page of its own marked MADV_WIPEONFORK (the kernel hands a child zeros) and MADV_DONTDUMP;
//            beside it a counter raised by pthread_atfork. Where the kernel cannot wipe, the process id is
//            compared at every word instead.
// Domain:    Linux. getrandom() blocks until the kernel is seeded, early in boot.
// Guarantee: no word is handed out twice, in this process, in a child or in a sibling; words already handed out
//            cannot be computed from the state (backtracking resistance). If getrandom() fails: RandomnessError,
//            never another source. No locks; threads share nothing.
//            Not claimed: safety after a virtual machine is cloned or restored from a snapshot while a buffer is
//            filled (until the next reseed), or against code that reads this process's memory.
// Evidence:  tests/cpp/test_random_stream.cpp (fork, threads, refusal of getrandom), tests/test_samplers_stream.py
//            (os.fork, multiprocessing, pre-fork server).
// Reference: Bernstein, "Fast-key-erasure random-number generators" (2017).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "dpcore/chacha20.hpp"

namespace dpcore {

// The operating system gave no randomness.
class RandomnessError : public std::runtime_error {
public:
    explicit RandomnessError(const char* what) : std::runtime_error(what) {}
};

// Raised in every forked child; see fork_count().
extern std::atomic<std::uint64_t> fork_counter;

// Number of forks between the first process that used this library and this one. Two equal values around a piece
// of code mean that the code ran in one process.
inline std::uint64_t fork_count() noexcept { return fork_counter.load(std::memory_order_relaxed); }

// A source of independent uniform 64-bit words. Not for two threads at a time.
class RandomSource {
public:
    RandomSource() = default;
    RandomSource(const RandomSource&) = delete;
    RandomSource& operator=(const RandomSource&) = delete;
    virtual ~RandomSource() = default;

    std::uint64_t next() {
        State& s = *state_;
        // A wiped page reads left == 0; the counter catches a fork where pages cannot be wiped.
        if (__builtin_expect(s.left == 0 || s.fork_count != fork_count(), 0)) return next_from_refill();
        std::uint64_t& word = s.words[kWords - s.left];
        const std::uint64_t out = word;
        word = 0;
        --s.left;
        return out;
    }

    // A key for streams that no other key repeats: the next four words.
    ChaChaKey next_key();

protected:
    static constexpr std::size_t kWords = 504;  // with the rest of the state, exactly one 4 KiB page
    struct State {
        std::uint64_t left;        // words not handed out yet
        std::uint64_t fork_count;  // of the process that filled the buffer
        std::uint64_t keyed;       // 1 when `key` is usable
        std::uint64_t since_seed;  // blocks drawn since the key came from the seed
        ChaChaKey key;
        std::uint64_t words[kWords];  // whole blocks: 63 of them
    };
    virtual std::uint64_t next_from_refill() = 0;

    State* state_ = nullptr;
};

// The calling thread's cryptographic stream. The reference is good for this thread only.
RandomSource& secure_source();

// Fills memory from the calling thread's stream.
void secure_bytes(void* out, std::size_t bytes);

// Deterministic, predictable: for tests only. The stream is the ChaCha20 key stream (nonce 0, block counter from
// 0) of the key "seed as 8 little-endian bytes, then the 24 ASCII bytes dpcore-insecure-test-rng", read as
// little-endian 64-bit words. It is the same on every machine and in every version.
class InsecureTestSource final : public RandomSource {
public:
    explicit InsecureTestSource(std::uint64_t seed);

private:
    std::uint64_t next_from_refill() override;
    std::unique_ptr<State> memory_;
};

// One of the numbered streams of a key, without fork protection: for the inside of one bulk call.
class KeyedStream {
public:
    KeyedStream(const ChaChaKey& key, std::uint64_t number)
        : key_(key), nonce_{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0} {}
    KeyedStream(const KeyedStream&) = delete;
    KeyedStream& operator=(const KeyedStream&) = delete;
    ~KeyedStream() {
        wipe(&key_, sizeof key_);
        wipe(spare_, sizeof spare_);
        wipe_stack();
    }

    // Fills `words` words, whole blocks: words is a multiple of 8.
    void fill(std::uint64_t* out, std::size_t words);

    std::uint64_t next() {
        if (left_ == 0) {
            fill(spare_, kSpare);
            left_ = kSpare;
        }
        return spare_[kSpare - left_--];
    }

private:
    static constexpr std::size_t kSpare = 8;
    ChaChaKey key_;
    ChaChaNonce nonce_;
    std::uint32_t counter_ = 0;
    std::size_t left_ = 0;
    std::uint64_t spare_[kSpare] = {};
};

// A KeyedStream read word by word through a buffer.
class BufferedStream {
public:
    BufferedStream(const ChaChaKey& key, std::uint64_t number) : stream_(key, number) {}
    ~BufferedStream() { wipe(words_, sizeof words_); }
    BufferedStream(const BufferedStream&) = delete;
    BufferedStream& operator=(const BufferedStream&) = delete;
    std::uint64_t next() {
        if (at_ == kWords) {
            stream_.fill(words_, kWords);
            at_ = 0;
        }
        return words_[at_++];
    }

private:
    static constexpr std::size_t kWords = 256;
    KeyedStream stream_;
    std::size_t at_ = kWords;
    std::uint64_t words_[kWords];
};

}  // namespace dpcore
