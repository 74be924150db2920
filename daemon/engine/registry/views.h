// Names for parts of memory that is registered already.
#pragma once

#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"

namespace onecopy::engine {

// Engine thread. A view is a buffer whose memory is a part of another one's: it has a name, an id
// and rights of its own, is charged to the memory's owner like any buffer, and goes with the
// memory. Where that is a client's, it goes with the client.
class Views {
 public:
  struct Needs {
    const Context& context;
    const Owners& owners;
    Buffers& buffers;
    const Grants& grants;
  };

  explicit Views(const Needs& needs) : needs_(needs) {}

  // All of them, in their order, or none. See BufferService.CreateViews.
  Result<std::vector<BufferInfo>> Create(const Principal& who,
                                         const std::vector<ViewRequest>& requests);

 private:
  // What is asked for, without an id.
  Result<Buffer> Draft(const Principal& who, const ViewRequest& request) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
