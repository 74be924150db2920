#include "onecopy/host_buffer.h"

#include <utility>

#include "client/lib/connection.h"

namespace onecopy {

HostBuffer::HostBuffer(std::shared_ptr<client::Connection> connection,
                       std::shared_ptr<std::byte> memory, BufferInfo info)
    : connection_(std::move(connection)), memory_(std::move(memory)), info_(std::move(info)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(memory_, other.memory_);
  std::swap(info_, other.info_);
  return *this;
}

HostBuffer::~HostBuffer() { static_cast<void>(Close()); }

Endpoint HostBuffer::endpoint(uint64_t offset_bytes, std::optional<uint64_t> bytes) const {
  // By id, so that a buffer of another client can never be meant, and with the node's name, so that
  // the endpoint means the same anywhere.
  return {info_.node, info_.id, offset_bytes, bytes};
}

Status HostBuffer::Close() {
  if (connection_ == nullptr) return OkStatus();
  v1::DeleteBufferRequest request;
  request.set_name(info_.id);
  request.set_force(true);
  const std::shared_ptr<client::Connection> connection = std::move(connection_);
  return connection
      ->Call(connection->buffers(), &v1::BufferService::Stub::DeleteBuffer, request,
             client::Patience::kUnlimited)
      .status();
}

}  // namespace onecopy
