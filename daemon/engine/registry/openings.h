// What this node keeps open for peers beyond one transfer, so that small transfers by a ring need
// no negotiation each: ranges that a peer reads again and again, and ranges that it has this node
// fill.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"

namespace onecopy::engine {

// Engine thread. An opening ends when its peer needs it no more, or its buffer, its grant, the peer
// or this node goes; what small transfers there are then fail for that reason.
class Openings {
 public:
  struct Opening {
    std::string peer;
    BufferId buffer;
    std::optional<GrantId> grant;
    TransferId id;                     // that the peer's ticket was made for, if it had one
    std::optional<Owner> pushes = {};  // for whom the peer moves bytes into the buffer
  };
  // Ends it; runs `done`, on this thread, once nothing of the buffer is used for the peer.
  using Close = UniqueFunction<void(const Status& why, Task done)>;

  explicit Openings(const Context& context) : context_(context) {}

  // Its number, before it is ready. RESOURCE_EXHAUSTED (QUOTA) where its peer has too many;
  // UNAVAILABLE on a node that shuts down.
  Result<uint64_t> Begin(Opening opening);
  // It is ready. Why it has been ended by `close`, where it was to end meanwhile.
  Status Ready(uint64_t number, Close close);
  // It could not be made.
  void Forget(uint64_t number);

  // This node ends it. It may have gone already.
  void End(uint64_t number, const Status& why);
  // Only by its own peer. Runs `closed` once it is gone; at once if it is not there (any more).
  void CloseOf(const std::string& peer, uint64_t number, Task closed);
  // Then runs `done`.
  void CloseFor(const std::string& peer, const TransferId& id, Task done);
  void DropBuffer(BufferId buffer, const Status& why);
  void DropGrant(const GrantId& grant, const Status& why);
  void DropPeer(const std::string& node, const Status& why);
  // Those by which a peer moves bytes into buffers for users of whom `which` says so.
  void DropPushes(const std::function<bool(const Owner& user, const std::string& peer)>& which,
                  const Status& why);
  void CloseAll(const Status& why);
  bool any() const { return !entries_.empty(); }  // those that are closing, too
  // Runs `then` once no opening uses the buffer's memory, or rests on the grant: these have been
  // dropped.
  void WhenReleased(BufferId buffer, Task then);
  void WhenReleased(const GrantId& grant, Task then);
  void Clear();  // at the engine's end

 private:
  struct Entry {
    Opening opening;
    Ledger::Charge charge;
    Close close;     // once it is ready
    Status closing;  // not OK once it is to end: why
    std::vector<Task> closed;
  };

  using Which = std::function<bool(const Opening&)>;
  // For the end of all of those.
  struct Waiting {
    Which which;
    Task then;
  };

  void CloseThose(const Which& which, const Status& why);
  void CloseOne(uint64_t number, const Status& why);
  bool Any(const Which& which) const;
  void AwaitNone(Which which, Task then);

  const Context& context_;
  std::map<uint64_t, Entry> entries_;
  std::vector<Waiting> waiting_;
};

}  // namespace onecopy::engine
