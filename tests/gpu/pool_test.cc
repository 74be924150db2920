// Pools of a real GPU's memory: streams that write late, graphs that are being captured, daemons
// that move pieces, and memory that is given back.
#include "onecopy/pool.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/gpu/users.h"

namespace onecopy::testing::pool_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}
void Must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}
void Must(CUresult error) {
  if (error != CUDA_SUCCESS) throw std::runtime_error(shim::CudaErrorText(**TheDriver(), error));
}

// A GPU's primary context, current while this lives, and pinned memory to look at its bytes with.
struct OnGpu {
  explicit OnGpu(int number) : context(*api, number), scope(*api, context.get()) {}

  CUstream MakeStream() const {
    CUstream stream = nullptr;
    Must(api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }
  void Put(void* to, const std::string& bytes) const {
    CUstream const stream = MakeStream();
    Must(api->MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), bytes.data(), bytes.size(),
                              stream));
    Must(api->StreamSynchronize(stream));
    Must(api->StreamDestroy(stream));
  }
  std::string Get(const void* from, uint64_t bytes) const {
    std::string copy(bytes, '\0');
    CUstream const stream = MakeStream();
    Must(api->MemcpyDtoHAsync(copy.data(), reinterpret_cast<CUdeviceptr>(from), bytes, stream));
    Must(api->StreamSynchronize(stream));
    Must(api->StreamDestroy(stream));
    return copy;
  }
  void Fill(void* to, unsigned char value, uint64_t bytes, CUstream stream) const {
    Must(api->MemsetD8Async(reinterpret_cast<CUdeviceptr>(to), value, bytes, stream));
  }
  // What is given to the stream from now on begins a while later.
  void Delay(CUstream stream) const {
    const auto wait = [](void*) { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
    Must(api->LaunchHostFunc(stream, wait, nullptr));
  }
  uint64_t FreeBytes() const {
    size_t free = 0;
    size_t total = 0;
    Must(api->MemGetInfo(&free, &total));
    return free;
  }

  Driver api = *TheDriver();
  shim::PrimaryCudaContext context;
  shim::ScopedCudaContext scope;
};

StreamHandle Number(CUstream stream) { return reinterpret_cast<StreamHandle>(stream); }

size_t CountWrong(const std::string& bytes, char wanted) {
  return bytes.size() - static_cast<size_t>(std::count(bytes.begin(), bytes.end(), wanted));
}

// Functions of graphs, which the product has no use for.
template <typename Function>
Function* FromDriver(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  auto* const found = reinterpret_cast<Function*>(::dlsym(library, name));
  if (found == nullptr) throw std::runtime_error(name);
  return found;
}

std::shared_ptr<Pool> MakePool(Client& client, PoolOptions options) {
  if (!options.cuda_device) options.cuda_device = 0;
  return Must(client.CreatePool(options));
}

}  // namespace

TEST_CASE("a thousand pieces pass between two streams, and no byte of a late writer is seen") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Client client = east.Connect();
  const OnGpu gpu(0);
  // One slab that is one piece: whoever asks has what the other one freed.
  const auto pool = MakePool(client, {.slab_bytes = 2 * kMiB, .limit_bytes = 2 * kMiB});
  CUstream const a = gpu.MakeStream();
  CUstream const b = gpu.MakeStream();
  size_t stale = 0;
  for (int round = 0; round < 1000; ++round) {
    CUstream const early = round % 2 == 0 ? a : b;
    CUstream const late = round % 2 == 0 ? b : a;
    void* const one = Must(pool->Allocate(2 * kMiB, Number(early)));
    gpu.Delay(early);
    gpu.Fill(one, 0xee, 2 * kMiB, early);
    Must(pool->Deallocate(one, 0, Number(early)));
    void* const other = Must(pool->Allocate(2 * kMiB, Number(late)));
    REQUIRE(other == one);
    const auto fill = static_cast<unsigned char>(round % 200);
    gpu.Fill(other, fill, 2 * kMiB, late);
    Must(gpu.api->StreamSynchronize(late));
    stale += CountWrong(gpu.Get(other, 2 * kMiB), static_cast<char>(fill));
    Must(pool->Deallocate(other, 0, Number(late)));
  }
  CHECK(stale == 0);
  CHECK(pool->statistics().from_others >= 1000);
  CHECK(pool->statistics().synchronized == 0);

  // Such a writer would be seen, were there no order.
  void* const piece = Must(pool->Allocate(2 * kMiB, Number(a)));
  gpu.Delay(a);
  gpu.Fill(piece, 0xee, 2 * kMiB, a);
  gpu.Fill(piece, 1, 2 * kMiB, b);
  Must(gpu.api->StreamSynchronize(b));
  Must(gpu.api->StreamSynchronize(a));
  CHECK(CountWrong(gpu.Get(piece, 2 * kMiB), 1) == 2 * kMiB);
  Must(pool->Deallocate(piece, 0, Number(a)));

  // The default stream, and one that has gone without a word.
  Must(gpu.api->StreamDestroy(a));
  void* const after = Must(pool->Allocate(2 * kMiB));
  CHECK(after == piece);
  gpu.Fill(after, 3, 2 * kMiB, nullptr);
  Must(pool->Deallocate(after));
  CHECK(Must(pool->Allocate(2 * kMiB, Number(b))) == piece);
  CHECK(CountWrong(gpu.Get(piece, 2 * kMiB), 3) == 0);
  Must(pool->Deallocate(piece, 0, Number(b)));
  Must(pool->ReleaseStream(Number(b)));
  Must(gpu.api->StreamDestroy(b));
}

TEST_CASE("a capture goes on whatever the pool does, and its graph has memory of its own") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Client client = east.Connect();
  const OnGpu gpu(0);
  const auto pool = MakePool(client, {.slab_bytes = 2 * kMiB, .limit_bytes = 8 * kMiB});
  CUstream const captured = gpu.MakeStream();
  CUstream const other = gpu.MakeStream();
  void* const freed = Must(pool->Allocate(2 * kMiB, Number(captured)));
  Must(pool->Deallocate(freed, 0, Number(captured)));
  using BeginCapture = CUresult(CUstream, CUstreamCaptureMode);
  Must(
      FromDriver<BeginCapture>("cuStreamBeginCapture_v2")(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const auto everything = [&] {
    const OnGpu here(0);
    void* const one = Must(pool->Allocate(2 * kMiB, Number(other)));
    void* const two = Must(pool->Allocate(2 * kMiB));
    here.Fill(one, 1, 2 * kMiB, other);
    Must(pool->Deallocate(one, 0, Number(other)));
    Must(pool->Deallocate(two));
    Must(pool->Allocate(4 * kMiB, 2).status());
    Must(pool->Trim().status());
    Must(pool->ReleaseStream(Number(other)));
    MakePool(client, {.initial_bytes = 2 * kMiB});
    Must(client.CreatePool({.pinned = true, .initial_bytes = kMiB}).status());
  };
  everything();
  std::exception_ptr failed;
  std::thread([&] {
    try {
      const auto again = MakePool(client, {.slab_bytes = 2 * kMiB});
      void* const piece = Must(again->Allocate(kMiB, 2));
      Must(again->Deallocate(piece, 0, 2));
      Must(again->Trim().status());
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
  void* const graphs = Must(pool->Allocate(2 * kMiB, Number(captured)));
  gpu.Fill(graphs, 42, 2 * kMiB, captured);
  Must(pool->Deallocate(graphs, 0, Number(captured)));
  CHECK(Must(pool->Allocate(2 * kMiB, Number(captured))) == graphs);
  Must(pool->Deallocate(graphs, 0, Number(captured)));
  CUgraph graph = nullptr;
  Must(FromDriver<CUresult(CUstream, CUgraph*)>("cuStreamEndCapture")(captured, &graph));
  CUgraphExec executable = nullptr;
  using Instantiate = CUresult(CUgraphExec*, CUgraph, unsigned long long);
  Must(FromDriver<Instantiate>("cuGraphInstantiateWithFlags")(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) {
    const Result<void*> piece = pool->Allocate(2 * kMiB);
    if (piece.ok()) CHECK(*piece != graphs);
    gpu.Fill(graphs, 0, 2 * kMiB, other);
    Must(gpu.api->StreamSynchronize(other));
    Must(FromDriver<CUresult(CUgraphExec, CUstream)>("cuGraphLaunch")(executable, other));
    Must(gpu.api->StreamSynchronize(other));
    CHECK(CountWrong(gpu.Get(graphs, 2 * kMiB), 42) == 0);
  }
  Must(FromDriver<CUresult(CUgraphExec)>("cuGraphExecDestroy")(executable));
  Must(FromDriver<CUresult(CUgraph)>("cuGraphDestroy")(graph));
  Must(pool->ReleaseStream(Number(captured)));
  Must(gpu.api->StreamDestroy(captured));
  Must(gpu.api->StreamDestroy(other));
}

TEST_CASE("pieces of pools move between daemons, in one copy, and outlive a daemon") {
  ONECOPY_NEEDS_GPUS(1);
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const int second = WhyFewerGpus(2).empty() ? 1 : 0;
  const auto from = MakePool(east, {.name = "from", .slab_bytes = 4 * kMiB});
  const auto to = MakePool(west, {.name = "to", .cuda_device = second, .slab_bytes = 4 * kMiB});
  std::vector<std::pair<void*, uint64_t>> sources;
  for (uint64_t i = 0; i < 10; ++i) {
    INFO(i);
    const uint64_t bytes = 1 + i * 777'777;
    void* const source = Must(from->Allocate(bytes));
    void* const target = Must(to->Allocate(bytes));
    OnGpu(0).Put(source, Payload(bytes, i));
    OnGpu(second).Put(target, Payload(bytes, 100 + i));
    const TransferInfo done = Must(east.RunTransfer({.source = Must(from->endpoint(source)),
                                                     .destination = Must(to->endpoint(target)),
                                                     .checksum = true}));
    Must(OutcomeOf(done));
    CHECK(done.receipt.path == "peer-direct");
    CHECK(done.receipt.steps.size() == 1);
    CHECK(OnGpu(second).Get(target, bytes) == Payload(bytes, i));
    sources.emplace_back(source, bytes);
  }
  // Slabs lie side by side; none has become another one's.
  CHECK(from->statistics().slabs > 3);
  for (uint64_t i = 0; i < 10; ++i) {
    CHECK(OnGpu(0).Get(sources[i].first, sources[i].second) == Payload(sources[i].second, i));
  }
  for (const PoolSlab& slab : from->slabs()) CHECK(slab.buffer.form == "cuda-vmm");
  const auto [source, bytes] = sources.back();
  const std::string before = Must(from->endpoint(source)).buffer;
  pair.east.Kill();
  pair.east.Restart();
  Must(east.Ping());
  pair.east.WaitForPeer("west");
  CHECK(Must(from->endpoint(source)).buffer != before);
  void* const again = Must(to->Allocate(bytes));
  Must(OutcomeOf(Must(east.RunTransfer(
      {.source = Must(from->endpoint(source)), .destination = Must(to->endpoint(again))}))));
  CHECK(OnGpu(second).Get(again, bytes) == Payload(bytes, 9));
}

TEST_CASE("what is trimmed is the GPU's again") {
  ONECOPY_NEEDS_GPUS(1);
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  // The process in which a daemon tries libcufile has memory of the GPU, too, for about a second.
  Node east("east", {.config = "[cufile]\nuse = \"off\"\n"});
  Client client = east.Connect();
  const OnGpu gpu(0);
  const auto pool = MakePool(client, {.slab_bytes = 64 * kMiB});
  // What both processes open for the first slab stays. The slab itself goes as soon as the daemon,
  // which has it open too, has come to that.
  Must(pool->Deallocate(Must(pool->Allocate(kMiB))));
  const uint64_t with_slab = gpu.FreeBytes();
  Must(pool->Trim().status());
  WaitUntil("the first slab is the GPU's again",
            [&] { return gpu.FreeBytes() >= with_slab + 64 * kMiB; });
  const uint64_t before = gpu.FreeBytes();
  std::vector<void*> pieces;
  for (int i = 0; i < 16; ++i) pieces.push_back(Must(pool->Allocate(64 * kMiB)));
  CHECK(gpu.FreeBytes() + kGiB <= before + 2 * kMiB);
  for (void* const piece : pieces) Must(pool->Deallocate(piece));
  CHECK(Must(pool->Trim()) == kGiB);
  WaitUntil("all slabs are the GPU's again", [&] { return gpu.FreeBytes() + 2 * kMiB >= before; });
  CHECK(Must(client.ListBuffers()).empty());
  // At the same place.
  CHECK(Must(pool->Allocate(64 * kMiB)) == pieces.front());
}

TEST_CASE("a GPU that is full is told, with what is free") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Client client = east.Connect();
  const OnGpu gpu(0);
  const auto pool = MakePool(client, {.slab_bytes = 2 * kMiB, .limit_bytes = 1024 * kMiB});
  void* const piece = Must(pool->Allocate(2 * kMiB));
  CUdeviceptr rest = 0;
  Must(gpu.api->MemAlloc(&rest, gpu.FreeBytes() - 256 * kMiB));
  const Status full = pool->Allocate(512 * kMiB).status();
  CHECK(full.code() == Code::kResourceExhausted);
  CHECK(full.reason() == "NO_MEMORY");
  CHECK(full.message().find("are free") != std::string::npos);
  Must(gpu.api->MemFree(rest));
  void* const large = Must(pool->Allocate(512 * kMiB));
  Must(pool->Deallocate(large));
  Must(pool->Deallocate(piece));
}

// Not by a GPU that is full: managed memory that does not fit can hang one.
TEST_CASE("what finds no addresses in one piece is managed memory, copied once more") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Client client = east.Connect();
  const OnGpu gpu(0);
  const auto pool =
      MakePool(client, {.managed_overflow = true, .slab_bytes = 2 * kMiB, .limit_bytes = 8 * kMiB});
  void* const source = Must(pool->Allocate(2 * kMiB));
  void* const between = Must(pool->Allocate(2 * kMiB));
  Must(pool->Allocate(2 * kMiB).status());
  Must(pool->Deallocate(between));
  CHECK(Must(pool->Trim()) == 2 * kMiB);
  gpu.Put(source, Payload(2 * kMiB, 5));
  void* const managed = Must(pool->Allocate(4 * kMiB));
  CHECK(pool->statistics().bytes_managed == 4 * kMiB);
  for (const PoolSlab& slab : pool->slabs()) {
    CHECK(slab.managed == (slab.data == managed));
    CHECK(slab.buffer.form == (slab.managed ? "process-gpu" : "cuda-vmm"));
  }
  const TransferInfo done =
      Must(client.RunTransfer({.source = Must(pool->endpoint(source)),
                               .destination = Must(pool->endpoint(managed, 2 * kMiB))}));
  Must(OutcomeOf(done));
  CHECK(done.receipt.steps.size() == 2);
  CHECK(std::memcmp(managed, Payload(2 * kMiB, 5).data(), 2 * kMiB) == 0);
  Must(pool->Deallocate(managed));
  CHECK(Must(pool->Trim()) == 4 * kMiB);
  CHECK(pool->statistics().bytes_managed == 0);
}

TEST_CASE("a pinned pool's memory is known to the driver, and moves to a GPU's") {
  ONECOPY_NEEDS_GPUS(1);
  Node east("east");
  Client client = east.Connect();
  const OnGpu gpu(0);
  const auto pinned = Must(client.CreatePool({.pinned = true, .slab_bytes = 4 * kMiB}));
  const auto pool = MakePool(client, {.slab_bytes = 4 * kMiB});
  void* const host = Must(pinned->Allocate(3 * kMiB));
  void* const there = Must(pool->Allocate(3 * kMiB));
  std::memcpy(host, Payload(3 * kMiB, 6).data(), 3 * kMiB);
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  Must(gpu.api->PointerGetAttributes(1, &attribute, &value, reinterpret_cast<CUdeviceptr>(host)));
  CHECK(type == CU_MEMORYTYPE_HOST);
  Must(OutcomeOf(Must(client.RunTransfer(
      {.source = Must(pinned->endpoint(host)), .destination = Must(pool->endpoint(there))}))));
  CHECK(gpu.Get(there, 3 * kMiB) == Payload(3 * kMiB, 6));
  Must(pinned->Deallocate(host));
  CHECK(Must(pinned->Trim()) == 4 * kMiB);
}

}  // namespace onecopy::testing::pool_test
