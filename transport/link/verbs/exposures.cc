#include "transport/link/verbs/exposures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::verbs {
namespace {

constexpr std::chrono::seconds kRevokeLimit{2};

}  // namespace

void Exposures::Add(const Span& span, Reach reach, Done done) {
  if (!stopped_.ok()) return done(stopped_);
  const std::shared_ptr<const KnownMemory> known = memory_.Find(*span.region);
  if (known == nullptr) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "memory of " + span.region->step_name() + " is not registered with verbs"));
  }
  auto exposure = std::make_shared<Exposure>();
  exposure->span = span;
  exposure->done = std::move(done);
  Key& key = exposure->key;
  key.id = next_id_++;
  key.memory = span.region->step_name();
  key.registration = "none";
  key.bytes = span.bytes;
  key.lanes.resize(lanes_.size());
  exposed_[key.id] = exposure;
  exposure->pending = 1;  // until the loops below are through
  std::set<std::shared_ptr<Device>> to_lease;
  for (unsigned i = 0; i < lanes_.size() && span.bytes > 0; ++i) {
    const std::shared_ptr<Device>& device = lanes_[i]->device();
    const DeviceMemory* memory = known->On(device.get());
    if (!lanes_[i]->usable() || memory == nullptr) continue;
    key.registration = memory->how;
    if (memory->how == "host" && device->has_windows()) {
      key.window = true;
      Bind(exposure, i, *memory);
    } else {
      to_lease.insert(device);
    }
  }
  for (const std::shared_ptr<Device>& device : to_lease) {
    if (reach == Reach::kSpan) {
      RegisterOwn(exposure, device);
    } else {
      Lease(exposure, device);
    }
  }
  OneDone(exposure);
}

void Exposures::SetKey(Exposure& exposure, const std::shared_ptr<Device>& device,
                       Key::Remote remote) {
  for (unsigned i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i]->device() == device) exposure.key.lanes[i] = remote;
  }
}

void Exposures::RegisterOwn(const ExposureRef& exposure, const std::shared_ptr<Device>& device) {
  ++exposure->pending;
  slow_.loop.Post([this, exposure, device, keep = home_.Keep(), &home = home_.loop()]() mutable {
    auto made = RegisterSpan(device, exposure->span, IBV_ACCESS_REMOTE_READ);
    home.Post([this, exposure, device, keep = std::move(keep), made = std::move(made)]() mutable {
      if (made.ok()) {
        exposure->key.registration = made->how;
        SetKey(*exposure, device, {made->region.rkey(), made->region.base()});
        exposure->own.push_back(std::move(*made));
      } else {
        exposure->failure = made.status();
      }
      OneDone(exposure);
    });
  });
}

void Exposures::Bind(const ExposureRef& exposure, unsigned lane, const DeviceMemory& memory) {
  ++exposure->pending;
  const uint64_t address = memory.region.base() + exposure->span.offset;
  lanes_[lane]->Bind(memory.region.get(), address, exposure->span.bytes,
                     [this, exposure, lane, address](uint32_t rkey) {
                       if (rkey != 0) exposure->key.lanes[lane] = {rkey, address};
                       OneDone(exposure);
                     });
}

void Exposures::Lease(const ExposureRef& exposure, const std::shared_ptr<Device>& device) {
  ++exposure->pending;
  slow_.loop.Post([this, exposure, device, keep = home_.Keep(), leases = slow_.leases, peer = peer_,
                   &home = home_.loop()]() mutable {
    Result<Leases::Lease> lease = leases->Take(peer, device, exposure->span.region);
    home.Post([this, exposure, device, keep = std::move(keep), lease = std::move(lease)] {
      if (lease.ok()) {
        exposure->leases.push_back(lease->id);
        exposure->key.registration = lease->how;
        SetKey(*exposure, device, {lease->rkey, lease->base + exposure->span.offset});
      } else {
        exposure->failure = lease.status();
      }
      OneDone(exposure);
    });
  });
}

void Exposures::OneDone(const ExposureRef& exposure) {
  if (--exposure->pending > 0 || !exposure->done) return;
  bool readable = exposure->span.bytes == 0;
  for (const Key::Remote& lane : exposure->key.lanes) readable |= lane.rkey != 0;
  Done done = std::exchange(exposure->done, nullptr);
  const bool cleared = !exposed_.contains(exposure->key.id);
  if (cleared) GiveBack(*exposure);  // what was leased after Clear
  if (readable && !cleared) return done(Encode(exposure->key));
  exposed_.erase(exposure->key.id);
  if (cleared) {
    return done(Status(Code::kUnavailable, reasons::kLinkDown, "the verbs connection is closed"));
  }
  if (!exposure->failure.ok()) return done(exposure->failure);
  if (std::none_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->usable(); })) {
    return done(Status(Code::kUnavailable, reasons::kLinkDown,
                       "no lane of the verbs connection works any more"));
  }
  done(Status(Code::kResourceExhausted, reasons::kKeysExhausted,
              "no device gave a memory window for " + exposure->key.memory));
}

void Exposures::GiveBack(Exposure& exposure, Task forgotten) {
  if (!exposure.own.empty()) {
    slow_.loop.Post([own = std::exchange(exposure.own, {}), keep = exposure.span.region,
                     forgotten = std::move(forgotten)]() mutable {
      own.clear();
      if (forgotten) forgotten();
    });
  } else if (forgotten) {
    forgotten();
  }
  const std::vector<uint64_t> given = std::exchange(exposure.leases, {});
  for (const uint64_t id : given) slow_.leases->GiveBack(id);
  // Whatever has been idle for long enough ends there; it may take a while.
  if (!given.empty()) {
    slow_.loop.Post([leases = slow_.leases, &loop = slow_.loop] {
      const auto next = leases->DropIdle();
      if (next) loop.RunAt(*next, [leases] { leases->DropIdle(); });
    });
  }
}

void Exposures::Revoke(uint64_t id, Task done) {
  if (cleared_ || !exposed_.contains(id)) return done();
  Revocation& revocation = revocations_[id];
  revocation.done.push_back(std::move(done));
  if (revocation.done.size() > 1 || !stopped_.ok()) return;  // else it ends with the connection
  control_.Send(FrameKind::kRevoke, id, {});
  revocation.timer = home_.RunAfter(kRevokeLimit, [this, id] { OnRevoked(id); });
}

void Exposures::OnRevoked(uint64_t id) {
  const auto node = revocations_.extract(id);
  if (node.empty()) return;
  home_.loop().CancelTimer(node.mapped().timer);
  auto done = std::make_shared<std::vector<Task>>(std::move(node.mapped().done));
  End(id, [done] {
    for (Task& one : *done) one();
  });
}

void Exposures::EndLoan(uint64_t id, Task done) {
  if (cleared_ || !exposed_.contains(id)) return done();
  if (!stopped_.ok()) return revocations_[id].done.push_back(std::move(done));
  End(id, std::move(done));
}

void Exposures::End(uint64_t id, Task done) {
  auto node = exposed_.extract(id);
  if (node.empty()) return done();
  const ExposureRef exposure = std::move(node.mapped());
  struct Ending {
    size_t pending = 1;
    Task done;
  };
  auto ending = std::make_shared<Ending>();
  ending->done = std::move(done);
  auto one = [ending, exposure, keep = home_.Keep()] {
    if (--ending->pending > 0) return;
    exposure->span.region.reset();
    ending->done();
  };
  ++ending->pending;
  GiveBack(*exposure, [one, &home = home_.loop()] {
    if (home.InThread()) return one();
    home.Post(one);
  });
  if (exposure->key.window) {
    for (unsigned i = 0; i < lanes_.size(); ++i) {
      const uint32_t rkey = exposure->key.lanes[i].rkey;
      if (rkey == 0) continue;
      ++ending->pending;
      lanes_[i]->Unbind(rkey, one);
    }
  }
  one();
}

void Exposures::Clear() {
  cleared_ = true;
  for (auto& [id, exposure] : std::exchange(exposed_, {})) GiveBack(*exposure);
  for (auto& [id, revocation] : std::exchange(revocations_, {})) {
    home_.loop().CancelTimer(revocation.timer);
    for (Task& done : revocation.done) done();
  }
}

}  // namespace onecopy::verbs
