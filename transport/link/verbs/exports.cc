#include "transport/link/verbs/exports.h"

#include <algorithm>
#include <set>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::verbs {
namespace {

constexpr std::chrono::seconds kRevokeLimit{2};

}  // namespace

void Exports::Add(const Span& span, Reach reach, Done done) {
  if (!stopped_.ok()) return done(stopped_);
  const std::shared_ptr<const KnownMemory> known = memory_.Find(*span.region);
  if (known == nullptr) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "memory of " + span.region->step_name() + " is not registered with verbs"));
  }
  auto exported = std::make_shared<Export>();
  exported->span = span;
  exported->done = std::move(done);
  Key& key = exported->key;
  key.id = next_id_++;
  key.memory = span.region->step_name();
  key.registration = "none";
  key.bytes = span.bytes;
  key.lanes.resize(lanes_.size());
  exported_[key.id] = exported;
  exported->pending = 1;  // until the loops below are through
  std::set<std::shared_ptr<Device>> to_lease;
  for (unsigned i = 0; i < lanes_.size() && span.bytes > 0; ++i) {
    const std::shared_ptr<Device>& device = lanes_[i]->device();
    const DeviceMemory* memory = known->On(device.get());
    if (!lanes_[i]->usable() || memory == nullptr) continue;
    key.registration = memory->how;
    if (memory->how == "host" && device->has_windows()) {
      key.window = true;
      Bind(exported, i, *memory);
    } else {
      to_lease.insert(device);
    }
  }
  for (const std::shared_ptr<Device>& device : to_lease) {
    if (reach == Reach::kSpan) {
      RegisterOwn(exported, device);
    } else {
      Lease(exported, device);
    }
  }
  OneDone(exported);
}

void Exports::SetKey(Export& exported, const std::shared_ptr<Device>& device, Key::Remote remote) {
  for (unsigned i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i]->device() == device) exported.key.lanes[i] = remote;
  }
}

void Exports::RegisterOwn(const ExportRef& exported, const std::shared_ptr<Device>& device) {
  ++exported->pending;
  slow_.loop.Post([this, exported, device, keep = home_.Keep(), &home = home_.loop()]() mutable {
    auto made = RegisterSpan(device, exported->span, IBV_ACCESS_REMOTE_READ);
    home.Post([this, exported, device, keep = std::move(keep), made = std::move(made)]() mutable {
      if (made.ok()) {
        exported->key.registration = made->how;
        SetKey(*exported, device, {made->region.rkey(), made->region.base()});
        exported->own.push_back(std::move(*made));
      } else {
        exported->failure = made.status();
      }
      OneDone(exported);
    });
  });
}

void Exports::Bind(const ExportRef& exported, unsigned lane, const DeviceMemory& memory) {
  ++exported->pending;
  const uint64_t address = memory.region.base() + exported->span.offset;
  lanes_[lane]->Bind(memory.region.get(), address, exported->span.bytes,
                     [this, exported, lane, address](uint32_t rkey) {
                       if (rkey != 0) exported->key.lanes[lane] = {rkey, address};
                       OneDone(exported);
                     });
}

void Exports::Lease(const ExportRef& exported, const std::shared_ptr<Device>& device) {
  ++exported->pending;
  slow_.loop.Post([this, exported, device, keep = home_.Keep(), leases = slow_.leases, peer = peer_,
                   &home = home_.loop()]() mutable {
    Result<Leases::Lease> lease = leases->Take(peer, device, exported->span.region);
    home.Post([this, exported, device, keep = std::move(keep), lease = std::move(lease)] {
      if (lease.ok()) {
        exported->leases.push_back(lease->id);
        exported->key.registration = lease->how;
        SetKey(*exported, device, {lease->rkey, lease->base + exported->span.offset});
      } else {
        exported->failure = lease.status();
      }
      OneDone(exported);
    });
  });
}

void Exports::OneDone(const ExportRef& exported) {
  if (--exported->pending > 0 || !exported->done) return;
  bool readable = exported->span.bytes == 0;
  for (const Key::Remote& lane : exported->key.lanes) readable |= lane.rkey != 0;
  Done done = std::exchange(exported->done, nullptr);
  const bool cleared = !exported_.contains(exported->key.id);
  if (cleared) GiveBack(*exported);  // what was leased after Clear
  if (readable && !cleared) return done(Encode(exported->key));
  exported_.erase(exported->key.id);
  if (cleared) {
    return done(Status(Code::kUnavailable, reasons::kLinkDown, "the verbs connection is closed"));
  }
  if (!exported->failure.ok()) return done(exported->failure);
  if (std::none_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->usable(); })) {
    return done(
        Status(Code::kUnavailable, reasons::kLinkDown, "no lane of the verbs connection works"));
  }
  done(Status(Code::kResourceExhausted, reasons::kKeysExhausted,
              "no device provided a memory window for " + exported->key.memory));
}

void Exports::GiveBack(Export& exported, Task forgotten) {
  if (!exported.own.empty()) {
    slow_.loop.Post([own = std::exchange(exported.own, {}), keep = exported.span.region,
                     forgotten = std::move(forgotten)]() mutable {
      own.clear();
      if (forgotten) forgotten();
    });
  } else if (forgotten) {
    forgotten();
  }
  const std::vector<uint64_t> given = std::exchange(exported.leases, {});
  for (const uint64_t id : given) slow_.leases->GiveBack(id);
  // Whatever has been idle for long enough ends there; it may take a while.
  if (!given.empty()) {
    slow_.loop.Post([leases = slow_.leases, &loop = slow_.loop] {
      const auto next = leases->DropIdle();
      if (next) loop.RunAt(*next, [leases] { leases->DropIdle(); });
    });
  }
}

void Exports::Revoke(uint64_t id, Task done) {
  if (cleared_ || !exported_.contains(id)) return done();
  Revocation& revocation = revocations_[id];
  revocation.done.push_back(std::move(done));
  if (revocation.done.size() > 1 || !stopped_.ok()) return;  // else it ends with the connection
  control_.Send(FrameKind::kRevoke, id, {});
  revocation.timer = home_.RunAfter(kRevokeLimit, [this, id] { OnRevoked(id); });
}

void Exports::OnRevoked(uint64_t id) {
  const auto node = revocations_.extract(id);
  if (node.empty()) return;
  home_.loop().CancelTimer(node.mapped().timer);
  auto done = std::make_shared<std::vector<Task>>(std::move(node.mapped().done));
  End(id, [done] {
    for (Task& one : *done) one();
  });
}

void Exports::EndLoan(uint64_t id, Task done) {
  if (cleared_ || !exported_.contains(id)) return done();
  if (!stopped_.ok()) return revocations_[id].done.push_back(std::move(done));
  End(id, std::move(done));
}

void Exports::End(uint64_t id, Task done) {
  auto node = exported_.extract(id);
  if (node.empty()) return done();
  const ExportRef exported = std::move(node.mapped());
  struct Ending {
    size_t pending = 1;
    Task done;
  };
  auto ending = std::make_shared<Ending>();
  ending->done = std::move(done);
  auto one = [ending, exported, keep = home_.Keep()] {
    if (--ending->pending > 0) return;
    exported->span.region.reset();
    ending->done();
  };
  ++ending->pending;
  GiveBack(*exported, [one, &home = home_.loop()] {
    if (home.InThread()) return one();
    home.Post(one);
  });
  if (exported->key.window) {
    for (unsigned i = 0; i < lanes_.size(); ++i) {
      const uint32_t rkey = exported->key.lanes[i].rkey;
      if (rkey == 0) continue;
      ++ending->pending;
      lanes_[i]->Unbind(rkey, one);
    }
  }
  one();
}

void Exports::Clear() {
  cleared_ = true;
  for (auto& [id, exported] : std::exchange(exported_, {})) GiveBack(*exported);
  for (auto& [id, revocation] : std::exchange(revocations_, {})) {
    home_.loop().CancelTimer(revocation.timer);
    for (Task& done : revocation.done) done();
  }
}

}  // namespace onecopy::verbs
