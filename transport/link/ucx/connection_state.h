// What a connection keeps of each exposure and get. For its own files only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/core/reasons.h"
#include "transport/link/ucx/connection.h"

namespace onecopy::ucx {

inline Status NotOpen() {
  return {Code::kPermissionDenied, reasons::kAccessDenied,
          "nothing is open to reading under that key and range"};
}

struct UcxConnection::Readable {
  Readable(Worker& worker, ucp_rkey_h key, Exposing what)
      : worker(worker), rkey(key), exposing(std::move(what)) {}
  ~Readable() { worker.Destroy(rkey); }
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  Worker& worker;
  const ucp_rkey_h rkey;
  const Exposing exposing;
  unsigned gets = 0;  // under way
  bool withdrawn = false;
};

struct UcxConnection::Exposure {
  Span span;
  UniqueFunction<void(Result<RemoteKey>)> done;  // until the reader has taken the key
  std::vector<Task> withdrawing;
  os::EventLoop::TimerId timer = 0;
};

struct UcxConnection::Operation {
  ChannelId channel = 0;
  uint64_t exposure = 0;
  uint64_t offset = 0;
  Span into;  // until it is posted
  uint64_t bytes = 0;
  std::string to;  // memories, for steps
  std::string from;
  std::shared_ptr<Readable> readable;  // once it is posted
  bool cancelled = false;
  GetDone done;
};

}  // namespace onecopy::ucx
