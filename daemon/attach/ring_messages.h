// What attach.sock says about rings.
#pragma once

#include "daemon/engine/api/ring_api.h"
#include "onecopy/v1/attach.pb.h"

namespace onecopy::attach {

v1::AttachReply RingReply(const engine::RingGiven& given);
v1::AttachReply RouteReply(const engine::RingRoute& route);

}  // namespace onecopy::attach
