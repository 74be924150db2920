// The memory of a buffer, be it the daemon's or another process's, with Python's buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "onecopy/mapped_buffer.h"

namespace onecopy::python {

// Needs the GIL. Every view of the bytes keeps this object, which alone unmaps them: at its end.
class Mapped {
 public:
  explicit Mapped(MappedBuffer buffer) : buffer_(std::move(buffer)) {}
  ~Mapped();
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  uint64_t address() const { return reinterpret_cast<uintptr_t>(buffer_.data()); }
  uint64_t bytes() const { return buffer_.bytes(); }
  // From its first byte to its last one: more than its bytes, of an array with gaps.
  uint64_t span_bytes() const {
    return buffer_.info().array ? ExtentOf(*buffer_.info().array) : buffer_.bytes();
  }
  std::optional<int> cuda_device() const { return buffer_.cuda_device(); }
  int revocation_fd() const { return buffer_.revocation_fd(); }
  std::string Document() const;  // of the buffer, as `onecopy --json` prints it
  bool IsValid() const { return buffer_.CheckValid().ok(); }
  void CheckValid() const;

 private:
  MappedBuffer buffer_;
};

// The slots of its type that give out views of host memory.
PyType_Slot* MappedSlots();

}  // namespace onecopy::python
