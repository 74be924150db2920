// The registry of this node's buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/held_memory.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/registry/sessions.h"
#include "transport/core/contracts/store.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {

// Memory with a name: its own, or a view, which shares part of another buffer's memory.
struct Buffer {
  BufferId id;
  std::string name;
  Owner owner;
  RegionRef region;
  uint64_t bytes = 0;  // of an array: only its elements, without gaps
  bool registered = false;
  std::string form;   // of the registered memory: see BufferInfo
  SessionId session;  // of the client that registered it
  WallTime create_time;
  std::set<TransferId> users;                      // transfers that hold it
  std::map<uint64_t, std::string> mapped_by = {};  // clients that have mapped it: see Mappings
  Status removing;                                 // why it is being removed; OK: it is not
  Ledger::Charge charge = {};       // paid by its owner, or by the node that asked: see PayerAt
  std::shared_ptr<void> room = {};  // its share of create_bytes of its owner's node
  HeldRef held = {};                // set if the daemon made it and has a holder
  bool keep_arrivals = false;       // see CreateBufferRequest
  bool file = false;      // a file, open for one transfer, in no list; `name` is its path as given
  bool exported = false;  // a file that this node has opened for a user to read: see Exports
  bool kept = false;  // a file: stays open without a transfer, as another node may still read it
  std::optional<BufferId> view_of = {};  // of a view: the buffer whose memory it shares
  uint64_t offset = 0;                   // of a view: where it begins in the region
  std::optional<ArrayShape> array = {};  // of a view: how its elements lie from `offset` on
  std::set<BufferId> views = {};         // the views of its memory

  // Whether the holder keeps its memory for the next process of this daemon.
  bool survives() const { return held != nullptr && held->form.why.empty(); }
  // The buffer that has the memory: itself, unless it is a view.
  BufferId memory() const { return view_of.value_or(id); }
};

// Engine thread. Pointers to buffers are valid until control returns to the loop.
class Buffers {
 public:
  Buffers(Context& context, const Sessions& sessions, Records& records)
      : context_(context), sessions_(sessions), records_(records) {}

  // OK if a new buffer can have that name. ALREADY_EXISTS (NAME_TAKEN), INVALID_ARGUMENT
  // (BAD_NAME).
  Status CheckNew(const std::string& name) const;
  // Between these calls the name is taken.
  void BeginMaking(const std::string& name) { making_.insert(name); }
  void EndMaking(const std::string& name) { making_.erase(name); }
  // Chooses a name for what this session makes without one.
  std::string ChooseName(const SessionId& session);
  // Adds a buffer that has been made. Everything in the draft is set except its id and create_time.
  Buffer& Add(Buffer draft);

  // Adds a view of an existing buffer. The draft is as for Add, but this chooses a name if the
  // draft has none. Charges the draft's owner, or the node of `who` if that is another node.
  // ALREADY_EXISTS (NAME_TAKEN), INVALID_ARGUMENT (BAD_NAME), RESOURCE_EXHAUSTED (QUOTA); NOT_FOUND
  // if the buffer is gone or being removed.
  Result<BufferId> AddView(const Principal& who, Buffer draft);

  // Adds a file that a client has opened. Only its id finds it. It stays until its first transfer
  // releases it, or DropUnused drops it unused. If `kept`, it stays until DropUnused was called and
  // no transfer holds it. Fails if its owner may have no more buffers, or if the session has ended.
  Result<BufferId> AddFile(const Principal& who, const std::string& name,
                           std::unique_ptr<Region> file, bool kept);
  // Likewise for a file that this daemon has opened for `owner`. It is kept if `use` is to read,
  // else it stays until the transfer that writes it releases it.
  Result<BufferId> AddExported(const Owner& owner, const std::string& name,
                               std::unique_ptr<Region> file, FileUse use);
  void DropUnused(BufferId file);  // does nothing with a buffer that is not a file

  // Finds a buffer by name or id. NOT_FOUND (BUFFER_NOT_FOUND), also if it is being removed. Finds
  // files only if `files` is set: a file has no address, and serves only its own transfer.
  Result<Buffer*> Find(const std::string& name, bool files = false);
  Buffer* FindById(BufferId id);

  // Removes the buffer and its views: at once if no transfer holds any of them, else when the last
  // transfer releases it. `done` runs when all are gone. Without `force`, if a transfer holds the
  // buffer, a view shares it or a client maps it: FAILED_PRECONDITION (BUFFER_IN_USE).
  void Remove(BufferId id, bool force, Status why, StatusReply done);
  // Removes what the session registered, when it is over; transfers of that end with OWNER_DIED.
  void EndSession(const SessionId& session);

  // The buffers that the session has registered.
  std::set<BufferId> RegisteredBy(const SessionId& session) const;

  // A transfer holds a buffer from Hold to Release.
  void Hold(BufferId id, const TransferId& transfer);
  void Release(BufferId id, const TransferId& transfer);

  // Called with each transfer that must end because its buffer is being removed.
  void OnEvict(std::function<void(const TransferId&, const Status& why)> evict) {
    evict_ = std::move(evict);
  }
  // Called with each buffer that is gone, and why.
  void OnRemoved(std::function<void(BufferId, const Status& why)> removed) {
    removed_ = std::move(removed);
  }

  BufferInfo Describe(const Buffer& buffer) const;
  using Names = std::set<std::string>;
  // The names of the buffers that `who` owns. An administrator gets only those of its own uid.
  Names NamesOf(const Owners& owners, const Principal& who) const;
  // A page of these buffers, sorted by name. All of them must exist.
  Result<Page<BufferInfo>> List(const PageRequest& page, const Names& names) const;
  Result<Page<BufferInfo>> ListAll(const PageRequest& page) const;
  const std::map<std::string, BufferId>& by_name() const { return by_name_; }
  // The numbers of buffers and views, and the buffers' bytes. Files do not count.
  const BufferFigures& figures() const { return figures_; }

  // For a buffer of a previous process: OK if its id and name are free, else ALREADY_EXISTS.
  Status CheckFree(BufferId id, const std::string& name) const;
  // Restores that buffer, with the id of the draft. Call CheckFree first.
  void PutBack(Buffer draft);
  // Never gives that id's slot to a new buffer: the next process may still restore the old one.
  void Reserve(BufferId id);
  // All memory that the holder should have.
  std::vector<HeldMemory::Holding> ToHold() const;
  // Writes the buffer's record again, after the way it is held has changed.
  void Record(BufferId id);

  void Clear();  // at the engine's end

 private:
  struct Slot {
    uint32_t generation = 0;
    std::optional<Buffer> buffer;
  };
  Buffer& Place(Buffer draft);
  Buffer& Enter(Buffer& buffer);
  void Record(const Buffer& buffer);
  // Adds the buffer to figures_, or subtracts it.
  void Count(const Buffer& buffer, bool comes);
  // Whether it has neither transfers nor views.
  bool IsIdle(const Buffer& buffer) const { return buffer.users.empty() && buffer.views.empty(); }
  void Erase(Buffer& buffer);

  Context& context_;
  const Sessions& sessions_;
  Records& records_;
  // The generations of new slots begin at a random number, so that an id of an earlier process does
  // not name another buffer here. It is below half of the range, so that none wraps to 0.
  const uint32_t first_generation_ = static_cast<uint32_t>(os::RandomNumber() >> 33);
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::map<std::string, BufferId> by_name_;
  BufferFigures figures_;
  std::map<Owner, Names> by_owner_;
  std::map<SessionId, std::set<BufferId>> by_session_;  // those that were registered
  std::set<std::string> making_;                        // names that are being made
  std::map<BufferId, std::vector<StatusReply>> removals_;
  uint64_t next_name_ = 1;
  std::function<void(const TransferId&, const Status&)> evict_;
  std::function<void(BufferId, const Status&)> removed_;
};

}  // namespace onecopy::engine
