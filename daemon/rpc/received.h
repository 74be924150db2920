// Requests as they have arrived, and the methods of a service that take them so.
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

#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "proto/codec/protocol.h"

namespace onecopy::rpc {

// A longer request is read when its payer has its turn, as reading takes time by the length. As
// long as what attach.sock takes.
inline constexpr uint64_t kReadAtOnceBytes = kMaxAttachBytes;

// A request whose message has been read already where it is short. One thread at a time.
template <typename Request>
class Received {
 public:
  // The bytes themselves are shared with `message`.
  explicit Received(const grpc::ByteBuffer& message)
      : message_(message), bytes_(message_.Length()) {
    if (!IsLong()) ReadNow();
  }

  bool IsLong() const { return bytes_ > kReadAtOnceBytes; }
  uint64_t bytes() const { return bytes_; }  // of the message
  // Its fields; none of them where it is long and not read yet, or is no such message.
  const Request& fields() const { return request_; }

  // INVALID_ARGUMENT where it is no such message.
  Result<const Request*> Read() {
    if (!valid_) ReadNow();
    if (*valid_) return &request_;
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "the request of " + std::to_string(bytes_) + " bytes is not a " +
                      std::string(Request::descriptor()->full_name()));
  }
  // The same, of methods that take short requests only.
  Result<const Request*> ReadShort() {
    if (!IsLong()) return Read();
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "a " + std::string(Request::descriptor()->full_name()) + " of " +
                      std::to_string(bytes_) + " bytes is too long",
                  "send at most " + std::to_string(kReadAtOnceBytes) + " bytes");
  }

 private:
  void ReadNow() {
    grpc::ProtoBufferReader reader(&message_);
    valid_ =
        reader.status().ok() && request_.ParseFromZeroCopyStream(&reader) && reader.status().ok();
    if (!*valid_) request_.Clear();
    message_.Clear();
  }

  grpc::ByteBuffer message_;
  uint64_t bytes_;
  std::optional<bool> valid_;  // once it has been read
  Request request_;
};

// A service of gRPC whose requests come unread, to be asked for by their method's number.
template <typename Service>
class Unread : public Service::AsyncService {
 public:
  static constexpr const char* full_name() { return Service::service_full_name(); }
  using grpc::Service::RequestAsyncServerStreaming;
  using grpc::Service::RequestAsyncUnary;
};

// The number that gRPC knows a service's method by, which is told by its request and by whether it
// answers with a stream.
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
