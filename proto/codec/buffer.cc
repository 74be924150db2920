#include "proto/codec/codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::codec {

Result<BufferInfo> Parse(const v1::Buffer& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.id(), at / "id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory(), at / "memory"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.owner(), at / "owner"));
  BufferInfo value;
  value.node = in.node();
  value.name = in.name();
  value.id = in.id();
  value.memory = in.memory();
  value.device = in.device();
  value.bytes = in.bytes();
  value.owner = in.owner();
  value.registered = in.registered();
  ONECOPY_ASSIGN_OR_RETURN(value.create_time, Parse(in.create_time(), at / "create_time"));
  value.transfers = in.transfers();
  value.keep_arrivals = in.keep_arrivals();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.form(), at / "form"));
  value.form = in.form();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.view_of(), at / "view_of"));
  value.view_of = in.view_of();
  value.offset_bytes = in.offset_bytes();
  if (in.has_array()) {
    ONECOPY_ASSIGN_OR_RETURN(value.array, Parse(in.array(), at / "array"));
  }
  return value;
}

void Print(const BufferInfo& value, v1::Buffer* out) {
  out->set_node(value.node);
  out->set_name(value.name);
  out->set_id(value.id);
  out->set_memory(value.memory);
  out->set_device(ToUtf8(value.device));
  out->set_bytes(value.bytes);
  out->set_owner(value.owner);
  out->set_registered(value.registered);
  Print(value.create_time, out->mutable_create_time());
  out->set_transfers(value.transfers);
  out->set_keep_arrivals(value.keep_arrivals);
  out->set_form(ToUtf8(value.form));
  out->set_view_of(value.view_of);
  out->set_offset_bytes(value.offset_bytes);
  if (value.array) Print(*value.array, out->mutable_array());
}

Result<ArrayShape> Parse(const v1::Array& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.dtype(), at / "dtype", kMaxDtypeBytes));
  ONECOPY_RETURN_IF_ERROR(CheckCount(static_cast<size_t>(in.shape().size()), at / "shape"));
  ONECOPY_RETURN_IF_ERROR(
      CheckCount(static_cast<size_t>(in.stride_bytes().size()), at / "stride_bytes"));
  ArrayShape value;
  value.dtype = in.dtype();
  value.item_bytes = in.item_bytes();
  value.shape.assign(in.shape().begin(), in.shape().end());
  value.strides.assign(in.stride_bytes().begin(), in.stride_bytes().end());
  if (value.strides.empty()) value.strides = CompactStrides(value);
  return value;
}

void Print(const ArrayShape& value, v1::Array* out) {
  out->set_dtype(value.dtype);
  out->set_item_bytes(value.item_bytes);
  out->mutable_shape()->Assign(value.shape.begin(), value.shape.end());
  out->mutable_stride_bytes()->Assign(value.strides.begin(), value.strides.end());
}

Result<ViewRequest> Parse(const v1::ViewRequest& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  if (at.strict() && !in.has_range()) return BadField(at / "range", "is missing");
  ViewRequest value;
  value.name = in.name();
  ONECOPY_ASSIGN_OR_RETURN(value.range, Parse(in.range(), at / "range"));
  if (in.has_array()) {
    ONECOPY_ASSIGN_OR_RETURN(value.array, Parse(in.array(), at / "array"));
  }
  if (at.strict() && value.array && value.range.bytes) {
    return BadField(at / "range", "must not have a length, because the array has its own");
  }
  value.keep_arrivals = in.keep_arrivals();
  return value;
}

void Print(const ViewRequest& value, v1::ViewRequest* out) {
  out->set_name(value.name);
  Print(value.range, out->mutable_range());
  if (value.array) Print(*value.array, out->mutable_array());
  out->set_keep_arrivals(value.keep_arrivals);
}

Result<CreateBufferRequest> Parse(const v1::CreateBufferRequest& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", kMaxRequestId));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory(), at / "memory"));
  CreateBufferRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.node, ParseName(in.node(), at / "node"));
  value.name = in.name();
  value.bytes = in.bytes();
  value.memory = in.memory();
  value.request_id = in.request_id();
  value.validate_only = in.validate_only();
  value.keep_arrivals = in.keep_arrivals();
  return value;
}

void Print(const CreateBufferRequest& value, v1::CreateBufferRequest* out) {
  out->set_request_id(value.request_id);
  out->set_name(value.name);
  out->set_bytes(value.bytes);
  out->set_memory(value.memory);
  out->set_validate_only(value.validate_only);
  out->set_keep_arrivals(value.keep_arrivals);
  out->set_node(value.node);
}

Result<BufferSum> Parse(const v1::SumBufferResponse& in, const Field& at) {
  ONECOPY_ASSIGN_OR_RETURN(ChecksumResult checksum, Parse(in.checksum(), at / "checksum"));
  if (static_cast<uint64_t>(in.block_values_size()) > kMaxSummedBlocks) {
    return BadField(at / "block_values", "has more than " + std::to_string(kMaxSummedBlocks));
  }
  for (const std::string& value : in.block_values()) {
    ONECOPY_RETURN_IF_ERROR(CheckText(value, at / "block_values"));
  }
  ONECOPY_RETURN_IF_ERROR(CheckText(in.tree(), at / "tree"));
  return BufferSum{std::move(checksum.algorithm),
                   std::move(checksum.value),
                   in.bytes(),
                   {in.block_values().begin(), in.block_values().end()},
                   in.tree()};
}

void Print(const BufferSum& value, v1::SumBufferResponse* out) {
  out->mutable_checksum()->set_algorithm(ToUtf8(value.algorithm));
  out->mutable_checksum()->set_value(ToUtf8(value.value));
  out->set_bytes(value.bytes);
  for (const std::string& block : value.blocks) out->add_block_values(ToUtf8(block));
  out->set_tree(ToUtf8(value.tree));
}

Result<GrantInfo> Parse(const v1::Grant& in, const Field& at) {
  for (const auto& [text, name] :
       {std::pair(&in.id(), "id"), std::pair(&in.buffer(), "buffer"), std::pair(&in.to(), "to"),
        std::pair(&in.owner(), "owner"), std::pair(&in.node(), "node")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  GrantInfo value;
  value.id = GrantId(in.id());
  value.buffer = in.buffer();
  value.range = {in.offset_bytes(), in.bytes()};
  value.to = in.to();
  value.read = in.read();
  value.write = in.write();
  if (in.has_expire_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.expire_time, Parse(in.expire_time(), at / "expire_time"));
  }
  value.owner = in.owner();
  value.node = in.node();
  return value;
}

void Print(const GrantInfo& value, v1::Grant* out) {
  out->set_id(value.id.str());
  out->set_buffer(value.buffer);
  out->set_offset_bytes(value.range.offset);
  out->set_bytes(value.range.bytes);
  out->set_to(value.to);
  out->set_read(value.read);
  out->set_write(value.write);
  if (value.expire_time) Print(*value.expire_time, out->mutable_expire_time());
  out->set_owner(value.owner);
  out->set_node(value.node);
}

Result<CreateGrantRequest> Parse(const v1::CreateGrantRequest& in, const Field& at) {
  if (at.strict() && !in.has_range()) return BadField(at / "range", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(in.to(), at / "to"));
  CreateGrantRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.range, Parse(in.range(), at / "range"));
  value.to = in.to();
  value.read = in.read();
  value.write = in.write();
  ONECOPY_ASSIGN_OR_RETURN(value.lifetime,
                           ParseLimit(in.has_lifetime(), in.lifetime(), at / "lifetime"));
  return value;
}

void Print(const CreateGrantRequest& value, v1::CreateGrantRequest* out) {
  Print(value.range, out->mutable_range());
  out->set_to(value.to);
  out->set_read(value.read);
  out->set_write(value.write);
  if (value.lifetime) Print(*value.lifetime, out->mutable_lifetime());
}

}  // namespace onecopy::codec
