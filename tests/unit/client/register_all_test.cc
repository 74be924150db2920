// Many pieces of memory registered in one go.
#include <cstring>
#include <string>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/client/client_fixture.h"
#include "tests/unit/client/gpus.h"
#include "transport/memory/process/process_memory.h"

namespace register_all_test {
using onecopy::BufferInfo;
using onecopy::Client;
using onecopy::MemoryToRegister;
using onecopy::Result;
using onecopy::testing::NodePlan;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempFolder;

namespace {

void AddProcessMemory(const std::string& node, NodePlan& plan) {
  plan.memories.push_back(std::make_unique<onecopy::process::ProcessMemory>(
      node, uint64_t{4} << 20, std::chrono::seconds(10)));
}

}  // namespace

TEST_CASE("many pieces of memory are registered in one go, each for itself") {
  constexpr size_t kCount = 500;  // more than are under way at a time
  constexpr size_t kBytes = 4096;
  const TempFolder dir;
  ServedCluster daemon(dir.path(), AddProcessMemory);
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  CHECK(client->RegisterAll({}).empty());
  std::vector<std::vector<char>> blocks(kCount);
  std::vector<MemoryToRegister> memory;
  for (size_t i = 0; i < kCount; ++i) {
    blocks[i].assign(kBytes, static_cast<char>(i));
    memory.push_back(
        {.name = "piece-" + std::to_string(i), .pointer = blocks[i].data(), .bytes = kBytes});
  }
  memory[7].pointer = nullptr;
  memory[100].name = "piece-0";
  memory[200].bytes = 0;
  memory[300].name = "no name";
  memory[400].access = onecopy::MemoryAccess::kRead;
  const std::vector<Result<BufferInfo>> made = client->RegisterAll(memory);
  REQUIRE(made.size() == kCount);
  CHECK(made[7].status().reason() == onecopy::reasons::kBadHandle);
  CHECK(made[100].status().reason() == onecopy::reasons::kNameTaken);
  CHECK(made[200].status().reason() == onecopy::reasons::kBadSize);
  CHECK(made[300].status().code() == onecopy::Code::kInvalidArgument);
  size_t right = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (made[i].ok() && made[i]->name == memory[i].name && made[i]->form == "process") ++right;
  }
  CHECK(right == kCount - 4);
  CHECK(daemon.buffers().size() == right);

  // Each is the memory that was passed for it.
  auto copy = client->CreateHostBuffer("copy", kBytes);
  REQUIRE_OK(copy);
  for (const size_t i : {0, 63, 64, 499}) {
    onecopy::TransferRequest request{.source = {"", made[i]->id}, .destination = {"", "copy"}};
    REQUIRE_OK(onecopy::OutcomeOf(*client->RunTransfer(request)));
    CHECK(std::memcmp(copy->data(), blocks[i].data(), kBytes) == 0);
  }
  onecopy::TransferRequest back{.source = {"", "copy"}, .destination = {"", made[400]->id}};
  const auto refused = client->RunTransfer(back);
  CHECK_FALSE((refused.ok() ? onecopy::OutcomeOf(*refused) : refused.status()).ok());
  for (const Result<BufferInfo>& each : made) {
    if (each.ok()) REQUIRE_OK(client->DeleteBuffer(each->id));
  }
}

TEST_CASE("of GPU memory that is registered in one go each has its own way") {
  const TempFolder dir;
  ServedCluster daemon(dir.path(), [](const std::string& node, NodePlan& plan) {
    onecopy::testing::WithGpus()(node, plan);
    AddProcessMemory(node, plan);
  });
  const auto api = onecopy::shim::LoadCuda(onecopy::testing::FakeCudaPath());
  REQUIRE_OK(api);
  constexpr uint64_t kBytes = 2 << 20;
  CUcontext context = nullptr;
  REQUIRE((*api)->DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  const auto allocate = onecopy::testing::FakeCudaFunction<FakeCudaAllocate>("fakeCudaAllocate");
  std::vector<MemoryToRegister> memory;
  const auto add = [&](FakeCudaKind kind) {
    const CUdeviceptr place = allocate(kind, 0, kBytes, 0);
    memory.push_back({.pointer = reinterpret_cast<void*>(place), .bytes = kBytes, .cuda = true});
  };
  for (int i = 0; i < 100; ++i) add(i % 3 == 0 ? FAKE_CUDA_POOL : FAKE_CUDA_VMM);
  add(FAKE_CUDA_PINNED_HOST);
  {
    auto client =
        Client::Connect({.run_dir = dir.path(), .cuda_library = onecopy::testing::FakeCudaPath()});
    REQUIRE_OK(client);
    const std::vector<Result<BufferInfo>> made = client->RegisterAll(memory);
    REQUIRE(made.size() == 101);
    for (size_t i = 0; i < 100; ++i) {
      INFO(i);
      REQUIRE_OK(made[i]);
      CHECK(made[i]->form == (i % 3 == 0 ? "process-gpu" : "cuda-vmm"));
    }
    CHECK(made[100].status().reason() == onecopy::reasons::kNotShareable);
  }
  (*api)->DevicePrimaryCtxRelease(0);
}

TEST_CASE("what cannot be asked for is told of each piece") {
  const TempFolder dir;
  auto daemon = std::make_unique<ServedCluster>(dir.path(), AddProcessMemory);
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  daemon.reset();
  std::vector<char> block(4096);
  const MemoryToRegister memory{.pointer = block.data(), .bytes = block.size()};
  const std::vector<Result<BufferInfo>> made = client->RegisterAll({memory, memory, memory});
  REQUIRE(made.size() == 3);
  for (const Result<BufferInfo>& each : made) {
    CHECK(each.status().reason() == onecopy::reasons::kDaemonUnreachable);
  }
}
}  // namespace register_all_test
