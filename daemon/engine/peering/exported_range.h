// A range of this node's memory that the other end of one connection may read.
#pragma once

#include <memory>
#include <optional>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "transport/core/contracts/link.h"

namespace onecopy::engine {

// Engine thread. To be closed once it was opened; keeps itself alive until nobody reads any more.
class ExportedRange : public std::enable_shared_from_this<ExportedRange> {
 public:
  ExportedRange(Context& context, std::shared_ptr<Connection> connection)
      : context_(context), connection_(std::move(connection)) {}

  // Makes the range readable, once; the link must know its region. `ready` is told the key, or why
  // there is none; nothing after Close. From then on the link alone holds the region.
  void Open(const Span& span, Reply<RemoteKey> ready);

  // Once, at any time after Open: `closed` runs when nobody can read the range any more.
  void Close(Task closed);

  bool is_open() const { return key_.has_value(); }

 private:
  void Revoke();

  Context& context_;
  const std::shared_ptr<Connection> connection_;
  Reply<RemoteKey> ready_;
  bool opening_ = false;
  std::optional<RemoteKey> key_;
  Task closed_;  // once it is being closed
};

}  // namespace onecopy::engine
