// How the event engines that are compared wait: equally long, and epoll's way of it.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>

#include "transport/core/result.h"
#include "transport/os/error.h"
#include "transport/os/unique_fd.h"

namespace onecopy::bench {

// Nothing of a sample takes that long, so the other end has failed.
inline constexpr int kStalledSeconds = 10;

Status Stalled(const std::string& engine);

// Level-triggered, as the tcp link's. One thread at a time.
class Epoll {
 public:
  static Result<Epoll> Create();

  Status Add(int fd, uint32_t events, unsigned tag) {
    return Control(EPOLL_CTL_ADD, fd, events, tag);
  }
  Status Change(int fd, uint32_t events, unsigned tag) {
    return Control(EPOLL_CTL_MOD, fd, events, tag);
  }
  Status Remove(int fd) { return Control(EPOLL_CTL_DEL, fd, 0, 0); }

  // Waits for events and hands each over as (tag, events), until one gives an error.
  // DEADLINE_EXCEEDED where none comes.
  template <typename Each>
  Status Wait(const Each& each) {
    std::array<epoll_event, kMostEvents> events;
    int count = 0;
    do {
      count = ::epoll_wait(fd_.get(), events.data(), kMostEvents, kStalledSeconds * 1000);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return os::ErrnoStatus(errno, "waiting for epoll");
    if (count == 0) return Stalled("epoll");
    for (int i = 0; i < count; ++i)
      ONECOPY_RETURN_IF_ERROR(each(events[i].data.u32, events[i].events));
    return OkStatus();
  }

 private:
  static constexpr int kMostEvents = 64;
  explicit Epoll(os::UniqueFd fd) : fd_(std::move(fd)) {}
  Status Control(int operation, int fd, uint32_t events, unsigned tag);

  os::UniqueFd fd_;
};

}  // namespace onecopy::bench
