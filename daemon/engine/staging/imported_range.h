// A range of another node's memory that this node reads over one connection: the counterpart of
// peering/exported_range.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peer_opening.h"
#include "daemon/engine/staging/registrations.h"

namespace onecopy::engine {

// Engine thread. Made ready in this order: Connect, Register, what the caller asks of the node
// itself (its calls differ), Opened; each once the one before has succeeded. The connection stays
// open, and the node keeps the range open, for as long as this lives.
class ImportedRange : public std::enable_shared_from_this<ImportedRange> {
 public:
  struct Needs {
    Connections& connections;
    Registrations& registrations;
  };

  ImportedRange(const Needs& needs, std::string node, std::string link)
      : needs_(needs), node_(std::move(node)), link_(std::move(link)) {}

  // Once; once more where the node has said, through Heard, that the connection is dead.
  void Connect(StatusReply connected);

  // Makes `into`, where the bytes will go, known to the link's devices; see Registrations::Ensure.
  void Register(const RegionRef& into, const std::string& client_buffer,
                const std::vector<std::string>& nics, const Owner& payer, StatusReply registered);

  // What the node answered when it was asked to open the range on connection_number(); returned as
  // Connections::Heard does.
  Status Heard(const Status& answer);

  // `opening`: where the range is open beyond one transfer; it is closed at this one's end.
  void Opened(RemoteKey key, std::unique_ptr<PeerOpening> opening = nullptr);

  bool connected() const { return use_.has_value(); }
  // Once it is connected:
  const std::shared_ptr<Connection>& connection() const { return use_->connection; }
  uint64_t connection_number() const { return use_->number; }
  // Once it is open:
  const RemoteKey& key() const { return key_; }

 private:
  const Needs needs_;
  const std::string node_;
  const std::string link_;
  std::optional<Connections::Use> use_;
  RemoteKey key_;
  std::unique_ptr<PeerOpening> opening_;
};

}  // namespace onecopy::engine
