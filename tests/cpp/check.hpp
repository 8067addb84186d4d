// A test framework in one page: TEST(name) { CHECK(...); CHECK_THROWS(type, expression); }
// Debian has doctest, Catch2 and GTest, but the tests must also build where none is installed.
#pragma once

#include <atomic>
#include <cstdio>
#include <exception>
#include <vector>

namespace check {

struct Case {
    const char* name;
    void (*body)();
};
inline std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}
inline std::atomic<long> passed{0};
inline std::atomic<long> failed{0};

inline bool add(const char* name, void (*body)()) {
    cases().push_back({name, body});
    return true;
}
inline void report(bool ok, const char* file, int line, const char* text) {
    if (ok) {
        ++passed;
    } else {
        ++failed;
        std::fprintf(stderr, "%s:%d: %s\n", file, line, text);
    }
}
inline int run_all() {
    for (const Case& c : cases()) {
        try {
            c.body();
        } catch (const std::exception& error) {
            ++failed;
            std::fprintf(stderr, "%s: %s\n", c.name, error.what());
        }
    }
    std::printf("%ld passed, %ld failed\n", passed.load(), failed.load());
    return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace check

#define TEST(name)                                                             \
    static void name();                                                        \
    [[maybe_unused]] static const bool name##_added = check::add(#name, name); \
    static void name()
#define CHECK(condition) check::report((condition), __FILE__, __LINE__, #condition)
#define CHECK_THROWS(type, expression)                                          \
    do {                                                                        \
        bool threw = false;                                                     \
        try {                                                                   \
            (void)(expression);                                                 \
        } catch (const type&) {                                                 \
            threw = true;                                                       \
        }                                                                       \
        check::report(threw, __FILE__, __LINE__, #expression " throws " #type); \
    } while (false)

int main() { return check::run_all(); }
