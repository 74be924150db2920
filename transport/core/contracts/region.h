// Ownership of mapped bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/backing.h"
#include "transport/core/contracts/import_request.h"

namespace onecopy {

// Where bytes live: the kind of memory ("host", "cuda", "dmabuf") and, for a GPU, its UUID.
struct Place {
  std::string kind;
  std::string device;

  friend bool operator==(const Place&, const Place&) = default;
};

class StoreFile;  // see transport/core/contracts/store.h
struct DirectWay;

// A descriptor by which a network device reaches a region's bytes without their address. `fd` is
// the caller's to close.
struct DmaBuf {
  int fd = -1;
  uint64_t offset = 0;  // of the region's first byte in the descriptor's bytes; any alignment
  // An address that agrees with where the first byte lies on the bus, in as many low bits as the
  // exporter's pages have. A device keeps large pages only where it is told one that agrees.
  uint64_t lies = 0;
};

// Mapped bytes of one memory. Created by a Memory, shared by every operation that uses it; the
// bytes are unmapped and given back when the last reference goes. That may block (unpinning,
// closing a driver handle), so code that creates a Region for long use gives its references a
// deleter that runs on a thread for slow work (see engine::Workers). The address is for the Memory
// of that kind and, through a Region, for a Link.
class Region {
 public:
  // Gives the bytes back; runs after every hook.
  using Release = UniqueFunction<void()>;

  Region(Place place, std::byte* address, uint64_t bytes, bool cpu_addressable, Release release)
      : place_(std::move(place)),
        address_(address),
        bytes_(bytes),
        cpu_addressable_(cpu_addressable),
        release_(std::move(release)) {}
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const Place& place() const { return place_; }
  std::byte* address() const { return address_; }
  uint64_t bytes() const { return bytes_; }
  bool cpu_addressable() const { return cpu_addressable_; }

  // How a client passed this memory, where it is not what the request said (BufferInfo::form); set
  // before the region is shared.
  const std::string& form() const { return form_; }
  void SetForm(std::string form) { form_ = std::move(form); }

  // Memory that this process does not reach: the host memory through which another process
  // copies it. Null for all other; set before the region is shared.
  const std::shared_ptr<Region>& slab() const { return slab_; }
  void SetSlab(std::shared_ptr<Region> slab) { slab_ = std::move(slab); }

  // Not memory: a file, whose bytes only its store reaches, and which has no address. Null
  // for all else; set before the region is shared.
  const std::shared_ptr<StoreFile>& file() const { return file_; }
  void SetFile(std::shared_ptr<StoreFile> file) { file_ = std::move(file); }
  // Of a file whose other end is a GPU's memory: its direct way there. Null for all else.
  const std::shared_ptr<const DirectWay>& direct_way() const { return direct_way_; }
  void SetDirectWay(std::shared_ptr<const DirectWay> way) { direct_way_ = std::move(way); }

  // The name of this memory in a receipt's steps: a GPU's UUID, else what SetStepName said, else
  // the kind.
  std::string step_name() const;
  void SetStepName(std::string name) {
    step_name_ = std::move(name);
  }  // before the region is shared

  // How the region is exported as a dma-buf; set before it is shared. The exporter may block.
  using DmaBufExporter = UniqueFunction<Result<DmaBuf>()>;
  void SetDmaBufExporter(DmaBufExporter exporter) { export_dmabuf_ = std::move(exporter); }
  // One thread at a time. Fails with the reason why these bytes have none (NOT_APPLICABLE for a
  // kind that has none at all, as host memory).
  Result<DmaBuf> ExportDmaBuf();

  // How another process of this host is let use the region; set before it is shared. The sharer may
  // block.
  using Sharer = UniqueFunction<Result<ImportRequest>()>;
  void SetSharer(Sharer sharer) { share_ = std::move(sharer); }
  // One thread at a time. What the other process imports to have these very bytes; its descriptors
  // (`fd`, and those of `more`) are the caller's to close. Fails with the reason why these bytes
  // stay in this process (NOT_SHAREABLE).
  Result<ImportRequest> Share();

  // Call this if the memory survives this process: the end of the region then leaves its bytes as
  // they are. One thread at a time, before the last reference goes.
  void Leave() {
    if (leave_) leave_();
  }
  void SetLeaver(UniqueFunction<void()> leave) { leave_ = std::move(leave); }

  // What makes bytes that network devices have written here visible to the next reader; set
  // before the region is shared, and only where that takes a call. It may block.
  using Flush = UniqueFunction<Status()>;
  void SetFlush(Flush flush) { flush_ = std::move(flush); }
  bool needs_flush() const { return static_cast<bool>(flush_); }
  // One thread at a time; nothing where no call is needed. After a failure the bytes may be seen
  // later than they are said to have arrived.
  Status FlushRemoteWrites();

  // A client's memory may fault when it is touched: a page that the client took away and that is
  // not available again, or one that the machine has lost. Any thread: whatever has moved bytes in
  // or out looks before it says that they have arrived. ABORTED (MEMORY_FAULT) once that has
  // happened; the bytes are then nothing's, for ever.
  Status CheckIntact() const;
  // Any thread: something that no longer reports may still write here, so nothing is known
  // of the bytes from now on: CheckIntact fails for ever, with DRIVER_FAILED.
  void Distrust() { distrusted_ = true; }
  // As above, and before new work with the bytes: RESOURCE_EXHAUSTED (NO_MEMORY) where the client's
  // file has less memory than this machine can still promise it.
  Status CheckUsable() const;
  // Set by who notices (os::FaultGuard), on any thread; null where nothing can be missing. To be
  // given before the region is shared.
  using FaultFlag = std::shared_ptr<std::atomic<bool>>;
  void SetFaultFlag(FaultFlag flag) { faulted_ = std::move(flag); }
  // Null where there is memory for every byte; set before the region is shared.
  const Backing* backing() const { return backing_.get(); }
  void SetBacking(std::unique_ptr<Backing> backing) { backing_ = std::move(backing); }

  // Any thread: something that another backend attached to these bytes (a pin, a NIC's
  // registration) and that must go before they do. Hooks run in reverse order.
  void OnRelease(Release hook);

 private:
  const Place place_;
  std::byte* const address_;
  const uint64_t bytes_;
  std::atomic<bool> distrusted_ = false;
  const bool cpu_addressable_;
  std::string step_name_;
  std::string form_;
  std::shared_ptr<Region> slab_;
  std::shared_ptr<StoreFile> file_;
  std::shared_ptr<const DirectWay> direct_way_;
  DmaBufExporter export_dmabuf_;
  Sharer share_;
  UniqueFunction<void()> leave_;
  Flush flush_;
  FaultFlag faulted_;
  std::unique_ptr<Backing> backing_;
  Mutex mutex_;
  std::vector<Release> hooks_ ONECOPY_GUARDED_BY(mutex_);
  Release release_;
};

using RegionRef = std::shared_ptr<Region>;

// A piece of a region, which it keeps alive.
struct Span {
  RegionRef region;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  std::byte* address() const { return region->address() + offset; }
};

}  // namespace onecopy
