#include "daemon/attach/ring_messages.h"

namespace onecopy::attach {
namespace {

void ToWire(const engine::Endpoint& end, v1::Endpoint* wire) {
  wire->set_node(end.node);
  wire->set_buffer(end.buffer);
  if (end.offset) wire->set_offset_bytes(*end.offset);
  if (end.bytes) wire->set_bytes(*end.bytes);
}

}  // namespace

engine::Endpoint FromWire(const v1::Endpoint& wire) {
  engine::Endpoint end{wire.node(), wire.buffer(), {}, {}};
  if (wire.has_offset_bytes()) end.offset = wire.offset_bytes();
  if (wire.has_bytes()) end.bytes = wire.bytes();
  return end;
}

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
  ToWire(route.source, wire.mutable_source());
  ToWire(route.destination, wire.mutable_destination());
  const plan::Path& path = route.plan.path;
  wire.mutable_plan()->set_path(path.name);
  wire.mutable_plan()->set_copies(path.copies());
  wire.mutable_plan()->set_estimated_bytes_per_second(path.estimated_bytes_per_second);
  wire.mutable_plan()->set_measured(path.measured);
  for (const Step& step : path.steps) {
    v1::Step& one = *wire.mutable_plan()->add_steps();
    one.set_node(step.node);
    one.set_from(step.from);
    one.set_to(step.to);
    one.set_by(step.by);
    one.set_loopback(step.loopback);
    one.set_emulated(step.emulated);
  }
  return reply;
}

}  // namespace onecopy::attach
