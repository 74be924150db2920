#include "bench/ceiling/ring.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "bench/ceiling/event_wait.h"
#include "transport/core/reasons.h"
#include "transport/os/error.h"

namespace onecopy::bench {
namespace {

constexpr unsigned kCompletionsOfEntry = 4;  // SEND_ZC tells of each twice, and late
constexpr const char* kSwitch = "/proc/sys/kernel/io_uring_disabled";

// What a kernel says that has no io_uring, or that keeps it from this process.
bool IsRefusal(int error) { return error == ENOSYS || error == EPERM || error == EACCES; }

Status Refused(int error) {
  std::string what = "the kernel refuses io_uring: " + os::ErrnoText(error);
  std::string disabled;
  if (std::ifstream(kSwitch) >> disabled) {
    what += std::string("; ") + kSwitch + " is " + disabled;
  }
  return {
      Code::kFailedPrecondition, reasons::kNotApplicable, what,
      "it needs Linux 5.10, that switch at 0, and a seccomp profile that allows io_uring_setup"};
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::Create(const RingSetting& setting) {
  constexpr unsigned kDeferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  std::unique_ptr<Ring> ring(new Ring(setting.deferred ? kDeferred : 0));
  int error = ring->SetUp(setting);
  if (error == EINVAL && setting.deferred) {  // a kernel before 6.1; deferred() tells
    ring.reset(new Ring(0));
    error = ring->SetUp(setting);
  }
  if (IsRefusal(error)) return Refused(error);
  if (error != 0) return os::ErrnoStatus(error, "making an io_uring");
  ONECOPY_RETURN_IF_ERROR(ring->Register(setting));
  if (setting.zero_copy) ONECOPY_RETURN_IF_ERROR(ring->CheckZeroCopy());
  return ring;
}

// Disabled at first: with a single issuer, the thread that enables it is the one.
int Ring::SetUp(const RingSetting& setting) {
  io_uring_params params = {};
  params.flags = flags_ | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE;
  params.cq_entries = setting.entries * kCompletionsOfEntry;
  const int error = -io_uring_queue_init_params(setting.entries, &ring_, &params);
  made_ = error == 0;
  return error;
}

Ring::~Ring() {
  if (made_) io_uring_queue_exit(&ring_);
}

Status Ring::Register(const RingSetting& setting) {
  const auto files = static_cast<unsigned>(setting.files.size());
  if (const int done = io_uring_register_files(&ring_, setting.files.data(), files); done < 0) {
    return os::ErrnoStatus(-done, "registering sockets with an io_uring");
  }
  if (setting.buffers.empty()) return OkStatus();
  const auto buffers = static_cast<unsigned>(setting.buffers.size());
  const int done = io_uring_register_buffers(&ring_, setting.buffers.data(), buffers);
  if (done >= 0) return OkStatus();
  if (done != -ENOMEM) return os::ErrnoStatus(-done, "registering buffers with an io_uring");
  return {Code::kResourceExhausted, reasons::kMemlock,
          "registering buffers with an io_uring: " + os::ErrnoText(ENOMEM),
          "raise the limit on locked memory (ulimit -l)"};
}

Status Ring::CheckZeroCopy() {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  const bool there = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC) != 0;
  if (probe != nullptr) io_uring_free_probe(probe);
  if (there) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kNotApplicable,
          "this kernel's io_uring has no SEND_ZC", "it needs Linux 6.0"};
}

Status Ring::Enable() {
  // liburing 2.3 declares a function for this that its library does not have.
  const long done =
      ::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  return done < 0 ? os::ErrnoStatus(errno, "enabling an io_uring") : OkStatus();
}

void Ring::Finish(io_uring_sqe* prepared, uint64_t tag, bool linked) {
  prepared->user_data = tag;
  prepared->flags |= IOSQE_FIXED_FILE;
  if (linked) prepared->flags |= IOSQE_IO_LINK;
}

Status Ring::SubmitAndWait(unsigned completions) {
  __kernel_timespec limit = {.tv_sec = kStalledSeconds, .tv_nsec = 0};
  io_uring_cqe* first = nullptr;
  ++turns_;
  int done = 0;
  do {
    done = io_uring_submit_and_wait_timeout(&ring_, &first, completions, &limit, nullptr);
  } while (done == -EINTR);
  if (done == -ETIME) return Stalled("io_uring");
  return done < 0 ? os::ErrnoStatus(-done, "waiting for an io_uring") : OkStatus();
}

}  // namespace onecopy::bench
