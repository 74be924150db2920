// A watch of what arrives in buffers, for Python.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "onecopy/arrival_watch.h"

namespace onecopy::python {

// Every method needs the GIL and is without it while it waits. As ArrivalWatch: thread-safe, and
// each arrival is given to one call.
class Watch {
 public:
  // The arrivals as a document, `onecopy --json buffer watch`'s lines as a list, and how many were
  // left out before them.
  using Batch = std::pair<std::string, uint64_t>;

  explicit Watch(ArrivalWatch watch) : watch_(std::move(watch)) {}
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Batch Poll(uint64_t most);
  // Handles signals meanwhile, if this is the main thread.
  Batch Wait(uint64_t most, std::optional<int64_t> limit_ms, const std::stop_source& stop);
  void Close();

 private:
  std::optional<ArrivalWatch> watch_;
};

}  // namespace onecopy::python
