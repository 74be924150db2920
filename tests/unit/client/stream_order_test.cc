// Transfers in the order of CUDA streams, by a driver without a GPU.
#include <atomic>

#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/client/client_fixture.h"
#include "transport/shim/cuda.h"

namespace stream_order_test {
using onecopy::Code;
using onecopy::StreamOrder;
using onecopy::TransferFuture;
using onecopy::TransferRequest;
using onecopy::TransferState;
using onecopy::testing::FakeCudaFunction;
using onecopy::testing::FakeCudaPath;

namespace {

// A context with two streams, one of which can be held up.
struct Streams {
  std::shared_ptr<const onecopy::shim::CudaApi> api = *onecopy::shim::LoadCuda(FakeCudaPath());
  CUstream busy = nullptr;
  CUstream other = nullptr;
  uint32_t* gate = nullptr;

  Streams() {
    CUcontext context = nullptr;
    REQUIRE(api->DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    const onecopy::shim::ScopedCudaContext scope(*api, context);
    REQUIRE(api->StreamCreate(&busy, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(api->StreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    void* memory = nullptr;
    REQUIRE(api->MemHostAlloc(&memory, sizeof(uint32_t), 0) == CUDA_SUCCESS);
    gate = static_cast<uint32_t*>(memory);
    *gate = 0;
    this->context = context;
  }
  ~Streams() {
    Open();
    {
      const onecopy::shim::ScopedCudaContext scope(*api, context);
      api->StreamDestroy(busy);
      api->StreamDestroy(other);
      api->MemFreeHost(gate);
    }
    api->DevicePrimaryCtxRelease(0);
  }

  // Whatever is queued there from now on waits for Open.
  void HoldUp() const {
    REQUIRE(api->StreamWaitValue32(busy, reinterpret_cast<CUdeviceptr>(gate), 1,
                                   CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  }
  void Open() const { std::atomic_ref(*gate).store(1); }

  // Becomes true when the stream has come as far as now.
  std::shared_ptr<std::atomic<bool>> Mark(CUstream stream) const {
    auto reached = std::make_shared<std::atomic<bool>>(false);
    auto* const kept = new std::shared_ptr<std::atomic<bool>>(reached);
    const auto reach = [](void* data) {
      auto* const mark = static_cast<std::shared_ptr<std::atomic<bool>>*>(data);
      **mark = true;
      mark->get()->notify_all();
      delete mark;
    };
    REQUIRE(api->LaunchHostFunc(stream, reach, kept) == CUDA_SUCCESS);
    return reached;
  }

  static uintptr_t Number(CUstream stream) { return reinterpret_cast<uintptr_t>(stream); }

  CUcontext context = nullptr;
};

struct StreamFixture : onecopy::testing::CopyFixture {
  Streams streams;

  StreamFixture() : CopyFixture({.cuda_library = FakeCudaPath()}) {}
  ~StreamFixture() { EndClient(); }

  TransferFuture Begin(const StreamOrder& order, const TransferRequest& request = Over()) {
    auto future = client.RunTransferAsync(request, order);
    REQUIRE_OK(future);
    return *std::move(future);
  }
  StreamOrder InOrder() const {
    return {Streams::Number(streams.busy), Streams::Number(streams.busy)};
  }
  // None has reached a daemon.
  bool NoneStarted() { return client.ListTransfers()->empty(); }
};

}  // namespace

TEST_CASE("a transfer waits for its stream, and the stream's later work for the transfer") {
  StreamFixture f;
  f.streams.HoldUp();
  f.daemon.Hold();
  const TransferFuture future = f.Begin(f.InOrder());
  const auto later = f.streams.Mark(f.streams.busy);
  CHECK(f.NoneStarted());
  f.streams.Open();
  f.daemon.AwaitRunning(1);
  CHECK_FALSE(*later);
  CHECK_FALSE(future.done());
  f.daemon.Release();
  const auto outcome = future.Get();
  REQUIRE_OK(outcome);
  CHECK(outcome->state == TransferState::kSucceeded);
  later->wait(false);
  CHECK(*later);
}

TEST_CASE("one stream may be waited for, and another one wait") {
  StreamFixture f;
  f.streams.HoldUp();
  const TransferFuture future =
      f.Begin({Streams::Number(f.streams.busy), Streams::Number(f.streams.other)});
  const auto busy = f.streams.Mark(f.streams.busy);
  const auto other = f.streams.Mark(f.streams.other);
  CHECK_FALSE(*other);
  f.streams.Open();
  REQUIRE_OK(future.Get());
  busy->wait(false);
  other->wait(false);
  // Each of them alone.
  REQUIRE_OK(f.Begin({.after = Streams::Number(f.streams.busy)}).Get());
  REQUIRE_OK(f.Begin({.then = Streams::Number(f.streams.busy)}).Get());
  f.streams.Mark(f.streams.busy)->wait(false);
  REQUIRE_OK(f.Begin({}).Get());
}

TEST_CASE("hundreds of transfers follow each other on a stream") {
  StreamFixture f;
  f.streams.HoldUp();
  std::vector<TransferFuture> futures;
  for (int i = 0; i < 300; ++i) futures.push_back(f.Begin(f.InOrder()));
  const auto last = f.streams.Mark(f.streams.busy);
  CHECK_FALSE(*last);
  f.streams.Open();
  for (const TransferFuture& future : futures) REQUIRE_OK(future.Get());
  last->wait(false);
  // What was queued for them is of use again.
  for (int i = 0; i < 600; ++i) REQUIRE_OK(f.Begin(f.InOrder()).Get());
}

TEST_CASE("a stream that captures a graph is refused, and goes on capturing") {
  StreamFixture f;
  const auto capture = FakeCudaFunction<FakeCudaCapture>("fakeCudaCapture");
  for (const StreamOrder& order :
       {f.InOrder(), StreamOrder{.after = f.InOrder().after}, StreamOrder{.then = f.InOrder().then},
        StreamOrder{Streams::Number(f.streams.other), Streams::Number(f.streams.busy)}}) {
    capture(f.streams.busy, true);
    const onecopy::Status refused =
        f.client.RunTransferAsync(StreamFixture::Over(), order).status();
    CHECK(refused.code() == Code::kFailedPrecondition);
    CHECK(refused.reason() == onecopy::reasons::kStreamCapturing);
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    REQUIRE(f.streams.api->StreamIsCapturing(f.streams.busy, &now) == CUDA_SUCCESS);
    CHECK(now == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    capture(f.streams.busy, false);
  }
  CHECK(f.NoneStarted());
  REQUIRE_OK(f.Begin(f.InOrder()).Get());
}

TEST_CASE("a transfer that cannot be lets the stream go on, and says why") {
  StreamFixture f;
  TransferRequest request = StreamFixture::Over();
  request.source.buffer = "missing";
  const TransferFuture future = f.Begin(f.InOrder(), request);
  f.streams.Mark(f.streams.busy)->wait(false);
  CHECK(future.Get().status().reason() == onecopy::reasons::kBufferNotFound);
  request.source.buffer = std::string(300, 'x');
  CHECK(f.client.RunTransferAsync(request, f.InOrder()).status().reason() ==
        onecopy::reasons::kBadName);
}

TEST_CASE("one that is cancelled before its stream has come so far never begins") {
  StreamFixture f;
  f.streams.HoldUp();
  const TransferFuture future =
      f.Begin({.after = Streams::Number(f.streams.busy), .then = Streams::Number(f.streams.other)});
  future.Cancel();
  CHECK(future.Get().status().reason() == onecopy::reasons::kCancelled);
  f.streams.Mark(f.streams.other)->wait(false);
  f.streams.Open();
  f.streams.Mark(f.streams.busy)->wait(false);
  CHECK(f.NoneStarted());
}

TEST_CASE("a client that goes lets streams go on, whatever they have come to") {
  StreamFixture f;
  f.streams.HoldUp();
  const TransferFuture waits =
      f.Begin({.after = Streams::Number(f.streams.busy), .then = Streams::Number(f.streams.other)});
  f.EndClient();
  CHECK(waits.Get().status().reason() == onecopy::reasons::kCancelled);
  f.streams.Mark(f.streams.other)->wait(false);
  f.streams.Open();
  f.streams.Mark(f.streams.busy)->wait(false);
}
}  // namespace stream_order_test
