// The stream under fork, threads and a kernel that refuses: getrandom and madvise are replaced by those below.
#include "dpcore/random_stream.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

#include "check.hpp"

namespace {
std::atomic<int> refusals{0};    // calls that fail with ENOSYS
std::atomic<int> interrupts{0};  // calls that fail with EINTR first
std::atomic<int> calls{0};
std::atomic<bool> short_reads{false};
std::atomic<bool> old_kernel{false};  // one that cannot wipe pages in a child
}  // namespace

extern "C" ssize_t getrandom(void* out, size_t bytes, unsigned flags) {
    ++calls;
    if (interrupts > 0) {
        --interrupts;
        errno = EINTR;
        return -1;
    }
    if (refusals > 0) {
        --refusals;
        errno = ENOSYS;
        return -1;
    }
    if (short_reads && bytes > 5) bytes = 5;
    return syscall(SYS_getrandom, out, bytes, flags);
}

extern "C" int madvise(void* address, size_t bytes, int advice) noexcept {
    if (old_kernel && advice == MADV_WIPEONFORK) {
        errno = EINVAL;
        return -1;
    }
    return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

using dpcore::RandomSource;
using dpcore::secure_source;

namespace {

std::vector<std::uint64_t> draw(std::size_t count) {
    std::vector<std::uint64_t> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(secure_source().next());
    return out;
}

// What a child made by `make_child` draws.
template <class MakeChild>
std::vector<std::uint64_t> draw_in_child(std::size_t count, MakeChild make_child) {
    int ends[2];
    if (pipe(ends) != 0) return {};
    const pid_t pid = make_child();
    if (pid == 0) {
        const std::vector<std::uint64_t> words = draw(count);
        const ssize_t put = write(ends[1], words.data(), words.size() * 8);
        _exit(put == static_cast<ssize_t>(words.size() * 8) ? 0 : 1);
    }
    std::vector<std::uint64_t> words(count);
    const ssize_t got = read(ends[0], words.data(), count * 8);
    int status = 1;
    waitpid(pid, &status, 0);
    close(ends[0]);
    close(ends[1]);
    if (status != 0 || got != static_cast<ssize_t>(count * 8)) words.clear();
    return words;
}

}  // namespace

TEST(a_refusing_kernel_gives_an_exception_and_then_recovers) {
    std::thread([] {
        refusals = 2;
        CHECK_THROWS(dpcore::RandomnessError, secure_source().next());
        CHECK_THROWS(dpcore::RandomnessError, secure_source().next_key());
        CHECK(secure_source().next() != secure_source().next());
    }).join();
}

TEST(interrupted_and_short_reads_are_continued) {
    std::thread([] {
        interrupts = 3;
        short_reads = true;
        const int before = calls;
        CHECK(secure_source().next() != 0);
        CHECK(calls - before == 3 + 7);  // 32 bytes by fives
        short_reads = false;
    }).join();
}

TEST(a_stream_is_reseeded) {
    std::thread([] {
        draw(1);
        const int before = calls;
        draw(120000);  // of the 129024 words that a mebibyte holds beside its keys
        CHECK(calls == before);
        draw(16000);
        CHECK(calls == before + 1);
    }).join();
}

TEST(children_repeat_nothing) {
    draw(3);  // words are buffered when the children are made
    std::set<std::uint64_t> seen;
    std::size_t total = 0;
    for (int i = 0; i < 4; ++i) {
        const auto words = draw_in_child(500, [] { return fork(); });
        CHECK(words.size() == 500);
        seen.insert(words.begin(), words.end());
        total += words.size();
    }
    // The system call itself, past the C library and its handlers.
    const auto raw =
        draw_in_child(500, [] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); });
    CHECK(raw.size() == 500);
    seen.insert(raw.begin(), raw.end());
    const auto own = draw(2000);
    seen.insert(own.begin(), own.end());
    CHECK(seen.size() == total + raw.size() + own.size());
}

TEST(children_repeat_nothing_on_a_kernel_that_cannot_wipe) {
    std::thread([] {
        old_kernel = true;
        draw(3);
        old_kernel = false;
        std::set<std::uint64_t> seen;
        for (int i = 0; i < 2; ++i) {
            const auto words = draw_in_child(700, [] { return fork(); });
            CHECK(words.size() == 700);
            seen.insert(words.begin(), words.end());
        }
        const auto raw =
            draw_in_child(700, [] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); });
        seen.insert(raw.begin(), raw.end());
        const auto own = draw(2000);
        seen.insert(own.begin(), own.end());
        CHECK(seen.size() == 3 * 700 + 2000);
    }).join();
}

TEST(a_child_whose_kernel_refuses_gives_nothing) {
    draw(3);
    refusals = 1;
    const pid_t pid = fork();
    if (pid == 0) {
        try {
            secure_source().next();
        } catch (const dpcore::RandomnessError&) {
            _exit(7);
        }
        _exit(0);
    }
    refusals = 0;
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(forks_are_counted_in_the_child_only) {
    draw(1);
    const std::uint64_t before = dpcore::fork_count();
    const pid_t pid = fork();
    if (pid == 0) _exit(dpcore::fork_count() == before + 1 ? 0 : 1);
    int status = 1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    CHECK(dpcore::fork_count() == before);
}

TEST(threads_repeat_nothing) {
    std::vector<std::vector<std::uint64_t>> drawn(8);
    std::vector<std::thread> threads;
    for (auto& out : drawn) threads.emplace_back([&out] { out = draw(5000); });
    for (auto& t : threads) t.join();
    std::set<std::uint64_t> seen;
    for (const auto& words : drawn) seen.insert(words.begin(), words.end());
    CHECK(seen.size() == 8 * 5000);
}

TEST(keys_and_numbered_streams_differ) {
    dpcore::InsecureTestSource source(9);
    const dpcore::ChaChaKey one = source.next_key();
    const dpcore::ChaChaKey two = source.next_key();
    CHECK(one.words != two.words);
    std::set<std::uint64_t> seen;
    for (const auto* key : {&one, &two}) {
        for (std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
            dpcore::KeyedStream stream(*key, number);
            std::uint64_t words[64];
            stream.fill(words, 64);
            seen.insert(words, words + 64);
            for (int i = 0; i < 20; ++i) seen.insert(stream.next());
            dpcore::BufferedStream buffered(*key, number);
            CHECK(buffered.next() == words[0]);
        }
    }
    CHECK(seen.size() == 2 * 3 * 84);
}

TEST(the_test_source_repeats_itself) {
    dpcore::InsecureTestSource a(5);
    dpcore::InsecureTestSource b(5);
    dpcore::InsecureTestSource c(6);
    bool same = true;
    bool other = false;
    for (int i = 0; i < 2000; ++i) {
        const std::uint64_t x = a.next();
        same = same && x == b.next();
        other = other || x != c.next();
    }
    CHECK(same);
    CHECK(other);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

// Copies of a 16-byte row of one repeated key word, the form in which the rounds hold a key, below this frame.
[[gnu::noinline]] int rows_left_on_the_stack(std::uint32_t word) {
    constexpr std::size_t kBytes = 32768;
    static unsigned char seen[kBytes];
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const auto* below = reinterpret_cast<const volatile unsigned char*>(here - kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) seen[i] = below[i];
    int found = 0;
    for (std::size_t i = 0; i + 16 <= kBytes; ++i) {
        bool all = true;
        for (std::size_t j = 0; j < 16; ++j)
            all = all && seen[i + j] == static_cast<unsigned char>(word >> (8 * (j % 4)));
        found += all ? 1 : 0;
    }
    return found;
}

[[gnu::noinline]] void draw_with_key(std::uint32_t word, bool leave_it) {
    dpcore::ChaChaKey key;
    key.words.fill(word);
    std::uint64_t words[256];
    if (leave_it) {
        dpcore::chacha20_keystream(key, dpcore::ChaChaNonce{}, 0, reinterpret_cast<std::uint8_t*>(words), 32);
    } else {
        dpcore::KeyedStream stream(key, 0);
        stream.fill(words, 256);
    }
    volatile std::uint64_t used = words[255];
    (void)used;
}

}  // namespace

TEST(keys_are_not_left_on_the_stack) {
    draw_with_key(0xA1B2C3D4U, true);  // the key stream by itself does leave its key: the search finds it
    CHECK(rows_left_on_the_stack(0xA1B2C3D4U) > 0);
    draw_with_key(0xD4C3B2A5U, false);
    CHECK(rows_left_on_the_stack(0xD4C3B2A5U) == 0);
}
#endif
