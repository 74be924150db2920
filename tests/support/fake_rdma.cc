#include "tests/support/fake_rdma.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

namespace onecopy::testing {

void FakeNics::Set(const std::function<void(Hooks&)>& change) {
  const std::lock_guard lock(mutex_);
  change(hooks_);
}

FakeNics::Hooks FakeNics::hooks() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

void FakeNics::Release() {
  std::vector<Held> held;
  {
    const std::lock_guard lock(mutex_);
    hooks_.hold = hooks_.hold_all = false;
    held.swap(held_);
  }
  for (Held& get : held) get.go_on();
}

void FakeNics::Change() {
  std::function<void()> changed;
  {
    const std::lock_guard lock(mutex_);
    changed = changed_;
  }
  changed();
}

size_t FakeNics::waiting() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

size_t FakeNics::registered() const {
  const std::lock_guard lock(mutex_);
  return registered_;
}

size_t FakeNics::held() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(regions_.begin(), regions_.end(),
                                           [](const auto& region) { return !region.expired(); }));
}

class FakeRdmaConnection final : public Connection,
                                 public std::enable_shared_from_this<FakeRdmaConnection> {
 public:
  // `number`: of one that was accepted, which of those it is.
  FakeRdmaConnection(std::shared_ptr<Connection> carrier, size_t nics,
                     std::shared_ptr<FakeNics> control, std::optional<size_t> number = {})
      : carrier_(std::move(carrier)), control_(std::move(control)), number_(number) {
    for (size_t here = 0; here < nics; ++here) {
      for (size_t there = 0; there < nics; ++there) {
        lanes_.push_back({"nic" + std::to_string(here), "fake", "nic" + std::to_string(there)});
      }
    }
    steps_ = std::make_shared<const std::vector<Step>>(
        std::vector<Step>{{.node = "fake", .from = "host", .to = "host", .by = "wire"}});
  }

  Executor& executor() override { return carrier_->executor(); }
  const std::vector<LaneInfo>& lanes() const override {
    return lanes_.empty() ? carrier_->lanes() : lanes_;
  }
  LinkAccess Access(const RemoteKey& key, const Region& into) const override {
    if (lanes_.empty()) return carrier_->Access(key, into);
    return {"host", "lease"};
  }
  unsigned depth() const override { return carrier_->depth(); }
  uint64_t chunk_bytes() const override { return carrier_->chunk_bytes(); }

  void Get(const GetRequest& request, GetDone done) override {
    const FakeNics::Hooks hooks = control_->hooks();
    const bool chosen = request.lane != GetRequest::kAnyLane;
    {
      const std::lock_guard lock(control_->mutex_);
      if (control_->hooks_.hold_all || (chosen && control_->hooks_.hold)) {
        auto shared = std::make_shared<GetDone>(std::move(done));
        const auto lane = chosen ? static_cast<unsigned>(request.lane) : 0U;
        control_->held_.push_back(
            {request.channel,
             [self = shared_from_this(), request, shared] {
               self->executor().Post(
                   [self, request, shared] { self->Get(request, std::move(*shared)); });
             },
             [self = shared_from_this(), shared, lane] {
               (*shared)({Code::kCancelled, "CANCELLED", "no longer wanted"}, nullptr, lane);
             }});
        return;
      }
    }
    const size_t lane = chosen ? static_cast<size_t>(request.lane) : next_lane_++ % lanes().size();
    if (hooks.on_get) {
      if (Status failed = hooks.on_get(lanes()[lane]); !failed.ok()) {
        return executor().Post([done = std::move(done), failed, lane]() mutable {
          done(failed, nullptr, static_cast<unsigned>(lane));
        });
      }
    }
    if (lanes_.empty()) {
      return carrier_->Get(request, [hooks, into = request.into, done = std::move(done)](
                                        Status status, const StepList& steps, unsigned by) mutable {
        if (status.ok() && hooks.on_landed) hooks.on_landed(into);
        done(std::move(status), steps, by);
      });
    }
    GetRequest carried = request;
    carried.lane = GetRequest::kAnyLane;
    GetAgain(carried, std::max(hooks.repeat, 1), lane, std::move(done));
  }

  void CancelGets(ChannelId channel) override {
    carrier_->CancelGets(channel);
    const std::lock_guard lock(control_->mutex_);
    auto& held = control_->held_;
    const auto kept = std::stable_partition(
        held.begin(), held.end(), [&](const auto& get) { return get.channel != channel; });
    for (auto get = kept; get != held.end(); ++get) executor().Post(std::move(get->cancel));
    held.erase(kept, held.end());
  }
  void Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override {
    Span named = span;
    if (const auto instead = control_->hooks().names_instead) {
      if (RegionRef other = instead(span.region)) named.region = std::move(other);
    }
    carrier_->Export(named, std::move(done));
  }
  void Revoke(const RemoteKey& key, Task done) override { carrier_->Revoke(key, std::move(done)); }
  void Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override {
    carrier_->Lend(span, std::move(done));
  }
  void EndLoan(const RemoteKey& key, Task done) override {
    carrier_->EndLoan(key, std::move(done));
  }
  void Release(const RemoteKey& key) override { carrier_->Release(key); }
  void Listen(ChannelId channel, MessageHandler handler) override {
    carrier_->Listen(channel, std::move(handler));
  }
  void Ignore(ChannelId channel) override { carrier_->Ignore(channel); }
  Status Send(ChannelId channel, std::span<const std::byte> message) override {
    const auto change = control_->hooks().on_send;
    if (!change) return carrier_->Send(channel, message);
    std::string text(reinterpret_cast<const char*>(message.data()), message.size());
    change(text);
    return carrier_->Send(channel, std::as_bytes(std::span(text)));
  }
  void OnClosed(UniqueFunction<void(Status)> closed) override {
    carrier_->OnClosed(std::move(closed));
  }
  void Close(Status why) override { carrier_->Close(std::move(why)); }
  bool closed() const override {
    return carrier_->closed() || (number_ && *number_ < control_->hooks().accepted_gone);
  }
  void Evidence(UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) override {
    carrier_->Evidence(std::move(done));
  }

 private:
  void GetAgain(const GetRequest& request, int times, size_t lane, GetDone done) {
    carrier_->Get(request,
                  [self = shared_from_this(), request, times, lane, done = std::move(done)](
                      Status status, const StepList&, unsigned) mutable {
                    if (status.ok() && times > 1)
                      return self->GetAgain(request, times - 1, lane, std::move(done));
                    const FakeNics::Hooks hooks = self->control_->hooks();
                    if (status.ok() && hooks.on_landed) hooks.on_landed(request.into);
                    done(std::move(status), self->steps_, static_cast<unsigned>(lane));
                  });
  }

  const std::shared_ptr<Connection> carrier_;
  const std::shared_ptr<FakeNics> control_;
  const std::optional<size_t> number_;
  std::vector<LaneInfo> lanes_;
  StepList steps_;
  std::atomic<size_t> next_lane_{0};
};

namespace {

class FakeDialing final : public Dialing {
 public:
  FakeDialing(std::unique_ptr<Dialing> carrier, size_t nics, std::shared_ptr<FakeNics> control)
      : carrier_(std::move(carrier)), nics_(nics), control_(std::move(control)) {}

  const std::string& offer() const override { return carrier_->offer(); }
  void Establish(const std::string& host, const std::string& answer,
                 UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) override {
    carrier_->Establish(host, answer,
                        [nics = nics_, control = control_,
                         done = std::move(done)](Result<std::shared_ptr<Connection>> made) mutable {
                          if (!made.ok()) return done(made.status());
                          done(std::shared_ptr<Connection>(
                              std::make_shared<FakeRdmaConnection>(*made, nics, control)));
                        });
  }

 private:
  const std::unique_ptr<Dialing> carrier_;
  const size_t nics_;
  const std::shared_ptr<FakeNics> control_;
};

}  // namespace

class FakeRdmaLink final : public Link {
 public:
  FakeRdmaLink(std::unique_ptr<Link> carrier, size_t nics, std::shared_ptr<FakeNics> control,
               std::string name)
      : name_(std::move(name)),
        carrier_(std::move(carrier)),
        nics_(nics),
        control_(std::move(control)) {}

  const std::string& name() const override { return name_; }
  LinkCapability Describe() const override {
    if (nics_ == 0) return carrier_->Describe();
    LinkCapability link;
    link.name = name_;
    link.rdma = true;
    for (size_t i = 0; i < nics_; ++i) {
      NicCapability nic;
      nic.name = "nic" + std::to_string(i);
      nic.fabric = "fake";
      nic.memories = {{"host", {}, {}}, {"cuda", {}, {}}};
      link.nics.push_back(std::move(nic));
    }
    return link;
  }
  void OnChange(UniqueFunction<void()> changed) override {
    const std::lock_guard lock(control_->mutex_);
    control_->changed_ = [changed = std::make_shared<UniqueFunction<void()>>(std::move(changed))] {
      (*changed)();
    };
  }
  Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                const std::vector<std::string>& nics) override {
    if (nics_ == 0) return carrier_->Register(region, nics);
    const FakeNics::Hooks hooks = control_->hooks();
    {
      const std::lock_guard lock(control_->mutex_);
      ++control_->registered_;
      control_->regions_.push_back(region);
    }
    std::vector<NicRegistration> all;
    size_t failed = 0;
    for (size_t i = 0; i < nics_; ++i) {
      const std::string nic = "nic" + std::to_string(i);
      if (!nics.empty() && std::find(nics.begin(), nics.end(), nic) == nics.end()) continue;
      all.push_back(hooks.on_register ? hooks.on_register(nic, *region)
                                      : NicRegistration{nic, "host", {}});
      if (!all.back().status.ok()) ++failed;
    }
    if (failed == all.size()) return all.front().status;
    return all;
  }
  void EndLeases(const RegionRef& region) override {
    if (const auto told = control_->hooks().on_end_leases) told(region);
  }
  void Dial(const std::string& peer, Dialled done) override {
    carrier_->Dial(peer, [nics = nics_, control = control_, done = std::move(done)](
                             Result<std::unique_ptr<Dialing>> dialing) mutable {
      if (!dialing.ok()) return done(dialing.status());
      done(std::unique_ptr<Dialing>(
          std::make_unique<FakeDialing>(std::move(*dialing), nics, control)));
    });
  }
  void Accept(const std::string& peer, const std::string& offer, Answered done) override {
    carrier_->Accept(peer, offer,
                     [nics = nics_, control = control_,
                      done = std::move(done)](Result<Accepted> accepted) mutable {
                       if (!accepted.ok()) return done(accepted.status());
                       size_t number = 0;
                       {
                         const std::lock_guard lock(control->mutex_);
                         number = control->accepted_++;
                       }
                       accepted->connection = std::make_shared<FakeRdmaConnection>(
                           accepted->connection, nics, control, number);
                       done(std::move(accepted));
                     });
  }
  void Shutdown() override {
    control_->Release();
    carrier_->Shutdown();
  }

 private:
  const std::string name_;
  const std::unique_ptr<Link> carrier_;
  const size_t nics_;
  const std::shared_ptr<FakeNics> control_;
};

std::unique_ptr<Link> MakeFakeRdma(std::unique_ptr<Link> carrier, size_t nics,
                                   std::shared_ptr<FakeNics> control, std::string name) {
  return std::make_unique<FakeRdmaLink>(std::move(carrier), nics, std::move(control),
                                        std::move(name));
}

}  // namespace onecopy::testing
