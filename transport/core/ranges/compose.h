// Ranges of what is itself made of ranges: a part of an array that has gaps.
#pragma once

#include <cstdint>
#include <string>

#include "onecopy/range.h"
#include "transport/core/ranges/layout.h"

namespace onecopy {

// Where some of the payload of `outer` lies, in the order in which it is asked for: the bytes of
// `part`, or, with `inner`, those ranges, which count from where the part begins. Both lie inside
// the payload. INVALID_ARGUMENT (BAD_SIZE) where that takes more than kMaxRanges ranges; `what`
// names the whole in the text. Any thread.
Result<Layout> Compose(const Layout& outer, const ByteRange& part, const Layout* inner,
                       const std::string& what);

}  // namespace onecopy
