#include "daemon/discovery/resolver.h"

#include <ares.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::discovery {
namespace {

using ResolverClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPerAttempt{1000};
constexpr int kAttempts = 2;
// Of one question, whatever its servers do; the library's own limits are for each of them.
constexpr std::chrono::seconds kLongest{10};
constexpr std::chrono::milliseconds kAskEvery{100};

struct Message {
  bool done = false;
  int status = ARES_SUCCESS;
  std::vector<unsigned char> bytes;
};

void Take(void* to, int status, int /*timeouts*/, unsigned char* bytes, int count) {
  auto* const message = static_cast<Message*>(to);
  message->done = true;
  message->status = status;
  if (status == ARES_SUCCESS) message->bytes.assign(bytes, bytes + count);
}

struct DestroyChannel {
  void operator()(ares_channel channel) const { ares_destroy(channel); }
};
using Channel = std::unique_ptr<std::remove_pointer_t<ares_channel>, DestroyChannel>;

// With the servers of /etc/resolv.conf as it is now.
int MakeChannel(Channel* made) {
  static const int ready = ares_library_init(ARES_LIB_INIT_ALL);
  if (ready != ARES_SUCCESS) return ready;
  ares_options options{};
  options.timeout = static_cast<int>(kPerAttempt.count());
  options.tries = kAttempts;
  ares_channel channel = nullptr;
  const int status = ares_init_options(&channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
  if (status == ARES_SUCCESS) made->reset(channel);
  return status;
}

// Waits for a socket of the question, and has the library do what there is to do.
void Step(ares_channel channel) {
  std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets{};
  const int which = ares_getsock(channel, sockets.data(), static_cast<int>(sockets.size()));
  std::vector<pollfd> waits;
  for (unsigned i = 0; i < sockets.size(); ++i) {
    const bool reads = ARES_GETSOCK_READABLE(which, i) != 0;
    const bool writes = ARES_GETSOCK_WRITABLE(which, i) != 0;
    if (!reads && !writes) continue;
    waits.push_back(
        {sockets.at(i), static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0});
  }
  ::poll(waits.data(), waits.size(), static_cast<int>(kAskEvery.count()));
  // Also what has waited for too long.
  ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  for (const pollfd& wait : waits) {
    const bool failed = (wait.revents & (POLLERR | POLLHUP)) != 0;
    const bool readable = (wait.revents & POLLIN) != 0 || failed;
    const bool writable = (wait.revents & POLLOUT) != 0 || failed;
    ares_process_fd(channel, readable ? wait.fd : ARES_SOCKET_BAD,
                    writable ? wait.fd : ARES_SOCKET_BAD);
  }
}

std::string Why(int status) {
  if (status == ARES_ETIMEOUT || status == ARES_ECANCELLED) return "no server answers in time";
  return ares_strerror(status);
}

}  // namespace

Result<DnsAnswer> Resolver::Ask(const std::string& name, DnsType type) const {
  const auto failed = [&name](const std::string& why) {
    return Status(Code::kUnavailable, reasons::kIo, "DNS, " + name + ": " + why,
                  "check dns_name and dns_server, or /etc/resolv.conf");
  };
  Message message;  // outlives the channel
  Channel channel;
  if (const int status = MakeChannel(&channel); status != ARES_SUCCESS) return failed(Why(status));
  if (server_ &&
      ares_set_servers_ports_csv(channel.get(), server_->ToString().c_str()) != ARES_SUCCESS) {
    return failed("dns_server is not an IP address");
  }
  constexpr int kInternet = 1;  // as RFC 1035 numbers classes, and these RFCs types
  const int what = type == DnsType::kA ? 1 : type == DnsType::kAaaa ? 28 : 33;
  ares_query(channel.get(), name.c_str(), kInternet, what, Take, &message);
  const auto until = ResolverClock::now() + kLongest;
  while (!message.done) {
    if (ended_() || ResolverClock::now() >= until) {
      ares_cancel(channel.get());
      break;
    }
    Step(channel.get());
  }
  if (message.status == ARES_ENOTFOUND || message.status == ARES_ENODATA) return DnsAnswer();
  if (!message.done || message.status != ARES_SUCCESS) return failed(Why(message.status));
  Result<DnsAnswer> parsed = ParseDnsAnswer(message.bytes, name, type);
  if (!parsed.ok()) return failed(parsed.status().message());
  return parsed;
}

}  // namespace onecopy::discovery
