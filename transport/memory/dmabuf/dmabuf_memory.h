// Memory of any exporter of dma-bufs: another vendor's GPU, an FPGA, udmabuf. A client passes the
// descriptor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/memory.h"
#include "transport/memory/dmabuf/copy_route.h"
#include "transport/memory/dmabuf/imported.h"
#include "transport/os/memory/dma_buf.h"

namespace onecopy::dmabuf {

class DmaBufMemory final : public Memory {
 public:
  // `node` names this node in steps. Starts `threads` threads once something is to be copied.
  // `bytes_of` tells a dma-buf's size, and BAD_HANDLE for what is none.
  DmaBufMemory(std::string node, unsigned threads,
               std::function<Result<uint64_t>(int fd)> bytes_of = os::DmaBufBytes);

  // Ends the threads, which routes may outlive for a moment.
  ~DmaBufMemory() override;

  const std::string& kind() const override { return kind_; }
  // One entry, without a device: nothing tells which device is behind a dma-buf. The processor does
  // not address such memory, although most of it is mapped: see README.md.
  std::vector<MemoryCapability> Describe() const override;
  Result<std::string> FindDevice(const std::string& typed) const override;
  // FAILED_PRECONDITION: such memory belongs to its exporter.
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override;
  // Form "dmabuf": BAD_HANDLE unless it is one that may be written, RANGE_OUT_OF_BUFFER unless the
  // piece lies inside it. A region that could not be mapped has no address.
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override;
  // Between a dma-buf and host memory, and between two dma-bufs.
  bool Copies(const Place& from, const Place& to) const override;
  // FAILED_PRECONDITION (NOT_APPLICABLE) for a dma-buf that could not be mapped.
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;
  Status CloseDevice(const std::string& device) override;

 private:
  Result<DmaBufCopyRoute::End> EndOf(const RegionRef& region) const;
  Result<std::shared_ptr<os::CopyThreads>> Threads();

  const std::string kind_ = "dmabuf";
  const std::string node_;
  const unsigned thread_count_;
  const std::function<Result<uint64_t>(int fd)> bytes_of_;
  const std::shared_ptr<ImportedTable> imported_ = std::make_shared<ImportedTable>();
  Mutex mutex_;
  std::shared_ptr<os::CopyThreads> threads_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::dmabuf
