#include "bucket_limit.hpp"

#include <stdexcept>
#include <string>

#include "dpcore/buckets.hpp"

namespace dpcore::detail {

void refuse(double buckets) {
    if (!(buckets <= static_cast<double>(kMaxBuckets)))
        throw std::length_error("the bucket engine would need " +
                                std::to_string(buckets).substr(0, std::to_string(buckets).find('.')) +
                                " buckets, more than its limit of " + std::to_string(kMaxBuckets) +
                                " (120 bytes each); ask for a wider step or another engine");
}

}  // namespace dpcore::detail
