#include "client/lib/memory/remote_range.h"

#include <algorithm>
#include <utility>

#include "onecopy/range.h"

namespace onecopy::client {

Result<RemoteRange> FindRange(Client& client, const Endpoint& endpoint, const Waiter* waiter) {
  RemoteRange range;
  if (waiter == nullptr) {
    ONECOPY_ASSIGN_OR_RETURN(range.buffer, client.GetBuffer(endpoint.node, endpoint.buffer));
  } else {
    auto found =
        client.GetBuffer(endpoint.node, endpoint.buffer, waiter->stop(), waiter->Remaining());
    if (const Status over = waiter->Check(); !found.ok() && !over.ok()) {
      return Status(over.code(), over.reason(),
                    over.message() + ": while it waited for node " +
                        (endpoint.node.empty() ? client.node() : endpoint.node) +
                        " to describe buffer " + endpoint.buffer,
                    over.remedy());
    }
    if (!found.ok()) return found.status();
    range.buffer = std::move(*found);
  }
  range.offset = endpoint.offset_bytes.value_or(0);
  range.bytes =
      endpoint.bytes.value_or(range.buffer.bytes - std::min(range.buffer.bytes, range.offset));
  ONECOPY_RETURN_IF_ERROR(CheckWithin({range.offset, range.bytes}, range.buffer.bytes,
                                      "buffer " + range.buffer.node + ":" + range.buffer.name));
  return range;
}

}  // namespace onecopy::client
