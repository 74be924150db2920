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
class HostMemory;
}  // namespace client

// When the memory gets its pages.
enum class HostPages { kNow, kWhenTouched };

// Move-only ownership of a mapping and of its registration, made by Client::CreateHostBuffer. Keeps
// the client's connection alive. The bytes may be read and written by any thread at any time; what
// a running transfer sees of concurrent writes is undefined.
class HostBuffer {
 public:
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  // As Close; a failure means that the daemon has gone, and the registration with it.
  ~HostBuffer();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return data_ == nullptr ? 0 : as_made_.bytes; }
  // As the present session knows it: after a restart of the daemon the id is another one, from the
  // client's next call on.
  BufferInfo info() const;

  // A range of it, for a transfer; absent `bytes`: up to its end.
  Endpoint endpoint(uint64_t offset_bytes = 0, std::optional<uint64_t> bytes = {}) const;

  // Blocks: cancels the transfers that use it, waits until they have ended, and ends the
  // registration. The mapping stays until the destructor. FAILED_PRECONDITION (FORKED) in a child
  // of the process that made it, which keeps the bytes and leaves the registration to its parent.
  Status Close();

 private:
  friend class Client;
  HostBuffer(std::shared_ptr<client::Connection> connection,
             std::shared_ptr<client::HostMemory> memory);

  std::shared_ptr<client::Connection> connection_;  // null once closed
  std::shared_ptr<client::HostMemory> memory_;
  std::byte* data_ = nullptr;
  BufferInfo as_made_;  // and as it was when it was closed
};

}  // namespace onecopy
