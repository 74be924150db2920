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
#include "transport/core/store.h"
#include "transport/os/machine.h"

namespace onecopy::engine {

// What has a name: memory of its own, or a view of a part of another buffer's, which it shares.
struct Buffer {
  BufferId id;
  std::string name;
  Owner owner;
  RegionRef region;
  uint64_t bytes = 0;  // of an array, those of its elements
  bool registered = false;
  std::string form;   // of what was registered: see BufferInfo
  SessionId session;  // of the client that registered it
  WallTime create_time;
  std::set<TransferId> users;                      // transfers that hold it
  std::map<uint64_t, std::string> mapped_by = {};  // clients that have mapped it: see Mappings
  Status removing;                                 // not OK once it is on its way out: why
  Ledger::Charge charge = {};       // of its owner, or of the node that its owner is of
  std::shared_ptr<void> room = {};  // of that node: see PeerRoom
  HeldRef held = {};                // set if the daemon made it and has a holder
  bool keep_arrivals = false;       // see CreateBufferRequest
  bool file = false;  // a client's file, called as the client does: for one transfer, in no list
  bool exported = false;  // a file of this node's, opened for a user to read: see Exports
  bool kept = false;  // though no transfer uses it now: another node may have it read, or once more
  std::optional<BufferId> view_of = {};  // of a view: whose memory it is a part of
  uint64_t offset = 0;                   // of a view, in the region
  std::optional<ArrayShape> array = {};  // of a view: how its elements lie from there on
  std::set<BufferId> views = {};         // of its memory

  // Whether the holder has its memory, so that the next process will.
  bool survives() const { return held != nullptr && held->form.why.empty(); }
  // The buffer that has the memory.
  BufferId memory() const { return view_of.value_or(id); }
};

// Engine thread. Pointers to buffers are good until control returns to the loop.
class Buffers {
 public:
  Buffers(Context& context, const Sessions& sessions, Records& records)
      : context_(context), sessions_(sessions), records_(records) {}

  // Whether a new buffer can have that name. ALREADY_EXISTS (NAME_TAKEN), INVALID_ARGUMENT
  // (BAD_NAME).
  Status CheckNew(const std::string& name) const;
  // The name is taken while its buffer is being made.
  void BeginMaking(const std::string& name) { making_.insert(name); }
  void EndMaking(const std::string& name) { making_.erase(name); }
  // A name for what this session makes without one.
  std::string ChooseName(const SessionId& session);
  // Adds a buffer that has been made. Everything in the draft except its id is set.
  Buffer& Add(Buffer draft);

  // A view of memory that is there: all of the draft but its id is filled in, and its name where it
  // is to have one. Charged to the memory's owner. ALREADY_EXISTS (NAME_TAKEN), INVALID_ARGUMENT
  // (BAD_NAME), RESOURCE_EXHAUSTED (QUOTA); NOT_FOUND where the memory is on its way out.
  Result<BufferId> AddView(const Principal& who, Buffer draft);

  // A file that a client has opened, until the first transfer releases it, or DropUnused, or, if it
  // is `kept`, both; it is found by its id alone. Fails where its owner may have no more
  // buffers.
  Result<BufferId> AddFile(const Principal& who, const std::string& name,
                           std::unique_ptr<Region> file, bool kept);
  // Likewise one that this daemon has opened for that user: kept where it is read, else until the
  // transfer that writes it releases it.
  Result<BufferId> AddExported(const Owner& owner, const std::string& name,
                               std::unique_ptr<Region> file, FileUse use);
  void DropUnused(BufferId file);  // anything else is left alone

  // By name or id. NOT_FOUND (BUFFER_NOT_FOUND), also for one that is on its way out, and for a
  // file unless `files`: it has no address, and is an end of its own transfer alone.
  Result<Buffer*> Find(const std::string& name, bool files = false);
  Buffer* FindById(BufferId id);

  // Ends the buffer, and its views: at once when no transfer holds any of them, else when the last
  // one releases it. With transfers or views, or while a client has it mapped, and without `force`,
  // FAILED_PRECONDITION (BUFFER_IN_USE). `done` runs when all are gone.
  void Remove(BufferId id, bool force, Status why, StatusReply done);
  // The session is over: what it registered goes, its transfers end with OWNER_DIED.
  void EndSession(const SessionId& session);

  // Those that the session has registered.
  std::set<BufferId> RegisteredBy(const SessionId& session) const;

  // A transfer holds a buffer from Hold to Release.
  void Hold(BufferId id, const TransferId& transfer);
  void Release(BufferId id, const TransferId& transfer);

  // Called with each transfer that must end because its buffer goes.
  void OnEvict(std::function<void(const TransferId&, const Status& why)> evict) {
    evict_ = std::move(evict);
  }
  // Called with each buffer that is gone, and why.
  void OnRemoved(std::function<void(BufferId, const Status& why)> removed) {
    removed_ = std::move(removed);
  }

  BufferInfo Describe(const Buffer& buffer) const;
  using Names = std::set<std::string>;
  // Of those that `who` owns; an administrator's own are only those of its uid.
  Names NamesOf(const Owners& owners, const Principal& who) const;
  // By name, of these, which exist.
  Result<Page<BufferInfo>> List(const PageRequest& page, const Names& names) const;
  Result<Page<BufferInfo>> ListAll(const PageRequest& page) const;
  const std::map<std::string, BufferId>& by_name() const { return by_name_; }
  // How many there are, and of how many bytes; without clients' files.
  const BufferFigures& figures() const { return figures_; }

  // For a buffer that a previous process had: whether its id and name are free. ALREADY_EXISTS.
  Status CheckFree(BufferId id, const std::string& name) const;
  // Puts that buffer back, with the id of the draft. Call CheckFree first.
  void PutBack(Buffer draft);
  // Keeps the slot of that id free for the next process, which may still restore its buffer.
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
  // It comes, or goes: figures_.
  void Count(const Buffer& buffer, bool comes);
  // Nothing holds it any more.
  bool IsIdle(const Buffer& buffer) const { return buffer.users.empty() && buffer.views.empty(); }
  void Erase(Buffer& buffer);

  Context& context_;
  const Sessions& sessions_;
  Records& records_;
  // Where the generations of this daemon's life begin: an id must not outlive its daemon and name
  // another buffer in the next one. Less than half of the range, so that none comes to 0.
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
