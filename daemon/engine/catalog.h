// What this node can do, and why it cannot do the rest.
#pragma once

#include <cstdint>

#include "daemon/engine/context.h"
#include "transport/core/capability.h"
#include "transport/os/event_loop.h"

namespace onecopy::engine {

// Engine thread.
class Catalog {
 public:
  explicit Catalog(Context& context) : context_(context) { Refresh(); }

  // Asks the backends anew.
  void Refresh();
  // The same, unless they were asked no longer than `age` ago.
  void RefreshAfter(os::Clock::duration age);

  const NodeCapability& capabilities() const { return capabilities_; }
  // Grows whenever the capabilities change; never 0.
  uint64_t generation() const { return generation_; }

 private:
  Context& context_;
  NodeCapability capabilities_;
  os::Clock::time_point asked_;
  uint64_t generation_ = 0;
};

}  // namespace onecopy::engine
