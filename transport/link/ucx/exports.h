// The owner's half of a connection: hands out keys, takes them back.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/contracts/link.h"
#include "transport/link/ucx/dialogue.h"

namespace onecopy::ucx {

// On the worker's thread.
class Exports {
 public:
  using Done = UniqueFunction<void(Result<RemoteKey>)>;

  // `far`: the reader's end, as keys name it; `peer` its node.
  Exports(std::string peer, EndId far, const Home& home, Worker& worker, Dialogue& dialogue)
      : peer_(std::move(peer)), far_(far), home_(home), worker_(worker), dialogue_(dialogue) {}

  // `done` runs when the reader has taken UCX's key, or cannot.
  void Add(const Span& span, Done done);
  void OnExported(const Message& message);
  // Asks the reader to release it. A reader that is silent, or takes too long, loses the endpoint,
  // and with it all connections there.
  void Revoke(uint64_t key, Task done);
  void OnRevoked(uint64_t key);
  // Without asking: the reader has said so before.
  void EndLoan(uint64_t key, Task done);

  // The connection ends, for this reason: nothing is added any more, nor the reader asked. What is
  // withdrawn from now on ends with EndAll.
  void Stop(const Status& why) { stopped_ = why; }
  bool empty() const { return exports_.empty(); }
  void EndAll();

 private:
  struct Export {
    Span span;
    Done done;  // until the reader has taken the key
    std::vector<Task> revoking;
    os::EventLoop::TimerId timer = 0;
  };
  void Limit(uint64_t key, os::Clock::time_point end);
  void End(Export& exported, const Status& unless_taken);

  const std::string peer_;
  const EndId far_;
  const Home& home_;
  Worker& worker_;
  Dialogue& dialogue_;
  std::unordered_map<uint64_t, Export> exports_;
  Status stopped_;  // why; OK while it is not
};

}  // namespace onecopy::ucx
