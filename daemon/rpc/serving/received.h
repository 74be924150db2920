// Requests before they are decoded, and gRPC services that deliver them so.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "daemon/rpc/serving/decoded_bytes.h"
#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "proto/codec/protocol.h"

namespace onecopy::rpc {

// A request of up to so many bytes is decoded as soon as it arrives, a longer one when its payer
// has its turn. The limit is that of attach.sock's packets.
inline constexpr uint64_t kReadAtOnceBytes = kMaxAttachBytes;

// A request, as the bytes that arrived. A short one is decoded by the constructor, a long one by
// Read. One thread at a time.
template <typename Request>
class Received {
 public:
  // Shares the bytes with `message`; does not copy them.
  explicit Received(const grpc::ByteBuffer& message)
      : message_(message), bytes_(message_.Length()) {
    if (!IsLong()) ReadNow();
  }

  bool IsLong() const { return bytes_ > kReadAtOnceBytes; }
  uint64_t bytes() const { return bytes_; }            // of the message
  uint64_t decoded_bytes() const { return decoded_; }  // at most; 0 before it is decoded
  // The decoded request. All fields are empty if it has not been decoded yet, or cannot be.
  const Request& fields() const { return request_; }

  // Decodes a long request. INVALID_ARGUMENT as DecodedBytes.
  Result<const Request*> Read() {
    if (!outcome_) ReadNow();
    if (!outcome_->ok()) return *outcome_;
    return &request_;
  }
  // As Read, for methods that accept only short requests; INVALID_ARGUMENT for a long one.
  Result<const Request*> ReadShort() {
    if (!IsLong()) return Read();
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "a " + std::string(Request::descriptor()->full_name()) + " of " +
                      std::to_string(bytes_) + " bytes is too long",
                  "send at most " + std::to_string(kReadAtOnceBytes) + " bytes");
  }

 private:
  void ReadNow() {
    outcome_ = Decode();
    if (!outcome_->ok()) request_.Clear();
    message_.Clear();
  }
  Status Decode() {
    ONECOPY_ASSIGN_OR_RETURN(decoded_, DecodedBytes(message_, *Request::descriptor()));
    grpc::ProtoBufferReader reader(&message_);
    if (request_.ParseFromZeroCopyStream(&reader) && reader.status().ok()) return OkStatus();
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the request of " + std::to_string(bytes_) + " bytes is not a valid " +
                std::string(Request::descriptor()->full_name())};
  }

  grpc::ByteBuffer message_;
  uint64_t bytes_;
  uint64_t decoded_ = 0;
  std::optional<Status> outcome_;  // of decoding
  Request request_;
};

// A gRPC service that delivers its requests as bytes. Methods are chosen by number, see
// MethodNumber.
template <typename Service>
class Unread : public Service::AsyncService {
 public:
  static constexpr const char* full_name() { return Service::service_full_name(); }
  using grpc::Service::RequestAsyncServerStreaming;
  using grpc::Service::RequestAsyncUnary;
};

// The index of a method within its service. A service has one method for each pair of request type
// and `streams` (whether it answers with a stream). Throws std::logic_error if it has none.
template <typename Service, typename Request>
int MethodNumber(bool streams) {
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(Service::full_name());
  for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
    const auto* method = service->method(i);
    if (method->input_type() == Request::descriptor() && method->server_streaming() == streams) {
      return i;
    }
  }
  throw std::logic_error(std::string(Service::full_name()) + " has no method for a " +
                         std::string(Request::descriptor()->full_name()));
}

}  // namespace onecopy::rpc
