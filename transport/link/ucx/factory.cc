#include "transport/link/ucx/factory.h"

#include <algorithm>

#include "transport/link/ucx/ucx_link.h"
#include "transport/os/machine/machine.h"

namespace onecopy::ucx {
namespace {

// Devices move the bytes; a thread only posts and completes.
unsigned DefaultThreads() { return std::clamp(os::UsableCores() / 16, 1U, 4U); }

std::vector<SettingSpec> Specs() {
  return {
      {.key = "trust",
       .type = SettingType::kTextList,
       .fallback = std::vector<std::string>(),
       .doc = "Nodes with which UCX may be used; needs [tls]. UCX's keys let these nodes write "
              "this node's memory, and so can anything that reaches UCX's ports. Not needed "
              "between daemons of one machine and user."},
      {.key = "transports",
       .type = SettingType::kTextList,
       .fallback = std::vector<std::string>(),
       .doc = "Transports, in the syntax of UCX_TLS, which takes precedence. Empty: those inside "
              "the machine and, if a node is trusted, RDMA."},
      {.key = "threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "I/O threads, each with a UCX worker. 0: one per 16 cores, at most 4.",
       .most = 64},
      {.key = "chunk_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{16} << 20,
       .doc = "Payload of one request.",
       .least = 4096,
       .most = int64_t{1} << 30},
      {.key = "gets",
       .type = SettingType::kInteger,
       .fallback = int64_t{8},
       .doc = "Requests in flight on one connection.",
       .least = 1,
       .most = 64},
  };
}

}  // namespace

Backend<Link> Describe() {
  Backend<Link> backend;
  backend.name = "ucx";
  backend.library = "ucx";
  backend.settings = Specs();
  backend.rdma = true;
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Link>> {
    const Settings& settings = context.settings;
    LinkOptions options;
    options.node = context.node;
    options.library = context.library;
    options.trust.trusted = settings.TextList("trust");
    options.trust.authenticated = context.peers_authenticated;
    options.transports = settings.TextList("transports");
    options.devices = context.rdma.TextList("devices");
    options.threads = static_cast<unsigned>(settings.Integer("threads"));
    if (options.threads == 0) options.threads = DefaultThreads();
    options.chunk_bytes = settings.Bytes("chunk_bytes");
    options.gets = static_cast<unsigned>(settings.Integer("gets"));
    return UcxLink::Create(std::move(options));
  };
  return backend;
}

}  // namespace onecopy::ucx
