// How a long loop in the core lets its caller stop it.
//
// Every kernel that may run longer than about 0.1 s takes a StopCheck and calls it now and then (every few
// thousand steps); the Python bindings pass one that looks for Ctrl-C, C++ callers may pass their own or none.
#pragma once

#include <stdexcept>

namespace dpcore {

// Thrown by StopCheck::operator() when the caller asked to stop. Nothing has been returned or half-written.
class Interrupted : public std::runtime_error {
public:
    Interrupted() : std::runtime_error("interrupted") {}
};

struct StopCheck {
    bool (*poll)(void*) = nullptr;  // true: stop. Must not throw.
    void* context = nullptr;
    void operator()() const {
        if (poll != nullptr && poll(context)) throw Interrupted();
    }
};

}  // namespace dpcore
