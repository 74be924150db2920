// Memory of this process that the daemon maps, too, with Python's buffer protocol.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "onecopy/host_buffer.h"

namespace onecopy::python {

// Needs the GIL. The bytes stay until the last view of them is gone, also after Close.
class Memory {
 public:
  explicit Memory(HostBuffer buffer) : buffer_(std::move(buffer)), bytes_(buffer_.bytes()) {}
  ~Memory();

  uint64_t address() const { return reinterpret_cast<uintptr_t>(buffer_.data()); }
  uint64_t bytes() const { return bytes_; }
  std::string id() const { return info().id; }  // of the buffer, as it is now
  std::string Document() const;                 // of the buffer, as `onecopy --json` prints it
  void Close();

 private:
  // Without the GIL another thread closes it.
  BufferInfo info() const { return as_was_ ? *as_was_ : buffer_.info(); }

  HostBuffer buffer_;
  std::optional<BufferInfo> as_was_;  // once it is being closed
  std::mutex closing_;                // taken without the GIL
  const uint64_t bytes_;
  const pid_t process_ = ::getpid();
};

// The slots of its type that give out views.
PyType_Slot* MemorySlots();

// From memory that may be anybody's, as a mapped file is that is cut short: ABORTED (MEMORY_FAULT).
// Both have as many bytes.
void CopyBytes(const nanobind::object& target, const nanobind::object& source);

}  // namespace onecopy::python
