#include "transport/link/tcp/factory.h"

#include <algorithm>

#include "onecopy/reasons.h"
#include "transport/link/tcp/tcp_link.h"
#include "transport/os/machine/machine.h"
#include "transport/tls/kernel_tls.h"

namespace onecopy::tcp {
namespace {

// One busy lane keeps a core busy at each end; more than sixteen gain nothing on the machines
// measured.
uint32_t DefaultLanes() { return std::clamp(os::UsableCores() / 2, 2U, 16U); }

// A thread that receives a chunk is away for a tenth of a millisecond, and messages that keep the
// rings moving must not wait for it, where there are cores enough to do better.
unsigned DefaultControlThreads(unsigned threads) {
  constexpr unsigned kThreadsServed = 16;
  return os::UsableCores() < 4 ? 0 : (threads + kThreadsServed - 1) / kThreadsServed;
}

Result<ZeroCopyUse> ParseZeroCopy(const std::string& text) {
  if (text == "off") return ZeroCopyUse::kOff;
  if (text == "measured") return ZeroCopyUse::kMeasured;
  if (text == "always") return ZeroCopyUse::kAlways;
  return Status(Code::kInvalidArgument, reasons::kBadArgument,
                "[tcp] zero_copy is \"" + text + "\"",
                "set it to \"off\", \"measured\" or \"always\"");
}

std::vector<SettingSpec> Specs() {
  return {
      {.key = "lanes",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Lanes: sockets that carry the payload from one peer. 0: half the number of cores, "
              "from 2 to 16.",
       .most = kMaxLanes},
      {.key = "threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "I/O threads for the lanes of all peers. 0: as many as lanes, at most one per core.",
       .most = 64},
      {.key = "control_threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{-1},
       .doc = "Extra I/O threads for messages, so that these do not wait behind payload. -1: one "
              "per 16 of `threads`, none on fewer than 4 cores. 0: none.",
       .least = -1,
       .most = 16},
      {.key = "chunk_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{1} << 20,
       .doc = "Payload of one request on a lane.",
       .least = 4096,
       .most = static_cast<int64_t>(kMaxGetBytes)},
      {.key = "gets_per_lane",
       .type = SettingType::kInteger,
       .fallback = int64_t{4},
       .doc = "Requests in flight on one lane, so that the sender never waits for the next one.",
       .least = 1,
       .most = 64},
      {.key = "socket_buffer",
       .type = SettingType::kBytes,
       .fallback = int64_t{0},
       .doc = "The largest kernel buffer of one lane, at each end. 0: the kernel decides, which "
              "suits long distances. Inside one machine, a smaller buffer may stay in the "
              "processor's caches.",
       .most = int64_t{1} << 30},
      {.key = "zero_copy",
       .type = SettingType::kText,
       .fallback = std::string("off"),
       .doc = "Zero-copy sends (MSG_ZEROCOPY). \"measured\": each lane tries them, and keeps them "
              "if they take less processor time. \"always\": without measuring. If the kernel "
              "copies anyway, as over loopback, lanes return to \"off\" at once. Receipts count "
              "what was copied.",
       .choices = {"off", "measured", "always"}},
      {.key = "kernel_tls",
       .type = SettingType::kBool,
       .fallback = false,
       .doc = "Whether the kernel encrypts and decrypts lanes under [tls], if it can (kTLS, module "
              "tls). Otherwise the daemon does, which takes one more copy at its end."},
      {.key = "spin_microseconds",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "How long an I/O thread polls for more work before it sleeps. Polling keeps a core "
              "busy.",
       .most = 1'000'000},
  };
}

}  // namespace

Backend<Link> Describe() {
  Backend<Link> backend;
  backend.name = "tcp";
  backend.settings = Specs();
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Link>> {
    const Settings& settings = context.settings;
    LinkOptions options;
    options.node = context.node;
    for (const std::string& lanes : context.lanes) {
      ONECOPY_ASSIGN_OR_RETURN(os::HostPort listen, os::ParseHostPort(lanes));
      options.listen.push_back(std::move(listen));
    }
    options.lanes = static_cast<uint32_t>(settings.Integer("lanes"));
    if (options.lanes == 0) options.lanes = DefaultLanes();
    options.threads = static_cast<unsigned>(settings.Integer("threads"));
    if (options.threads == 0) options.threads = std::min(options.lanes, os::UsableCores());
    const int64_t control = settings.Integer("control_threads");
    options.control_threads =
        control < 0 ? DefaultControlThreads(options.threads) : static_cast<unsigned>(control);
    options.chunk_bytes = settings.Bytes("chunk_bytes");
    options.socket_buffer_bytes = settings.Bytes("socket_buffer");
    ONECOPY_ASSIGN_OR_RETURN(options.zero_copy, ParseZeroCopy(settings.Text("zero_copy")));
    options.gets_per_lane = static_cast<unsigned>(settings.Integer("gets_per_lane"));
    options.encryption.trust = context.trust;
    options.encryption.required = context.trust != nullptr && !context.lanes_plain;
    options.encryption.by_kernel = context.trust != nullptr && settings.Bool("kernel_tls") &&
                                   tls::KernelHasTls(tls::Cipher::kAes128Gcm).ok();
    options.spin = std::chrono::microseconds(settings.Integer("spin_microseconds"));
    return TcpLink::Create(std::move(options));
  };
  return backend;
}

}  // namespace onecopy::tcp
