// What attach.sock says about mappings.
#pragma once

#include "daemon/engine/api/mapping_api.h"
#include "onecopy/v1/attach.pb.h"

namespace onecopy::attach {

// The descriptors that belong to it are the lease, and then the memory's.
v1::AttachReply MappedReply(const engine::MappingGiven& given);

}  // namespace onecopy::attach
