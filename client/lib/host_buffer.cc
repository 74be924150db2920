#include "onecopy/host_buffer.h"

#include <tuple>
#include <utility>

#include "client/lib/connection.h"

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
  ONECOPY_RETURN_IF_ERROR(connection->CheckProcess());
  // Before the connection may meet a new daemon, with which nothing would end it.
  uint64_t registered_in = 0;
  std::tie(as_made_, registered_in) = memory_->Retire();
  connection->registrations().Remove(as_made_.id);
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection->Current());
  if (session->number() != registered_in) return OkStatus();  // it went with that
  v1::DeleteBufferRequest request;
  request.set_name(as_made_.id);
  request.set_force(true);
  const Status done =
      session->Call(&v1::BufferService::Stub::DeleteBuffer, request, client::Patience::kUnlimited)
          .status();
  return done.ok() ? done : connection->Explain(*session, done);
}

}  // namespace onecopy
