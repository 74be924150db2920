// Ranges of this node's buffers that other nodes read again and again, without asking for each
// time: what small transfers by a ring rest on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/connections.h"
#include "daemon/engine/grants.h"
#include "daemon/engine/parts.h"
#include "daemon/engine/peer_api.h"

namespace onecopy::engine {

// Engine thread. A range is open from its ticket's use until its reader needs it no more, or its
// buffer, its grant, its reader or this node goes; reads then fail, and the reader asks for a
// transfer instead, whose refusal says why.
class OpenRanges {
 public:
  explicit OpenRanges(Parts& parts) : parts_(parts) {}

  // See PeerApi.
  void Open(const std::string& caller, const OpenRangeRequest& request,
            Reply<OpenRangeReply> reply);
  void Close(const std::string& caller, uint64_t number);

  void DropBuffer(BufferId buffer);
  void DropGrant(const GrantId& grant);
  void DropPeer(const std::string& node);
  void CloseAll();
  // Runs `then` once no reader can reach the buffer's memory: it has been dropped.
  void WhenLetGo(BufferId buffer, Task then);
  void Clear();  // at the engine's end

 private:
  struct Range {
    uint64_t number = 0;
    std::string reader;
    BufferId buffer;
    std::optional<GrantId> grant;
    Connections::Serving serving;
    Span span;
    std::optional<RemoteKey> key;  // once it is open
    bool closing = false;
  };
  using RangeRef = std::shared_ptr<Range>;

  Status CheckRoom(const std::string& caller) const;
  void Expose(const RangeRef& range, Reply<OpenRangeReply> reply);
  template <typename Which>
  void CloseThose(const Which& which);
  void CloseOne(const RangeRef& range);
  void Forget(const RangeRef& range);

  Parts& parts_;
  std::map<uint64_t, RangeRef> ranges_;
  std::map<BufferId, std::vector<Task>> waiting_;
};

}  // namespace onecopy::engine
