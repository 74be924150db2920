// What copies inside a node: a kind of memory, or the access to files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/flow.h"
#include "transport/core/contracts/region.h"
#include "transport/core/contracts/small_copy_route.h"
#include "transport/core/contracts/step.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy {

// How a copy ends whose route was cancelled before its turn.
inline Status CopyCancelled() {
  return {Code::kCancelled, reasons::kCancelled, "the copy was cancelled before its turn"};
}

// A prepared way from one region to another of the same node. Holds both regions and whatever the
// copies need (a pin, peer access, an open device) for as long as it lives; let it go on a thread
// that may block.
class CopyRoute {
 public:
  // `steps` is what the copy really did. Runs exactly once per Copy, on executor(), after the
  // hardware no longer uses either piece. Must not block.
  using Done = UniqueFunction<void(Status, const StepList& steps)>;

  virtual ~CopyRoute() = default;

  // Whose bytes these are, where copies wait for others' (see FairQueue). Before the first copy.
  virtual void SetFlow(const Flow&) {}

  // Any thread; does not block. The pieces lie inside the regions; one that does not is not copied,
  // and fails with INTERNAL (RANGE_OUT_OF_BUFFER). Copies of one route may complete in any order.
  virtual void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) = 0;

  // Many copies as one piece of work: `from` and `to` are offsets inside the regions. No two write
  // the same byte, and none reads what another writes; the order is the route's. Otherwise like
  // Copy.
  virtual void CopyMany(std::vector<StridedCopy> copies, Done done) = 0;

  // Any thread: copies that wait for their turn end soon, with CANCELLED. Nothing is asked for
  // afterwards.
  virtual void Cancel() {}

  // The steps that a copy is expected to take.
  virtual const StepList& steps() const = 0;

  // Makes sure that copies are what the steps say, where that can only be seen: looks at these
  // bytes being copied, which the caller is going to copy anyhow, and leaves the others alone.
  // Quick where it is known. Blocks; before the first copy. NOT_ONE_PASS, with the figures.
  virtual Status Prove(uint64_t /*from_offset*/, uint64_t /*to_offset*/, uint64_t /*bytes*/) {
    return OkStatus();
  }
  // What was seen, for the receipt; empty where there is nothing to be seen. After Prove.
  virtual std::string proof() const { return {}; }

  // How many copies should be in flight, and of what size, for full speed.
  virtual unsigned depth() const = 0;
  virtual uint64_t chunk_bytes() const = 0;

  // A copy that begins and ends at multiples of this, counted in the file that is one of its ends,
  // takes the fewest steps; 1: all do.
  virtual uint64_t grain() const { return 1; }

  // Where completions run; a transfer with no link in it lives there.
  virtual Executor& executor() = 0;
};

// Threads: Copies is safe on any thread and does not block. The others may block, unless
// prepares_at_once, and are safe on any thread.
class Copier {
 public:
  virtual ~Copier() = default;

  // Whether Prepare can make a route between two such places.
  virtual bool Copies(const Place& from, const Place& to) const = 0;

  // Fails with the reason why one pass is impossible (NO_PEER_ACCESS, HOST_NOT_PINNABLE, GPU_LOST,
  // …).
  virtual Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from,
                                                     const RegionRef& to) = 0;

  // Whether Prepare, and the end of its routes, neither block nor ask a driver: no thread has to
  // wait for them.
  virtual bool prepares_at_once() const { return false; }

  // The same for small copies that the asking thread makes by itself. NOT_APPLICABLE where this
  // memory's copies take another thread.
  virtual Result<std::unique_ptr<SmallCopyRoute>> PrepareSmall(const RegionRef& from,
                                                               const RegionRef& to) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "copies from " + from->step_name() + " to " + to->step_name() +
                      " are made by threads of their own");
  }

  // As PrepareSmall, for copies of any length, in an order of their own. NOT_APPLICABLE where the
  // asking thread would make them itself.
  virtual Result<std::unique_ptr<SmallCopyRoute>> PrepareLong(const RegionRef& from,
                                                              const RegionRef& to) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "long copies from " + from->step_name() + " to " + to->step_name() +
                      " are made by threads of their own");
  }
};

}  // namespace onecopy
