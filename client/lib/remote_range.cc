#include "client/lib/remote_range.h"

#include <algorithm>
#include <utility>

#include "transport/core/range.h"

namespace onecopy::client {

Result<RemoteRange> FindRange(Client& client, const Endpoint& endpoint) {
  RemoteRange range;
  ONECOPY_ASSIGN_OR_RETURN(range.buffer, client.GetBuffer(endpoint.node, endpoint.buffer));
  range.offset = endpoint.offset_bytes.value_or(0);
  range.bytes =
      endpoint.bytes.value_or(range.buffer.bytes - std::min(range.buffer.bytes, range.offset));
  ONECOPY_RETURN_IF_ERROR(CheckWithin({range.offset, range.bytes}, range.buffer.bytes,
                                      "buffer " + range.buffer.node + ":" + range.buffer.name));
  return range;
}

}  // namespace onecopy::client
