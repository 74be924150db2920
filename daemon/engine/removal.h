// Removes a buffer at its owner's request, from a client here or from another node.
#pragma once

#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/mapping/mappings.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/sharing/memory_exporter.h"

namespace onecopy::engine {

// Engine thread.
class Removal {
 public:
  struct Needs {
    const Owners& owners;
    Buffers& buffers;
    const Grants& grants;
    Mappings& mappings;
    Rings& rings;
    Openings& openings;
    MemoryExporter& exporter;
  };

  explicit Removal(const Needs& needs) : needs_(needs) {}

  // The buffer of this node, if `who` owns it. PERMISSION_DENIED (NOT_OWNER) otherwise.
  Result<Buffer*> FindOwn(const Principal& who, const std::string& name) const;

  // As Buffers::Remove; answers when nothing that another daemon or a ring has of it is open, and
  // its clients have unmapped it, or had the time to.
  void Remove(const Principal& who, const std::string& name, bool force, StatusReply reply);

 private:
  // `done` runs when no other node and no client has any of these open.
  void AwaitLetGo(const std::vector<BufferId>& ids, Task done);
  void AwaitLetGo(BufferId id, Task done);

  const Needs needs_;
};

}  // namespace onecopy::engine
