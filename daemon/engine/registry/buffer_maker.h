// Makes the buffers that clients ask for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/held_memory.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/registry/request_log.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/engine/registry/slabs.h"

namespace onecopy::engine {

// Engine thread. Checks a request, has a worker make the memory, and adds the buffer to the
// registry. Remembers requests, so that a repeated one gets the buffer that the first one made.
class BufferMaker {
 public:
  struct Needs {
    Context& context;
    Sessions& sessions;
    const Slabs& slabs;
    Records& records;
    HeldMemory& held;
    Buffers& buffers;
  };

  BufferMaker(const Needs& needs, RequestMemory& memory)
      : needs_(needs), requests_(memory, "buffer") {}

  // Reserves room for a buffer. The buffer keeps what this returns until it ends.
  using TakeRoom = std::function<Result<std::shared_ptr<void>>()>;
  // Another node pays for the buffers of its users, because only that node knows which user asks.
  struct Account {
    Owner payer;
    TakeRoom take_room;  // null: none is reserved
  };
  // Both check the request at once and make the memory on a worker's thread.
  void Create(const Principal& who, const CreateBufferRequest& request, Reply<BufferInfo> reply,
              std::optional<Account> account = {});
  void Register(const Principal& who, const RegisterBufferRequest& request,
                Reply<BufferInfo> reply);

  // A request that a previous process carried out, with the buffer that it made.
  void Remember(const Owner& payer, const BufferRecord& made) {
    requests_.Remember(payer, made.request_id, made.request, made.id);
  }

 private:
  using MakeRegion = UniqueFunction<Result<std::unique_ptr<Region>>()>;

  // What the session has deposited under that number; nothing for 0.
  Result<os::PassedFd> TakeIfNamed(const SessionId& session, uint64_t fd_handle);
  struct Params {
    std::string request_id;
    std::string content;  // what the request asks for; a repetition must have the same
    bool validate_only = false;
    bool administrator = false;
    SessionId session;  // of the client that waits
    Owner payer;
    TakeRoom take_room = {};
    bool at_once = false;  // no worker has to make the region
  };
  // Common to both ways of making a buffer: reserves the name, makes the region on the worker, and
  // adds it.
  void Make(Params params, Buffer draft, const std::string& worker, MakeRegion make,
            Reply<BufferInfo> reply);
  // The same, but it makes nothing if the client has gone before its turn.
  MakeRegion UnlessGone(const SessionId& session, MakeRegion make) const;
  Result<BufferInfo> Add(Buffer draft, std::unique_ptr<Region> region, const WorkQueue& queue);
  // Empty if a buffer of that owner can survive this process.
  std::string WhyNotHeld(const Owner& owner) const;

  const Needs needs_;
  RequestLog<BufferId> requests_;
};

}  // namespace onecopy::engine
