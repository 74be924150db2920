#include "transport/link/ucx/protocol.h"

#include <algorithm>
#include <array>
#include <optional>

namespace onecopy::ucx {
namespace {

constexpr size_t kMaxDescription = 200;

constexpr std::array<std::string_view, 9> kLocal = {
    "self", "sysv", "posix", "cma", "xpmem", "knem", "cuda_copy", "cuda_ipc", "gdr_copy"};

struct Words {
  std::string_view text;
  Method method;
};
constexpr std::array<Words, 5> kMethods = {{{"software emulation", Method::kEmulation},
                                            {"zero-copy", Method::kZeroCopy},
                                            {"copy-out", Method::kCopyOut},
                                            {"copy-in", Method::kCopyOut},
                                            {"short", Method::kCopyOut}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view NextWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// What follows "length <number> ", up to the estimates "<number> MB/s …".
std::optional<std::string_view> Body(std::string_view text) {
  constexpr std::string_view kLength = " length ";
  const size_t at = text.find(kLength);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kLength.size());
  const std::string_view size = NextWord(text);
  if (size.empty() || !std::all_of(size.begin(), size.end(), IsDigit)) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const size_t unit = text.find("B/s");
  if (unit == std::string_view::npos) return text;
  // The estimate is two words: its number and its unit.
  size_t end = text.rfind(' ', unit);
  if (end == std::string_view::npos) return std::nullopt;
  end = text.find_last_not_of(' ', end);
  if (end == std::string_view::npos) return std::nullopt;
  end = text.rfind(' ', end);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, text.find_last_not_of(' ', end) + 1);
}

// A word "transport/device:port", perhaps with a comma behind it.
void AddLane(std::string_view word, Protocol& protocol) {
  const size_t slash = word.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == word.size()) return;
  std::string_view device = word.substr(slash + 1);
  device = device.substr(0, std::min({device.find(':'), device.find(','), device.size()}));
  if (protocol.transport.empty()) protocol.transport = word.substr(0, slash);
  const std::string name(device);
  if (std::find(protocol.devices.begin(), protocol.devices.end(), name) == protocol.devices.end()) {
    protocol.devices.push_back(name);
  }
}

Step Copy(const std::string& node, const std::string& from, const std::string& to,
          const std::string& by) {
  return {.node = node, .from = from, .to = to, .by = by};
}

}  // namespace

bool IsRdmaTransport(std::string_view transport) {
  return transport.starts_with("rc_") || transport.starts_with("dc_") ||
         transport.starts_with("ud_");
}

bool IsLocalTransport(std::string_view transport) {
  return std::find(kLocal.begin(), kLocal.end(), transport) != kLocal.end();
}

Protocol ParseProtocol(std::string_view text) {
  Protocol protocol;
  protocol.description = std::string(text.substr(0, kMaxDescription));
  const std::optional<std::string_view> body = Body(text);
  if (!body || body->empty()) return protocol;
  protocol.description = std::string(body->substr(0, kMaxDescription));
  std::string_view rest = *body;
  const auto words = std::find_if(kMethods.begin(), kMethods.end(), [&](const Words& known) {
    return rest.starts_with(known.text) &&
           (rest.size() == known.text.size() || rest[known.text.size()] == ' ');
  });
  if (words == kMethods.end()) return protocol;
  rest.remove_prefix(words->text.size());
  while (!rest.empty()) AddLane(NextWord(rest), protocol);
  if (!protocol.transport.empty()) protocol.method = words->method;
  return protocol;
}

// Who takes bytes out of a memory, or puts them there, where UCX goes through buffers of its own.
std::string CopierOf(const std::string& memory) {
  return memory.starts_with("GPU-") || memory.starts_with("MIG-") ? "copy-engine" : "cpu";
}

StepList StepsOf(const Protocol& protocol, const GetEnds& ends,
                 const std::function<bool(const std::string&)>& is_emulated_device) {
  const bool emulated =
      std::any_of(protocol.devices.begin(), protocol.devices.end(), is_emulated_device);
  auto wire = [&](const std::string& from, const std::string& to) {
    return Step{.node = ends.reader,
                .from = from,
                .to = to,
                .by = "wire",
                .loopback = ends.same_machine,
                .emulated = emulated};
  };
  const bool rdma = IsRdmaTransport(protocol.transport);
  const bool local = IsLocalTransport(protocol.transport);
  const std::string by = protocol.transport.starts_with("cuda") ? "copy-engine" : "cpu";
  std::vector<Step> steps;
  if (protocol.method == Method::kZeroCopy && rdma) {
    steps = {wire(ends.from, ends.to)};
  } else if (protocol.method == Method::kZeroCopy && local) {
    steps = {Copy(ends.reader, ends.from, ends.to, by)};
  } else if (protocol.method == Method::kCopyOut && rdma) {
    steps = {wire(ends.from, "ucx"), Copy(ends.reader, "ucx", ends.to, "cpu")};
  } else if (protocol.method == Method::kCopyOut && local) {
    steps = {Copy(ends.reader, ends.from, "ucx", by), Copy(ends.reader, "ucx", ends.to, "cpu")};
  } else if (protocol.method == Method::kEmulation && rdma) {
    steps = {Copy(ends.owner, ends.from, "ucx", "cpu"), wire("ucx", "ucx"),
             Copy(ends.reader, "ucx", ends.to, "cpu")};
  } else if (protocol.method == Method::kEmulation && local) {
    steps = {Copy(ends.owner, ends.from, "ucx", "cpu"), Copy(ends.reader, "ucx", ends.to, "cpu")};
  } else {
    // Sockets, under UCX's own buffers at both ends; and what is not known.
    const bool known = protocol.method == Method::kEmulation && protocol.transport == "tcp";
    const std::string worker = known ? "cpu" : "unknown";
    steps = {Copy(ends.owner, ends.from, "ucx", known ? CopierOf(ends.from) : worker),
             Copy(ends.owner, "ucx", "kernel", worker), wire("kernel", "kernel"),
             Copy(ends.reader, "kernel", "ucx", worker),
             Copy(ends.reader, "ucx", ends.to, known ? CopierOf(ends.to) : worker)};
  }
  return std::make_shared<const std::vector<Step>>(std::move(steps));
}

}  // namespace onecopy::ucx
