#include "transport/link/ucx/context.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/toolkit/rdma_settings.h"
#include "transport/link/ucx/protocol.h"

namespace onecopy::ucx {
namespace {

std::string Join(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& entry : list) text += (text.empty() ? "" : ",") + entry;
  return text;
}

bool UserHasSet(const char* variable) { return std::getenv(variable) != nullptr; }

bool MeansYes(const std::string& text) {
  return text == "y" || text == "yes" || text == "1" || text == "on";
}

}  // namespace

Result<std::shared_ptr<Context>> Context::Open(const ContextOptions& options) {
  std::shared_ptr<Context> context(new Context(options.api));
  // Once to see what there is, then with what is chosen of it: UCX warns of names that it has not.
  ONECOPY_RETURN_IF_ERROR(context->Init());
  ONECOPY_RETURN_IF_ERROR(context->ChooseTransports(options));
  ONECOPY_RETURN_IF_ERROR(context->Init());
  if (context->ChooseProtocols()) ONECOPY_RETURN_IF_ERROR(context->Init());
  return context;
}

Context::~Context() { Close(); }

void Context::Close() {
  if (handle_ != nullptr) api_->Cleanup(std::exchange(handle_, nullptr));
}

Status Context::Failure(ucs_status_t status, const std::string& what, Code code,
                        std::string_view reason) const {
  return {code, reason, what + ": " + api_->StatusText(status)};
}

void Context::Set(const std::string& name, const std::string& value) {
  if (!UserHasSet(name.c_str())) settings_[name] = value;
}

Status Context::ChooseTransports(const ContextOptions& options) {
  const std::vector<std::string> transports = options.transports.empty()
                                                  ? DefaultTransports(resources_, options.network)
                                                  : options.transports;
  if (transports.empty()) {
    return {Code::kFailedPrecondition, reasons::kNoRdmaDevice,
            "this UCX has no transport that is used by default",
            "install UCX's modules for this machine's devices (ucx_info -d lists them), or name a "
            "transport under [ucx] transports"};
  }
  Set("UCX_TLS", Join(transports));
  if (options.transports.empty() && !options.network && !UserHasSet("UCX_TLS")) {
    for (const Resource& resource : resources_) {
      if (!IsRdmaTransport(resource.transport)) continue;
      if (AllowsDevice(options.devices, DeviceName(resource))) unused_.push_back(resource);
    }
  }
  const std::vector<std::string> devices = AllowedDevices(
      resources_, [&](const std::string& name) { return AllowsDevice(options.devices, name); });
  if (!devices.empty()) Set("UCX_NET_DEVICES", Join(devices));
  return OkStatus();
}

bool Context::ChooseProtocols() {
  constexpr char kVariable[] = "UCX_PROTO_ENABLE";
  bool set = false;
  // Before 1.15 UCX ends the process where an emulated get that it can name must be given up; so
  // where there is nothing but sockets, whose gets are emulated, it stays without names.
  const bool harmless = HaveRdma(resources_) || !reaches_network() || api_->NotOlderThan(1, 15);
  if (!api_->NotOlderThan(1, 16) && harmless && !UserHasSet(kVariable)) {
    Set(kVariable, "y");
    set = true;
  }
  const char* users = std::getenv(kVariable);
  names_protocols_ = users != nullptr ? MeansYes(users) : set || api_->NotOlderThan(1, 16);
  return set;
}

Status Context::Init() {
  Close();
  ucp_config_t* config = nullptr;
  ucs_status_t status = api_->ConfigRead(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return Failure(status, "reading UCX's configuration", Code::kFailedPrecondition,
                   reasons::kLinkMissing);
  }
  for (const auto& [name, value] : settings_) {
    status = api_->ConfigModify(config, name.c_str() + sizeof("UCX_") - 1, value.c_str());
    if (status != UCS_OK) break;
  }
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    status =
        api_->InitVersion(shim::kOldestUcxMajor, shim::kOldestUcxMinor, &params, config, &handle_);
  }
  api_->ConfigRelease(config);
  if (status != UCS_OK) {
    return Failure(status, "starting UCX " + std::string(api_->GetVersionString()),
                   Code::kFailedPrecondition, reasons::kNoRdmaDevice);
  }
  ReadResources();
  return OkStatus();
}

void Context::ReadResources() {
  char* text = nullptr;
  size_t bytes = 0;
  std::FILE* file = ::open_memstream(&text, &bytes);
  if (file != nullptr) {
    api_->ContextPrintInfo(handle_, file);
    std::fclose(file);
    resources_ = ParseResources({text, bytes});
    std::free(text);
  }
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  cuda_ = api_->ContextQuery(handle_, &attributes) == UCS_OK &&
          (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

Result<std::shared_ptr<const MappedMemory>> Context::Map(const RegionRef& region) {
  if (auto known = Find(*region)) return known;
  const std::string& kind = region->place().kind;
  const bool cuda = kind == "cuda";
  if (!cuda && kind != "host") {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "ucx supports host memory and CUDA memory, not " + kind);
  }
  if (cuda && !cuda_) {
    return Status(Code::kFailedPrecondition, reasons::kGpuNotPinnable,
                  "UCX " + std::string(api_->GetVersionString()) + " was built without CUDA",
                  "set [libraries] ucx to a UCX with CUDA");
  }
  if (cuda) ONECOPY_RETURN_IF_ERROR(gpus_.UseFor(region->address()));
  auto mapped = std::make_shared<MappedMemory>();
  mapped->type = cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = region->address();
  params.length = region->bytes();
  params.memory_type = mapped->type;
  const std::string what = "registering " + region->step_name() + " with UCX";
  const std::string_view reason = cuda ? reasons::kGpuNotPinnable : reasons::kHostNotPinnable;
  ucs_status_t status = api_->MemMap(handle_, &params, &mapped->handle);
  if (status != UCS_OK) return Failure(status, what, Code::kFailedPrecondition, reason);
  void* key = nullptr;
  size_t key_bytes = 0;
  status = api_->RkeyPack(handle_, mapped->handle, &key, &key_bytes);
  if (status != UCS_OK) {
    api_->MemUnmap(handle_, mapped->handle);
    return Failure(status, what, Code::kFailedPrecondition, reason);
  }
  mapped->rkey.assign(static_cast<const char*>(key), key_bytes);
  api_->RkeyBufferRelease(key);
  {
    const MutexLock lock(mutex_);
    const auto [at, added] = mapped_.emplace(region.get(), mapped);
    if (!added) {
      // Another thread was quicker.
      api_->MemUnmap(handle_, mapped->handle);
      return at->second;
    }
  }
  region->OnRelease([self = shared_from_this(), raw = region.get()] { self->Unmap(raw); });
  return std::shared_ptr<const MappedMemory>(mapped);
}

std::shared_ptr<const MappedMemory> Context::Find(const Region& region) const {
  const MutexLock lock(mutex_);
  const auto found = mapped_.find(&region);
  return found == mapped_.end() ? nullptr : found->second;
}

void Context::Unmap(const Region* region) {
  std::shared_ptr<const MappedMemory> mapped;
  {
    const MutexLock lock(mutex_);
    const auto found = mapped_.find(region);
    if (found == mapped_.end()) return;
    mapped = std::move(found->second);
    mapped_.erase(found);
  }
  if (mapped->type == UCS_MEMORY_TYPE_CUDA) gpus_.UseAny();
  api_->MemUnmap(handle_, mapped->handle);
}

}  // namespace onecopy::ucx
