// Ranges at regular distances, as strided ones.
#pragma once

#include <span>
#include <vector>

#include "onecopy/range.h"

namespace onecopy::client {

// The same payload in fewer pairs: runs of plain ranges of one length, between the same two
// buffers, that lie at one distance at the source and at one at the destination, become a strided
// pair each. Empty where that makes less than half as many of them: it is not worth it then.
std::vector<RangePair> FoldRanges(std::span<const RangePair> pairs);
// Likewise.
std::vector<RangePair> FoldRanges(const EqualRanges& ranges);

}  // namespace onecopy::client
