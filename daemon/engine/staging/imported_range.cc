#include "daemon/engine/staging/imported_range.h"

#include <utility>

namespace onecopy::engine {

void ImportedRange::Connect(StatusReply connected) {
  needs_.connections.Get(node_, link_,
                         [self = shared_from_this(),
                          connected = std::move(connected)](Result<Connections::Use> use) mutable {
                           if (!use.ok()) return connected(use.status());
                           self->use_ = std::move(*use);
                           connected(OkStatus());
                         });
}

void ImportedRange::Register(const RegionRef& into, const std::string& client_buffer,
                             const std::vector<std::string>& nics, const Owner& payer,
                             StatusReply registered) {
  needs_.registrations.Ensure(link_, into, client_buffer, nics, payer, std::move(registered));
}

Status ImportedRange::Heard(const Status& answer) {
  return needs_.connections.Heard(*use_, answer);
}

void ImportedRange::Opened(RemoteKey key, std::unique_ptr<PeerOpening> opening) {
  key_ = std::move(key);
  opening_ = std::move(opening);
}

}  // namespace onecopy::engine
