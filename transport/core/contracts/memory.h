// A kind of memory: how its bytes are allocated, shared by clients, and copied inside the node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "transport/core/contracts/client_slab.h"
#include "transport/core/contracts/copier.h"
#include "transport/core/contracts/import_request.h"
#include "transport/core/contracts/region.h"

namespace onecopy {

// Threads: Describe and FindDevice are safe on any thread and do not block. Allocate, Import and
// CloseDevice may block and are safe on any thread. For copies see Copier.
class Memory : public Copier {
 public:
  virtual const std::string& kind() const = 0;

  // One entry per device, in order; never empty.
  virtual std::vector<MemoryCapability> Describe() const = 0;

  // The device that a person means by `typed` ("cuda:0", a PCI address, a UUID; "host" for host
  // memory), as its UUID (empty for host memory). NOT_FOUND, or the reason why this kind is not
  // viable.
  virtual Result<std::string> FindDevice(const std::string& typed) const = 0;

  // New memory, zeroed. RESOURCE_EXHAUSTED when there is not enough.
  virtual Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) = 0;

  // New memory of this process alone, which is never shared, to move bytes through for a long time:
  // near that NUMA node where the kernel places pages (-1: anywhere), and locked where this process
  // may. RESOURCE_EXHAUSTED.
  virtual Result<std::unique_ptr<Region>> AllocateForStaging(const std::string& device,
                                                             uint64_t bytes,
                                                             int32_t /*numa_node*/) {
    return Allocate(device, bytes);
  }

  // A client's memory. INVALID_ARGUMENT (BAD_HANDLE) for what is not what the request says it is.
  virtual Result<std::unique_ptr<Region>> Import(const ImportRequest& request) = 0;

  // Maps memory again that Allocate made in a previous process of this daemon. `kept` is what
  // Region::Share returned there. NOT_APPLICABLE if this kind of memory ends with its process;
  // INVALID_ARGUMENT (BAD_HANDLE) if `kept` is not such memory.
  virtual Result<std::unique_ptr<Region>> Restore(const ImportRequest& /*kept*/) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  kind() + " memory ends with the daemon's process");
  }

  // Whether Import neither blocks nor asks a driver: no thread has to wait for it.
  virtual bool imports_at_once() const { return false; }

  // A slab for a client whose library copies memory of its process by itself, of which Import then
  // makes regions. `share` makes a region one that may be used long. May block. NOT_APPLICABLE for
  // a memory that needs none; RESOURCE_EXHAUSTED.
  virtual Result<std::shared_ptr<ClientSlab>> OpenSlab(const ShareRegion& /*share*/) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  kind() + " memory needs no slab");
  }

  // Has the device compute the checksum (xxh3-128) of each leaf of kLeafBytes from `offset` on, as
  // many as `sums` has places. The leaves lie inside `region`, which is of this memory. Blocks.
  // NOT_APPLICABLE if the device cannot do that, or not for leaves that begin at `offset`;
  // RESOURCE_EXHAUSTED if it has no room for it now.
  static constexpr uint64_t kLeafBytes = uint64_t{1} << 20;
  using LeafSum = std::array<std::byte, 16>;
  virtual Status SumLeaves(const Region& /*region*/, uint64_t /*offset*/,
                           std::span<LeafSum> /*sums*/) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            kind() + " memory has no device that sums it"};
  }

  // Gives back what the device holds open (a GPU's context). FAILED_PRECONDITION while a region or
  // a route of the device lives.
  virtual Status CloseDevice(const std::string& device) = 0;
};

}  // namespace onecopy
