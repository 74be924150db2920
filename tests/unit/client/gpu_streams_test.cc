// Who has what a stream has freed, and after what: by a driver without a GPU, whose streams are
// threads.
#include "client/lib/pool/gpu_streams.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "client/lib/pool/gpu_slabs.h"
#include "client/lib/session/connection.h"
#include "tests/unit/client/gpu_pool_fixture.h"

using onecopy::Pool;
using onecopy::Result;
using onecopy::Status;
using onecopy::StreamHandle;
using onecopy::client::GpuDevice;
using onecopy::client::GpuStreams;
using onecopy::testing::FakeCudaFunction;
using onecopy::testing::FakeCudaPath;
using onecopy::testing::GpuPoolFixture;
using onecopy::testing::kMiB;

namespace {

int Spoils() { return FakeCudaFunction<FakeCudaSpoils>("fakeCudaSpoils")(); }
int DeadStreams() { return FakeCudaFunction<FakeCudaDeadStreams>("fakeCudaDeadStreams")(); }
void Capture(StreamHandle stream, bool capturing) {
  FakeCudaFunction<FakeCudaCapture>("fakeCudaCapture")(reinterpret_cast<CUstream>(stream),
                                                       capturing);
}

// The primary context of GPU 0, current while this lives, and what it takes to give it work.
struct Streams {
  std::shared_ptr<const onecopy::shim::CudaApi> api = *onecopy::shim::LoadCuda(FakeCudaPath());
  onecopy::shim::PrimaryCudaContext context{*api, 0};
  onecopy::shim::ScopedCudaContext scope{*api, context.get()};

  StreamHandle Make(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream stream = nullptr;
    REQUIRE(api->StreamCreate(&stream, flags) == CUDA_SUCCESS);
    return reinterpret_cast<StreamHandle>(stream);
  }
  void Destroy(StreamHandle stream) const {
    REQUIRE(api->StreamDestroy(reinterpret_cast<CUstream>(stream)) == CUDA_SUCCESS);
  }
  void Do(StreamHandle stream, std::function<void()> work) const {
    const auto run = [](void* data) {
      const std::unique_ptr<std::function<void()>> held(static_cast<std::function<void()>*>(data));
      (*held)();
    };
    REQUIRE(api->LaunchHostFunc(reinterpret_cast<CUstream>(stream), run,
                                new std::function<void()>(std::move(work))) == CUDA_SUCCESS);
  }
  void Finish(StreamHandle stream) const {
    REQUIRE(api->StreamSynchronize(reinterpret_cast<CUstream>(stream)) == CUDA_SUCCESS);
  }
  // Whatever is given to the stream from now on waits for *gate.
  void HoldUp(StreamHandle stream, const std::shared_ptr<std::atomic<bool>>& gate) const {
    Do(stream, [gate] { gate->wait(false); });
  }
};

std::shared_ptr<std::atomic<bool>> NewGate() { return std::make_shared<std::atomic<bool>>(false); }
void Open(const std::shared_ptr<std::atomic<bool>>& gate) {
  *gate = true;
  gate->notify_all();
}

// A pool of one slab, which is one piece.
struct StreamsFixture : GpuPoolFixture {
  Streams streams;
  std::shared_ptr<Pool> pool = Make({.slab_bytes = 2 * kMiB, .limit_bytes = 2 * kMiB});

  void* All(StreamHandle stream) const {
    const Result<void*> all = pool->Allocate(2 * kMiB, stream);
    REQUIRE_OK(all);
    return *all;
  }
  Status Refusal(StreamHandle stream) const { return pool->Allocate(2 * kMiB, stream).status(); }
};

}  // namespace

TEST_CASE("a stream has its own again at once, and what another one freed in order after that") {
  StreamsFixture f;
  const StreamHandle busy = f.streams.Make();
  const StreamHandle other = f.streams.Make();
  const StreamHandle first = GENERATE(StreamHandle{0}, StreamHandle{77});
  const StreamHandle earlier = first == 77 ? busy : first;
  const auto gate = NewGate();
  const auto reached = NewGate();
  void* const all = f.All(earlier);
  f.streams.HoldUp(earlier, gate);
  REQUIRE_OK(f.pool->Deallocate(all, 0, earlier));
  CHECK(f.All(earlier) == all);
  CHECK(f.pool->statistics().from_recent == 1);
  REQUIRE_OK(f.pool->Deallocate(all, 0, earlier));
  CHECK(f.All(other) == all);  // while the gate is closed
  f.streams.Do(other, [reached] { Open(reached); });
  CHECK_FALSE(*reached);
  CHECK(f.pool->statistics().from_others == 1);
  CHECK(f.pool->statistics().synchronized == 0);
  Open(gate);
  f.streams.Finish(other);
  CHECK(*reached);
  // And back, to the default one.
  REQUIRE_OK(f.pool->Deallocate(all, 0, other));
  CHECK(f.All(0) == all);
  f.streams.Destroy(busy);
  f.streams.Destroy(other);
}

TEST_CASE("memory given back on another stream than it was had by is that one's") {
  StreamsFixture f;
  const StreamHandle one = f.streams.Make();
  const StreamHandle other = f.streams.Make();
  void* const all = f.All(one);
  REQUIRE_OK(f.pool->Deallocate(all, 0, other));
  CHECK(f.All(other) == all);
  CHECK(f.pool->statistics().from_recent == 1);
  CHECK(f.pool->statistics().from_others == 0);
  f.streams.Destroy(one);
  f.streams.Destroy(other);
}

TEST_CASE("a stream that was destroyed is never named again, and its handle is another stream") {
  StreamsFixture f;
  const int dead = DeadStreams();
  const StreamHandle gone = f.streams.Make();
  void* const all = f.All(gone);
  REQUIRE_OK(f.pool->Deallocate(all, 0, gone));
  f.streams.Destroy(gone);
  const StreamHandle next = f.streams.Make();
  REQUIRE(next == gone);
  CHECK(f.All(next) == all);
  CHECK(f.pool->statistics().from_recent == 0);
  CHECK(f.pool->statistics().from_others == 1);
  REQUIRE_OK(f.pool->Deallocate(all, 0, next));
  f.streams.Destroy(next);
  CHECK(*f.pool->Trim() == 2 * kMiB);
  CHECK(DeadStreams() == dead);
}

TEST_CASE("the default stream of each thread is one of its own") {
  StreamsFixture f;
  constexpr StreamHandle kPerThread = 2;
  void* const all = f.All(kPerThread);
  REQUIRE_OK(f.pool->Deallocate(all, 0, kPerThread));
  std::jthread([&] {
    const Result<void*> made = f.pool->Allocate(2 * kMiB, kPerThread);
    if (made.ok()) static_cast<void>(f.pool->Deallocate(*made, 0, kPerThread));
  }).join();
  CHECK(f.pool->statistics().allocations == 2);
  CHECK(f.pool->statistics().from_recent == 0);
  CHECK(f.pool->statistics().from_others == 1);
  CHECK(f.All(0) == all);
}

TEST_CASE("without a driver that numbers streams, a thread's own one is refused") {
  const auto whole = *onecopy::shim::LoadCuda(FakeCudaPath());
  auto lacks = std::make_shared<onecopy::shim::CudaApi>(*whole);
  lacks->StreamGetId = nullptr;
  const auto gpu = GpuDevice::Open(lacks, 0);
  REQUIRE_OK(gpu);
  const Streams streams;
  const StreamHandle stream = streams.Make();
  GpuStreams order(*gpu);
  const Status refused = order.KeyOf(2).status();
  CHECK(refused.reason() == onecopy::reasons::kDriverTooOld);
  CHECK(refused.message().find("cuStreamGetId") != std::string::npos);
  const auto key = order.KeyOfFreeing(stream);
  REQUIRE_OK(key);
  CHECK(*key != 0);
  REQUIRE_OK(order.Wait(*key));
  CHECK(*order.KeyOf(0) == 0);
  CHECK(*order.KeyOf(1) == 0);
  streams.Destroy(stream);
}

TEST_CASE("a stream of another context is refused, and the memory stays") {
  StreamsFixture f;
  void* const all = f.All(0);
  {
    const onecopy::shim::PrimaryCudaContext other(*f.streams.api, 1);
    const onecopy::shim::ScopedCudaContext scope(*f.streams.api, other.get());
    const StreamHandle foreign = f.streams.Make();
    const Status refused = f.pool->Deallocate(all, 0, foreign);
    CHECK(refused.reason() == onecopy::reasons::kDriverFailed);
    CHECK(refused.remedy().find("primary context") != std::string::npos);
    f.streams.Destroy(foreign);
  }
  CHECK(f.pool->statistics().blocks_in_use == 1);
  REQUIRE_OK(f.pool->Deallocate(all));
}

TEST_CASE("a graph that is being captured has new memory, and keeps what it frees") {
  StreamsFixture f;
  const int spoils = Spoils();
  const StreamHandle graph = f.streams.Make();
  const StreamHandle other = f.streams.Make();
  const auto pool = f.Make({.slab_bytes = 2 * kMiB, .limit_bytes = 4 * kMiB});
  const auto have = [&](StreamHandle stream) {
    const Result<void*> made = pool->Allocate(2 * kMiB, stream);
    REQUIRE_OK(made);
    return *made;
  };
  void* const before = have(graph);
  REQUIRE_OK(pool->Deallocate(before, 0, graph));
  Capture(graph, true);
  // What the stream freed before the capture is work that a launch does not follow.
  void* const captured = have(graph);
  CHECK(captured != before);
  REQUIRE_OK(pool->Deallocate(captured, 0, graph));
  CHECK(have(graph) == captured);
  REQUIRE_OK(pool->Deallocate(captured, 0, graph));
  CHECK(pool->ReleaseStream(graph).reason() == onecopy::reasons::kStreamCapturing);
  CHECK(have(other) == before);
  const Status refused = pool->Allocate(2 * kMiB, 0).status();
  CHECK(refused.code() == onecopy::Code::kResourceExhausted);
  CHECK(refused.message().find("captured a graph") != std::string::npos);
  CHECK(*pool->Trim() == 0);
  CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
  REQUIRE(f.streams.api->StreamIsCapturing(reinterpret_cast<CUstream>(graph), &now) ==
          CUDA_SUCCESS);
  CHECK(now == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  Capture(graph, false);
  // The graph may be launched: its memory is nobody else's.
  CHECK(pool->Allocate(2 * kMiB, graph).status().code() == onecopy::Code::kResourceExhausted);
  REQUIRE_OK(pool->ReleaseStream(graph));
  CHECK(have(0) == captured);
  CHECK(Spoils() == spoils);
  f.streams.Destroy(graph);
  f.streams.Destroy(other);
}

TEST_CASE("growth, order, waits and trimming spoil no capture elsewhere") {
  StreamsFixture f;
  const StreamHandle elsewhere = f.streams.Make();
  const StreamHandle one = f.streams.Make();
  const StreamHandle other = f.streams.Make();
  Capture(elsewhere, true);
  const int spoils = Spoils();
  {
    const auto pool =
        f.Make({.managed_overflow = true, .slab_bytes = 2 * kMiB, .limit_bytes = 4 * kMiB});
    const auto pinned = f.Make({.pinned = true, .initial_bytes = kMiB});
    GpuPoolFixture::SetRoom(2 * kMiB);
    void* const first = *pool->Allocate(2 * kMiB, one);
    void* const second = *pool->Allocate(2 * kMiB, one);
    CHECK(pool->statistics().bytes_managed == 2 * kMiB);
    REQUIRE_OK(pool->Deallocate(first, 0, one));
    CHECK(*pool->Allocate(2 * kMiB, other) == first);
    REQUIRE_OK(pool->Deallocate(first, 0, 0));
    REQUIRE_OK(pool->Deallocate(second, 0, other));
    CHECK(*pool->Trim() == 4 * kMiB);
    REQUIRE_OK(pool->ReleaseStream(one));
    GpuPoolFixture::SetRoom(0);
  }
  CHECK(Spoils() == spoils);
  // Such a driver does notice.
  CUdeviceptr memory = 0;
  REQUIRE(f.streams.api->MemAllocManaged(&memory, 1, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  CHECK(Spoils() == spoils + 1);
  f.streams.api->MemFree(memory);
  Capture(elsewhere, false);
  for (const StreamHandle stream : {elsewhere, one, other}) f.streams.Destroy(stream);
}

TEST_CASE("the default stream is not asked to wait for one that captures") {
  StreamsFixture f;
  const StreamHandle blocking = f.streams.Make(CU_STREAM_DEFAULT);
  const StreamHandle other = f.streams.Make();
  void* const all = f.All(0);
  REQUIRE_OK(f.pool->Deallocate(all));
  Capture(blocking, true);
  const int spoils = Spoils();
  CHECK(f.Refusal(other).message().find("capturing") != std::string::npos);
  CHECK(f.All(0) == all);  // its own
  CHECK(Spoils() == spoils);
  REQUIRE_OK(f.pool->Deallocate(all));
  Capture(blocking, false);
  CHECK(f.All(other) == all);
  f.streams.Destroy(blocking);
  f.streams.Destroy(other);
}

TEST_CASE("a stream that is released leaves what it freed to all") {
  StreamsFixture f;
  const StreamHandle stream = f.streams.Make();
  void* const all = f.All(stream);
  REQUIRE_OK(f.pool->Deallocate(all, 0, stream));
  REQUIRE_OK(f.pool->ReleaseStream(stream));
  f.streams.Destroy(stream);
  CHECK(f.pool->statistics().synchronized == 1);
  CHECK(f.All(0) == all);
  CHECK(f.pool->statistics().synchronized == 1);
}

TEST_CASE("what is known of a stream that is released goes, its event too") {
  const auto api = *onecopy::shim::LoadCuda(FakeCudaPath());
  const int leaks = FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")();
  {
    const auto gpu = GpuDevice::Open(api, 1);
    REQUIRE_OK(gpu);
    const onecopy::shim::ScopedCudaContext scope(*api, (*gpu)->context());
    CUstream stream = nullptr;
    REQUIRE(api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    GpuStreams order(*gpu);
    const auto key = order.KeyOfFreeing(reinterpret_cast<StreamHandle>(stream));
    REQUIRE_OK(key);
    order.Forget({*key});
    REQUIRE(api->StreamDestroy(stream) == CUDA_SUCCESS);
  }  // the context closes
  CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == leaks);
}

TEST_CASE("streams that one capture forks into have nothing of each other") {
  StreamsFixture f;
  const int spoils = Spoils();
  const StreamHandle one = f.streams.Make();
  const StreamHandle other = f.streams.Make();
  const auto pool = f.Make({.slab_bytes = 2 * kMiB, .limit_bytes = 4 * kMiB});
  Capture(one, true);
  FakeCudaFunction<FakeCudaFork>("fakeCudaFork")(reinterpret_cast<CUstream>(one),
                                                 reinterpret_cast<CUstream>(other));
  void* const of_one = *pool->Allocate(2 * kMiB, one);
  REQUIRE_OK(pool->Deallocate(of_one, 0, one));
  void* const of_other = *pool->Allocate(2 * kMiB, other);
  CHECK(of_other != of_one);
  REQUIRE_OK(pool->Deallocate(of_other, 0, other));
  CHECK(*pool->Allocate(2 * kMiB, one) == of_one);
  REQUIRE_OK(pool->Deallocate(of_one, 0, one));
  Capture(one, false);
  Capture(other, false);
  // Nor has a later capture of the same stream anything of an earlier one.
  Capture(one, true);
  CHECK_FALSE(pool->Allocate(2 * kMiB, one).ok());
  Capture(one, false);
  REQUIRE_OK(pool->ReleaseStream(one));
  CHECK(*pool->Allocate(2 * kMiB, 0) == of_one);
  CHECK_FALSE(pool->Allocate(2 * kMiB, 0).ok());  // the other's is still its graph's
  REQUIRE_OK(pool->ReleaseStream(other));
  CHECK(*pool->Allocate(2 * kMiB, 0) == of_other);
  CHECK(Spoils() == spoils);
  f.streams.Destroy(one);
  f.streams.Destroy(other);
}

TEST_CASE("what a capture freed is given out once its stream is done") {
  StreamsFixture f;
  const StreamHandle graph = f.streams.Make();
  void* const all = f.All(graph);
  std::atomic<bool> done = false;
  std::atomic<bool> go = false;
  f.streams.Do(graph, [&] {
    while (!go) std::this_thread::yield();
    done = true;
  });
  Capture(graph, true);
  REQUIRE_OK(f.pool->Deallocate(all, 0, graph));
  Capture(graph, false);
  const std::jthread releases([&] { go = true; });
  REQUIRE_OK(f.pool->ReleaseStream(graph));
  CHECK(done);
  CHECK(f.All(0) == all);
  f.streams.Destroy(graph);
}

TEST_CASE("the default stream is released by either of its names") {
  StreamsFixture f;
  void* const all = f.All(0);
  REQUIRE_OK(f.pool->Deallocate(all));
  REQUIRE_OK(f.pool->ReleaseStream(1));
  CHECK(f.pool->statistics().synchronized == 1);
}

// What streams write late, never into memory that another one has by then.
TEST_CASE("over random work on streams no byte is stale, and the tables agree") {
  GpuPoolFixture f;
  const Streams streams;
  const auto connection = onecopy::client::Connection::Open({.run_dir = f.dir.path()});
  REQUIRE_OK(connection);
  const auto gpu = GpuDevice::Open(*onecopy::shim::LoadCuda(FakeCudaPath()), 0);
  REQUIRE_OK(gpu);
  const onecopy::PoolOptions options{.cuda_device = 0, .limit_bytes = 8 * kMiB};
  auto slabs = onecopy::client::GpuSlabs::Open(*connection, *gpu, options);
  REQUIRE_OK(slabs);
  GpuStreams order(*gpu);
  onecopy::client::PoolCore core({2 * kMiB, 8 * kMiB, (*slabs)->granularity()}, **slabs, order);
  std::vector<StreamHandle> all = {0};
  for (int i = 0; i < 3; ++i) all.push_back(streams.Make());
  struct Piece {
    unsigned char* data;
    uint64_t bytes;
    unsigned char fill;
  };
  std::map<StreamHandle, std::vector<Piece>> held;
  std::atomic<int> stale = 0;
  std::atomic<int> checked = 0;
  std::mt19937_64 random(7);
  unsigned char fill = 0;
  for (int step = 0; step < 3000; ++step) {
    StreamHandle& stream = all[random() % all.size()];
    std::vector<Piece>& pieces = held[stream];
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % (step % 10 == 0 ? kMiB : 40'000);
      const auto key = order.KeyOf(stream);
      REQUIRE_OK(key);
      const Result<void*> made = core.Allocate(bytes, *key);
      if (!made.ok()) {
        REQUIRE(made.status().reason() == onecopy::reasons::kQuota);
      } else {
        const Piece piece{static_cast<unsigned char*>(*made), bytes, ++fill};
        streams.Do(stream, [piece] {
          for (int i = 0; i < 20; ++i) std::this_thread::yield();
          std::memset(piece.data, piece.fill, piece.bytes);
        });
        pieces.push_back(piece);
      }
    } else if (!pieces.empty()) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const Piece piece = pieces.back();
      pieces.pop_back();
      streams.Do(stream, [piece, &stale, &checked] {
        if (!GpuPoolFixture::Holds(piece.data, piece.bytes, piece.fill)) ++stale;
        ++checked;
      });
      const auto key = order.KeyOfFreeing(stream);
      REQUIRE_OK(key);
      REQUIRE_OK(core.Deallocate(piece.data, piece.bytes, *key));
    } else if (stream != 0 && step % 7 == 0) {
      // Without a word to the pool, as programs do.
      streams.Finish(stream);
      streams.Destroy(stream);
      held.erase(stream);
      stream = streams.Make();
    } else if (step % 11 == 0) {
      REQUIRE_OK(core.Trim(random() % (4 * kMiB)));
    }
    const Status tables = core.Check();
    INFO(tables);
    REQUIRE(tables.ok());
  }
  for (const auto& [stream, pieces] : held) {
    for (const Piece& piece : pieces) REQUIRE_OK(core.Deallocate(piece.data, piece.bytes, 0));
  }
  for (const StreamHandle stream : all) {
    streams.Finish(stream);
    if (stream != 0) streams.Destroy(stream);
  }
  CHECK(stale == 0);
  CHECK(checked > 500);
  CHECK(core.statistics().from_others > 0);
}

TEST_CASE("one stream is made to follow another one, and the host waits for neither") {
  StreamsFixture f;
  const StreamHandle earlier = f.streams.Make();
  const StreamHandle later =
      GENERATE(StreamHandle{0}, StreamHandle{77}) == 0 ? 0 : f.streams.Make();
  const auto gate = NewGate();
  const auto reached = NewGate();
  f.streams.HoldUp(earlier, gate);
  REQUIRE_OK(f.pool->Follow(later, earlier));
  f.streams.Do(later, [reached] { Open(reached); });
  CHECK_FALSE(*reached);
  Open(gate);
  f.streams.Finish(later);
  CHECK(*reached);
  REQUIRE_OK(f.pool->Follow(later, later));
  Capture(earlier, true);
  CHECK(f.pool->Follow(later, earlier).reason() == onecopy::reasons::kStreamCapturing);
  CHECK(f.pool->Follow(earlier, later).reason() == onecopy::reasons::kStreamCapturing);
  Capture(earlier, false);
  f.streams.Destroy(earlier);
  if (later != 0) f.streams.Destroy(later);
  const auto host = f.client.CreatePool();
  REQUIRE_OK(host);
  CHECK((*host)->Follow(0, 77).reason() == onecopy::reasons::kBadArgument);
  REQUIRE_OK((*host)->Synchronize());
}

TEST_CASE("the host can wait for all that the GPU was given, of streams that nobody names") {
  StreamsFixture f;
  const int dead = DeadStreams();
  const StreamHandle stream = f.streams.Make();
  std::atomic<int> done = 0;
  for (int i = 0; i < 100; ++i) f.streams.Do(stream, [&] { ++done; });
  REQUIRE_OK(f.pool->Synchronize());
  CHECK(done == 100);
  Capture(stream, true);
  CHECK_FALSE(f.pool->Synchronize().ok());
  Capture(stream, false);
  f.streams.Destroy(stream);
  REQUIRE_OK(f.pool->Synchronize());
  CHECK(DeadStreams() == dead);
}
