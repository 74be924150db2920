#include "daemon/engine/registry/peer_room.h"

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::engine {

Result<std::shared_ptr<void>> PeerRoom::Take(const std::string& peer, uint64_t bytes,
                                             uint64_t limit) {
  const auto found = taken_->find(peer);
  const uint64_t taken = found == taken_->end() ? 0 : found->second;
  if (taken > limit || bytes > limit - taken) {
    return Status(
        Code::kResourceExhausted, reasons::kQuota,
        "users of node " + peer + " have " + FormatBytes(taken) + " on node " + node_ +
            " and may have no more than " + FormatBytes(limit) + ", not " + FormatBytes(bytes) +
            " more",
        "remove buffers there, or raise create_bytes under [peers." + peer + "] on node " + node_);
  }
  (*taken_)[peer] += bytes;
  return std::shared_ptr<void>(nullptr, [taken = taken_, peer, bytes](void*) {
    if (((*taken)[peer] -= bytes) == 0) taken->erase(peer);
  });
}

}  // namespace onecopy::engine
