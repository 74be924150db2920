#include "daemon/attach/mapping_messages.h"

#include "proto/codec/codec.h"

namespace onecopy::attach {

v1::AttachReply MappedReply(const engine::MappingGiven& given) {
  v1::AttachReply reply;
  v1::AttachReply::Mapped& wire = *reply.mutable_mapped();
  codec::Print(given.buffer, wire.mutable_buffer());
  wire.set_form(given.memory.form);
  wire.set_device(given.memory.device);
  wire.set_offset_bytes(given.memory.offset);
  wire.set_allocation_bytes(given.memory.allocation_bytes);
  for (const ImportRequest::Allocation& one : given.memory.more) {
    wire.add_more_allocation_bytes(one.bytes);
  }
  wire.set_handle(given.memory.handle);
  return reply;
}

}  // namespace onecopy::attach
