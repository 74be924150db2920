#include "transport/link/verbs/reads.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::verbs {
namespace {

constexpr size_t kMaxForbiddenRuns = 65536;

constexpr size_t kMaxStepLists = 64;
constexpr double kMinRate = 1e-3;  // bytes per second: of a lane that is a last resort

Status Revoked() {
  return {Code::kPermissionDenied, reasons::kAccessDenied, "the right to read was withdrawn"};
}

}  // namespace

Status Reads::Check(const GetRequest& request, const Result<Key>& key) const {
  if (!stopped_.ok()) return stopped_;
  ONECOPY_RETURN_IF_ERROR(key.status());
  if (request.key_offset > key->bytes || request.into.bytes > key->bytes - request.key_offset) {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            "the read lies outside the range that its key opens"};
  }
  if (IsForbidden(key->id)) return Revoked();
  if (request.lane != GetRequest::kAnyLane &&
      static_cast<size_t>(request.lane) >= lanes_.list().size()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the read names a lane that this verbs connection does not have"};
  }
  return OkStatus();
}

void Reads::Start(const GetRequest& request, Connection::GetDone done) {
  Result<Key> key = DecodeKey(*request.key);
  Status status = Check(request, key);
  auto get = std::make_shared<Get>();
  get->done = std::move(done);
  if (status.ok()) {
    get->flow = request.flow;
    get->channel = request.channel;
    get->exported = key->id;
    get->key_offset = request.key_offset;
    get->into = request.into;
    get->lane_rates = request.lane_rates;
    get->remote = std::move(key->lanes);
    get->asked_lane = request.lane;
    status = Assign(get);
  }
  if (!status.ok() || get->into.bytes == 0) {
    if (status.ok()) get->steps = StepsOf(key->memory, *get->into.region, get->lane);
    return home_.loop().Post([get, status] { get->done(status, get->steps, get->lane); });
  }
  get->steps = StepsOf(key->memory, *get->into.region, get->lane);
  ++reading_[get->exported];
  gets_.insert(get);
}

Status Reads::Assign(const GetRef& get) {
  const std::shared_ptr<const KnownMemory> known = memory_.Find(*get->into.region);
  if (known == nullptr) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            "memory of " + get->into.region->step_name() + " is not registered with verbs"};
  }
  const bool empty = get->into.bytes == 0;
  Lane* best = nullptr;
  const DeviceMemory* memory = nullptr;
  double best_wait = 0;
  for (unsigned i = 0; i < lanes_.list().size(); ++i) {
    Lane& lane = *lanes_.list()[i];
    if (lane.state() != Lane::State::kLive) continue;
    if (get->asked_lane != GetRequest::kAnyLane && static_cast<unsigned>(get->asked_lane) != i) {
      continue;
    }
    if (!empty && (i >= get->remote.size() || get->remote[i].rkey == 0)) continue;
    if (get->exported < lanes_.first_export(i)) continue;  // its key is of a former lane
    const DeviceMemory* on = known->On(lane.device().get());
    if (on == nullptr) continue;
    const double rate = i < get->lane_rates.size()
                            ? get->lane_rates[i]
                            : static_cast<double>(lane.port().bytes_per_second);
    const double wait =
        static_cast<double>(lane.load_bytes() + get->into.bytes) / std::max(rate, kMinRate);
    if (best != nullptr && wait >= best_wait) continue;
    best = &lane;
    memory = on;
    best_wait = wait;
    get->lane = i;
  }
  if (best == nullptr) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "no lane to node " + peer_ + " can carry this memory" +
                (lanes_.last_failure().ok() ? "" : "; " + lanes_.last_failure().message())};
  }
  if (!empty) {
    best->Read(get, memory->region.base() + get->into.offset, memory->region.lkey());
  }
  return OkStatus();
}

void Reads::End(const GetRef& get, const Status& status) {
  if (gets_.erase(get) == 0) return;
  ended_.fetch_add(1, std::memory_order_relaxed);
  Connection::GetDone done = std::exchange(get->done, nullptr);
  get->into.region.reset();
  const uint64_t exported = get->exported;
  done(status, get->steps, get->lane);
  const auto reading = reading_.find(exported);
  if (reading == reading_.end() || --reading->second > 0) return;
  reading_.erase(reading);
  if (to_acknowledge_.erase(exported) > 0) control_.Send(FrameKind::kRevoked, exported, {});
}

void Reads::EndQueued(const std::function<bool(const Get&)>& which, const Status& why) {
  for (const auto& lane : lanes_.list()) {
    for (const GetRef& get : lane->TakeQueued(which, why)) OnDone(get);
  }
}

StepList Reads::StepsOf(const std::string& owner_memory, const Region& into, unsigned index) {
  auto name = std::make_tuple(owner_memory, into.step_name(), index);
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMaxStepLists) steps_.clear();
  const Lane& lane = *lanes_.list()[index];
  auto steps = std::make_shared<const std::vector<Step>>(
      std::vector<Step>{{.node = options_.node,
                         .from = owner_memory,
                         .to = into.step_name(),
                         .by = "wire",
                         .loopback = !os::InterfaceOf(GidText(lane.remote().gid)).empty(),
                         .emulated = lane.device()->emulated() || lane.remote().emulated}});
  return steps_.emplace(std::move(name), std::move(steps)).first->second;
}

bool Reads::IsForbidden(uint64_t exported) const {
  const auto after = forbidden_.upper_bound(exported);
  return after != forbidden_.begin() && exported < std::prev(after)->second;
}

// Exports are numbered in order, and end nearly so: the runs are few. A peer that names others than
// its own has the lowest ones joined, which forbids what is between them.
void Reads::Forbid(uint64_t exported) {
  if (IsForbidden(exported) || exported == UINT64_MAX) return;
  auto run = forbidden_.emplace(exported, exported + 1).first;
  if (run != forbidden_.begin() && std::prev(run)->second == exported) {
    run = std::prev(run);
    run->second = exported + 1;
    forbidden_.erase(std::next(run));
  }
  if (const auto next = std::next(run); next != forbidden_.end() && next->first == run->second) {
    run->second = next->second;
    forbidden_.erase(next);
  }
  if (forbidden_.size() <= kMaxForbiddenRuns) return;
  const auto second = std::next(forbidden_.begin());
  forbidden_.begin()->second = second->second;
  forbidden_.erase(second);
}

void Reads::OnRevoke(uint64_t exported) {
  Forbid(exported);
  // Only what is with a device by now may still end, so that the peer does not wait behind others.
  EndQueued([exported](const Get& get) { return get.exported == exported; }, Revoked());
  if (reading_.contains(exported)) {
    to_acknowledge_.insert(exported);
  } else {
    control_.Send(FrameKind::kRevoked, exported, {});
  }
}

void Reads::Cancel(ChannelId channel) {
  EndQueued([channel](const Get& get) { return get.channel == channel; },
            {Code::kCancelled, reasons::kCancelled, "the get was cancelled"});
}

void Reads::OnLaneFailed(const std::vector<GetRef>& unfinished, const GetRef& culprit,
                         const Status& why) {
  for (const GetRef& get : unfinished) {
    if (get == culprit) {
      End(get, {Code::kPermissionDenied, reasons::kAccessDenied, why.message()});
    } else if (!get->refused.ok()) {
      OnDone(get);
    } else if (!stopped_.ok()) {
      End(get, stopped_);
    } else if (const Status moved = lanes_.live() > 0 ? Assign(get) : why; !moved.ok()) {
      End(get, moved);
    }
  }
}

void Reads::EndAll() {
  for (const GetRef& get : std::exchange(gets_, {})) {
    Connection::GetDone done = std::exchange(get->done, nullptr);
    get->into.region.reset();
    done(stopped_, get->steps, get->lane);
  }
}

}  // namespace onecopy::verbs
