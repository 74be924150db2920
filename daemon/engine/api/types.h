// What the engine's interfaces need beside the values that everybody shares (values/): who asks,
// how answers come, and what only goes over a socket of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/engine/api/ids.h"
#include "onecopy/arrival.h"
#include "onecopy/buffer.h"
#include "onecopy/node.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"
#include "transport/core/base/uid.h"
#include "transport/core/base/unique_function.h"

namespace onecopy::engine {

// Runs exactly once, on the engine's thread, and must not block.
template <typename T>
using Reply = UniqueFunction<void(Result<T>)>;
using StatusReply = UniqueFunction<void(Status)>;

// Who asks: a uid on a node. Only a session of this node can be an administrator's: uid 0, or the
// uid that the daemon runs as, in the daemon's own namespaces.
struct Principal {
  Uid uid;
  std::string node;
  bool administrator = false;
  SessionId session;  // empty for a peer's principal

  std::string ToString() const { return uid.ToString() + "@" + node; }
};

struct DepositedAllocation {
  uint64_t fd_handle = 0;  // from Sessions::Deposit
  uint64_t bytes = 0;
};

struct RegisterBufferRequest {
  std::string request_id;
  std::string name;
  uint64_t bytes = 0;
  std::string kind;    // of memory: "host", "cuda"
  std::string form;    // as in ImportRequest
  std::string device;  // as typed
  uint64_t offset = 0;
  uint64_t allocation_bytes = 0;
  uint64_t fd_handle = 0;                 // from Sessions::Deposit; 0: none
  std::vector<DepositedAllocation> more;  // as in ImportRequest
  std::string handle;
  uint64_t dmabuf_fd_handle = 0;  // likewise, of a dma-buf beside the handle
  uint64_t dmabuf_offset = 0;
  std::string dmabuf_refusal;  // why there is none, by the client's word
  uint64_t region = 0;         // the client's name for memory of its process
  bool read_only = false;
  bool validate_only = false;
  bool keep_arrivals = false;  // as in CreateBufferRequest
};

struct PageRequest {
  int32_t size = 0;   // 0: 100; at most 1000
  std::string token;  // empty: from the start
};

// What a watch of arrivals has to tell just now.
struct ArrivalsTold {
  ArrivalBatch batch;
  Status end;  // not OK: nothing comes after it, and why
};

template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_token;  // empty on the last page
};

}  // namespace onecopy::engine
