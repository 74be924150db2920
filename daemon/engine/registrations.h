// Memory made known to the network devices of a link, once for as long as it lives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/context.h"

namespace onecopy::engine {

// Engine thread.
class Registrations {
 public:
  explicit Registrations(Context& context) : context_(context) {}

  // Registers the region with the link, on the thread for slow calls about such memory; at once
  // where that has happened before. Those who ask meanwhile share one call. Fails with the link's
  // reason why it cannot use this memory in place, which is asked again by the next caller.
  void Ensure(const std::string& link, const RegionRef& region, StatusReply reply);

 private:
  using Key = std::pair<std::string, const Region*>;
  struct Entry {
    std::weak_ptr<Region> region;
    bool done = false;
    std::vector<StatusReply> waiting;
  };

  void Conclude(const Key& key, const Status& status);

  Context& context_;
  std::map<Key, Entry> entries_;
};

}  // namespace onecopy::engine
