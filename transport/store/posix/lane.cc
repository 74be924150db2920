#include "transport/store/posix/lane.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/files/new_file.h"
#include "transport/os/machine/numa.h"
#include "transport/os/threads/acting_user.h"

namespace onecopy::posix {
namespace {

// By threads that wait.
class WaitingIo final : public Io {
 public:
  WaitingIo(os::Pool& pool, os::EventLoop& loop) : pool_(pool), loop_(loop) {}

  void Submit(IoRequest request) override {
    auto shared = std::make_shared<IoRequest>(std::move(request));
    const bool posted = pool_.Post([&loop = loop_, shared]() mutable {
      const size_t bytes = std::min(shared->bytes, kMostAtOnce);
      const auto offset = static_cast<off_t>(shared->offset);
      if (shared->hole) {
        os::PunchHole(shared->fd, shared->offset, shared->bytes);
        const auto made = static_cast<int64_t>(shared->bytes);
        return loop.Post([shared = std::move(shared), made] { shared->ended(made); });
      }
      const ssize_t moved = shared->write ? ::pwrite(shared->fd, shared->at, bytes, offset)
                                          : ::pread(shared->fd, shared->at, bytes, offset);
      const int64_t result = moved < 0 ? -errno : moved;
      if (shared->tally != nullptr && moved > 0) {
        shared->tally->by_threads += static_cast<uint64_t>(moved);
      }
      // All of it goes there: the loop's thread releases what it keeps.
      loop.Post([shared = std::move(shared), result] { shared->ended(result); });
    });
    if (!posted) loop_.Post([shared] { shared->ended(-EAGAIN); });
  }

 private:
  os::Pool& pool_;
  os::EventLoop& loop_;
};

}  // namespace

Result<std::shared_ptr<Lane>> Lane::Make(const Uid& owner, uint32_t gid, bool ring,
                                         const std::shared_ptr<HeldMemory>& held,
                                         const std::string& cpus) {
  std::shared_ptr<Lane> lane(new Lane);
  ONECOPY_ASSIGN_OR_RETURN(lane->thread_, os::LoopThread::Make("store"));
  const auto act = [owner, gid, cpus] {
    os::ActFor(owner, gid);
    return !cpus.empty() && os::BindThread(cpus);
  };
  lane->pool_ = std::make_unique<os::Pool>("store-io", kThreads, act);
  lane->thread_->RunSync([&] {
    if (act()) lane->kept_on_ = os::AllowedCpus();
    os::EventLoop& loop = lane->thread_->loop();
    lane->waiting_io_ = std::make_unique<WaitingIo>(*lane->pool_, loop);
    if (!ring) return;
    // A missing ring is not a failure: limits on locked memory are a user's, on kernels
    // before 5.12 and again on newer ones, and may be used up by then.
    Result<std::unique_ptr<Ring>> made = Ring::Make(loop, kDepth, held);
    if (!made.ok()) return;
    // Not one without the other: else it would be told of threads that run elsewhere.
    if (!lane->kept_on_.empty() && !(*made)->KeepWorkersHere()) lane->kept_on_.clear();
    lane->ring_ = std::move(*made);
  });
  return lane;
}

Lane::~Lane() { thread_->StopAndJoin(); }

Status Lane::NoThread() {
  return {Code::kResourceExhausted, reasons::kNoMemory,
          "this process cannot start more threads to wait for files",
          "raise its limit on threads (TasksMax, ulimit -u)"};
}

void Lane::Submit(IoRequest request) {
  if (running_ == kDepth) return waiting_.push_back(std::move(request));
  Begin(std::move(request));
}

void Lane::Begin(IoRequest request) {
  ++running_;
  request.ended = [this, ended = std::move(request.ended)](int64_t result) mutable {
    --running_;
    if (!waiting_.empty()) {
      IoRequest next = std::move(waiting_.front());
      waiting_.pop_front();
      Begin(std::move(next));
    }
    ended(result);
  };
  Io& io = ring_ == nullptr || request.waits ? *waiting_io_ : static_cast<Io&>(*ring_);
  io.Submit(std::move(request));
}

}  // namespace onecopy::posix
