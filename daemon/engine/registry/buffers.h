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
#include "daemon/engine/registry/kept.h"
#include "daemon/engine/registry/request_log.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/engine/registry/slabs.h"
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
  HeldRef held = {};                // where its memory is to outlive the process
  bool keep_arrivals = false;       // see CreateBufferRequest
  bool file = false;  // a client's file, called as the client does: for one transfer, in no list
  bool exported = false;  // a file of this node's, opened for a user to read: see Exports
  bool kept = false;  // though no transfer uses it now: another node may have it read, or once more
  std::optional<BufferId> view_of = {};  // of a view: whose memory it is a part of
  uint64_t offset = 0;                   // of a view, in the region
  std::optional<ArrayShape> array = {};  // of a view: how its elements lie from there on
  std::set<BufferId> views = {};         // of its memory

  // The buffer that has the memory.
  BufferId memory() const { return view_of.value_or(id); }
};

// Engine thread. Pointers to buffers are good until control returns to the loop.
class Buffers {
 public:
  Buffers(Context& context, Sessions& sessions, const Slabs& slabs, Kept& kept,
          RequestMemory& memory)
      : context_(context),
        sessions_(sessions),
        slabs_(slabs),
        kept_(kept),
        requests_(memory, "buffer") {}

  // Room for a buffer that is going to be made, to be kept as long as it is.
  using TakeRoom = std::function<Result<std::shared_ptr<void>>()>;
  // Who pays for a buffer of another node's user: that node, whose word alone says which of its
  // users asks.
  struct Account {
    Owner payer;
    TakeRoom take_room;  // null: it takes none
  };
  // Checked, then made on a worker's thread.
  void Create(const Principal& who, const CreateBufferRequest& request, Reply<BufferInfo> reply,
              std::optional<Account> account = {});
  void Register(const Principal& who, const RegisterBufferRequest& request,
                Reply<BufferInfo> reply);

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

  // As an earlier process of this daemon had it, with its id. RESOURCE_EXHAUSTED (QUOTA) where all
  // users together may not have so many; ALREADY_EXISTS for a name or an id that is taken.
  Status Restore(const BufferRecord& record, std::unique_ptr<Region> region);
  Status RestoreView(const BufferRecord& record);  // of memory that is there again
  // No new buffer gets that id's place: a later process may still restore the one that had it.
  void Reserve(BufferId id);
  // What is to outlive this process, of all buffers.
  std::vector<Kept::Holding> ToHold() const;
  // Its record, anew: how it is held has changed.
  void Record(BufferId id);

  void Clear();  // at the engine's end

 private:
  struct Slot {
    uint32_t generation = 0;
    std::optional<Buffer> buffer;
  };
  using MakeRegion = UniqueFunction<Result<std::unique_ptr<Region>>()>;

  Status CheckNew(const std::string& name) const;
  // What the session has deposited under that number; nothing for 0.
  Result<os::PassedFd> TakeIfNamed(const SessionId& session, uint64_t fd_handle);
  struct Params {
    std::string request_id;
    std::string content;  // of the request, to be compared with a repetition's
    bool validate_only = false;
    bool administrator = false;
    SessionId session;  // who waits for it
    Owner payer;
    TakeRoom take_room = {};
    bool at_once = false;  // no worker has to make the region
  };
  // Common to both ways of making a buffer: reserves the name, makes the region on the worker, and
  // adds it.
  void Make(Params params, Buffer draft, const std::string& worker, MakeRegion make,
            Reply<BufferInfo> reply);
  // The same, except for a client that has gone before its turn came nothing is made.
  MakeRegion UnlessGone(const SessionId& session, MakeRegion make) const;
  Result<BufferInfo> Add(Buffer draft, std::unique_ptr<Region> region, const WorkQueue& queue);
  std::string ChooseName(const SessionId& session);
  Buffer& Place(Buffer draft);
  // Whether an earlier process's buffer can have that id and name again.
  Status CheckFree(BufferId id, const std::string& name) const;
  void PlaceAgain(Buffer draft);
  Buffer& Enter(Buffer& buffer);
  Buffer& PlaceNamed(Buffer draft);
  void Record(const Buffer& buffer);
  // It comes, or goes: figures_.
  void Count(const Buffer& buffer, bool comes);
  // Nothing holds it any more.
  bool IsIdle(const Buffer& buffer) const { return buffer.users.empty() && buffer.views.empty(); }
  void Erase(Buffer& buffer);

  Context& context_;
  Sessions& sessions_;
  const Slabs& slabs_;
  Kept& kept_;
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
  RequestLog<BufferId> requests_;
  std::map<BufferId, std::vector<StatusReply>> removals_;
  uint64_t next_name_ = 1;
  std::function<void(const TransferId&, const Status&)> evict_;
  std::function<void(BufferId, const Status&)> removed_;
};

}  // namespace onecopy::engine
