#include "client/nixl/abi.h"

namespace onecopy::nixl::abi {

// As the core's own code finds them; 64-bit Linux, libstdc++.
static_assert(sizeof(void*) == 8 && sizeof(std::string) == 32 && sizeof(Parameters) == 56 &&
              sizeof(std::mutex) == 40);
static_assert(sizeof(Descriptor) == 24 && sizeof(RegisteredDescriptor) == 56 &&
              sizeof(TransferDescriptor) == 32 && sizeof(TransferList) == 40);
static_assert(sizeof(Options) == 72 && sizeof(InitParameters) == 96 && sizeof(Plugin) == 56);
static_assert(sizeof(Engine) == 208);

Engine::Engine(const InitParameters& init)
    : type_(init.type),
      parameters_(init.parameters == nullptr ? Parameters{} : *init.parameters),
      agent_(init.agent),
      telemetry_(init.telemetry) {}

Engine::~Engine() = default;

Outcome Engine::PrepareRemoteView(const void* /*descriptors*/, void*& /*view*/,
                                  const Options* /*options*/) const {
  return Outcome::kNotSupported;
}

Outcome Engine::PrepareLocalView(const void* /*descriptors*/, void*& /*view*/,
                                 const Options* /*options*/) const {
  return Outcome::kNotSupported;
}

void Engine::ReleaseView(void* /*view*/) const {}

Outcome Engine::QueryMemory(const void* /*descriptors*/, void* /*out*/) const {
  return Outcome::kNotSupported;
}

Outcome Engine::EstimateCost(const Operation& /*operation*/, const TransferList& /*local*/,
                             const TransferList& /*remote*/, const std::string& /*agent*/,
                             Request* const& /*request*/, std::chrono::microseconds& /*duration*/,
                             std::chrono::microseconds& /*margin*/, int32_t& /*method*/,
                             const void* /*options*/) const {
  return Outcome::kNotSupported;
}

}  // namespace onecopy::nixl::abi
