// Makes the move of a path.
#pragma once

#include <memory>
#include <string>

#include "daemon/engine/base/move.h"
#include "daemon/engine/sharing/memory_importer.h"
#include "daemon/engine/transfers/remote_move.h"

namespace onecopy::engine {

// Engine thread; outlives every move.
class Moves {
 public:
  Moves(const RemoteMove::Needs& needs, MemoryImporter& importer)
      : needs_(needs), importer_(importer) {}

  // Inside this node. Both areas have the payload's length.
  std::shared_ptr<Move> Inside(const plan::Path& path, MoveFor whom, Area source, Area destination);
  // From another node: over its path's link, or, where that has none, out of memory that the other
  // daemon lends.
  std::shared_ptr<Move> FromPeer(RemoteMove::Params params, Area destination);

 private:
  const RemoteMove::Needs needs_;
  MemoryImporter& importer_;
};

}  // namespace onecopy::engine
