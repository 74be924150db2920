// What this node can do, and why it cannot do the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/base/context.h"
#include "onecopy/capability.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread.
class Catalog {
 public:
  explicit Catalog(Context& context) : context_(context) { Refresh(); }

  // Asks the backends again.
  void Refresh();
  // The same, unless they were asked no longer than `age` ago.
  void RefreshAfter(os::Clock::duration age);

  // What was found out by trying about network devices of a link, by their names; counts more than
  // what the link says, until it is forgotten.
  void ProveNicMemories(const std::string& link,
                        const std::vector<std::pair<std::string, NicMemory>>& found);
  void ForgetNicMemories(const std::string& link);

  const NodeCapability& capabilities() const { return capabilities_; }
  // Grows whenever the capabilities change; never 0.
  uint64_t generation() const { return generation_; }

 private:
  void AddProven(LinkCapability& link) const;

  Context& context_;
  NodeCapability capabilities_;
  os::Clock::time_point asked_;
  // By link and device.
  std::map<std::pair<std::string, std::string>, std::vector<NicMemory>> proven_;
  uint64_t generation_ = 0;
};

}  // namespace onecopy::engine
