// The conformance suite of Memory on real GPUs, with another process as the client.
#include <fcntl.h>

#include "tests/conformance/memory/bytes.h"
#include "tests/conformance/memory/subject.h"
#include "tests/gpu/exporter.h"
#include "tests/gpu/real_gpu.h"

namespace onecopy::testing {
namespace {

constexpr uint64_t kAllocation = uint64_t{2} << 20;

// Contexts take a third of a second to open: this program keeps them, so that opening one again is
// quick. What closing really does is another program's matter (sharing_test.cc).
void KeepContexts() {
  static const bool kept = [] {
    const auto gpus = cuda::ListGpus(**TheDriver());
    REQUIRE_OK(gpus);
    for (const cuda::GpuInfo& gpu : *gpus) {
      CUcontext context = nullptr;
      REQUIRE((*TheDriver())->DevicePrimaryCtxRetain(&context, gpu.device) == CUDA_SUCCESS);
    }
    return true;
  }();
  REQUIRE(kept);
}

Exporter& TheExporter() {
  static Exporter exporter;
  return exporter;
}

class RealSubject final : public Subject {
 public:
  RealSubject() { KeepContexts(); }

  Memory& memory() override { return *memory_; }
  std::vector<std::string> devices() override {
    std::vector<std::string> devices;
    for (const auto& capability : memory_->Describe()) devices.push_back(capability.device);
    return devices;
  }
  uint64_t large_bytes() override { return uint64_t{4} << 30; }
  std::vector<std::string> forms() override { return {"cuda-ipc", "cuda-vmm"}; }

  Shared Share(const std::string& form, const std::string& device, uint64_t offset,
               const Bytes& content) override {
    Exporter::Piece piece;
    piece.kind = form == "cuda-ipc" ? MemoryKind::kMalloc : MemoryKind::kVmm;
    piece.allocation_bytes = kAllocation;
    piece.offset = offset;
    for (const auto& capability : memory_->Describe()) {
      if (capability.device == device) piece.device = capability.ordinal;
    }
    const Exported exported = TheExporter().Allocate(piece, content);
    REQUIRE_OK(exported.status);
    REQUIRE(exported.request.form == form);
    REQUIRE(exported.request.device == device);
    Shared shared;
    shared.request = exported.request;
    shared.keep = exported.fd;
    shared.read = [id = exported.id, bytes = content.size()] {
      return TheExporter().Read(id, bytes);
    };
    return shared;
  }

  // What could harm the context if the driver took it badly is in hostile_test.cc.
  std::vector<std::pair<std::string, Shared>> BadRequests() override {
    const std::string device = devices().front();
    std::vector<std::pair<std::string, Shared>> bad;
    const auto add = [&](const std::string& what, const std::string& form, auto change) {
      Shared shared = Share(form, device, 0, Pattern(4096, 1));
      change(shared);
      bad.emplace_back(what, std::move(shared));
    };
    add("a handle that is too short", "cuda-ipc",
        [](Shared& shared) { shared.request.handle.resize(63); });
    add("no descriptor", "cuda-vmm", [](Shared& shared) { shared.request.fd = -1; });
    add("a descriptor of something else", "cuda-vmm", [](Shared& shared) {
      shared.keep = std::make_shared<os::UniqueFd>(::open("/dev/null", O_RDWR | O_CLOEXEC));
      shared.request.fd = std::static_pointer_cast<os::UniqueFd>(shared.keep)->get();
    });
    add("an allocation of an odd size", "cuda-vmm",
        [](Shared& shared) { shared.request.allocation_bytes = kAllocation - 1; });
    return bad;
  }

  std::string copied_by() const override { return "copy-engine"; }

 private:
  std::unique_ptr<cuda::CudaMemory> memory_ = RealMemory();
};

}  // namespace

std::unique_ptr<Subject> MakeSubject(std::string& why) {
  why = WhyFewerGpus(1);
  if (!why.empty()) return nullptr;
  return std::make_unique<RealSubject>();
}

}  // namespace onecopy::testing
