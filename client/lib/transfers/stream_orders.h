// The order of transfers with work on CUDA streams of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "onecopy/async.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/shim/cuda.h"

namespace onecopy::client {

// Any thread. What is queued outlives it, and then does nothing.
class StreamOrders {
 public:
  // FAILED_PRECONDITION (DRIVER_TOO_OLD) for a driver that lacks what it takes.
  static Result<std::shared_ptr<StreamOrders>> Make(std::shared_ptr<const shim::CudaApi> api);
  ~StreamOrders();
  StreamOrders(const StreamOrders&) = delete;
  StreamOrders& operator=(const StreamOrders&) = delete;

  // What a stream waits for: goes on once it is set, and is set at the latest with its last copy.
  class Word {
   public:
    explicit Word(uint32_t* word) : word_(word) {}
    ~Word() { Set(); }
    Word(const Word&) = delete;
    Word& operator=(const Word&) = delete;

    // Once: the word may be another one's after that.
    void Set() {
      if (!set_.exchange(true)) std::atomic_ref(*word_).store(1);
    }
    uint32_t* address() const { return word_; }

   private:
    uint32_t* const word_;
    std::atomic<bool> set_{false};
  };
  using WordRef = std::shared_ptr<Word>;

  // For that stream. RESOURCE_EXHAUSTED (NO_MEMORY), or as Queue.
  Result<WordRef> NewWord(uintptr_t stream);
  // `begin` is called once, after what is queued on order.after now: here, or on a thread of the
  // driver, where nothing may ask the driver for anything. order.then waits for the word, null
  // if the order has no such stream. Fails as Client::RunTransferAsync: then `begin` is not called,
  // and no stream waits.
  Status Queue(const StreamOrder& order, const WordRef& word, std::function<void()> begin);

 private:
  struct Helpers;
  struct Start;
  struct Call;
  struct Page {
    CUcontext context = nullptr;
    void* words = nullptr;
  };
  struct Used {
    uint32_t* word = nullptr;
    CUevent passed = nullptr;  // by the stream
  };

  StreamOrders(std::shared_ptr<const shim::CudaApi> api, std::shared_ptr<Helpers> helpers);

  Status CheckStream(uintptr_t stream) const;
  Result<CUcontext> ContextOf(uintptr_t stream) const;
  Status QueueBoth(const StreamOrder& order, Word* word, const std::shared_ptr<Start>& start);
  Status WaitFor(uintptr_t stream, Word& word);
  Status CallAfter(uintptr_t stream, std::function<void()> begin);
  // What one that ended had to leave, as streams waited for it still.
  struct Left {
    Mutex mutex;
    std::map<std::shared_ptr<const shim::CudaApi>,
             std::vector<std::tuple<std::vector<Page>, std::vector<uint32_t*>, std::vector<Used>>>>
        of ONECOPY_GUARDED_BY(mutex);
  };
  static Left& TheLeft();
  void TakeOver();
  void Reclaim() ONECOPY_REQUIRES(mutex_);

  const std::shared_ptr<const shim::CudaApi> api_;
  const std::shared_ptr<Helpers> helpers_;
  Mutex mutex_;
  std::vector<Page> pages_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<uint32_t*> free_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<Used> used_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::client
