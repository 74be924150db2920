// Buffers of memory that only this process reaches. Threads of this library make the copies that
// the daemon requests between this memory and the slab that both share.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "client/lib/attach/attach.h"
#include "onecopy/buffer.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/shim/cuda_export.h"

namespace onecopy::client {

// Thread-safe. In a forked child, which has neither the threads nor the slab, every call fails or
// does nothing.
class OwnMemory {
 public:
  // At most so many threads; 0: by the number of cores. `attach` must outlive it.
  OwnMemory(AttachSocket& attach, unsigned threads);
  // Waits for copies that are under way.
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  // Lets the daemon order copies in there: the number by which it names the memory. The first call
  // opens the slab and starts a thread. INVALID_ARGUMENT (BAD_HANDLE, BAD_SIZE),
  // RESOURCE_EXHAUSTED, or what the daemon says.
  Result<uint64_t> Add(void* pointer, uint64_t bytes, MemoryAccess access);
  // The same for memory of a GPU that cannot be shared; ordered work on it has ended.
  // FAILED_PRECONDITION (DRIVER_FAILED), or as Add.
  Result<uint64_t> AddCuda(std::shared_ptr<const shim::CudaApi> api, uintptr_t pointer,
                           uint64_t bytes, const shim::CudaOwn& own);
  // The memory is a buffer now.
  void SetBuffer(uint64_t region, const BufferInfo& buffer);
  // Nothing touches the memory any more when it returns.
  void Remove(uint64_t region);
  // The same by the buffer's id or name; one that is not of such memory is none of its business.
  void RemoveBuffer(const std::string& name);
  // The session has ended: the same for all that there is, whatever was ordered. Add fails from
  // then on. Safe to repeat.
  void Shut();

 private:
  class Copier;

  bool Forked() const;
  // FAILED_PRECONDITION in a forked child.
  Result<Copier*> Open() ONECOPY_REQUIRES(mutex_);

  AttachSocket& attach_;
  const unsigned threads_;
  const pid_t process_;
  Mutex mutex_;  // of the opening
  std::unique_ptr<Copier> copier_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::client
