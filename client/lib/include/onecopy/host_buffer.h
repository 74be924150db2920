// Host memory that both this process and the daemon map.
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "onecopy/buffer.h"
#include "onecopy/transfer.h"

namespace onecopy {

class Client;

namespace client {
class Connection;
class HostMemory;
}  // namespace client

// When the kernel allocates the pages of the memory.
enum class HostPages { kNow, kWhenTouched };

// Owns a mapping and its registration; made by Client::CreateHostBuffer. Move-only. Keeps the
// client's connection alive. Any thread may read and write the bytes at any time; what a running
// transfer sees of concurrent writes is undefined.
class HostBuffer {
 public:
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  // Like Close. If that fails, the daemon has ended, and the registration with it.
  ~HostBuffer();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return data_ == nullptr ? 0 : as_made_.bytes; }
  // The buffer in the present session. After a restart of the daemon, it has another id from the
  // client's next call on.
  BufferInfo info() const;

  // A range of the buffer, for a transfer. Without `bytes`, it goes to the buffer's end.
  Endpoint endpoint(uint64_t offset_bytes = 0, std::optional<uint64_t> bytes = {}) const;

  // Cancels the transfers that use the buffer, waits until they have ended, and ends the
  // registration. The mapping stays until the destructor. In a forked child of the process that
  // made it: FAILED_PRECONDITION (FORKED); the child keeps the bytes, and the parent the
  // registration.
  Status Close();

 private:
  friend class Client;
  HostBuffer(std::shared_ptr<client::Connection> connection,
             std::shared_ptr<client::HostMemory> memory);

  std::shared_ptr<client::Connection> connection_;  // null once closed
  std::shared_ptr<client::HostMemory> memory_;
  std::byte* data_ = nullptr;
  BufferInfo as_made_;  // and, once closed, as it was then
};

}  // namespace onecopy
