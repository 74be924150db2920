#include "client/lib/slab/own_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/lib/slab/own_gpu.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"
#include "transport/core/ranges/scatter.h"
#include "transport/orders/client_end.h"
#include "transport/os/machine/machine.h"
#include "transport/os/memory/copy_bytes.h"
#include "transport/os/memory/fault_trap.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/threads/signals_blocked.h"

namespace onecopy::client {
namespace {

// Copying is as fast as memory with a few.
constexpr unsigned kMostByDefault = 4;
// Of a thread that nothing wakes; it then looks again.
constexpr std::chrono::seconds kSleep{60};
// Asked about at once.
constexpr uint64_t kPages = 1024;

// Whether there is memory, at the price of a fiftieth of copying it. Another thread may unmap it
// right afterwards.
bool IsMapped(const std::byte* data, uint64_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::array<unsigned char, kPages> pages;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + bytes;
  for (uintptr_t at = begin; at < end; at += kPages * page) {
    const size_t some = std::min<uint64_t>(end - at, kPages * page);
    int asked = 0;
    do {
      asked = ::mincore(reinterpret_cast<void*>(at), some, pages.data());
    } while (asked != 0 && errno == EAGAIN);
    if (asked != 0) return false;
  }
  return true;
}

}  // namespace

// The slab, the memory that the daemon may have copied, and the threads.
class OwnMemory::Copier {
 public:
  Copier(os::Mapping slab, std::unique_ptr<orders::ClientEnd> orders, unsigned most)
      : slab_(std::move(slab)), orders_(std::move(orders)), most_(most) {}

  ~Copier() { Shut(); }

  // Nothing is copied any more when it returns; one thread at a time.
  void Shut() {
    stop_ = true;
    orders_->WakeAll();
    for (;;) {
      std::vector<std::thread> threads;
      {
        const MutexLock lock(mutex_);
        threads.swap(threads_);  // one of them may just have started another
      }
      if (threads.empty()) break;
      for (std::thread& thread : threads) thread.join();
    }
  }

  Status StartThread() {
    const MutexLock lock(mutex_);
    if (stop_ || threads_.size() >= most_) return OkStatus();
    const os::SignalsBlocked blocked;
    try {
      threads_.emplace_back([this] { Run(); });
    } catch (const std::system_error& error) {
      return {Code::kResourceExhausted, reasons::kQuota,
              std::string("starting a thread that copies: ") + error.what(),
              "raise the limit on threads (ulimit -u)"};
    }
    ::pthread_setname_np(threads_.back().native_handle(), "onecopy-copy");
    return OkStatus();
  }

  bool ended() const { return stop_ || orders_->ended(); }

  uint64_t Add(std::byte* data, uint64_t bytes, bool writable, OwnGpu gpu = {}) {
    const MutexLock lock(mutex_);
    regions_[next_] = {data, bytes, writable, std::move(gpu), false, 0, {}, {}};
    return next_++;
  }

  // Of the memory's context. The slab is pinned by the first one.
  Result<OwnGpu> GpuFor(const std::shared_ptr<const shim::CudaApi>& api, const shim::CudaOwn& own) {
    const MutexLock lock(mutex_);
    std::shared_ptr<GpuCopies>& known = gpus_[{own.device, own.context}];
    if (known != nullptr) return OwnGpu{known, own.id};
    Result<std::shared_ptr<GpuCopies>> opened = GpuCopies::Open(api, own);
    if (!opened.ok()) {
      gpus_.erase({own.device, own.context});
      return opened.status();
    }
    if (gpus_.size() == 1) (*opened)->Pin(slab_.data(), slab_.bytes());
    known = *opened;
    return OwnGpu{known, own.id};
  }

  void SetBuffer(uint64_t region, const BufferInfo& buffer) {
    const MutexLock lock(mutex_);
    const auto found = regions_.find(region);
    if (found == regions_.end()) return;
    found->second.id = buffer.id;
    found->second.name = buffer.name;
    by_buffer_[buffer.id] = by_buffer_[buffer.name] = region;
  }

  void Remove(uint64_t region) {
    const MutexLock lock(mutex_);
    RemoveLocked(region);
  }

  void RemoveBuffer(const std::string& name) {
    const MutexLock lock(mutex_);
    const auto found = by_buffer_.find(name);
    if (found != by_buffer_.end()) RemoveLocked(found->second);
  }

 private:
  struct Memory {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    bool writable = false;
    OwnGpu gpu;           // where `data` is an address of one
    bool going = false;   // nothing new begins
    unsigned copies = 0;  // under way
    std::string id;
    std::string name;
  };

  void RemoveLocked(uint64_t region) ONECOPY_REQUIRES(mutex_) {
    auto found = regions_.find(region);
    while (found != regions_.end() && found->second.copies > 0) {
      found->second.going = true;
      changed_.Wait(mutex_);
      found = regions_.find(region);  // another thread may have removed it
    }
    if (found == regions_.end()) return;
    for (const std::string& name : {found->second.id, found->second.name}) {
      const auto named = by_buffer_.find(name);
      if (named != by_buffer_.end() && named->second == region) by_buffer_.erase(named);
    }
    regions_.erase(found);
  }

  void Run() {
    while (!stop_ && !orders_->ended()) {
      const std::optional<orders::Order> order = orders_->Take();
      if (!order) {
        ++idle_;
        orders_->Sleep(stop_, kSleep);
        --idle_;
        continue;
      }
      // Without one, this thread copies it all.
      if (idle_ == 0 && orders_->HasMore()) (void)StartThread();
      orders_->Answer(*order, Carry(*order));
    }
  }

  orders::Outcome Carry(const orders::Order& order) {
    if (orders_->IsVoid(order)) return orders::Outcome::kVoid;
    Memory memory;
    {
      const MutexLock lock(mutex_);
      const auto found = regions_.find(order.region);
      if (found == regions_.end() || found->second.going) return orders::Outcome::kUnknownRegion;
      ++found->second.copies;
      memory = found->second;
    }
    const orders::Outcome outcome = CopyIn(memory, order);
    const MutexLock lock(mutex_);
    const auto found = regions_.find(order.region);
    if (--found->second.copies == 0 && found->second.going) changed_.NotifyAll();
    return outcome;
  }

  orders::Outcome CopyIn(const Memory& memory, const orders::Order& order) const {
    const StridedCopy copy{.from = order.offset,
                           .to = order.slab,
                           .bytes = order.bytes,
                           .from_stride = order.region_stride,
                           .to_stride = order.slab_stride,
                           .count = order.count};
    const bool out = order.way == orders::Way::kOutOfSlab;
    if (order.count == 0 || (out && !memory.writable) ||
        !CheckInside({&copy, 1}, memory.bytes, slab_.bytes()).ok()) {
      return orders::Outcome::kOutOfRegion;
    }
    const uint64_t span = (order.count - 1) * order.region_stride + order.bytes;
    if (memory.gpu.copies != nullptr) return CopyOnGpu(memory, order, out);
    std::byte* const own = memory.data + order.offset;
    std::byte* const slab = slab_.data() + order.slab;
    if (!IsMapped(own, span)) return orders::Outcome::kUnmapped;
    std::byte* const to = out ? own : slab;
    const std::byte* const from = out ? slab : own;
    const bool all = os::TouchForeign(own, span, [&] {
      if (order.count == 1) {
        onecopy_copy_bytes(to, from, order.bytes);
      } else {
        onecopy_copy_strided(to, out ? order.region_stride : order.slab_stride, from,
                             out ? order.slab_stride : order.region_stride, order.bytes,
                             order.count);
      }
    });
    return all ? orders::Outcome::kCopied : orders::Outcome::kFaulted;
  }

  orders::Outcome CopyOnGpu(const Memory& memory, const orders::Order& order, bool out) const {
    const auto address = reinterpret_cast<uintptr_t>(memory.data);
    GpuCopies& gpu = *memory.gpu.copies;
    if (memory.gpu.id != 0 && !gpu.IsStill(address, memory.gpu.id)) {
      return orders::Outcome::kUnmapped;
    }
    const StridedCopy copy{.from = out ? order.slab : order.offset,
                           .to = out ? order.offset : order.slab,
                           .bytes = order.bytes,
                           .from_stride = out ? order.slab_stride : order.region_stride,
                           .to_stride = out ? order.region_stride : order.slab_stride,
                           .count = order.count};
    return gpu.Copy(copy, address, slab_.data(), out) ? orders::Outcome::kCopied
                                                      : orders::Outcome::kUnmapped;
  }

  const os::Mapping slab_;
  const std::unique_ptr<orders::ClientEnd> orders_;
  const unsigned most_;
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> idle_{0};
  Mutex mutex_;
  Condition changed_;
  std::vector<std::thread> threads_ ONECOPY_GUARDED_BY(mutex_);
  std::map<uint64_t, Memory> regions_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> by_buffer_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::pair<CUdevice, CUcontext>, std::shared_ptr<GpuCopies>> gpus_
      ONECOPY_GUARDED_BY(mutex_);
  uint64_t next_ ONECOPY_GUARDED_BY(mutex_) = 1;
};

OwnMemory::OwnMemory(AttachSocket& attach, unsigned threads)
    : attach_(attach),
      threads_(threads != 0 ? threads : std::clamp(os::UsableCores() / 2, 1U, kMostByDefault)),
      process_(::getpid()) {}

OwnMemory::~OwnMemory() {
  // The child has none of the threads, and perhaps a mutex that one of them held.
  if (Forked()) static_cast<void>(copier_.release());
}

bool OwnMemory::Forked() const { return ::getpid() != process_; }

Result<OwnMemory::Copier*> OwnMemory::Open() {
  if (Forked()) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "this process was forked from the one that connected, and has no session",
                  "connect in the child");
  }
  if (copier_ != nullptr) {
    if (!copier_->ended()) return copier_.get();
    return Status(Code::kUnavailable, reasons::kDaemonUnreachable,
                  "the session with the daemon has ended, with its slab",
                  "reconnect, and register the memory again");
  }
  if (attach_.slab_layout() != orders::kLayout) {
    return Status(
        Code::kUnimplemented, reasons::kNotServed,
        "the daemon does not support ordinary memory of processes in the way of this library",
        "install the same version of onecopyd and of its clients");
  }
  v1::AttachRequest request;
  request.mutable_open_slab();
  std::vector<os::UniqueFd> fds;
  ONECOPY_ASSIGN_OR_RETURN(const v1::AttachReply reply, attach_.Ask(request, &fds));
  if (!reply.has_slab() || fds.size() != 3) {
    return Status(Code::kUnimplemented, reasons::kNotServed,
                  "the daemon answered in a way that this library does not know");
  }
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping slab, os::MapShared(fds[0].get(), reply.slab().bytes()));
  (void)::madvise(slab.data(), slab.bytes(), MADV_DONTFORK);
  ONECOPY_ASSIGN_OR_RETURN(auto orders, orders::ClientEnd::Open(fds[1], std::move(fds[2])));
  auto copier = std::make_unique<Copier>(std::move(slab), std::move(orders), threads_);
  ONECOPY_RETURN_IF_ERROR(copier->StartThread());
  copier_ = std::move(copier);
  return copier_.get();
}

Result<uint64_t> OwnMemory::Add(void* pointer, uint64_t bytes, MemoryAccess access) {
  if (bytes == 0) {
    return Status(Code::kInvalidArgument, reasons::kBadSize, "a buffer needs at least one byte");
  }
  auto* const data = static_cast<std::byte*>(pointer);
  const bool wraps = reinterpret_cast<uintptr_t>(data) + bytes < bytes;
  if (data == nullptr || wraps || !IsMapped(data, bytes)) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "parts of this range are not mapped in this process",
                  "pass memory that stays mapped until the buffer is deleted");
  }
  const MutexLock lock(mutex_);
  ONECOPY_ASSIGN_OR_RETURN(Copier* const copier, Open());
  return copier->Add(data, bytes, access == MemoryAccess::kReadWrite);
}

Result<uint64_t> OwnMemory::AddCuda(std::shared_ptr<const shim::CudaApi> api, uintptr_t pointer,
                                    uint64_t bytes, const shim::CudaOwn& own) {
  const MutexLock lock(mutex_);
  ONECOPY_ASSIGN_OR_RETURN(Copier* const copier, Open());
  ONECOPY_ASSIGN_OR_RETURN(OwnGpu gpu, copier->GpuFor(api, own));
  return copier->Add(reinterpret_cast<std::byte*>(pointer), bytes, true, std::move(gpu));
}

void OwnMemory::SetBuffer(uint64_t region, const BufferInfo& buffer) {
  const MutexLock lock(mutex_);
  if (copier_ != nullptr) copier_->SetBuffer(region, buffer);
}

void OwnMemory::Remove(uint64_t region) {
  const MutexLock lock(mutex_);
  if (copier_ != nullptr) copier_->Remove(region);
}

void OwnMemory::RemoveBuffer(const std::string& name) {
  if (Forked()) return;
  const MutexLock lock(mutex_);
  if (copier_ != nullptr) copier_->RemoveBuffer(name);
}

void OwnMemory::Shut() {
  if (Forked()) return;
  const MutexLock lock(mutex_);
  if (copier_ != nullptr) copier_->Shut();
}

}  // namespace onecopy::client
