// What attach.sock says about rings, in the engine's terms and on the wire.
#pragma once

#include "daemon/engine/api/ring_api.h"
#include "onecopy/v1/attach.pb.h"

namespace onecopy::attach {

engine::Endpoint FromWire(const v1::Endpoint& wire);
v1::AttachReply RingReply(const engine::RingGiven& given);
v1::AttachReply RouteReply(const engine::RingRoute& route);

}  // namespace onecopy::attach
