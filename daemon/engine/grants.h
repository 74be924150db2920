// Rights of others on ranges of this node's buffers.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/engine/buffers.h"
#include "daemon/engine/context.h"
#include "daemon/engine/owners.h"

namespace onecopy::engine {

enum class Access { kRead, kWrite };

// Engine thread.
class Grants {
 public:
  Grants(Context& context, Owners& owners) : context_(context), owners_(owners) {}

  // The caller has been checked to own the buffer, and the range to lie inside it.
  Result<GrantInfo> Create(const Buffer& buffer, const ByteRange& range, const Owner& to, bool read,
                           bool write, std::optional<std::chrono::milliseconds> lifetime);
  struct Grant {
    GrantId id;
    BufferId buffer;
    std::string buffer_name;
    ByteRange range;
    Owner to;
    bool read = false;
    bool write = false;
    std::optional<WallTime> expire_time;
  };
  const Grant* Find(const GrantId& id) const;
  void Delete(const GrantId& id, const Status& why);
  // The buffer is gone, and its grants with it.
  void DropBuffer(BufferId buffer);

  // Lets `who` at this range: nothing for an owner, else the grant that the right rests on.
  // PERMISSION_DENIED (NOT_OWNER, GRANT_EXPIRED) otherwise.
  Result<std::optional<GrantId>> Check(const Principal& who, const Buffer& buffer,
                                       const ByteRange& range, Access access) const;
  // Whether `who` has any right on the buffer: it may then see it.
  bool Sees(const Principal& who, const Buffer& buffer) const;

  Result<Page<GrantInfo>> List(const PageRequest& page,
                               const std::function<bool(const Grant&)>& wanted) const;

  // Called with each grant that ends before its buffer; transfers that rest on it must end.
  void OnEnded(std::function<void(const Grant&, const Status& why)> ended) {
    ended_ = std::move(ended);
  }

 private:
  static GrantInfo Describe(const Grant& grant);

  Context& context_;
  Owners& owners_;
  std::map<std::string, Grant> grants_;  // by id
  // Rights that ran out lately: whoever still counts on one is told so, rather than that it never
  // was.
  std::map<BufferId, std::vector<Owner>> expired_;
  uint64_t next_ = 1;
  std::function<void(const Grant&, const Status&)> ended_;
};

}  // namespace onecopy::engine
