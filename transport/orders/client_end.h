// The client's end of its daemon's orders.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "onecopy/result.h"
#include "transport/orders/layout.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::orders {

// Any thread. A forked child has none of it: the memory is not mapped there.
class ClientEnd {
 public:
  // UNIMPLEMENTED (NOT_SERVED) for what is laid out otherwise.
  static Result<std::unique_ptr<ClientEnd>> Open(const os::UniqueFd& memory, os::UniqueFd socket);

  // The next order; nothing where there is none. Each is taken once.
  std::optional<Order> Take();
  bool HasMore() const;
  // Whether it was given up, and is not to be begun.
  bool IsVoid(const Order& order) const;
  void Answer(const Order& order, Outcome outcome);

  // Sleeps until an order, an end or `stop`; may return early.
  void Sleep(const std::atomic<bool>& stop, std::chrono::nanoseconds limit);
  // Wakes all who sleep, after `stop` has been set.
  void WakeAll();
  // There will be no more.
  bool ended() const { return shared().ended.load(std::memory_order_acquire) != 0; }

 private:
  ClientEnd(os::Mapping mapping, os::UniqueFd socket)
      : mapping_(std::move(mapping)), socket_(std::move(socket)) {}
  Shared& shared() const { return *reinterpret_cast<Shared*>(mapping_.data()); }

  const os::Mapping mapping_;
  const os::UniqueFd socket_;
  std::atomic<uint64_t> taken_{0};
};

}  // namespace onecopy::orders
