// GPU memory of a daemon in another process, by a driver that has no GPU.
#include <cstring>
#include <stdexcept>
#include <string>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/shim/cuda.h"

namespace mapping_gpu_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using onecopy::MappedBuffer;

constexpr uint64_t kBytes = 5'000'003;

// A daemon whose buffers are made in that way ("vmm", "legacy").
struct Gpus {
  explicit Gpus(const std::string& allocation)
      : east("east", {.config = "[libraries]\ncuda = \"" + FakeCudaPath() +
                                "\"\n[cuda]\nallocation = \"" + allocation + "\"\n"}),
        client(Must(Client::Connect({.run_dir = east.run_dir(), .cuda_library = FakeCudaPath()}))) {
    east.Do({"buffer", "create", "a", "--size", std::to_string(kBytes), "--memory", "cuda:1"});
    east.Do({"cp", "-", "a"}, Payload(kBytes, 1));
  }
  // The fake's memory is the host's.
  static bool Holds(const MappedBuffer& mapped, uint64_t seed) {
    return IsPayload(static_cast<const std::byte*>(mapped.data()), kBytes, seed);
  }
  static std::string UuidOf(int ordinal) {
    const auto api = Must(onecopy::shim::LoadCuda(FakeCudaPath()));
    CUdevice device = 0;
    if (api->DeviceGet(&device, ordinal) != CUDA_SUCCESS) throw std::runtime_error("cuDeviceGet");
    return Must(onecopy::shim::ReadCudaUuid(*api, device)).text;
  }

  Node east;
  Client client;
};

}  // namespace

TEST_CASE("a program uses a daemon's GPU memory in place, in either form") {
  const std::string allocation = GENERATE("vmm", "legacy");
  INFO(allocation);
  Gpus gpus(allocation);
  MappedBuffer mapped = Must(gpus.client.MapBuffer("a"));
  // The daemon counts GPUs by their PCI addresses, this process as its driver does.
  REQUIRE(mapped.cuda_device().has_value());
  const int own = *mapped.cuda_device();
  CHECK(Gpus::UuidOf(own) == mapped.info().device);
  CHECK(Gpus::Holds(mapped, 1));
  gpus.east.Do({"cp", "-", "a"}, Payload(kBytes, 2));
  CHECK(Gpus::Holds(mapped, 2));
  std::memcpy(mapped.data(), Payload(kBytes, 3).data(), kBytes);
  CHECK(Contents(gpus.east, "a") == Payload(kBytes, 3));
  // Once more, and on the other GPU: the driver opens a handle once in a context.
  MappedBuffer again = Must(gpus.client.MapBuffer("a"));
  MappedBuffer peer = Must(gpus.client.MapBuffer("a", {.cuda_device = 1 - own}));
  CHECK(peer.cuda_device() == 1 - own);
  CHECK(Gpus::Holds(again, 3));
  CHECK(Gpus::Holds(peer, 3));
  Must(mapped.Close());
  CHECK(Gpus::Holds(again, 3));
  Must(again.Close());
  Must(peer.Close());
  CHECK(Gpus::Holds(Must(gpus.client.MapBuffer("a")), 3));
}

TEST_CASE("GPU memory that is taken back stays for who has it mapped, and goes with the mapping") {
  const std::string allocation = GENERATE("vmm", "legacy");
  INFO(allocation);
  Gpus gpus(allocation);
  MappedBuffer mapped = Must(gpus.client.MapBuffer("a"));
  gpus.east.Do({"buffer", "rm", "a", "--force"});
  CHECK(mapped.CheckValid().reason() == onecopy::reasons::kBufferNotFound);
  CHECK(Gpus::Holds(mapped, 1));
  // Freeing what a legacy handle has opened elsewhere is undefined, so that its GPU stays in use.
  if (allocation == "legacy") {
    CHECK(gpus.east.Run({"node", "release", "cuda:1"}).reason() == "DEVICE_IN_USE");
  }
  Must(mapped.Close());
  WaitUntil("the GPU is let go of", [&] {
    return gpus.east.Run({"node", "release", "cuda:1"}).exit_status == 0;
  });
}
}  // namespace mapping_gpu_test
