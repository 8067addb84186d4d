// A coverage-guided fuzzer that needs gcc alone, for LLVMFuzzerTestOneInput of another file.
//
//     fuzz_c_api [--seconds 40] [--executions N] [--seed 1] [--unit-seconds 30] [--finding FILE] [--keep FOLDER]
//                FOLDER_OR_FILE...
//
// Files are run as they are. Folders are the corpus: inputs that reach a new edge of the core, or an edge an order
// of magnitude more often, are kept in memory and mutated further; --keep writes a smallest set that reaches the
// same. The first failure (a sanitizer, an abort, an input that takes longer than --unit-seconds of processor
// time) writes its input to --finding and ends the run with a code other than 0. A seed repeats the order of the
// inputs; with --executions (new inputs at the most) it repeats the whole run, however fast the machine is.
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "coverage.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;
using dpcore_fuzz::edge_counts;
using dpcore_fuzz::kEdges;

constexpr std::size_t kLongest = 512;

Bytes current;  // what runs now, for the report of a failure
std::string finding_file = "finding";
double unit_seconds = 30.0;

void write(const std::string& file, const Bytes& data) {
    if (std::FILE* out = std::fopen(file.c_str(), "wb")) {
        std::fwrite(data.data(), 1, data.size(), out);
        std::fclose(out);
    }
}

void keep_finding() {
    write(finding_file, current);
    std::fprintf(stderr, "FOUND: input of %zu bytes kept in %s\n", current.size(), finding_file.c_str());
}
void on_abort(int number) {
    keep_finding();
    std::signal(number, SIG_DFL);
    std::raise(number);
}
void on_timeout(int) {
    std::fprintf(stderr, "an input takes more than %g s of processor time\n", unit_seconds);
    keep_finding();
    std::_Exit(3);
}

void set_timer(double seconds) {
    itimerval value{};
    value.it_value.tv_sec = static_cast<time_t>(seconds);
    value.it_value.tv_usec =
        static_cast<suseconds_t>((seconds - static_cast<double>(value.it_value.tv_sec)) * 1e6);
    setitimer(ITIMER_VIRTUAL, &value, nullptr);
}

// How often, by order of magnitude: one bit each, so that sets of them can be compared.
std::uint8_t bucket(std::uint8_t count) {
    if (count == 0) return 0;
    int bits = 0;
    while (count >>= 1) ++bits;
    return static_cast<std::uint8_t>(1u << bits);
}

// Runs one input; whether it reached something that `seen` does not have, which then has it. Without `often` an
// edge counts once, however often it ran.
bool reaches_more(const Bytes& data, std::vector<std::uint8_t>& seen, bool often = true) {
    current = data;
    std::memset(edge_counts, 0, kEdges);
    set_timer(unit_seconds);
    LLVMFuzzerTestOneInput(data.data(), data.size());
    set_timer(0.0);
    bool more = false;
    for (std::size_t i = 0; i < kEdges; ++i) {
        if (edge_counts[i] == 0) continue;
        const std::uint8_t bit = often ? bucket(edge_counts[i]) : 1;
        more = more || (seen[i] & bit) == 0;
        seen[i] |= bit;
    }
    return more;
}

Bytes mutated(const std::vector<Bytes>& corpus, std::mt19937_64& rng) {
    const auto below = [&rng](std::size_t n) {
        return static_cast<std::size_t>(rng() % std::max<std::size_t>(n, 1));
    };
    // Half of the time one of the last: what is new has been mutated least.
    const auto pick = [&]() -> const Bytes& {
        const std::size_t recent = std::min<std::size_t>(corpus.size(), 20);
        return corpus[rng() % 2 == 0 ? below(corpus.size()) : corpus.size() - 1 - below(recent)];
    };
    Bytes data = pick();
    for (std::size_t rounds = std::size_t{1} << below(5); rounds > 0; --rounds) {
        const std::size_t at = below(data.size() + 1);
        const auto place = data.begin() + static_cast<std::ptrdiff_t>(at);
        const std::size_t length = std::min(1 + below(12), data.size() - at);
        switch (below(8)) {
            case 0:
                if (length > 0) data[at] = static_cast<std::uint8_t>(rng());
                break;
            case 1:
                if (length > 0) data[at] = static_cast<std::uint8_t>(data[at] ^ (1u << below(8)));
                break;
            case 2:
                if (length > 0) data[at] = static_cast<std::uint8_t>(data[at] + (rng() % 2 == 0 ? 1 : -1));
                break;
            case 3:
                data.insert(place, static_cast<std::uint8_t>(rng()));
                break;
            case 4:
                data.erase(place, place + static_cast<std::ptrdiff_t>(length));
                break;
            case 5: {  // eight bytes with a few set bits: numbers at the ends of their ranges
                const std::uint64_t bits = (rng() & rng() & rng()) | (rng() % 2 == 0 ? rng() << 52 : 0);
                const auto* raw = reinterpret_cast<const std::uint8_t*>(&bits);
                data.insert(place, raw, raw + sizeof bits);
                break;
            }
            case 6: {  // a piece of another input
                const Bytes other = pick();
                const std::size_t from = below(other.size());
                const std::size_t to = std::min(other.size(), from + 1 + below(40));
                data.insert(place, other.begin() + static_cast<std::ptrdiff_t>(from),
                            other.begin() + static_cast<std::ptrdiff_t>(to));
                break;
            }
            default: {  // a piece of itself
                const Bytes piece(place, place + static_cast<std::ptrdiff_t>(length));
                const auto to = data.begin() + static_cast<std::ptrdiff_t>(below(data.size() + 1));
                data.insert(to, piece.begin(), piece.end());
            }
        }
        if (data.size() > kLongest) data.resize(kLongest);
    }
    return data;
}

Bytes read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

int main(int argc, char** argv) {
    double seconds = 40.0;
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t seed = 1;
    std::string keep;
    std::vector<Bytes> corpus;
    bool fuzz = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
        if (word == "--seconds") {
            seconds = std::atof(value().c_str());
        } else if (word == "--executions") {
            most = std::strtoull(value().c_str(), nullptr, 10);
        } else if (word == "--seed") {
            seed = std::strtoull(value().c_str(), nullptr, 10);
        } else if (word == "--unit-seconds") {
            unit_seconds = std::atof(value().c_str());
        } else if (word == "--finding") {
            finding_file = value();
        } else if (word == "--keep") {
            keep = value();
        } else if (fs::is_directory(word)) {
            fuzz = true;
            std::vector<fs::path> files;
            for (const fs::directory_entry& entry : fs::directory_iterator(word)) files.push_back(entry.path());
            std::sort(files.begin(), files.end());
            for (const fs::path& file : files) corpus.push_back(read(file));
        } else if (fs::exists(word)) {
            corpus.push_back(read(word));
        } else {
            std::fprintf(stderr, "no such file or option: %s\n", word.c_str());
            return 2;
        }
    }
    if (corpus.empty()) corpus.push_back({});
    std::signal(SIGABRT, on_abort);
    std::signal(SIGVTALRM, on_timeout);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_finding);

    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&start] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    std::vector<std::uint8_t> seen(kEdges, 0);
    std::uint64_t executions = 0;
    for (const Bytes& data : corpus) {
        reaches_more(data, seen);
        ++executions;
    }
    const std::size_t given = corpus.size();
    std::mt19937_64 rng(seed);
    const double read_by = elapsed();  // the time is for new inputs
    for (std::uint64_t made = 0; fuzz && made < most && elapsed() - read_by < seconds; ++made) {
        Bytes next = mutated(corpus, rng);
        ++executions;
        if (reaches_more(next, seen)) corpus.push_back(std::move(next));
    }
    if (!keep.empty()) {  // short ones first, each that reaches what no shorter one does
        std::stable_sort(corpus.begin(), corpus.end(),
                         [](const Bytes& a, const Bytes& b) { return a.size() < b.size(); });
        std::vector<std::uint8_t> reached(kEdges, 0);
        int number = 0;
        char name[32];
        for (const Bytes& data : corpus) {
            const double begun = elapsed();
            std::vector<std::uint8_t> with = reached;
            if (!reaches_more(data, with, false) || elapsed() - begun > 1.0)
                continue;  // a kept corpus is a quick one
            reached = std::move(with);
            std::snprintf(name, sizeof name, "/%04d", number++);
            write(keep + name, data);
        }
    }
    const auto edges = std::count_if(seen.begin(), seen.end(), [](std::uint8_t bits) { return bits != 0; });
    std::printf("executions %llu, edges %ld, inputs %zu of which new %zu, seconds %.0f\n",
                static_cast<unsigned long long>(executions), static_cast<long>(edges), corpus.size(),
                corpus.size() - given, elapsed());
    return 0;
}
