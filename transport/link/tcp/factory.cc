#include "transport/link/tcp/factory.h"

#include <algorithm>

#include "onecopy/reasons.h"
#include "transport/link/tcp/tcp_link.h"
#include "transport/os/machine.h"
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
       .doc = "Sockets that carry the payload from one peer; 0: half the cores, at least 2, at "
              "most 16.",
       .most = kMaxLanes},
      {.key = "threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc =
           "Threads that serve the sockets of all peers; 0: as many as lanes, at most the cores.",
       .most = 64},
      {.key = "control_threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{-1},
       .doc = "Threads for messages, so that they do not wait behind payload; -1: one for each 16 "
              "of the others, none on fewer than 4 cores; 0: the others do it.",
       .least = -1,
       .most = 16},
      {.key = "chunk_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{1} << 20,
       .doc = "Payload asked for at once on one lane.",
       .least = 4096,
       .most = static_cast<int64_t>(kMaxGetBytes)},
      {.key = "gets_per_lane",
       .type = SettingType::kInteger,
       .fallback = int64_t{4},
       .doc = "Chunks under way on one lane, so that its owner never waits for the next request.",
       .least = 1,
       .most = 64},
      {.key = "socket_buffer",
       .type = SettingType::kBytes,
       .fallback = int64_t{0},
       .doc = "Most kernel memory for bytes under way on one lane, at each end; 0: as the kernel "
              "sees fit, which suits long wires. Inside one machine less may stay in its caches.",
       .most = int64_t{1} << 30},
      {.key = "zero_copy",
       .type = SettingType::kText,
       .fallback = std::string("off"),
       .doc =
           "\"measured\": each lane tries to send payload from where it lies (MSG_ZEROCOPY), and "
           "goes on where that takes less of the processor; \"always\": without measuring. Where "
           "the kernel copies all the same, as over loopback, lanes go back to \"off\" at once. "
           "Receipts count what was copied.",
       .choices = {"off", "measured", "always"}},
      {.key = "kernel_tls",
       .type = SettingType::kBool,
       .fallback = false,
       .doc =
           "Whether the kernel encrypts and decrypts lanes where [tls] has them encrypted and it "
           "can (kTLS, module tls); otherwise the daemon does, which is one more copy at its "
           "end."},
      {.key = "spin_microseconds",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "How long a thread looks for more work before it sleeps; spinning costs cores.",
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
    ONECOPY_ASSIGN_OR_RETURN(options.listen, os::ParseHostPort(context.lanes));
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
