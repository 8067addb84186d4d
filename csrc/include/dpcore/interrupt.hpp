// How a long loop in the core lets its caller stop it, and how much it may do.
//
// Every kernel that may run longer than about 0.1 s takes a StopCheck and calls it now and then (every few
// thousand steps); the Python bindings pass one that looks for Ctrl-C, C++ callers may pass their own or none.
// Where an answer's work is bounded, loops say beforehand what they are about to take. That is counted, never
// timed, so that the same question has the same answer on every machine.
#pragma once

#include <stdexcept>

namespace dpcore {

// Thrown by StopCheck::operator() when the caller asked to stop. Nothing has been returned or half-written.
class Interrupted : public std::runtime_error {
public:
    Interrupted() : std::runtime_error("interrupted") {}
};

// Thrown by StopCheck::spend when the work allowed is used up; caught where wider bounds stand in for the answer.
class OutOfWork : public std::runtime_error {
public:
    OutOfWork() : std::runtime_error("the work allowed for one answer is used up") {}
};

// What may still be done, in nanoseconds of an ordinary machine as the loops estimate them.
struct Work {
    double left;
};

struct StopCheck {
    bool (*poll)(void*) = nullptr;  // true: stop. Must not throw.
    void* context = nullptr;
    Work* work = nullptr;  // none: without bound
    void operator()() const {
        if (poll != nullptr && poll(context)) throw Interrupted();
    }
    void spend(double nanoseconds) const {
        if (work != nullptr && !((work->left -= nanoseconds) >= 0.0)) throw OutOfWork();
    }
};

}  // namespace dpcore
