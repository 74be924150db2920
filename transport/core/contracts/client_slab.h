// Memory that this process shares with one client, through which the client's library copies what
// lies in its own process, where no other process reaches it.
#pragma once

#include <functional>
#include <memory>

#include "transport/core/contracts/region.h"

namespace onecopy {

// Gives a region the owner that may let it go where that may block.
using ShareRegion = std::function<RegionRef(std::unique_ptr<Region>)>;

// Any thread, except for OpenEnds. Kept by every region of its client's process.
class ClientSlab {
 public:
  virtual ~ClientSlab() = default;

  // What the client is given: the caller's to close. Once.
  struct Ends {
    int slab = -1;
    int orders = -1;  // where it finds what to copy
    int socket = -1;  // on which it wakes this process
  };
  virtual Result<Ends> OpenEnds() = 0;

  // The slab itself, as host memory.
  virtual const RegionRef& region() const = 0;

  // The client has gone: copies that are under way end with `why`, and so do all later ones.
  virtual void End(const Status& why) = 0;
};

}  // namespace onecopy
