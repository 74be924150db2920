#include "daemon/attach/ring_messages.h"

#include "proto/codec/codec.h"

namespace onecopy::attach {
v1::AttachReply RingReply(const engine::RingGiven& given) {
  v1::AttachReply reply;
  reply.mutable_ring()->set_transfer_prefix(given.prefix);
  reply.mutable_ring()->set_spin_nanoseconds(static_cast<uint64_t>(given.spin.count()));
  reply.mutable_ring()->set_owner(given.owner);
  return reply;
}

v1::AttachReply RouteReply(const engine::RingRoute& route) {
  v1::AttachReply reply;
  v1::AttachReply::Route& wire = *reply.mutable_route();
  wire.set_route(route.word);
  codec::Print(route.source, wire.mutable_source());
  codec::Print(route.destination, wire.mutable_destination());
  wire.set_max_bytes(route.max_bytes);
  wire.set_source_bytes(route.source_bytes);
  wire.set_max_list_bytes(route.max_list_bytes);
  wire.set_sums(route.sums);
  for (const Step& step : route.list_steps)
    codec::Print(ExecutedStep{step, 0}, wire.add_list_steps());
  Plan plan = route.plan;
  plan.refused.clear();  // a packet is short, and GetTransfer tells them
  codec::Print(plan, wire.mutable_plan());
  return reply;
}

}  // namespace onecopy::attach
