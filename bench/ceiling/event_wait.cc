#include "bench/ceiling/event_wait.h"

#include "transport/core/reasons.h"

namespace onecopy::bench {

Status Stalled(const std::string& engine) {
  return {Code::kDeadlineExceeded, reasons::kStalled,
          engine + ": nothing moved for " + std::to_string(kStalledSeconds) + " s"};
}

Result<Epoll> Epoll::Create() {
  os::UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return os::ErrnoStatus(errno, "making an epoll instance");
  return Epoll(std::move(fd));
}

Status Epoll::Control(int operation, int fd, uint32_t events, unsigned tag) {
  epoll_event event = {.events = events, .data = {.u32 = tag}};
  if (::epoll_ctl(fd_.get(), operation, fd, &event) == 0) return OkStatus();
  return os::ErrnoStatus(errno, "watching a socket by epoll");
}

}  // namespace onecopy::bench
