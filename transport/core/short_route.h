// Small copies, made by the thread that asks for them.
#pragma once

#include <cstdint>

#include "transport/core/status.h"
#include "transport/core/step.h"

namespace onecopy {

// A prepared way from one region to another, for copies so small that handing them to another
// thread would take longer than they do. Holds both regions and whatever the copies need.
//
// All short routes of a process are used by one thread, which they never make wait, allocate or
// lock; a route is let go on a thread that may block, with nothing of it under way.
class ShortRoute {
 public:
  virtual ~ShortRoute() = default;

  // Begins a copy. The pieces lie inside the regions (checked by the caller, asserted here). After
  // a failure nothing of this copy is under way.
  virtual Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) = 0;

  // Names what was begun so far. Marks grow, and each costs something: one for a batch of copies is
  // best.
  virtual uint64_t Mark() = 0;

  // Whether the hardware has let go of all that the mark names. `failure` says why one of those
  // copies may not have arrived; it is left alone where all have.
  virtual bool Reached(uint64_t mark, Status* failure) = 0;

  // The steps that each copy takes.
  virtual const StepList& steps() const = 0;
};

}  // namespace onecopy
