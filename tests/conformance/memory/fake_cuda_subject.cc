// The suite on GPU memory of the fake driver: all of onecopy's code, no GPU.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "tests/conformance/memory/bytes.h"
#include "tests/conformance/memory/subject.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/memory/cuda/cuda_memory.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {
namespace {

constexpr uint64_t kAllocation = uint64_t{2} << 20;

class FakeCudaSubject final : public Subject {
 public:
  ~FakeCudaSubject() override {
    memory_.reset();
    CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
  }

  Memory& memory() override { return *memory_; }
  std::vector<std::string> devices() override {
    std::vector<std::string> devices;
    for (const auto& capability : memory_->Describe()) devices.push_back(capability.device);
    return devices;
  }
  uint64_t large_bytes() override { return uint64_t{1} << 30; }
  std::vector<std::string> forms() override { return {"cuda-ipc", "cuda-vmm"}; }

  Shared Share(const std::string& form, const std::string& device, uint64_t offset,
               const Bytes& content) override {
    const bool ipc = form == "cuda-ipc";
    CUipcMemHandle handle{};
    int fd = -1;
    auto* const view = static_cast<unsigned char*>(foreign_(
        ipc ? FAKE_CUDA_LEGACY : FAKE_CUDA_VMM, DriverOrdinal(device), kAllocation, &handle, &fd));
    std::memcpy(view + offset, content.data(), content.size());
    Shared shared;
    shared.request.form = form;
    shared.request.device = device;
    shared.request.bytes = content.size();
    shared.request.offset = offset;
    if (ipc) {
      shared.request.handle.assign(handle.reserved, sizeof handle.reserved);
    } else {
      shared.request.fd = fd;
      shared.request.allocation_bytes = kAllocation;
      shared.keep = std::make_shared<os::UniqueFd>(fd);
    }
    const size_t bytes = content.size();
    shared.read = [=] { return Bytes(view + offset, view + offset + bytes); };
    return shared;
  }

  std::vector<std::pair<std::string, Shared>> BadRequests() override {
    const std::string device = devices().front();
    const Bytes content = Pattern(4096, 1);
    std::vector<std::pair<std::string, Shared>> bad;
    const auto add = [&](const std::string& what, const std::string& form, auto change) {
      Shared shared = Share(form, device, 0, content);
      change(shared);
      bad.emplace_back(what, std::move(shared));
    };
    add("a handle that is too short", "cuda-ipc",
        [](Shared& shared) { shared.request.handle.resize(63); });
    add("a handle of zeroes", "cuda-ipc",
        [](Shared& shared) { shared.request.handle.assign(64, '\0'); });
    add("no descriptor", "cuda-vmm", [](Shared& shared) { shared.request.fd = -1; });
    add("a descriptor of something else", "cuda-vmm", [](Shared& shared) {
      shared.keep = std::make_shared<os::UniqueFd>(::open("/dev/null", O_RDWR | O_CLOEXEC));
      shared.request.fd = std::static_pointer_cast<os::UniqueFd>(shared.keep)->get();
    });
    add("an allocation of another GPU", "cuda-vmm",
        [&](Shared& shared) { shared.request.device = devices().back(); });
    add("an allocation that is said to be larger than it is", "cuda-vmm",
        [](Shared& shared) { shared.request.allocation_bytes = 2 * kAllocation; });
    add("an allocation of an odd size", "cuda-vmm",
        [](Shared& shared) { shared.request.allocation_bytes = kAllocation - 1; });
    return bad;
  }

  std::string copied_by() const override { return "copy-engine"; }

 private:
  int DriverOrdinal(const std::string& device) {
    const auto gpus = cuda::ListGpus(*api_);
    REQUIRE_OK(gpus);
    for (const cuda::GpuInfo& gpu : *gpus) {
      if (gpu.uuid == device) return gpu.driver_ordinal;
    }
    return -1;
  }

  FakeCudaForeign* const foreign_ = FakeCudaFunction<FakeCudaForeign>("fakeCudaForeign");
  std::shared_ptr<const shim::CudaApi> api_ = *shim::LoadCuda(FakeCudaPath());
  std::unique_ptr<cuda::CudaMemory> memory_ =
      std::make_unique<cuda::CudaMemory>(Options(), shim::LoadCuda(FakeCudaPath()));

  static cuda::CudaMemory::Options Options() {
    cuda::CudaMemory::Options options;
    options.node = "test";
#ifdef ONECOPY_TEST_LEGACY_ALLOCATION
    options.allocation = cuda::Allocation::kLegacy;
#endif
    return options;
  }
};

}  // namespace

std::unique_ptr<Subject> MakeSubject(std::string&) { return std::make_unique<FakeCudaSubject>(); }

}  // namespace onecopy::testing
