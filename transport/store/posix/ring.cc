#include "transport/store/posix/ring.h"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::posix {
namespace {

void Prepare(io_uring_sqe* entry, const IoRequest& request, unsigned bytes, int part) {
  if (part >= 0 && request.write) {
    ::io_uring_prep_write_fixed(entry, request.fd, request.at, bytes, request.offset, part);
  } else if (part >= 0) {
    ::io_uring_prep_read_fixed(entry, request.fd, request.at, bytes, request.offset, part);
  } else if (request.write) {
    ::io_uring_prep_write(entry, request.fd, request.at, bytes, request.offset);
  } else {
    ::io_uring_prep_read(entry, request.fd, request.at, bytes, request.offset);
  }
}

}  // namespace

Ring::Ring(os::EventLoop& loop, const io_uring& ring, std::shared_ptr<HeldMemory> held)
    : loop_(loop),
      ring_(ring),
      held_(std::move(held)),
      memory_(std::make_shared<RegisteredMemory>(ring_, *held_, RegisteredMemory::Shape())) {
  held_->Join(loop_, memory_);
}

Result<std::unique_ptr<Ring>> Ring::Make(os::EventLoop& loop, unsigned depth,
                                         std::shared_ptr<HeldMemory> held) {
  io_uring made{};
  if (const int error = -::io_uring_queue_init(depth, &made, 0); error != 0) {
    return Status(
        Code::kFailedPrecondition, reasons::kNotApplicable, "io_uring: " + os::ErrnoText(error),
        "allow io_uring: kernel.io_uring_disabled=0, and a seccomp profile that allows it");
  }
  std::unique_ptr<Ring> ring(new Ring(loop, made, std::move(held)));
  // 5.6 has everything; older ones have a ring that reads nothing.
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring->ring_);
  const bool able = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                    ::io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) ::io_uring_free_probe(probe);
  if (!able) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "io_uring: this kernel's cannot read and write files", "use Linux 5.6 or later");
  }
  ONECOPY_RETURN_IF_ERROR(
      loop.Watch(ring->ring_.ring_fd, EPOLLIN, [raw = ring.get()](uint32_t) { raw->Reap(); }));
  return ring;
}

Ring::~Ring() {
  loop_.Unwatch(ring_.ring_fd);
  held_->Leave(memory_.get());
  memory_ = nullptr;
  ::io_uring_queue_exit(&ring_);
}

bool Ring::KeepWorkersHere() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
         ::io_uring_register_iowq_aff(&ring_, sizeof allowed, &allowed) == 0;
}

void Ring::Submit(IoRequest request) {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) {  // full of what the kernel has not taken; perhaps it does now
    ::io_uring_submit(&ring_);
    entry = ::io_uring_get_sqe(&ring_);
  }
  if (entry == nullptr) return Refuse(std::move(request));
  const auto bytes = static_cast<unsigned>(std::min(request.bytes, kMostAtOnce));
  // What goes through the page cache is copied faster to an address than to pages.
  const int part =
      request.direct ? memory_->Begin(request.region, request.at, bytes) : RegisteredMemory::kNone;
  Prepare(entry, request, bytes, part);
  unsigned flags = !request.direct && bytes >= kOwnThreadFrom ? IOSQE_ASYNC : 0;
  if (request.place >= 0) {
    entry->fd = request.place;
    flags |= IOSQE_FIXED_FILE;
  }
  ::io_uring_sqe_set_flags(entry, flags);
  const uint64_t id = next_++;
  ::io_uring_sqe_set_data64(entry, id);
  while (::io_uring_submit(&ring_) == -EINTR) {
  }
  if (::io_uring_sq_ready(&ring_) == 0) {  // taken, and with it what was left before it
    running_.emplace(id, Running{std::move(request), part});
    return;
  }
  // The kernel has no room for it. What stays in the ring goes with the next one, and must do
  // nothing then.
  ::io_uring_prep_nop(entry);
  ::io_uring_sqe_set_data64(entry, 0);
  memory_->End(part);
  Refuse(std::move(request));
}

void Ring::Refuse(IoRequest request) {
  auto refused = std::make_shared<IoRequest>(std::move(request));
  loop_.Post([refused] { refused->ended(-EAGAIN); });
}

void Ring::Reap() {
  io_uring_cqe* entry = nullptr;
  while (::io_uring_peek_cqe(&ring_, &entry) == 0) {
    const uint64_t id = ::io_uring_cqe_get_data64(entry);
    const int64_t result = entry->res;
    ::io_uring_cqe_seen(&ring_, entry);
    auto ended = running_.extract(id);
    if (ended.empty()) continue;
    auto& [request, part] = ended.mapped();
    memory_->End(part);
    if (request.tally != nullptr && result > 0) {
      request.tally->by_ring += static_cast<uint64_t>(result);
      if (part >= 0) request.tally->in_registered += static_cast<uint64_t>(result);
      if (request.place >= 0) request.tally->of_registered += static_cast<uint64_t>(result);
    }
    request.ended(result);
  }
}

}  // namespace onecopy::posix
