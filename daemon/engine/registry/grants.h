// Rights of others on ranges of this node's buffers.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/registry/sessions.h"

namespace onecopy::engine {

enum class Access { kRead, kWrite };

// Engine thread.
class Grants {
 public:
  Grants(Context& context, Owners& owners, const Sessions& sessions, Records& records);

  // `who` has been checked to own the buffer, and the range to lie inside it. The grant counts as
  // the buffer's owner's.
  Result<GrantInfo> Create(const Principal& who, const Buffer& buffer, const ByteRange& range,
                           const Owner& to, bool read, bool write,
                           std::optional<std::chrono::milliseconds> lifetime);
  // Restores a grant of the previous process. Returns false if it has expired, or if its payer has
  // no room.
  bool Restore(const Buffer& buffer, const GrantRecord& record);
  struct Grant {
    GrantId id;
    BufferId buffer;
    std::string buffer_name;
    ByteRange range;
    Owner to;
    bool read = false;
    bool write = false;
    std::optional<WallTime> expire_time;
    Owner owner = {};                  // of the buffer
    os::EventLoop::TimerId timer = 0;  // that ends it; 0: none
    Ledger::Charge charge = {};
  };
  const Grant* Find(const GrantId& id) const;
  void Delete(const GrantId& id, const Status& why);
  // The buffer is gone, and its grants with it.
  void DropBuffer(BufferId buffer);

  // Lets `who` at this range: nothing for an owner, else the grant that the right rests on.
  // PERMISSION_DENIED (NOT_OWNER, GRANT_EXPIRED) otherwise.
  Result<std::optional<GrantId>> Check(const Principal& who, const Buffer& buffer,
                                       const ByteRange& range, Access access) const;
  // Likewise, at some of the buffer: who may write any of it may send messages to it.
  Status CheckWritesSome(const Principal& who, const Buffer& buffer) const;
  // Whether `who` has any right on the buffer: it may then see it.
  bool Sees(const Principal& who, const Buffer& buffer) const;
  // A buffer by name or id, for a user that has a right on it, or had one that expired. For all
  // others NOT_FOUND (BUFFER_NOT_FOUND), whether the buffer exists or not; only the audit log hears
  // that there is. `files` as in Buffers::Find.
  Result<Buffer*> FindKnown(Buffers& buffers, const Principal& who, const std::string& name,
                            bool files = false) const;
  // The buffers that `who` has any right on by grants.
  std::set<BufferId> GrantedTo(const Principal& who) const;

  // The remedy for `asking`, whom nothing of `owner`'s is open to.
  std::string HowToBeAllowed(const Owner& asking, const Owner& owner) const;

  // The grants on those buffers, and those to `grantee` on any, in the order of their ids.
  Result<Page<GrantInfo>> List(const PageRequest& page, const std::set<BufferId>& buffers,
                               const std::optional<Owner>& grantee = {}) const;
  // All there are.
  Result<Page<GrantInfo>> ListAll(const PageRequest& page) const;

  // Called with each grant that ends before its buffer; transfers that rest on it must end.
  void OnEnded(std::function<void(const Grant&, const Status& why)> ended) {
    ended_ = std::move(ended);
  }

 private:
  using Ids = std::set<std::string>;  // of grants

  bool Knows(const Principal& who, const Buffer& buffer) const;
  GrantInfo Describe(const Grant& grant) const;
  void NoteRefusal(const Principal& who, const Buffer& buffer) const;
  void ExpireAfter(Grant& grant, std::chrono::milliseconds lifetime);
  void Enter(Grant grant);
  // The grant leaves the tables below, and its timer goes.
  void Unlist(const Grant& grant);

  Context& context_;
  Owners& owners_;
  const Sessions& sessions_;
  Records& records_;
  std::map<std::string, Grant> grants_;                  // by id
  std::map<BufferId, std::map<Owner, Ids>> of_buffer_;   // by whom they are to
  std::map<Owner, std::map<BufferId, size_t>> granted_;  // how many each has of a buffer
  // Rights that expired lately: a user that still relies on one learns that, instead of a plain
  // refusal.
  std::map<BufferId, std::vector<Owner>> expired_;
  uint64_t next_ = 1;
  std::function<void(const Grant&, const Status&)> ended_;
};

}  // namespace onecopy::engine
