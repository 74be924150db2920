#include "daemon/discovery/dns.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "daemon/discovery/ask_name.h"
#include "daemon/discovery/dns_nodes.h"
#include "daemon/discovery/resolver.h"
#include "transport/core/base/mutex.h"
#include "transport/os/machine/machine.h"

namespace onecopy::discovery {
namespace {

using DnsClock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLeast{1};
constexpr seconds kMost{300};
constexpr seconds kWhileMissing{5};    // until a node is missing for the second time
constexpr seconds kWithoutRecords{5};  // which have no TTL
constexpr milliseconds kRetryMin{500};
constexpr milliseconds kRetryMax{10'000};
constexpr milliseconds kHandshakeLimit{3'000};

class Dns final : public Discovery {
 public:
  Dns(DnsOptions options, Sink& sink)
      : options_(std::move(options)),
        sink_(sink),
        resolver_(options_.server, [this] { return Leaving(); }),
        nodes_(
            options_.name, options_.port,
            [this](const std::string& name, DnsType type) { return resolver_.Ask(name, type); },
            [this](const std::vector<os::HostPort>& where) {
              return AskNames(where, options_.trust->Now().identity, kHandshakeLimit,
                              [this] { return Leaving(); });
            }),
        thread_([this] { Run(); }) {}

  ~Dns() override {
    Leave();
    thread_.join();
  }

  void Leave() override {
    const MutexLock lock(mutex_);
    leaving_ = true;
    changed_.NotifyAll();
  }

 private:
  bool Leaving() {
    const MutexLock lock(mutex_);
    return leaving_;
  }

  void Run() {
    ::pthread_setname_np(::pthread_self(), "discovery");
    milliseconds retry = kRetryMin;
    while (!Leaving()) {
      Result<DnsNodes::Look> look = nodes_.LookAgain();
      if (Leaving()) return;
      if (!look.ok()) {
        sink_.Failed(look.status());
        Pause(retry);
        retry = std::min(retry * 2, kRetryMax);
        continue;
      }
      retry = kRetryMin;
      const bool any = !look->snapshot.entries.empty();
      seconds next = any ? std::clamp(seconds(look->ttl_seconds), kLeast, kMost) : kWithoutRecords;
      if (look->any_missing) next = std::min(next, kWhileMissing);
      sink_.Found(std::move(look->snapshot));
      Pause(next);
    }
  }

  // A tenth less at most, so that nodes do not ask in step.
  void Pause(milliseconds time) {
    const auto spread = static_cast<uint64_t>(time.count() / 10 + 1);
    const DnsClock::time_point until =
        DnsClock::now() + time - milliseconds(os::RandomNumber() % spread);
    const MutexLock lock(mutex_);
    while (!leaving_ && DnsClock::now() < until) changed_.WaitUntil(mutex_, until);
  }

  const DnsOptions options_;
  Sink& sink_;
  Mutex mutex_;
  Condition changed_;
  bool leaving_ ONECOPY_GUARDED_BY(mutex_) = false;
  const Resolver resolver_;
  DnsNodes nodes_;      // of the thread
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Discovery> StartDns(DnsOptions options, Sink& sink) {
  return std::make_unique<Dns>(std::move(options), sink);
}

}  // namespace onecopy::discovery
