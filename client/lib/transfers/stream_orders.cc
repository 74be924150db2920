#include "client/lib/transfers/stream_orders.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

constexpr size_t kPageBytes = 4096;

CUstream Of(uintptr_t stream) { return reinterpret_cast<CUstream>(stream); }

CUdeviceptr OnGpu(uint32_t* word) { return reinterpret_cast<CUdeviceptr>(word); }

}  // namespace

// Streams of this library's own, which wait in place of the caller's: a function that a stream
// calls holds that stream up.
struct StreamOrders::Helpers {
  explicit Helpers(std::shared_ptr<const shim::CudaApi> of) : api(std::move(of)) {}
  ~Helpers() {
    const shim::NotCapturing relaxed(*api);
    for (const auto& [context, streams] : idle) {
      const shim::ScopedCudaContext scope(*api, context);
      for (CUstream stream : streams) api->StreamDestroy(stream);
    }
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  CUresult Take(CUcontext context, CUstream* stream) {
    {
      const MutexLock lock(mutex);
      std::vector<CUstream>& some = idle[context];
      if (!some.empty()) {
        *stream = some.back();
        some.pop_back();
        return CUDA_SUCCESS;
      }
    }
    return api->StreamCreate(stream, CU_STREAM_NON_BLOCKING);
  }
  void GiveBack(CUcontext context, CUstream stream) {
    const MutexLock lock(mutex);
    idle[context].push_back(stream);
  }

  const std::shared_ptr<const shim::CudaApi> api;
  Mutex mutex;
  std::map<CUcontext, std::vector<CUstream>> idle ONECOPY_GUARDED_BY(mutex);
};

// Of one transfer, once so many have arrived: the stream before it, and that all is queued.
struct StreamOrders::Start {
  Start(int of, std::function<void()> then) : left(of), begin(std::move(then)) {}
  void Arrive() {
    if (left.fetch_sub(1) == 1) begin();
  }
  std::atomic<int> left;
  const std::function<void()> begin;
};

// What a stream calls.
struct StreamOrders::Call {
  std::weak_ptr<Helpers> helpers;  // their end is not to be here, where the driver may not be asked
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  std::function<void()> begin;

  static void CUDA_CB Run(void* data) {
    const std::unique_ptr<Call> call(static_cast<Call*>(data));
    call->begin();
    if (const auto helpers = call->helpers.lock()) helpers->GiveBack(call->context, call->stream);
  }
};

StreamOrders::StreamOrders(std::shared_ptr<const shim::CudaApi> api,
                           std::shared_ptr<Helpers> helpers)
    : api_(std::move(api)), helpers_(std::move(helpers)) {}

Result<std::shared_ptr<StreamOrders>> StreamOrders::Make(std::shared_ptr<const shim::CudaApi> api) {
  if (api->StreamIsCapturing == nullptr || api->StreamGetCtx == nullptr ||
      api->StreamWaitEvent == nullptr || api->StreamWaitValue32 == nullptr ||
      api->LaunchHostFunc == nullptr) {
    return Status(Code::kFailedPrecondition, reasons::kDriverTooOld,
                  "the driver cannot order transfers with streams",
                  "synchronise the stream, then request the transfer without a stream");
  }
  auto helpers = std::make_shared<Helpers>(api);
  std::shared_ptr<StreamOrders> made(new StreamOrders(std::move(api), std::move(helpers)));
  made->TakeOver();
  return made;
}

StreamOrders::~StreamOrders() {
  const shim::NotCapturing relaxed(*api_);
  const MutexLock lock(mutex_);
  Reclaim();
  if (used_.empty()) {
    for (const Page& page : pages_) {
      const shim::ScopedCudaContext scope(*api_, page.context);
      api_->MemFreeHost(page.words);
    }
    return;
  }
  // A stream may wait for a page's words still, for as long as other work of it takes.
  Left& left = TheLeft();
  const MutexLock other(left.mutex);
  left.of[api_].emplace_back(std::move(pages_), std::move(free_), std::move(used_));
}

void StreamOrders::TakeOver() {
  Left& left = TheLeft();
  const MutexLock other(left.mutex);
  const auto found = left.of.find(api_);
  if (found == left.of.end()) return;
  const MutexLock lock(mutex_);
  for (auto& [pages, free, used] : found->second) {
    pages_.insert(pages_.end(), pages.begin(), pages.end());
    free_.insert(free_.end(), free.begin(), free.end());
    used_.insert(used_.end(), used.begin(), used.end());
  }
  left.of.erase(found);
}

StreamOrders::Left& StreamOrders::TheLeft() {
  static Left* const left = new Left;  // a client may end after the program's main function
  return *left;
}

void StreamOrders::Reclaim() {
  const auto passed = [this](const Used& one) {
    return api_->EventQuery(one.passed) != CUDA_ERROR_NOT_READY;
  };
  const auto first = std::stable_partition(used_.begin(), used_.end(), std::not_fn(passed));
  for (auto one = first; one != used_.end(); ++one) {
    api_->EventDestroy(one->passed);
    free_.push_back(one->word);
  }
  used_.erase(first, used_.end());
}

Result<StreamOrders::WordRef> StreamOrders::NewWord(uintptr_t stream) {
  ONECOPY_RETURN_IF_ERROR(CheckStream(stream));
  ONECOPY_ASSIGN_OR_RETURN(CUcontext const context, ContextOf(stream));
  const shim::ScopedCudaContext scope(*api_, context);
  const shim::NotCapturing relaxed(*api_);
  const MutexLock lock(mutex_);
  if (free_.empty()) Reclaim();
  if (free_.empty()) {
    void* page = nullptr;
    const CUresult error =
        api_->MemHostAlloc(&page, kPageBytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (error != CUDA_SUCCESS) {
      return Status(Code::kResourceExhausted, reasons::kNoMemory,
                    "a page that streams wait for: " + shim::CudaErrorText(*api_, error));
    }
    pages_.push_back({context, page});
    for (size_t i = 0; i < kPageBytes / sizeof(uint32_t); ++i) {
      free_.push_back(static_cast<uint32_t*>(page) + i);
    }
  }
  uint32_t* const word = free_.back();
  free_.pop_back();
  std::atomic_ref(*word).store(0);
  return std::make_shared<Word>(word);
}

Status StreamOrders::CheckStream(uintptr_t stream) const {
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult error = api_->StreamIsCapturing(Of(stream), &capturing);
  const bool implicit = error == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (implicit || (error == CUDA_SUCCESS && capturing != CU_STREAM_CAPTURE_STATUS_NONE)) {
    return {Code::kFailedPrecondition, reasons::kStreamCapturing,
            "the stream is capturing a graph, and a graph cannot contain a transfer",
            "order transfers before or after the graph's launch"};
  }
  if (error == CUDA_SUCCESS) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kDriverFailed,
          "asking for the state of the stream: " + shim::CudaErrorText(*api_, error),
          "pass a stream of an open context"};
}

Result<CUcontext> StreamOrders::ContextOf(uintptr_t stream) const {
  CUcontext context = nullptr;
  const CUresult error = api_->StreamGetCtx(Of(stream), &context);
  if (error == CUDA_SUCCESS) return context;
  return Status(Code::kFailedPrecondition, reasons::kDriverFailed,
                "asking for the context of the stream: " + shim::CudaErrorText(*api_, error),
                "pass a stream of an open context");
}

namespace {

Status QueueFailed(const shim::CudaApi& api, const char* what, CUresult error) {
  return {Code::kFailedPrecondition, reasons::kDriverFailed,
          std::string(what) + ": " + shim::CudaErrorText(api, error)};
}

}  // namespace

Status StreamOrders::WaitFor(uintptr_t stream, Word& word) {
  ONECOPY_ASSIGN_OR_RETURN(CUcontext const context, ContextOf(stream));
  const shim::ScopedCudaContext scope(*api_, context);
  const shim::NotCapturing relaxed(*api_);
  CUevent passed = nullptr;
  CUresult error = api_->EventCreate(&passed, CU_EVENT_DISABLE_TIMING);
  if (error != CUDA_SUCCESS) return QueueFailed(*api_, "making an event", error);
  error = api_->StreamWaitValue32(Of(stream), OnGpu(word.address()), 1, CU_STREAM_WAIT_VALUE_EQ);
  if (error != CUDA_SUCCESS) {
    api_->EventDestroy(passed);
    return QueueFailed(*api_, "letting the stream wait for the transfer", error);
  }
  // One that cannot be recorded counts as passed at once, and its word could be had again while the
  // stream waits for it: it is not given back then.
  if (api_->EventRecord(passed, Of(stream)) != CUDA_SUCCESS) {
    api_->EventDestroy(passed);
    return OkStatus();
  }
  const MutexLock lock(mutex_);
  used_.push_back({word.address(), passed});
  return OkStatus();
}

Status StreamOrders::CallAfter(uintptr_t stream, std::function<void()> begin) {
  ONECOPY_ASSIGN_OR_RETURN(CUcontext const context, ContextOf(stream));
  const shim::ScopedCudaContext scope(*api_, context);
  const shim::NotCapturing relaxed(*api_);
  CUevent event = nullptr;
  CUresult error = api_->EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (error != CUDA_SUCCESS) return QueueFailed(*api_, "making an event", error);
  error = api_->EventRecord(event, Of(stream));
  CUstream helper = nullptr;
  if (error == CUDA_SUCCESS) error = helpers_->Take(context, &helper);
  if (error == CUDA_SUCCESS) error = api_->StreamWaitEvent(helper, event, CU_EVENT_WAIT_DEFAULT);
  if (error == CUDA_SUCCESS) {
    auto call = std::make_unique<Call>(Call{helpers_, context, helper, std::move(begin)});
    error = api_->LaunchHostFunc(helper, &Call::Run, call.get());
    if (error == CUDA_SUCCESS) static_cast<void>(call.release());
  }
  api_->EventDestroy(event);  // who waits for it has been queued
  if (error == CUDA_SUCCESS) return OkStatus();
  if (helper != nullptr) helpers_->GiveBack(context, helper);
  return QueueFailed(*api_, "waiting for the stream", error);
}

// Streams share the GPU's queues: what waits there holds up what was queued behind it, also on
// other streams. So nothing may be queued behind the wait that the wait's end depends on.
Status StreamOrders::Queue(const StreamOrder& order, const WordRef& word,
                           std::function<void()> begin) {
  const auto start = std::make_shared<Start>(order.after ? 2 : 1, std::move(begin));
  Status queued = QueueBoth(order, word.get(), start);
  if (queued.ok()) {
    start->Arrive();
  } else if (word != nullptr) {
    word->Set();
    const MutexLock lock(mutex_);
    free_.push_back(word->address());
  }
  return queued;
}

Status StreamOrders::QueueBoth(const StreamOrder& order, Word* word,
                               const std::shared_ptr<Start>& start) {
  for (const auto& stream : {order.after, order.then}) {
    if (stream) ONECOPY_RETURN_IF_ERROR(CheckStream(*stream));
  }
  if (order.after) {
    ONECOPY_RETURN_IF_ERROR(CallAfter(*order.after, [start] { start->Arrive(); }));
  }
  return order.then ? WaitFor(*order.then, *word) : OkStatus();
}

}  // namespace onecopy::client
