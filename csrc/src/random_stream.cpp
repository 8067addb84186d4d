#include "dpcore/random_stream.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "key stream bytes are read as little-endian words");

namespace dpcore {

std::atomic<std::uint64_t> fork_counter{0};

namespace {

// A new key from the kernel after this many blocks: its cost (about a microsecond) vanishes against a mebibyte of
// key stream, and a state that leaked is worthless after it.
constexpr std::uint64_t kReseedBlocks = (std::uint64_t{1} << 20) / kChaChaBlockBytes;

void system_random(void* out, std::size_t bytes) {
    auto* at = static_cast<unsigned char*>(out);
    while (bytes > 0) {
        const ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            throw RandomnessError(
                "the operating system gave no randomness (getrandom failed); nothing was released");
        at += got;
        bytes -= static_cast<std::size_t>(got);
    }
}

void count_fork() { fork_counter.fetch_add(1, std::memory_order_relaxed); }

// One word more is never handed out than a refill drew, and a forked child never sees the buffer of its parent.
class SecureSource final : public RandomSource {
public:
    SecureSource() {
        static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
        void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) throw RandomnessError("no memory for the random stream (mmap failed)");
        state_ = static_cast<State*>(page);
#ifdef MADV_WIPEONFORK
        wiped_on_fork_ = registered == 0 && madvise(page, kPage, MADV_WIPEONFORK) == 0;
#endif
#ifdef MADV_DONTDUMP
        (void)madvise(page, kPage, MADV_DONTDUMP);  // only keeps the key out of core files
#endif
    }

    ~SecureSource() override {
        wipe(state_, sizeof(State));
        wipe(held_, sizeof held_);
        munmap(state_, kPage);
    }

private:
    static constexpr std::size_t kPage = 4096;
    static_assert(sizeof(State) <= kPage);

    std::uint64_t next_from_refill() override {
        if (wiped_on_fork_) {
            refill();
            return next();
        }
        // No wiping: words are served from held_, and `left` stays 0 so that every word passes here.
        const pid_t pid = getpid();
        if (held_left_ == 0 || pid != held_pid_ || state_->fork_count != fork_count()) {
            if (pid != held_pid_) state_->keyed = 0;
            refill();
            std::memcpy(held_, state_->words, sizeof held_);
            wipe(state_->words, sizeof state_->words);
            held_left_ = kWords;
            held_pid_ = pid;
            state_->left = 0;
        }
        std::uint64_t& word = held_[kWords - held_left_--];
        const std::uint64_t out = word;
        word = 0;
        return out;
    }

    void refill() {
        State& s = *state_;
        s.left = 0;
        const std::uint64_t forks = fork_count();
        if (s.keyed == 0 || s.fork_count != forks || s.since_seed >= kReseedBlocks) {
            s.keyed = 0;
            system_random(s.key.words.data(), sizeof s.key.words);
            s.keyed = 1;
            s.since_seed = 0;
            s.fork_count = forks;
        }
        // The key followed by the words, drawn together: the first 32 bytes replace the key.
        constexpr std::size_t kBytes = sizeof(ChaChaKey) + sizeof s.words;
        constexpr std::size_t kBlocks = (kBytes + kChaChaBlockBytes - 1) / kChaChaBlockBytes;  // 64
        std::uint8_t drawn[kBlocks * kChaChaBlockBytes];
        chacha20_keystream(s.key, ChaChaNonce{}, 0, drawn, kBlocks);
        std::memcpy(s.key.words.data(), drawn, sizeof s.key.words);
        std::memcpy(s.words, drawn + sizeof s.key.words, sizeof s.words);
        wipe(drawn, sizeof drawn);
        wipe_stack();
        s.since_seed += kBlocks;
        s.left = kWords;
    }

    bool wiped_on_fork_ = false;
    std::uint64_t held_[kWords] = {};
    std::size_t held_left_ = 0;
    pid_t held_pid_ = -1;
};

}  // namespace

ChaChaKey RandomSource::next_key() {
    ChaChaKey key;
    std::uint64_t forks = 0;
    do {  // again in a child that a signal handler made in the middle: its parent has these words too
        forks = fork_count();
        for (std::size_t i = 0; i < key.words.size(); i += 2) {
            const std::uint64_t word = next();
            key.words[i] = static_cast<std::uint32_t>(word);
            key.words[i + 1] = static_cast<std::uint32_t>(word >> 32);
        }
    } while (fork_count() != forks);
    return key;
}

RandomSource& secure_source() {
    thread_local SecureSource source;
    return source;
}

void secure_bytes(void* out, std::size_t bytes) {
    RandomSource& source = secure_source();
    auto* at = static_cast<unsigned char*>(out);
    while (bytes > 0) {
        const std::uint64_t word = source.next();
        const std::size_t part = bytes < sizeof word ? bytes : sizeof word;
        std::memcpy(at, &word, part);
        at += part;
        bytes -= part;
    }
}

InsecureTestSource::InsecureTestSource(std::uint64_t seed) : memory_(new State()) {
    state_ = memory_.get();
    unsigned char key[33];
    std::memcpy(key, &seed, 8);
    std::memcpy(key + 8, "dpcore-insecure-test-rng", 25);
    std::memcpy(state_->key.words.data(), key, 32);
    state_->fork_count = fork_count();
}

std::uint64_t InsecureTestSource::next_from_refill() {
    State& s = *state_;
    s.fork_count = fork_count();  // deterministic: a child goes on with the parent's stream
    if (s.left == 0) {
        constexpr std::size_t kBlocks = sizeof s.words / kChaChaBlockBytes;
        static_assert(kBlocks * kChaChaBlockBytes == sizeof s.words);
        if (s.since_seed > std::numeric_limits<std::uint32_t>::max() - kBlocks)
            throw std::length_error("this InsecureTestRng is exhausted (2^38 bytes drawn)");
        chacha20_keystream(s.key, ChaChaNonce{}, static_cast<std::uint32_t>(s.since_seed),
                           reinterpret_cast<std::uint8_t*>(s.words), kBlocks);
        s.since_seed += kBlocks;
        s.left = kWords;
    }
    return next();
}

void KeyedStream::fill(std::uint64_t* out, std::size_t words) {
    const std::size_t blocks = words / (kChaChaBlockBytes / sizeof(std::uint64_t));
    chacha20_keystream(key_, nonce_, counter_, reinterpret_cast<std::uint8_t*>(out), blocks);
    counter_ += static_cast<std::uint32_t>(blocks);
}

}  // namespace dpcore
