// What this node can do, and why it cannot do the rest.
#pragma once

#include <cstdint>

#include "daemon/engine/context.h"
#include "transport/core/capability.h"

namespace onecopy::engine {

// Engine thread.
class Catalog {
 public:
  explicit Catalog(Context& context) : context_(context) { Refresh(); }

  // Asks the backends anew.
  void Refresh();

  const NodeCapability& capabilities() const { return capabilities_; }
  // Grows whenever the capabilities change; never 0.
  uint64_t generation() const { return generation_; }

 private:
  Context& context_;
  NodeCapability capabilities_;
  uint64_t generation_ = 0;
};

}  // namespace onecopy::engine
