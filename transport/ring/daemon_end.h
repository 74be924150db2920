// The daemon's end of a ring.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "onecopy/result.h"
#include "onecopy/status.h"
#include "transport/core/contracts/small_copy_route.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"
#include "transport/ring/layout.h"

namespace onecopy::ring {

// What a submission says, copied once and not checked yet.
struct Request {
  uint64_t number = 0;  // the daemon's own count of it
  bool torn = false;    // the entry claims to be another one
  uint64_t route = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;   // of each piece
  uint64_t list = 0;    // which one has the pieces
  uint64_t pieces = 0;  // how many that has; 0: the submission is one piece
  bool sum = false;     // compare the checksums of both ends
};

// One thread at a time. No call blocks, allocates or faults, whatever the client does to the
// memory: its size is sealed, what the daemon counts it counts by itself, and what the client has
// written is read once.
class DaemonEnd {
 public:
  static Result<DaemonEnd> Make();

  int memory() const { return memory_.get(); }  // for the client, sealed against any other size

  enum class Taken { kNothing, kOne, kNoRoom, kBroken };
  // The next submission, for which there will be room among the completions. kNoRoom while the
  // client does not read those; kBroken for numbers that make no sense, from then on.
  Taken Take(Request* request);
  // Copies the list of a request that was taken last, once; `pieces` is as long as the list.
  void ReadList(const Request& request, std::span<CopyPiece> pieces) const;
  // Lets the client overwrite what has been taken.
  void GiveBack() { shared().taken.store(taken_, std::memory_order_release); }

  // One for each request that was taken, in any order. Seen by the client after Publish, which
  // wakes it if it sleeps.
  void Complete(uint64_t number, uint64_t nanoseconds, Code code, std::string_view reason);
  // Likewise one that succeeded and has a checksum.
  void Complete(uint64_t number, uint64_t nanoseconds, const SmallSum& sum);
  void Publish();

  // From now on the client says on its socket that it has submitted. False when there is something
  // to take already: then it does not.
  bool Sleep();

  // Tells the client that nothing more will be taken.
  void End(State why);

 private:
  DaemonEnd(os::UniqueFd memory, os::Mapping mapping)
      : memory_(std::move(memory)), mapping_(std::move(mapping)) {}
  Shared& shared() const { return *reinterpret_cast<Shared*>(mapping_.data()); }
  void Put(uint64_t number, uint64_t nanoseconds, Code code, std::span<const std::byte> rest);

  os::UniqueFd memory_;
  os::Mapping mapping_;
  uint64_t seen_ = 0;   // submissions, when the client's number was last read
  uint64_t taken_ = 0;  // of them
  uint64_t completed_ = 0;
  uint64_t published_ = 0;
  bool broken_ = false;
};

}  // namespace onecopy::ring
