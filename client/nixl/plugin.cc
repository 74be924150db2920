// The two functions by which NIXL finds the plug-in.
#include <exception>
#include <memory>

#include "client/nixl/engine.h"
#include "client/nixl/outcome.h"
#include "client/nixl/version.h"
#include "client/nixl/versions.h"
#include "onecopy/reasons.h"

namespace {

using onecopy::nixl::Engine;
using onecopy::nixl::Say;
namespace abi = onecopy::nixl::abi;

abi::Engine* Create(const abi::InitParameters* init) {
  try {
    auto engine = Engine::Create(*init);
    if (engine) return std::move(*engine).release();
    static_cast<void>(Say("no backend for agent " + init->agent, engine.status()));
  } catch (const std::exception& error) {
    static_cast<void>(
        Say("no backend", {onecopy::Code::kInternal, onecopy::reasons::kInternal, error.what()}));
  }
  return nullptr;
}

void Destroy(abi::Engine* engine) { delete engine; }

const char* Name() { return "ONECOPY"; }

const char* Version() { return ONECOPY_VERSION; }

abi::Parameters Parameters() { return onecopy::nixl::DefaultParameters(); }

abi::Segments Segments() { return {abi::Segment::kDram, abi::Segment::kVram}; }

abi::Plugin plugin = {abi::kPluginApi, Create, Destroy, Name, Version, Parameters, Segments};

// Refused before anything of the core's is touched whose layout is not known.
bool Known(const void* caller) {
  const auto core = onecopy::nixl::FindCore(caller);
  const onecopy::Status known = core ? CheckKnown(*core) : core.status();
  return Say("this NIXL cannot be served", known) == abi::Outcome::kSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) abi::Plugin* nixl_plugin_init() {
  try {
    return Known(__builtin_return_address(0)) ? &plugin : nullptr;
  } catch (const std::exception& error) {
    static_cast<void>(Say("this NIXL cannot be served",
                          {onecopy::Code::kInternal, onecopy::reasons::kInternal, error.what()}));
    return nullptr;
  }
}

extern "C" __attribute__((visibility("default"))) void nixl_plugin_fini() {}
