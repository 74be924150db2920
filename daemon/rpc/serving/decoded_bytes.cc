#include "daemon/rpc/serving/decoded_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <string>

#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// Objects of protobuf, at least as large as they are.
constexpr uint64_t kMessageBytes = 256;
constexpr uint64_t kTextBytes = 64;
constexpr uint64_t kUnknownBytes = 64;
constexpr uint64_t kNumberBytes = 8;
constexpr int kMostDepth = 100;  // protobuf's own limit

class Counter {
 public:
  Counter(google::protobuf::io::ZeroCopyInputStream* bytes, uint64_t most)
      : in_(bytes), most_(most) {}

  // False if the bytes are no message, or take too much.
  bool Message(const Descriptor* type, int depth) {
    if (depth > kMostDepth || !Add(kMessageBytes)) return false;
    while (const uint32_t tag = in_.ReadTag()) {
      const FieldDescriptor* field =
          type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!Field(field, WireFormatLite::GetTagWireType(tag), depth)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  bool too_much() const { return bytes_ > most_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool Add(uint64_t bytes) {
    bytes_ += bytes;
    return bytes_ <= most_;
  }

  bool Field(const FieldDescriptor* field, WireFormatLite::WireType wire, int depth) {
    uint64_t number = 0;
    uint32_t length = 0;
    switch (wire) {
      case WireFormatLite::WIRETYPE_VARINT:
        return in_.ReadVarint64(&number) && Add(field == nullptr ? kUnknownBytes : kNumberBytes);
      case WireFormatLite::WIRETYPE_FIXED64:
        return in_.Skip(8) && Add(field == nullptr ? kUnknownBytes : kNumberBytes);
      case WireFormatLite::WIRETYPE_FIXED32:
        return in_.Skip(4) && Add(field == nullptr ? kUnknownBytes : kNumberBytes);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return in_.ReadVarint32(&length) && Delimited(field, length, depth);
      default:
        return false;  // groups, which proto3 does not have
    }
  }

  bool Delimited(const FieldDescriptor* field, uint32_t length, int depth) {
    if (length > INT32_MAX) return false;
    const int bytes = static_cast<int>(length);
    if (field == nullptr) return Add(kUnknownBytes + length) && in_.Skip(bytes);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return Add(kTextBytes + length) && in_.Skip(bytes);
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return Packed(bytes);
    const auto limit = in_.PushLimit(bytes);
    if (in_.BytesUntilLimit() < bytes) return false;  // longer than what surrounds it
    if (!Message(field->message_type(), depth + 1)) return false;
    in_.PopLimit(limit);
    return true;
  }

  // Varints end at a byte below 0x80. Of fixed numbers this counts at most a few times too many.
  bool Packed(int length) {
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_.GetDirectBufferPointer(&data, &size)) return false;
      size = std::min(size, length);
      const auto* bytes = static_cast<const uint8_t*>(data);
      const auto numbers = std::count_if(bytes, bytes + size, [](uint8_t b) { return b < 0x80; });
      if (!Add(static_cast<uint64_t>(numbers) * kNumberBytes) || !in_.Skip(size)) return false;
      length -= size;
    }
    return true;
  }

  google::protobuf::io::CodedInputStream in_;
  const uint64_t most_;
  uint64_t bytes_ = 0;
};

}  // namespace

Result<uint64_t> DecodedBytes(grpc::ByteBuffer message, const Descriptor& type, uint64_t most) {
  const std::string what =
      "the request of " + std::to_string(message.Length()) + " bytes, a " + type.full_name() + ",";
  grpc::ProtoBufferReader reader(&message);
  if (reader.status().ok()) {
    Counter counter(&reader, most);
    if (counter.Message(&type, 0) && reader.status().ok()) return counter.bytes();
    if (counter.too_much()) {
      return Status(Code::kInvalidArgument, reasons::kBadSize,
                    what + " has so many entries that it would take more than " +
                        std::to_string(most) + " bytes once decoded",
                    "split the request");
    }
  }
  return Status(Code::kInvalidArgument, reasons::kBadArgument, what + " cannot be decoded");
}

}  // namespace onecopy::rpc
