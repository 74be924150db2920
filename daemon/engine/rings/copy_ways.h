// The ways by which this node copies between two regions for a ring, of its own or another node's.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/sharing/borrowed_range.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::engine {

struct CopyWays {
  std::shared_ptr<SmallCopyRoute> way;
  std::shared_ptr<SmallCopyRoute> long_way;  // for more than ring::kMaxBytes; null where none is
};

struct CopyWaysParams {
  Owner owner;  // on whose turn they are prepared
  RegionRef from;
  RegionRef to;
  std::shared_ptr<BorrowedRange> borrowed;  // that `from` is of; null: of this node's own
  bool long_too = false;                    // long transfers take the same path
};

// Engine thread. Prepares them where that may block, and replies there. It fails as
// PrepareSmallCopyRoute does. If only the long way cannot be made, the reason is logged. The ways
// keep what is borrowed, and any thread may release them.
void PrepareCopyWays(Context& context, CopyWaysParams params, Reply<CopyWays> reply);

// The thread of a connection, which stays with it.
inline std::shared_ptr<Executor> ThreadOf(const std::shared_ptr<Connection>& connection) {
  return {connection, &connection->executor()};
}

}  // namespace onecopy::engine
