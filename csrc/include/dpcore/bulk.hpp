// Runs a piece of work over a long array in chunks, on more than one thread when it is long.
//
// Guarantee: every chunk is worked once, by one thread; what a chunk computes depends on its number only, so
//            results do not depend on the number of threads. Threads live for one call (a pool would not survive
//            fork).
//            The calling thread looks at `stop` between its chunks; the other threads never call it.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dpcore/interrupt.hpp"
#include "dpcore/random_stream.hpp"

namespace dpcore {

// Below this many elements a second thread costs more than it saves (starting one takes about 30 microseconds).
constexpr std::size_t kParallelFrom = std::size_t{1} << 17;

// More have nothing to run on; a caller's mistake must not ask the system for thousands.
constexpr std::size_t kMostThreads = 1024;

// work(number, begin, end) for every chunk; must not throw. threads: at most so many, and at most
// kMostThreads; 0: as many as the processor offers.
template <class Work>
void for_chunks(std::size_t count, std::size_t chunk, unsigned threads, StopCheck stop, Work work) {
    const std::size_t chunks = (count + chunk - 1) / chunk;
    std::atomic<std::size_t> next{0};
    std::atomic<bool> halted{false};
    const auto take = [&](auto between) {
        for (;;) {
            if (halted.load(std::memory_order_relaxed)) return;
            const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
            if (number >= chunks) return;
            const std::size_t begin = number * chunk;
            work(number, begin, begin + chunk < count ? begin + chunk : count);
            between();
        }
    };
    std::size_t workers = 1;
    if (count >= kParallelFrom) {
        workers = threads != 0 ? threads : std::thread::hardware_concurrency();
        if (workers > kMostThreads) workers = kMostThreads;
        if (workers > chunks) workers = chunks;
    }
    std::vector<std::thread> others;
    try {
        for (std::size_t i = 1; i < workers; ++i) others.emplace_back([&] { take([] {}); });
    } catch (const std::exception&) {
        // No thread or no memory for one: those that started, and this one, do the work. Nothing may be thrown on,
        // since a thread that runs must be joined.
    }
    const std::uint64_t forks = fork_count();
    try {
        take([&] {
            stop();
            // A signal handler that ran inside stop() may have forked. The child has this call's key but none of
            // its threads; it must not go on with its parent's noise.
            if (fork_count() != forks) throw std::runtime_error("the process forked in the middle of a draw");
        });
    } catch (...) {
        halted.store(true, std::memory_order_relaxed);
        for (std::thread& t : others) {
            if (fork_count() != forks)
                t.detach();  // it does not exist in this process
            else
                t.join();
        }
        throw;
    }
    for (std::thread& t : others) t.join();
}

}  // namespace dpcore
