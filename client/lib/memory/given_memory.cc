#include "client/lib/memory/given_memory.h"

#include <utility>

#include "client/lib/calls/wire.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"

namespace onecopy::client {

Result<GivenMemory> ReadGiven(const v1::AttachReply& reply, std::vector<os::UniqueFd> fds) {
  if (!reply.has_mapped()) {
    return Status(Code::kUnavailable, reasons::kPeerIncompatible,
                  "onecopyd answered with an unknown message",
                  "install the same version of onecopyd and of its clients");
  }
  const v1::AttachReply::Mapped& mapped = reply.mapped();
  GivenMemory given;
  ONECOPY_ASSIGN_OR_RETURN(given.buffer, Read(mapped.buffer()));
  given.form = mapped.form();
  const BufferInfo& buffer = given.buffer;
  given.bytes = buffer.array ? ExtentOf(*buffer.array) : buffer.bytes;
  given.offset = mapped.offset_bytes() + buffer.offset_bytes;
  given.handle = mapped.handle();
  const size_t allocations =
      given.form == "cuda-ipc" ? 0 : 1 + static_cast<size_t>(mapped.more_allocation_bytes_size());
  if (fds.size() != 1 + allocations) {
    return Status(Code::kUnavailable, reasons::kPeerIncompatible,
                  "onecopyd gives " + std::to_string(fds.size()) + " descriptors of buffer \"" +
                      given.buffer.name + "\", and " + std::to_string(1 + allocations) +
                      " are needed",
                  "install the same version of onecopyd and of its clients");
  }
  given.lease = std::move(fds.front());
  for (size_t i = 0; i < allocations; ++i) {
    const uint64_t bytes =
        i == 0 ? mapped.allocation_bytes() : mapped.more_allocation_bytes(static_cast<int>(i) - 1);
    given.allocations.push_back({std::move(fds[1 + i]), bytes});
  }
  return given;
}

}  // namespace onecopy::client
