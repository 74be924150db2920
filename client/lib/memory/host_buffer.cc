#include "onecopy/host_buffer.h"

#include <utility>

#include "client/lib/session/connection.h"

namespace onecopy {

HostBuffer::HostBuffer(std::shared_ptr<client::Connection> connection,
                       std::shared_ptr<client::HostMemory> memory)
    : connection_(std::move(connection)),
      memory_(std::move(memory)),
      data_(memory_->data()),
      as_made_(memory_->info()) {}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept { *this = std::move(other); }

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(as_made_, other.as_made_);
  return *this;
}

HostBuffer::~HostBuffer() { static_cast<void>(Close()); }

BufferInfo HostBuffer::info() const {
  const bool open = connection_ != nullptr && connection_->CheckProcess().ok();
  return open ? memory_->info() : as_made_;
}

Endpoint HostBuffer::endpoint(uint64_t offset_bytes, std::optional<uint64_t> bytes) const {
  // By id, so that a buffer of another client can never be meant, and with the node's name, so that
  // the endpoint means the same anywhere.
  BufferInfo now = info();
  return {std::move(now.node), std::move(now.id), offset_bytes, bytes};
}

Status HostBuffer::Close() {
  if (connection_ == nullptr) return OkStatus();
  const std::shared_ptr<client::Connection> connection = std::move(connection_);
  return client::EndRegistration(*connection, *memory_, &as_made_);
}

}  // namespace onecopy
