#include "bench/ceiling/plain_io.h"

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <vector>

#include "bench/ceiling/together.h"
#include "bench/measure/payload.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kWholePage = 4096;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct ScopedRing {
  io_uring ring{};
  ~ScopedRing() { ::io_uring_queue_exit(&ring); }
};

Status NoRing(int error) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable, "io_uring: " + os::ErrnoText(error),
          "allow io_uring: kernel.io_uring_disabled=0, and a seccomp profile that allows it"};
}

}  // namespace

Result<std::unique_ptr<PlainIo>> PlainIo::Create(const PlainIoParams& params) {
  std::unique_ptr<PlainIo> io(new PlainIo(params));
  ONECOPY_ASSIGN_OR_RETURN(io->file_, PayloadFile::Plan(params.file, params.bytes));
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd memfd,
                           os::SealedMemfd("onecopy-bench", params.bytes));
  ONECOPY_ASSIGN_OR_RETURN(io->memory_, os::MapShared(memfd.get(), params.bytes));
  FillPayload(io->memory_.data(), params.bytes, 0);  // resident from here on
  return io;
}

Status PlainIo::Fill(uint64_t seed) {
  if (params_.writes) {
    FillPayload(memory_.data(), params_.bytes, seed);
    return file_->MakeEmpty();
  }
  ONECOPY_RETURN_IF_ERROR(file_->Put(seed));
  return params_.cold ? file_->Drop() : OkStatus();
}

Result<bool> PlainIo::Verify(uint64_t seed) {
  if (!params_.writes) return !FindWrong(memory_.data(), params_.bytes, seed);
  const Result<bool> right = file_->Holds(seed);
  file_->Remove();  // before the disk is busy with writes that are not needed
  return right;
}

Status PlainIo::Failed(int64_t result) const {
  const int error = result < 0 ? static_cast<int>(-result) : EIO;
  return os::ErrnoStatus(error, (params_.writes ? "writing " : "reading ") + params_.file);
}

Status PlainIo::Call(int fd, uint64_t at, uint64_t bytes) const {
  const auto offset = static_cast<off_t>(at);
  const ssize_t moved = params_.writes ? ::pwrite(fd, memory_.data() + at, bytes, offset)
                                       : ::pread(fd, memory_.data() + at, bytes, offset);
  if (moved == static_cast<ssize_t>(bytes)) return OkStatus();
  return Failed(moved < 0 ? -errno : moved);
}

Status PlainIo::ByThreads(int fd, uint64_t bytes, double& seconds) {
  std::atomic<uint64_t> next{0};
  std::vector<Status> ends(params_.threads);
  std::vector<std::function<void()>> jobs;
  for (Status& end : ends) {
    jobs.emplace_back([&] {
      while (end.ok()) {
        const uint64_t at = next.fetch_add(params_.call_bytes);
        if (at >= bytes) return;
        end = Call(fd, at, std::min(params_.call_bytes, bytes - at));
      }
    });
  }
  seconds = SecondsTogether(jobs);
  for (const Status& end : ends) ONECOPY_RETURN_IF_ERROR(end);
  return OkStatus();
}

Status PlainIo::ByRing(int fd, uint64_t bytes) {
  ScopedRing scoped;
  io_uring* const ring = &scoped.ring;
  if (const int error = -::io_uring_queue_init(params_.ring_depth, ring, 0); error != 0) {
    return NoRing(error);
  }
  uint64_t next = 0;
  unsigned running = 0;
  Status status;
  while (status.ok() ? next < bytes || running > 0 : running > 0) {
    while (status.ok() && next < bytes && running < params_.ring_depth) {
      io_uring_sqe* const entry = ::io_uring_get_sqe(ring);
      if (entry == nullptr) break;
      const auto length = static_cast<unsigned>(std::min(params_.call_bytes, bytes - next));
      if (params_.writes) {
        ::io_uring_prep_write(entry, fd, memory_.data() + next, length, next);
      } else {
        ::io_uring_prep_read(entry, fd, memory_.data() + next, length, next);
      }
      ::io_uring_sqe_set_data64(entry, length);
      next += length;
      ++running;
    }
    const int submitted = ::io_uring_submit_and_wait(ring, 1);
    if (submitted < 0 && submitted != -EINTR) return NoRing(-submitted);
    io_uring_cqe* done = nullptr;
    while (::io_uring_peek_cqe(ring, &done) == 0) {
      --running;
      // Regular files give and take whole calls, except on a full disk and after errors.
      const bool whole = done->res == static_cast<int64_t>(::io_uring_cqe_get_data64(done));
      if (!whole && status.ok()) status = Failed(done->res);
      ::io_uring_cqe_seen(ring, done);
    }
  }
  return status;
}

Result<Moved> PlainIo::Move() {
  os::UniqueFd direct;
  int fd = file_->fd();
  uint64_t bytes = params_.bytes;
  if (params_.direct) {
    ONECOPY_ASSIGN_OR_RETURN(direct, file_->OpenDirect());
    fd = direct.get();
    bytes = bytes / kWholePage * kWholePage;
  }
  Moved moved;
  const double cpu = ProcessCpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  if (params_.ring_depth > 0) {
    ONECOPY_RETURN_IF_ERROR(ByRing(fd, bytes));
    moved.seconds = SecondsSince(begin);
  } else {
    ONECOPY_RETURN_IF_ERROR(ByThreads(fd, bytes, moved.seconds));
  }
  if (bytes < params_.bytes) {
    const auto tail = std::chrono::steady_clock::now();
    ONECOPY_RETURN_IF_ERROR(Call(file_->fd(), bytes, params_.bytes - bytes));
    moved.seconds += SecondsSince(tail);
  }
  moved.cpu_seconds = ProcessCpuSeconds() - cpu;
  return moved;
}

}  // namespace onecopy::bench
