// Ids that only the daemon itself knows.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "onecopy/ids.h"

namespace onecopy::engine {

// Unique on its node; not the session's secret token.
using SessionId = NamedId<struct SessionTag>;

// Of a part of a transfer of several buffers. Parts are known by it on both nodes.
TransferId PartId(const TransferId& whole, size_t part);

// A buffer of this node. The generation makes the id of a removed buffer fail although its slot is
// used again.
struct BufferId {
  uint32_t slot = 0;
  uint32_t generation = 0;

  // "17.3", and back; {0, 0}, which no buffer has, for anything else.
  std::string ToString() const;
  static BufferId Parse(const std::string& text);

  friend auto operator<=>(const BufferId&, const BufferId&) = default;
};

}  // namespace onecopy::engine
