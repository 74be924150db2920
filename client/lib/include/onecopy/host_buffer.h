// Host memory that this process and the daemon both map.
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
}  // namespace client

// Move-only ownership of a mapping and of its registration, made by Client::CreateHostBuffer. Keeps
// the client's connection alive. The bytes may be read and written by any thread at any time; what
// a running transfer sees of concurrent writes is undefined.
class HostBuffer {
 public:
  HostBuffer(HostBuffer&&) noexcept = default;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  // As Close; a failure means that the daemon has gone, and the registration with it.
  ~HostBuffer();

  std::byte* data() const { return memory_.get(); }
  uint64_t bytes() const { return memory_ == nullptr ? 0 : info_.bytes; }
  const BufferInfo& info() const { return info_; }

  // A range of it, for a transfer; absent `bytes`: up to its end.
  Endpoint endpoint(uint64_t offset_bytes = 0, std::optional<uint64_t> bytes = {}) const;

  // Blocks: cancels the transfers that use it, waits until they have let go, and ends the
  // registration. The mapping stays until the destructor.
  Status Close();

 private:
  friend class Client;
  HostBuffer(std::shared_ptr<client::Connection> connection, std::shared_ptr<std::byte> memory,
             BufferInfo info);

  std::shared_ptr<client::Connection> connection_;  // null once closed
  std::shared_ptr<std::byte> memory_;
  BufferInfo info_;
};

}  // namespace onecopy
