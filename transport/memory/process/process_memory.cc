#include "transport/memory/process/process_memory.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/memory/process/copy_route.h"

namespace onecopy::process {

ProcessMemory::ProcessMemory(std::string node, uint64_t slab_bytes,
                             std::chrono::milliseconds patience)
    : slab_bytes_(slab_bytes), all_(std::make_shared<Shared>(std::move(node), patience)) {}

// A route may outlive it for a moment, and then be the last to hold the thread, on that thread.
ProcessMemory::~ProcessMemory() { all_->thread.StopAndJoin(); }

std::vector<MemoryCapability> ProcessMemory::Describe() const {
  MemoryCapability process;
  process.kind = kind_;
  process.name = "ordinary memory of clients";
  MemoryCapability gpu;
  gpu.kind = kProcessGpuKind;
  gpu.name = "GPU memory of clients that they cannot share";
  return {process, gpu};
}

Result<std::string> ProcessMemory::FindDevice(const std::string& typed) const {
  if (typed == kind_ || typed.empty()) return std::string();
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "the memory of processes has no device \"" + typed + "\"");
}

Result<std::unique_ptr<Region>> ProcessMemory::Allocate(const std::string& device, uint64_t) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string none, FindDevice(device));
  return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                "onecopyd cannot create memory of another process",
                "create a buffer in host memory, or let the program register its own "
                "(Client::RegisterMemory)");
}

Result<std::shared_ptr<ClientSlab>> ProcessMemory::OpenSlab(const ShareRegion& share) {
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<Slab> slab, Slab::Make(all_, slab_bytes_, share));
  return std::shared_ptr<ClientSlab>(std::move(slab));
}

Result<std::unique_ptr<Region>> ProcessMemory::Import(const ImportRequest& request) {
  if (!IsOfProcess(request.form)) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "the memory of a process cannot be shared as \"" + request.form + "\"");
  }
  const auto slab = std::dynamic_pointer_cast<Slab>(request.slab);
  if (slab == nullptr) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "this session has no slab through which to copy its memory",
                  "open one first: AttachRequest.OpenSlab");
  }
  auto region =
      std::make_unique<Region>(Place{request.form, {}}, nullptr, request.bytes, false, [] {});
  region->SetSlab(slab->region());
  region->SetSharer([form = request.form]() -> Result<ImportRequest> {
    return Status(
        Code::kFailedPrecondition, reasons::kNotShareable,
        "only the process that registered it can map this memory",
        form == kProcessGpuKind
            ? "have that process allocate it with cudaMalloc, or cuMemCreate with a POSIX "
              "file descriptor handle; or transfer it into a buffer that the daemon allocated"
            : "have that process register shareable memory (CreateHostBuffer, a memfd); or "
              "transfer it into a buffer that the daemon allocated");
  });
  const auto faulted = std::make_shared<std::atomic<bool>>(false);
  region->SetFaultFlag(faulted);
  region->OnRelease([table = table_, key = region.get()] {
    const MutexLock lock(table->mutex);
    table->entries.erase(key);
  });
  const MutexLock lock(table_->mutex);
  table_->entries[region.get()] = {slab, request.region, request.read_only, faulted};
  return region;
}

bool ProcessMemory::Copies(const Place& from, const Place& to) const {
  return (IsOfProcess(from.kind) && to.kind == "host") ||
         (from.kind == "host" && IsOfProcess(to.kind));
}

Result<std::unique_ptr<CopyRoute>> ProcessMemory::Prepare(const RegionRef& from,
                                                          const RegionRef& to) {
  const bool into = from->place().kind != "host";
  const RegionRef& own = into ? from : to;
  const RegionRef& host = into ? to : from;
  Imported imported;
  {
    const MutexLock lock(table_->mutex);
    const auto found = table_->entries.find(own.get());
    if (found != table_->entries.end()) imported = found->second;
  }
  if (imported.slab == nullptr || imported.slab->region() != host) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "nothing copies from " + from->step_name() + " to " + to->step_name() +
                      " in one pass: a client's ordinary memory is copied only through its slab");
  }
  if (!into && imported.read_only) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "the buffer's memory must not be written: its client registered it as read-only",
                  "register it with MemoryAccess::kReadWrite");
  }
  return std::unique_ptr<CopyRoute>(std::make_unique<ProcessCopyRoute>(
      ProcessCopyRoute::Own{imported.slab, imported.region, imported.faulted},
      into ? orders::Way::kIntoSlab : orders::Way::kOutOfSlab, from, to));
}

Status ProcessMemory::CloseDevice(const std::string&) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "the memory of processes holds nothing open", "name a GPU, such as cuda:0"};
}

}  // namespace onecopy::process
