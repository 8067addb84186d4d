// How many buckets there may be (private to the core).
//
// Method:    a count is checked before anything is allocated.
// Domain:    any count, infinity and NaN too.
// Guarantee: returns only for at most kMaxBuckets (buckets.hpp).
// Evidence:  tests/test_memory.py, tests/test_accounting.py.
#pragma once

namespace dpcore::detail {

// std::length_error for more buckets than there may be.
void refuse(double buckets);

}  // namespace dpcore::detail
