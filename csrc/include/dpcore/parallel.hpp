// Splits a range over the machine's cores.
//
// The result never depends on the number of threads: chunks are fixed by `count` and `chunk` alone, and a body
// writes only what belongs to its chunk. Threads live for one call (starting one costs about 20 microseconds), so
// there is no pool to survive a fork and no global state.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "dpcore/interrupt.hpp"

namespace dpcore {

// Calls body(first, last) for consecutive chunks of [0, count), on up to hardware_concurrency threads, the
// caller's among them. `stop` is polled by the caller's thread before each of its chunks, unless there is only
// one. The first exception of any thread is thrown again here, after all threads have ended. If the system refuses
// a thread or the memory for one, the others do its work.
template <class Body>
void parallel_chunks(std::size_t count, std::size_t chunk, const StopCheck& stop, const Body& body) {
    const std::size_t chunks = count / chunk + (count % chunk != 0);
    if (chunks <= 1) {  // asking for the number of cores alone costs microseconds
        if (count != 0) body(std::size_t{0}, count);
        return;
    }
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;
    std::mutex guard;
    const auto work = [&](bool poll) {
        try {
            while (!failed.load(std::memory_order_relaxed)) {
                if (poll) stop();
                const std::size_t index = next.fetch_add(1, std::memory_order_relaxed);
                if (index >= chunks) return;
                body(index * chunk, std::min(count, (index + 1) * chunk));
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(guard);
            if (!error) error = std::current_exception();
            failed.store(true, std::memory_order_relaxed);
        }
    };
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> others;
    others.reserve(cores);
    for (std::size_t i = 1; i < std::min(cores, chunks); ++i) {
        try {
            others.emplace_back(work, false);
        } catch (const std::exception&) {  // no thread, or no memory for one
            break;
        }
    }
    work(true);
    for (std::thread& other : others) other.join();
    if (error) std::rethrow_exception(error);
}

}  // namespace dpcore
