// What a user, of this node or another one, may see of this node's buffers.
#pragma once

#include <string>
#include <utility>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/engine/staging/checksum.h"

namespace onecopy::engine {

// Engine thread.
class Inventory {
 public:
  Inventory(std::string self, const Owners& owners, const Sessions& sessions, Buffers& buffers,
            Grants& grants, Checksums& checksums)
      : self_(std::move(self)),
        owners_(owners),
        sessions_(sessions),
        buffers_(buffers),
        grants_(grants),
        checksums_(checksums) {}

  // The buffers that `who` owns or has a grant on, by name; all for an administrator.
  Result<Page<BufferInfo>> BuffersSeenBy(const Principal& who, const PageRequest& page) const;
  // The grants on what `who` owns, and those to `who`.
  Result<Page<GrantInfo>> GrantsOf(const Principal& who, const PageRequest& page) const;
  // Sums a range of a buffer, or its blocks, if `who` may read it. INVALID_ARGUMENT (BAD_ARGUMENT)
  // for more than kMaxSummedBlocks.
  void SumOf(const Principal& who, const SumRequest& request, Reply<BufferSum> reply);

 private:
  const std::string self_;
  const Owners& owners_;
  const Sessions& sessions_;
  Buffers& buffers_;
  Grants& grants_;
  Checksums& checksums_;
};

}  // namespace onecopy::engine
