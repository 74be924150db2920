#include "client/python/native/torch_hooks.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/python/native/pool.h"
#include "transport/core/base/mutex.h"

namespace onecopy::python {

namespace {

class Registry {
 public:
  // Never destroyed: torch frees after the program's main function, too.
  static Registry& Get() {
    static auto* const registry = new Registry;
    return *registry;
  }

  // The lock may be held by a thread that a child lacks, and what the parent has is not the
  // child's.
  bool IsForked() const { return ::getpid() != process_; }

  void Set(int device, std::shared_ptr<Pool> pool) {
    if (IsForked()) return;
    std::shared_ptr<Pool> before;  // may end here, without the lock
    const MutexLock lock(mutex_);
    before = std::exchange(pools_[device], std::move(pool));
  }

  void* Allocate(uint64_t bytes, int device, StreamHandle stream) {
    if (IsForked()) return nullptr;
    std::shared_ptr<Pool> pool;
    {
      const MutexLock lock(mutex_);
      const auto found = pools_.find(device);
      if (found != pools_.end()) pool = found->second;
    }
    if (pool == nullptr) {
      return Fail("no pool is set for cuda:" + std::to_string(device) +
                  ": call onecopy.torch.pool(device=…) first");
    }
    const Result<void*> made = pool->Allocate(bytes, stream);
    if (!made.ok()) return Fail(made.status().ToString());
    const MutexLock lock(mutex_);
    blocks_[*made] = {std::move(pool), {}};
    return *made;
  }

  void Free(void* pointer, StreamHandle stream) {
    if (IsForked()) return;
    Block block;
    {
      const MutexLock lock(mutex_);
      auto found = blocks_.extract(pointer);
      if (found.empty()) return Note("torch freed memory that it does not own");
      block = std::move(found.mapped());
    }
    // What cannot be ordered is not given back rather than too early.
    if (!ComesAfter(*block.pool, stream, block.used_by, false)) {
      const MutexLock lock(mutex_);
      return Note("memory that torch freed stays in the pool: its streams could not be ordered");
    }
    const Status done = block.pool->Deallocate(pointer, 0, stream);
    if (!done.ok()) {
      const MutexLock lock(mutex_);
      Note(done.ToString());
    }
  }

  void RecordStream(void* pointer, StreamHandle stream) {
    if (IsForked()) return;
    const MutexLock lock(mutex_);
    const auto found = blocks_.find(pointer);
    if (found == blocks_.end()) return;
    std::vector<StreamHandle>& used_by = found->second.used_by;
    if (std::ranges::find(used_by, stream) == used_by.end()) used_by.push_back(stream);
  }

  TorchHooks Now() const {
    if (IsForked()) return {0, 0, "FORKED: the pools are the parent process's"};
    const MutexLock lock(mutex_);
    return {blocks_.size(), failures_, last_error_};
  }

 private:
  struct Block {
    std::shared_ptr<Pool> pool;
    std::vector<StreamHandle> used_by;  // beside the one that it was allocated for
  };

  void* Fail(std::string why) {
    const MutexLock lock(mutex_);
    ++failures_;
    Note(std::move(why));
    return nullptr;
  }
  void Note(std::string why) ONECOPY_REQUIRES(mutex_) { last_error_ = std::move(why); }

  const pid_t process_ = ::getpid();
  mutable Mutex mutex_;
  std::map<int, std::shared_ptr<Pool>> pools_ ONECOPY_GUARDED_BY(mutex_);
  std::unordered_map<void*, Block> blocks_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t failures_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::string last_error_ ONECOPY_GUARDED_BY(mutex_);
};

// What torch shows of it.
class NoMemory final : public std::bad_alloc {
 public:
  explicit NoMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

StreamHandle Of(void* stream) { return reinterpret_cast<StreamHandle>(stream); }

}  // namespace

void SetTorchPool(int device, std::shared_ptr<Pool> pool) {
  Registry::Get().Set(device, std::move(pool));
}

TorchHooks TorchHooksNow() { return Registry::Get().Now(); }

}  // namespace onecopy::python

using onecopy::python::Of;
using onecopy::python::Registry;

// Nothing may be thrown through C, not even for want of memory for a string.
void* onecopy_torch_malloc(ssize_t bytes, int device, void* stream) {
  if (bytes <= 0) return nullptr;
  try {
    return Registry::Get().Allocate(static_cast<uint64_t>(bytes), device, Of(stream));
  } catch (...) {
    return nullptr;
  }
}

void* onecopy_torch_malloc_or_throw(ssize_t bytes, int device, void* stream) {
  void* const made = onecopy_torch_malloc(bytes, device, stream);
  if (made == nullptr && bytes > 0) {
    throw onecopy::python::NoMemory("onecopy: " + onecopy::python::TorchHooksNow().last_error);
  }
  return made;
}

void onecopy_torch_free(void* pointer, ssize_t, int, void* stream) {
  if (pointer == nullptr) return;
  try {
    Registry::Get().Free(pointer, Of(stream));
  } catch (...) {  // it is lost, and the process is not
  }
}

void onecopy_torch_record_stream(void* pointer, void* stream) {
  try {
    Registry::Get().RecordStream(pointer, Of(stream));
  } catch (...) {
  }
}
