// Memory of other daemons of this host that this one uses in place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"

namespace onecopy::engine {

// Engine thread. Fetched and mapped once, shared by all transfers from the buffer, and kept for a
// while after the last of them: mapping takes far longer than a copy. Memory stays allocated on its
// GPU for as long as it is mapped anywhere, so what nobody uses is let go soon, and at once when
// its owner asks or is lost.
class MemoryImporter {
 public:
  explicit MemoryImporter(Context& context) : context_(context) {}

  // What a transfer uses it by. Let go of on the engine's thread.
  class Use {
   public:
    Use(MemoryImporter& importer, std::pair<std::string, uint64_t> key, uint64_t number,
        RegionRef region, std::string how)
        : region(std::move(region)),
          how(std::move(how)),
          importer_(importer),
          key_(std::move(key)),
          number_(number) {}
    ~Use() {
      region.reset();
      importer_.Release(key_, number_);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    uint64_t loan() const { return key_.second; }

    RegionRef region;  // the whole buffer
    std::string how;   // it is shared: "vmm-fd", "ipc-handle"

   private:
    MemoryImporter& importer_;
    const std::pair<std::string, uint64_t> key_;
    const uint64_t number_;
  };
  using UseRef = std::unique_ptr<Use>;
  // The owner wants it back: the use is to end soon.
  using Recalled = std::function<void()>;

  // What a use is for: a transfer, or a route that keeps the memory mapped for a payer.
  struct Purpose {
    TransferId id;
    Recalled recalled;
    std::optional<Owner> route_of = {};
  };

  // What this node still has of that buffer; null when it has nothing.
  UseRef Find(const std::string& node, const std::string& buffer, Purpose purpose);
  // Fetches what was lent, in a bounded time. `kind` of memory. FAILED_PRECONDITION with the reason
  // why it cannot be used here, or as CheckRoutes says.
  void Get(const std::string& node, const std::string& buffer, const std::string& kind,
           const MemoryExport& loan, Purpose purpose, Reply<UseRef> reply);
  // Whether a route of this payer may keep that memory mapped. One payer's routes keep at most a
  // quarter of what this node maps, and all routes three quarters. FAILED_PRECONDITION (QUOTA).
  Status CheckRoutes(const std::string& node, const std::string& buffer, const Owner& payer) const;

  // The owner wants it back, and is answered when it is unmapped; or wants one transfer to end, and
  // is answered when that one has let it go.
  void Recall(const std::string& node, uint64_t loan, const TransferId& id, StatusReply reply);
  // It is not used for new transfers, and goes with those that run.
  void Retire(const std::string& node, uint64_t loan);
  void PeerLost(const std::string& node);  // retires all of it
  void Clear();                            // at the engine's end

 private:
  using Key = std::pair<std::string, uint64_t>;  // node and loan
  using Answers = std::vector<StatusReply>;
  struct User {
    Purpose purpose;
    Answers ended = {};  // who waits for its end
  };
  struct Held {
    std::string buffer;  // as the transfers name it
    RegionRef region;    // null while it is being fetched
    std::string how;
    std::vector<std::pair<User, Reply<UseRef>>> waiting;
    std::map<uint64_t, User> uses;
    os::EventLoop::TimerId idle_timer = 0;
    bool dropped = false;  // to be forgotten with its last use
    // Who waits for it to be unmapped; the region's end, which may come later, answers them.
    std::shared_ptr<Answers> recalls = std::make_shared<Answers>();

    // The payers of its routes, of those that wait for it, too.
    std::set<Owner> RoutesOf() const;
  };

  RegionRef Share(const Key& key, const std::string& worker, std::unique_ptr<Region> region);
  static void Answer(Answers& answers);
  void Fetched(const Key& key, const std::string& how, Result<RegionRef> region);
  UseRef NewUse(const Key& key, Held& held, User user);
  void Release(const Key& key, uint64_t number);
  void Forget(const Key& key);
  bool MakeRoom();

  Context& context_;
  std::map<Key, Held> held_;
  uint64_t next_use_ = 1;
};

}  // namespace onecopy::engine
