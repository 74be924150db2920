// Mappings that may fault when they are touched: a client's memory, in which a page may be missing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace onecopy::os {

// Set once an access to the bytes has failed; they are then not what they were.
using FaultFlag = std::shared_ptr<std::atomic<bool>>;

// While it lives, SIGBUS at an address of [data, data + bytes) does not end the process: all of the
// mapping is replaced by private zeroed memory, the flag is set, and the code that touched it, ours
// or a library's on any thread, goes on with bytes that must not be used. So look at the flag
// after touching them, and before saying that they have arrived anywhere.
//
// `data` and `bytes` are those of a whole mapping (os::Mapping), which must outlive this. A signal
// that is not about a guarded mapping goes to the handler that was there before (bus_signals.h);
// each guard puts ours before those that were installed meanwhile.
class FaultGuard {
 public:
  // Installs the handler now, where it is not yet.
  static void Install();

  FaultGuard() = default;
  FaultGuard(std::byte* data, uint64_t bytes, FaultFlag flag);
  ~FaultGuard();
  FaultGuard(FaultGuard&& other) noexcept;
  FaultGuard& operator=(FaultGuard&& other) noexcept;

 private:
  struct Entry;
  friend struct FaultTable;
  Entry* entry_ = nullptr;
  FaultFlag flag_;
};

}  // namespace onecopy::os
