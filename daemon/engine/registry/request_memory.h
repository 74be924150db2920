// Which requests have been carried out lately: little of each, so that all of them can be known for
// as long as the API promises.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/digest_set.h"
#include "daemon/engine/base/ledger.h"

namespace onecopy::engine {

// Engine thread. A request is known for at least Limits::request_memory.
class RequestMemory {
 public:
  explicit RequestMemory(Context& context);

  // What stands for a request's id, of one kind of request. Guessing another id with the same
  // digest takes 2^64 tries, since the key is secret.
  uint64_t Digest(const std::string& kind, const std::string& request_id) const;

  // What stands for what a request asks for, which may be megabytes.
  using Content = std::pair<uint64_t, uint64_t>;
  Content ContentOf(const std::string& content) const;

  const Ledger& ledger() const { return context_.ledger; }
  // Room for one request's digest; RESOURCE_EXHAUSTED (QUOTA).
  Result<Ledger::Charge> Take(const Owner& who, bool administrator);
  // The request has been carried out.
  void Remember(const Owner& who, uint64_t digest, Ledger::Charge room);
  bool Knows(const Owner& who, uint64_t digest) const;

 private:
  // What was carried out between two moments is forgotten together.
  struct Slice {
    os::Clock::time_point until;  // when the next one begins
    DigestSet digests;
    Ledger::Charge room;
  };

  void Forget();

  Context& context_;
  const uint64_t key_;
  const os::Clock::duration slice_;
  std::map<Owner, std::deque<Slice>> slices_;  // oldest first
  os::EventLoop::TimerId timer_ = 0;           // while there is anything to forget
};

}  // namespace onecopy::engine
