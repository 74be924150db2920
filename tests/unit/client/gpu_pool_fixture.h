// A daemon in this process whose client has GPUs of a driver without a GPU, as the daemon has.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/client/client_fixture.h"
#include "tests/unit/client/gpus.h"
#include "transport/memory/process/process_memory.h"
#include "transport/shim/cuda.h"

namespace onecopy::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

inline ServedCluster::Change WithGpusAndProcesses() {
  return [](const std::string& node, NodePlan& plan) {
    WithGpus()(node, plan);
    plan.memories.push_back(std::make_unique<process::ProcessMemory>(node, uint64_t{4} << 20,
                                                                     std::chrono::seconds(10)));
  };
}

// `room`: what cuMemCreate may have in all; 0: no bound.
struct GpuPoolFixture : ClientFixture {
  explicit GpuPoolFixture(uint64_t room = 0)
      : ClientFixture(WithGpusAndProcesses(), {.cuda_library = FakeCudaPath()}) {
    SetRoom(room);
  }
  ~GpuPoolFixture() {
    SetRoom(0);
    EndClient();
  }
  static void SetRoom(uint64_t room) { FakeCudaFunction<FakeCudaSetRoom>("fakeCudaSetRoom")(room); }

  std::shared_ptr<Pool> Make(PoolOptions options) {
    if (!options.cuda_device && !options.pinned) options.cuda_device = 0;
    auto made = client.CreatePool(options);
    REQUIRE_OK(made);
    return *made;
  }
  Status Refused(const PoolOptions& options) { return client.CreatePool(options).status(); }

  // The memory of such a GPU is the host's.
  static std::byte* Have(Pool& pool, uint64_t bytes, int fill, StreamHandle stream = 0) {
    const Result<void*> made = pool.Allocate(bytes, stream);
    REQUIRE_OK(made);
    std::memset(*made, fill, bytes);
    return static_cast<std::byte*>(*made);
  }
  static bool Holds(const void* data, uint64_t bytes, int fill) {
    const auto* const at = static_cast<const unsigned char*>(data);
    return at[0] == fill && std::memcmp(at, at + 1, bytes - 1) == 0;
  }
  TransferInfo Move(const Endpoint& from, const Endpoint& to) {
    const auto done = client.RunTransfer({.source = from, .destination = to, .checksum = true});
    REQUIRE_OK(done);
    REQUIRE_OK(OutcomeOf(*done));
    return *done;
  }
};

}  // namespace onecopy::testing
