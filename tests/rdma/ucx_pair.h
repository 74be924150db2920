// Two ends of a link over UCX's RDMA transports, on the guest's devices.
#pragma once

#include <memory>
#include <string>

#include "tests/support/link_pair.h"

namespace onecopy::testing {

// `owner` and `reader` are entries of [rdma] devices.
Result<std::unique_ptr<LinkPair>> MakeUcxPair(const std::string& owner, const std::string& reader);

}  // namespace onecopy::testing
