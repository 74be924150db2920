#include "daemon/engine/probing/probes.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

using Kind = ProbeOutcome::Kind;

constexpr size_t kMaxQueued = 1024;
constexpr std::chrono::seconds kMaxRetryPause{120};
constexpr double kBurstSeconds = 0.5;  // before a link's share counts

// By so much either way, so that nodes that started together do not probe together.
os::Clock::duration Jittered(std::chrono::milliseconds pause, double jitter) {
  const double whole = static_cast<double>(pause.count());
  const auto spread = static_cast<uint64_t>(whole * jitter * 2) + 1;
  return std::chrono::milliseconds(static_cast<int64_t>(whole * (1 - jitter)) +
                                   static_cast<int64_t>(os::RandomNumber() % spread));
}

std::string Text(const plan::WireEnd& end) { return end.device.empty() ? end.kind : end.device; }

// Somebody who waits for several probes, but not for ever.
struct Waiter {
  size_t missing = 1;
  Task then;
  os::EventLoop::TimerId timer = 0;
};

}  // namespace

Probes::Probes(Context& context, Catalog& catalog, Peers& peers, Nodes& nodes,
               Connections& connections, const PathRates& path_rates)
    : context_(context),
      catalog_(catalog),
      peers_(peers),
      nodes_(nodes),
      connections_(connections),
      path_rates_(path_rates),
      activities_(context.loop),
      slow_([this](const std::string& node) { return IsKnown(node); }) {}
Probes::~Probes() = default;

bool Probes::IsKnown(const std::string& node) const {
  return context_.IsSelf(node) || peers_.Find(node).status().code() != Code::kNotFound;
}

bool Probes::IsOwn(const ProbeTable::Key& key) const { return context_.IsSelf(key.node); }

bool Probes::HasDevices(const std::string& link) const {
  const LinkCapability* found = catalog_.capabilities().FindLink(link);
  return found != nullptr && found->rdma && !found->nics.empty() &&
         context_.FindLink(link) != nullptr;
}

bool Probes::Enqueue(const ProbeTable::Key& key, ProbeTable::Entry& entry) {
  if (stopped_) return false;
  if (entry.queued || entry.running) return true;
  Line& line = LineOf(key);
  if (line.queue.size() >= kMaxQueued) return false;
  entry.queued = true;
  line.queue.push_back(key);
  return true;
}

void Probes::AwaitKeys(const std::vector<ProbeTable::Key>& keys, bool force,
                       std::chrono::milliseconds limit, Task then) {
  auto waiter = std::make_shared<Waiter>();
  waiter->then = std::move(then);
  auto arrive = [this, waiter] {
    if (--waiter->missing > 0 || !waiter->then) return;
    context_.loop.CancelTimer(waiter->timer);
    std::exchange(waiter->then, nullptr)();
  };
  for (const ProbeTable::Key& key : keys) {
    ProbeTable::Entry* entry = table_.Ensure(key);
    if (entry == nullptr) continue;
    const ProbeTable::State state = entry->state();
    if (state == ProbeTable::State::kFresh && !force) continue;
    entry->forced = entry->forced || force;
    if (!Enqueue(key, *entry) || (state == ProbeTable::State::kStale && !force)) continue;
    ++waiter->missing;
    entry->waiting.emplace_back(arrive);
  }
  if (waiter->missing > 1) {
    waiter->timer = context_.loop.RunAfter(limit, [waiter] {
      waiter->timer = 0;
      if (waiter->then) std::exchange(waiter->then, nullptr)();
    });
  }
  StartNext(own_line_);
  StartNext(peer_line_);
  arrive();
}

void Probes::Await(const std::string& peer, const std::vector<plan::Wire>& wires, Task then) {
  std::vector<ProbeTable::Key> keys;
  keys.reserve(wires.size());
  for (const plan::Wire& wire : wires) {
    if (plan::CanProbe(wire)) keys.push_back({peer, wire});
  }
  AwaitKeys(keys, false, context_.options.probe_wait, std::move(then));
}

void Probes::EnsureOwn(const std::string& link, const Place& place, StatusReply reply) {
  if (!HasDevices(link) || !plan::CanProbe(plan::WireEnd{place.kind, place.device}))
    return reply(OkStatus());
  const plan::WireEnd end{place.kind, place.device};
  const ProbeTable::Key key{context_.node(), {link, end, end}};
  auto shared = std::make_shared<StatusReply>(std::move(reply));
  AwaitKeys({key}, false, context_.options.probe_limit, [this, key, shared] {
    const ProbeTable::Entry* const entry = table_.Find(key);
    const bool failed = entry != nullptr && entry->outcome && entry->outcome->kind == Kind::kFailed;
    (*shared)(failed ? entry->outcome->why : OkStatus());
  });
}

// Probes that would take more than their share of the link's time wait; the others pass them by.
void Probes::StartNext(Line& line) {
  if (line.busy || stopped_ || line.queue.empty()) return;
  double least_debt = 1e9;
  for (auto at = line.queue.begin(); at != line.queue.end(); ++at) {
    const ProbeTable::Key key = *at;
    ProbeTable::Entry& entry = table_.At(key);
    const double allowed = Allowed(key.wire.link);
    if (allowed <= 0 && !entry.forced) {
      least_debt = std::min(least_debt, -allowed);
      continue;
    }
    line.queue.erase(at);
    line.busy = true;
    entry.queued = false;
    entry.running = true;
    entry.forced = false;
    return Begin(key);
  }
  if (line.timer != 0) return;
  const auto pause = std::chrono::duration_cast<os::Clock::duration>(
      std::chrono::duration<double>(least_debt / context_.options.probe_share + 0.01));
  line.timer = context_.loop.RunAfter(pause, [this, &line] {
    line.timer = 0;
    StartNext(line);
  });
}

double Probes::Allowed(const std::string& link) {
  const auto now = os::Clock::now();
  const auto [found, first] = allowances_.try_emplace(link, Allowance{kBurstSeconds, now});
  Allowance& allowance = found->second;
  const double passed = std::chrono::duration<double>(now - allowance.since).count();
  allowance.seconds =
      std::min(allowance.seconds + passed * context_.options.probe_share, kBurstSeconds);
  allowance.since = now;
  return allowance.seconds;
}

void Probes::Begin(const ProbeTable::Key& key) {
  if (IsOwn(key)) return Run(key);
  // What this node's devices cannot do with this memory needs no peer to be found out.
  const plan::WireEnd& end = key.wire.destination;
  EnsureOwn(key.wire.link, {end.kind, end.device}, [this, key](const Status& own) {
    if (stopped_) return;
    if (own.ok()) return Run(key);
    ProbeOutcome outcome;
    outcome.kind = Kind::kFailed;
    outcome.why = own;
    Conclude(key, std::move(outcome));
  });
}

void Probes::Run(const ProbeTable::Key& key) {
  ++started_;
  auto run = std::make_shared<ProbeRun>(context_, nodes_, connections_, activities_,
                                        ProbeRun::Params{key.node, key.wire, IsOwn(key)});
  LineOf(key).run = run;
  run->Start([this, key](ProbeOutcome outcome) { Conclude(key, std::move(outcome)); });
}

void Probes::Conclude(const ProbeTable::Key& key, ProbeOutcome outcome) {
  Line& line = LineOf(key);
  line.run.reset();
  line.busy = false;
  if (stopped_) return;
  allowances_[key.wire.link].seconds -= outcome.link_seconds;
  if (IsOwn(key)) Evaluate(key, outcome);
  const bool measured = outcome.kind == Kind::kMeasured;
  if (measured) ++measured_;
  if (outcome.kind == Kind::kFailed) ++failed_;
  log::Info(
      measured                        ? "probed"
      : outcome.kind == Kind::kFailed ? "probe failed"
                                      : "probe inconclusive",
      {{"from", key.node + " " + Text(key.wire.source)},
       {"to", Text(key.wire.destination)},
       {"link", key.wire.link},
       {"outcome", measured ? FormatRate(outcome.bytes_per_second) : outcome.why.ToString()}});
  ProbeTable::Entry& entry = table_.At(key);
  entry.running = false;
  entry.failures = outcome.kind == Kind::kMeasured ? 0 : entry.failures + 1;
  entry.outcome = std::move(outcome);
  SetExpiry(entry);
  for (Task& waiting : std::exchange(entry.waiting, {})) waiting();
  StartNext(line);
}

void Probes::SetExpiry(ProbeTable::Entry& entry) {
  const Options& options = context_.options;
  std::chrono::milliseconds lifetime = options.probe_lifetime;
  if (entry.failures > 0) {
    lifetime = std::min<std::chrono::milliseconds>(
        options.probe_retry * (int64_t{1} << std::min(entry.failures - 1, 20)), kMaxRetryPause);
  }
  const os::Clock::duration jittered = Jittered(lifetime, options.probe_jitter);
  entry.expires = os::Clock::now() + jittered;
  entry.time = std::chrono::system_clock::now();
  entry.expire_time =
      entry.time + std::chrono::duration_cast<std::chrono::system_clock::duration>(jittered);
}

void Probes::Evaluate(const ProbeTable::Key& key, ProbeOutcome& outcome) {
  const LinkCapability* link = catalog_.capabilities().FindLink(key.wire.link);
  if (link == nullptr) return;
  const auto no = [](const Status& why) {
    return Viability::No(why.reason(), why.message(), why.remedy());
  };
  std::map<std::string, Status> seen;  // by device; those of which something is known
  if (!outcome.registration.ok()) {
    for (const NicCapability& nic : link->nics) seen[nic.name] = outcome.registration;
  }
  for (const auto& pair : outcome.pairs) seen[pair.destination_nic] = pair.failure;
  for (const NicRegistration& registration : outcome.registrations) {
    if (!registration.status.ok()) seen[registration.nic] = registration.status;
  }
  if (outcome.pairs.empty() && outcome.registration.ok() && outcome.kind == Kind::kFailed) {
    for (const NicRegistration& registration : outcome.registrations) {
      if (registration.status.ok()) seen[registration.nic] = outcome.why;
    }
  }
  std::vector<std::pair<std::string, NicMemory>> found;
  Status first;
  size_t useless = 0;
  for (const auto& [nic, why] : seen) {
    found.push_back({nic,
                     {key.wire.destination.kind, key.wire.destination.device,
                      why.ok() ? Viability() : no(why)}});
    if (why.ok()) continue;
    ++useless;
    if (first.ok()) first = why;
  }
  const auto devices = static_cast<size_t>(
      std::count_if(link->nics.begin(), link->nics.end(),
                    [](const NicCapability& nic) { return nic.viability.viable; }));
  catalog_.ProveNicMemories(key.wire.link, found);
  const bool all_useless = useless > 0 && useless >= devices;
  if (all_useless) {
    outcome.kind = Kind::kFailed;
    // A transfer goes on to its next path only from this code.
    outcome.why =
        Status(Code::kFailedPrecondition, first.reason(), first.message(), first.remedy());
  } else if (outcome.kind == Kind::kFailed) {
    outcome.kind = Kind::kUnknown;
  }
}

std::vector<ProbeTable::Key> Probes::KeysOf(const std::string& node) const {
  const NodeCapability& here = catalog_.capabilities();
  const bool own = context_.IsSelf(node);
  const NodeCapability* there = own ? &here : peers_.Capabilities(node);
  std::vector<ProbeTable::Key> keys;
  if (there == nullptr) return keys;
  const auto usable = [](const NodeCapability& of, const LinkCapability& link) {
    std::vector<plan::WireEnd> ends;
    for (const MemoryCapability& memory : of.memories) {
      const bool reached = link.rdma || memory.kind == "host" || link.Reaches(memory.kind);
      if (memory.viability.viable && reached &&
          plan::CanProbe(plan::WireEnd{memory.kind, memory.device})) {
        ends.push_back({memory.kind, memory.device});
      }
    }
    return ends;
  };
  for (const LinkCapability& link : here.links) {
    const LinkCapability* other = there->FindLink(link.name);
    if (!link.viability.viable || other == nullptr || !other->viability.viable) continue;
    if (context_.FindLink(link.name) == nullptr || (own && !link.rdma)) continue;
    for (const plan::WireEnd& to : usable(here, link)) {
      for (const plan::WireEnd& from : usable(*there, *other)) {
        if (!own || from == to) keys.push_back({there->node, {link.name, from, to}});
      }
    }
  }
  return keys;
}

void Probes::ProbeNode(const std::string& node, bool force, Reply<std::vector<ProbeInfo>> reply) {
  constexpr std::chrono::seconds kPatience{60};
  constexpr size_t kMaxKeys = 512;
  std::vector<std::string> nodes = {node};
  if (node.empty()) {
    nodes = {context_.node()};
    for (const NodeInfo& peer : peers_.Describe()) {
      if (peers_.IsConnected(peer.name)) nodes.push_back(peer.name);
    }
  } else if (!context_.IsSelf(node)) {
    if (Result<PeerApi*> peer = peers_.Find(node); !peer.ok()) return reply(peer.status());
  }
  std::vector<ProbeTable::Key> keys;
  for (const std::string& one : nodes) {
    const std::vector<ProbeTable::Key> of_one = KeysOf(one);
    keys.insert(keys.end(), of_one.begin(), of_one.end());
  }
  if (keys.size() > kMaxKeys) keys.resize(kMaxKeys);
  AwaitKeys(keys, force, kPatience, [this, nodes, reply = std::move(reply)]() mutable {
    std::vector<ProbeInfo> all;
    for (const std::string& one : nodes) {
      const std::vector<ProbeInfo> of_one = table_.Describe(one);
      all.insert(all.end(), of_one.begin(), of_one.end());
    }
    reply(std::move(all));
  });
}

void Probes::Stop(Task done) {
  stopped_ = true;
  for (Line* line : {&own_line_, &peer_line_}) {
    context_.loop.CancelTimer(line->timer);
    line->queue.clear();
    if (const std::shared_ptr<ProbeRun> run = line->run) {
      run->Stop({Code::kCancelled, reasons::kDraining, "this node is stopping"});
    }
  }
  activities_.OnIdle(std::move(done));
}

plan::Estimates Probes::EstimatesFor(const std::string& peer) const {
  plan::Estimates estimates = table_.EstimatesFor(peer);
  path_rates_.AddTo(estimates, peer);
  return estimates;
}

void Probes::LinkChanged(const std::string& link) {
  table_.LinkChanged(link, context_.node());
  catalog_.ForgetNicMemories(link);
}

}  // namespace onecopy::engine
