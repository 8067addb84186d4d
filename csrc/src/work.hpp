// A share of the work that one answer may take.
#pragma once

#include <algorithm>
#include <utility>

#include "dpcore/interrupt.hpp"

namespace dpcore::detail {

// Runs body(stop) with that share of what is left, at most `most`; whether it was enough. What body has found by
// then stays: it must leave its results valid at every step.
template <class Body>
bool within(StopCheck stop, double share, double most, Body&& body) {
    if (stop.work == nullptr) {
        body(stop);
        return true;
    }
    const double given = std::min(share * stop.work->left, most);
    Work part = {given};
    StopCheck own = stop;
    own.work = &part;
    bool enough = true;
    try {
        body(own);
    } catch (const OutOfWork&) {
        enough = false;
    }
    stop.work->left -= given - part.left;
    return enough;
}
template <class Body>
bool within(StopCheck stop, double share, Body&& body) {
    return within(stop, share, 1e300, std::forward<Body>(body));
}

}  // namespace dpcore::detail
