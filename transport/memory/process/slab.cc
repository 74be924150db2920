#include "transport/memory/process/slab.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::process {
namespace {

// Whose pages are there from the beginning.
Result<std::unique_ptr<Region>> MakeRegion(int fd, uint64_t bytes) {
  if (os::AvailableMemoryBytes() < bytes) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  "the machine, or the daemon's control group, has less than " +
                      FormatBytes(bytes) + " left for the slab of a client's ordinary memory",
                  "free memory, or lower [process] slab_bytes");
  }
  if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    return os::ErrnoStatus(errno, "allocating " + FormatBytes(bytes) + " for a client's slab");
  }
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd, bytes));
  // The client can punch holes into it, for which there may be no memory later.
  const auto faulted = std::make_shared<std::atomic<bool>>(false);
  os::FaultGuard guard(mapping.data(), mapping.bytes(), faulted);
  std::byte* const data = mapping.data();
  auto region =
      std::make_unique<Region>(Place{"host", {}}, data, bytes, true,
                               [mapping = std::move(mapping), guard = std::move(guard)]() mutable {
                                 guard = os::FaultGuard();
                                 // A client that keeps the descriptor must not keep the memory.
                                 (void)::madvise(mapping.data(), mapping.bytes(), MADV_REMOVE);
                                 mapping = os::Mapping();
                               });
  region->SetFaultFlag(faulted);
  region->SetStepName("slab");
  return region;
}

Status StatusOf(orders::Outcome outcome) {
  switch (outcome) {
    case orders::Outcome::kCopied:
      return OkStatus();
    case orders::Outcome::kUnknownRegion:
      return {Code::kAborted, reasons::kMemoryFault,
              "the client has revoked the memory of the buffer",
              "keep the memory registered until its transfers have ended"};
    case orders::Outcome::kOutOfRegion:
      return {Code::kAborted, reasons::kMemoryFault,
              "the client's library refused to copy: the bytes are outside the buffer, or must not "
              "be written"};
    case orders::Outcome::kUnmapped:
      return {Code::kAborted, reasons::kMemoryFault, "the client has unmapped memory of the buffer",
              "keep the memory mapped until the buffer is deleted, and register it again"};
    case orders::Outcome::kFaulted:
      return {Code::kAborted, reasons::kMemoryFault,
              "a page of the client's memory is missing (SIGBUS): its file was truncated, or "
              "cannot be read",
              "keep the file's length while it is mapped, and register the memory again"};
    case orders::Outcome::kVoid:
      break;
  }
  return {Code::kAborted, reasons::kMemoryFault, "the client's library did not copy"};
}

}  // namespace

Result<std::shared_ptr<Slab>> Slab::Make(std::shared_ptr<Shared> all, uint64_t bytes,
                                         const ShareRegion& share) {
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd memory, os::SealedMemfd("onecopy-slab", bytes));
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, MakeRegion(memory.get(), bytes));
  ONECOPY_ASSIGN_OR_RETURN(orders::DaemonEnd end, orders::DaemonEnd::Make());
  return std::shared_ptr<Slab>(
      new Slab(std::move(all), std::move(memory), share(std::move(region)), std::move(end)));
}

Result<ClientSlab::Ends> Slab::OpenEnds() {
  int pair[2];
  // Two open files: what the client sets on its own does nothing to the daemon's.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return os::ErrnoStatus(errno, "making the socket of a client's slab");
  }
  os::UniqueFd here(pair[0]);
  os::UniqueFd there(pair[1]);
  (void)os::RefuseDescriptors(here.get());  // where that cannot be, none is taken
  os::UniqueFd orders = os::UniqueFd::DuplicateOf(orders_.memory());
  if (!orders) return os::ErrnoStatus(errno, "duplicating a descriptor");
  socket_ = std::move(here);
  executor().Post([self = shared_from_this()] { self->Watch(); });
  return Ends{memory_.Release(), orders.Release(), there.Release()};
}

void Slab::Watch() {
  if (!ended_.ok()) return;
  const Status watched =
      all_->thread.loop().Watch(socket_.get(), EPOLLIN, [weak = weak_from_this()](uint32_t) {
        if (const auto self = weak.lock()) self->OnSocket();
      });
  if (!watched.ok()) EndHere(watched);
}

void Slab::Copy(orders::Way way, uint64_t region, std::vector<StridedCopy> copies,
                UniqueFunction<void(Status)> done) {
  const auto batch = std::make_shared<Batch>();
  batch->way = way;
  batch->region = region;
  batch->copies = std::move(copies);
  batch->done = std::move(done);
  executor().Post([self = shared_from_this(), batch] { self->Add(batch); });
}

void Slab::Add(const BatchRef& batch) {
  const auto refuse = [&](const Status& why) { std::exchange(batch->done, nullptr)(why); };
  if (!ended_.ok()) return refuse(ended_);
  if (given_up_ > 0) {
    return refuse({Code::kDeadlineExceeded, reasons::kStalled,
                   "the client that owns this memory does not copy: it has not answered for "
                   "earlier copies that timed out",
                   "check whether its process is stopped"});
  }
  std::erase_if(batch->copies,
                [](const StridedCopy& copy) { return copy.bytes == 0 || copy.count == 0; });
  batch->left = batch->copies.size();
  if (batch->left == 0) return refuse(OkStatus());
  if (under_way_.empty()) heard_ = os::Clock::now();
  waiting_.push_back(batch);
  Pump();
  LookAtTime();
}

void Slab::Pump() {
  while (!waiting_.empty()) {
    const BatchRef& batch = waiting_.front();
    const StridedCopy& copy = batch->copies[batch->ordered];
    const bool into = batch->way == orders::Way::kIntoSlab;
    const std::optional<uint64_t> number =
        orders_.Place({.number = 0,
                       .way = batch->way,
                       .region = batch->region,
                       .offset = into ? copy.from : copy.to,
                       .slab = into ? copy.to : copy.from,
                       .bytes = copy.bytes,
                       .region_stride = into ? copy.from_stride : copy.to_stride,
                       .slab_stride = into ? copy.to_stride : copy.from_stride,
                       .count = copy.count});
    if (!number) break;
    under_way_.emplace(*number, batch);
    if (++batch->ordered == batch->copies.size()) waiting_.pop_front();
  }
  orders_.Publish();
}

void Slab::OnSocket() {
  std::array<char, 4096> bytes;
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got == 0) {
    return EndHere({Code::kAborted, reasons::kOwnerDied,
                    "the client that owns this memory has closed its slab"});
  }
  Collect();
}

void Slab::Collect() {
  const auto self = shared_from_this();
  do {
    while (const auto answer = orders_.Reap()) {
      heard_ = os::Clock::now();
      auto node = under_way_.extract(answer->number);
      if (node.empty()) continue;
      if (node.mapped() == nullptr) {
        --given_up_;
      } else {
        Ended(node.mapped(), StatusOf(answer->outcome));
      }
    }
    Pump();
  } while (!orders_.Sleep());
}

void Slab::Ended(const BatchRef& batch, const Status& status, size_t copies) {
  if (batch->failure.ok()) batch->failure = status;
  batch->left -= copies;
  if (batch->left == 0) std::exchange(batch->done, nullptr)(std::move(batch->failure));
}

// A timer runs while something is under way that has not been given up.
void Slab::LookAtTime() {
  if (timer_ != 0 || !ended_.ok() || under_way_.size() == given_up_) return;
  timer_ = all_->thread.loop().RunAt(heard_ + all_->patience, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->timer_ = 0;
    if (os::Clock::now() - self->heard_ >= self->all_->patience) {
      self->GiveUp({Code::kDeadlineExceeded, reasons::kStalled,
                    "the client that owns this memory has copied nothing for " +
                        std::to_string(self->all_->patience.count()) + " ms",
                    "check whether its process is stopped; [process] client_timeout is the time it "
                    "may take"});
    }
    self->LookAtTime();
  });
}

void Slab::GiveUp(const Status& why) {
  orders_.VoidAll();
  std::vector<BatchRef> batches;
  for (auto& [number, batch] : under_way_) {
    if (batch == nullptr) continue;
    ++given_up_;
    batches.push_back(std::exchange(batch, nullptr));
  }
  const std::deque<BatchRef> waiting = std::exchange(waiting_, {});
  for (const BatchRef& batch : batches) Ended(batch, why);
  for (const BatchRef& batch : waiting) Ended(batch, why, batch->copies.size() - batch->ordered);
}

void Slab::End(const Status& why) {
  executor().Post([self = shared_from_this(), why] { self->EndHere(why); });
}

void Slab::EndHere(const Status& why) {
  if (!ended_.ok()) return;
  const auto self = shared_from_this();
  ended_ = why;
  all_->thread.loop().CancelTimer(std::exchange(timer_, 0));
  if (socket_) all_->thread.loop().Unwatch(socket_.get());
  socket_.Reset();
  GiveUp(why);
  orders_.End();
}

}  // namespace onecopy::process
