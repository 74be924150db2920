#include "daemon/engine/transfers/moves.h"

#include <utility>

#include "daemon/engine/transfers/local_move.h"
#include "daemon/engine/transfers/shared_move.h"

namespace onecopy::engine {

std::shared_ptr<Move> Moves::Inside(const plan::Path& path, MoveFor whom, Area source,
                                    Area destination) {
  return std::make_shared<LocalMove>(needs_.context, needs_.slots, path, std::move(whom),
                                     std::move(source), std::move(destination));
}

std::shared_ptr<Move> Moves::FromPeer(RemoteMove::Params params, Area destination) {
  if (!params.path.link.empty()) {
    return std::make_shared<RemoteMove>(needs_, std::move(params), std::move(destination));
  }
  return std::make_shared<SharedMove>(needs_.context, needs_.peers, importer_, needs_.series,
                                      std::move(params), std::move(destination));
}

}  // namespace onecopy::engine
