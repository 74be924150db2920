#include "tests/unit/sharing/fake_gpu.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/copy_bytes.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::testing {
namespace {

const std::string kKind = "cuda";
const std::string kDevices[] = {"GPU-fake-0", "GPU-fake-1"};
constexpr const char* kForm = "cuda-vmm";

}  // namespace

void FakeGpus::Set(const std::function<void(Hooks&)>& change) {
  const std::lock_guard lock(mutex_);
  change(hooks_);
}

FakeGpus::Hooks FakeGpus::hooks() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

void FakeGpus::Release() {
  std::vector<Task> held;
  {
    const std::lock_guard lock(mutex_);
    hooks_.hold = false;
    held.swap(held_);
  }
  for (Task& task : held) task();
}

size_t FakeGpus::imports() const {
  const std::lock_guard lock(mutex_);
  return imports_;
}
size_t FakeGpus::imported() const {
  const std::lock_guard lock(mutex_);
  return imported_;
}
size_t FakeGpus::flushes() const {
  const std::lock_guard lock(mutex_);
  return flushes_;
}
size_t FakeGpus::held() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}
bool FakeGpus::polled() const {
  const std::lock_guard lock(mutex_);
  return polled_;
}

class FakeGpuRoute final : public CopyRoute {
 public:
  FakeGpuRoute(const std::string& node, std::shared_ptr<FakeGpus> control, RegionRef from,
               RegionRef to, Executor& executor)
      : control_(std::move(control)),
        from_(std::move(from)),
        to_(std::move(to)),
        executor_(executor),
        steps_(std::make_shared<const std::vector<Step>>(1, Step{.node = node,
                                                                 .from = from_->step_name(),
                                                                 .to = to_->step_name(),
                                                                 .by = "copy-engine"})) {}

  void Copy(uint64_t from, uint64_t to, uint64_t bytes, Done done) override {
    CopyMany({{from, to, bytes, 0, 0, 1}}, std::move(done));
  }
  void CopyMany(std::vector<StridedCopy> copies, Done done) override {
    auto work = [this, copies = std::move(copies), done = std::move(done)]() mutable {
      for (const StridedCopy& copy : copies) {
        onecopy_copy_strided(to_->address() + copy.to, copy.to_stride, from_->address() + copy.from,
                             copy.from_stride, copy.bytes, copy.count);
      }
      done(OkStatus(), steps_);
    };
    const bool between = from_->place().kind == kKind && to_->place().kind == kKind;
    {
      const std::lock_guard lock(control_->mutex_);
      if (between && control_->hooks_.hold) {
        auto later = std::make_shared<decltype(work)>(std::move(work));
        control_->held_.push_back(
            [&executor = executor_, later] { executor.Post([later] { (*later)(); }); });
        return;
      }
    }
    executor_.Post(std::move(work));
  }
  const StepList& steps() const override { return steps_; }
  Status Prove(uint64_t from, uint64_t to, uint64_t bytes) override {
    const bool between = from_->place().kind == kKind && to_->place().kind == kKind &&
                         from_->place() != to_->place();
    const auto on_prove = control_->hooks().on_prove;
    if (!between || !on_prove) return OkStatus();
    // As a real one looks: by copying what will be copied.
    onecopy_copy_strided(to_->address() + to, 0, from_->address() + from, 0, bytes, 1);
    proof_ = "seen";
    return on_prove();
  }
  std::string proof() const override { return proof_; }
  unsigned depth() const override { return 2; }
  uint64_t chunk_bytes() const override { return 64 << 10; }
  Executor& executor() override { return executor_; }

 private:
  const std::shared_ptr<FakeGpus> control_;
  const RegionRef from_;
  const RegionRef to_;
  Executor& executor_;
  const StepList steps_;
  std::string proof_;
};

// Likewise without a thread of its own.
class FakeGpuPolledRoute final : public SmallCopyRoute {
 public:
  FakeGpuPolledRoute(const std::string& node, std::shared_ptr<FakeGpus> control, RegionRef from,
                     RegionRef to)
      : control_(std::move(control)),
        from_(std::move(from)),
        to_(std::move(to)),
        steps_(std::make_shared<SmallSteps>(
            std::make_shared<const std::vector<Step>>(1, Step{.node = node,
                                                              .from = from_->step_name(),
                                                              .to = to_->step_name(),
                                                              .by = "copy-engine"}))) {}

  Status Begin(uint64_t from, uint64_t to, uint64_t bytes) override {
    begun_.push_back({from, to, bytes, 0, 0, 1});
    return OkStatus();
  }
  uint64_t Mark() override { return ended_ + begun_.size(); }
  bool Reached(uint64_t mark, Status*) override {
    const std::lock_guard lock(control_->mutex_);
    if (mark <= ended_) return true;
    control_->polled_ = true;
    if (control_->hooks_.hold) return false;
    for (const StridedCopy& copy : std::exchange(begun_, {})) {
      onecopy_copy_strided(to_->address() + copy.to, 0, from_->address() + copy.from, 0, copy.bytes,
                           1);
      ++ended_;
    }
    return true;
  }
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }

 private:
  const std::shared_ptr<FakeGpus> control_;
  const RegionRef from_;
  const RegionRef to_;
  const std::shared_ptr<SmallSteps> steps_;
  std::vector<StridedCopy> begun_;
  uint64_t ended_ = 0;
};

class FakeGpuMemory final : public Memory {
 public:
  FakeGpuMemory(std::string node, std::shared_ptr<FakeGpus> control)
      : node_(std::move(node)), control_(std::move(control)) {}

  const std::string& kind() const override { return kKind; }
  std::vector<MemoryCapability> Describe() const override {
    std::vector<MemoryCapability> all(2);
    for (int i = 0; i < 2; ++i) {
      all[i].kind = kKind;
      all[i].device = kDevices[i];
      all[i].ordinal = i;
      if (!control_->hooks().apart) all[i].direct_peers = {kDevices[1 - i]};
    }
    return all;
  }
  Result<std::string> FindDevice(const std::string& typed) const override {
    for (int i = 0; i < 2; ++i) {
      if (typed == kDevices[i] || typed == "cuda:" + std::to_string(i)) return kDevices[i];
    }
    return Status(Code::kNotFound, reasons::kDeviceNotFound, "there is no \"" + typed + "\"");
  }

  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override {
    ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, os::SealedMemfd("fakegpu", bytes));
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, Map(fd.get(), device, bytes, [] {}));
    region->SetSharer(
        [control = control_, fd = std::move(fd), device, bytes]() -> Result<ImportRequest> {
          if (const auto on_share = control->hooks().on_share) {
            ONECOPY_RETURN_IF_ERROR(on_share());
          }
          ImportRequest shared;
          shared.form = kForm;
          shared.device = device;
          shared.bytes = bytes;
          shared.allocation_bytes = bytes;
          shared.fd = fd.Duplicate().Release();
          return shared;
        });
    if (control_->hooks().on_flush) {
      region->SetFlush([control = control_] {
        const auto on_flush = control->hooks().on_flush;
        const std::lock_guard lock(control->mutex_);
        ++control->flushes_;
        return on_flush();
      });
    }
    return region;
  }

  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override {
    if (const auto on_import = control_->hooks().on_import) {
      ONECOPY_RETURN_IF_ERROR(on_import());
    }
    if (request.form != kForm || request.fd < 0) {
      return Status(Code::kInvalidArgument, reasons::kBadHandle, "no descriptor was passed",
                    "pass one");
    }
    {
      const std::lock_guard lock(control_->mutex_);
      ++control_->imports_;
      ++control_->imported_;
    }
    return Map(request.fd, request.device, request.bytes, [control = control_] {
      const std::lock_guard lock(control->mutex_);
      --control->imported_;
    });
  }

  bool Copies(const Place& from, const Place& to) const override {
    const auto fits = [](const Place& place) {
      return place.kind == kKind || place.kind == "host";
    };
    return (from.kind == kKind || to.kind == kKind) && fits(from) && fits(to);
  }
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override {
    return std::unique_ptr<CopyRoute>(
        std::make_unique<FakeGpuRoute>(node_, control_, from, to, thread_.loop()));
  }
  Result<std::unique_ptr<SmallCopyRoute>> PrepareSmall(const RegionRef& from,
                                                       const RegionRef& to) override {
    return std::unique_ptr<SmallCopyRoute>(
        std::make_unique<FakeGpuPolledRoute>(node_, control_, from, to));
  }
  Result<std::unique_ptr<SmallCopyRoute>> PrepareLong(const RegionRef& from,
                                                      const RegionRef& to) override {
    return PrepareSmall(from, to);
  }
  Status SumLeaves(const Region& region, uint64_t offset, std::span<LeafSum> sums) override {
    const auto hook = control_->hooks().on_sum;
    return hook ? hook(offset, sums) : Memory::SumLeaves(region, offset, sums);
  }
  Status CloseDevice(const std::string&) override { return OkStatus(); }

 private:
  template <typename F>
  Result<std::unique_ptr<Region>> Map(int fd, const std::string& device, uint64_t bytes, F gone) {
    ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd, bytes));
    std::byte* const data = mapping.data();
    return std::make_unique<Region>(
        Place{kKind, device}, data, bytes, false,
        [mapping = std::move(mapping), gone = std::move(gone)]() mutable {
          mapping = os::Mapping();
          gone();
        });
  }

  const std::string node_;
  const std::shared_ptr<FakeGpus> control_;
  os::LoopThread thread_{"fake-gpu"};
};

std::unique_ptr<Memory> MakeFakeGpuMemory(std::string node, std::shared_ptr<FakeGpus> control) {
  return std::make_unique<FakeGpuMemory>(std::move(node), std::move(control));
}

}  // namespace onecopy::testing
