#include "transport/link/verbs/verbs_link.h"

#include <sys/epoll.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"

namespace onecopy::verbs {
namespace {

// The reader's side of setting up a connection.
class VerbsDialing final : public Dialing {
 public:
  VerbsDialing(std::shared_ptr<VerbsConnection> connection, std::string offer, Executor& home)
      : connection_(std::move(connection)), offer_(std::move(offer)), home_(home) {}
  ~VerbsDialing() override {
    if (connection_ != nullptr) {
      connection_->Close({Code::kCancelled, reasons::kCancelled, "closed before it was used"});
    }
  }

  const std::string& offer() const override { return offer_; }

  void Establish(const std::string&, const std::string& answer,
                 UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) override {
    home_.Post([connection = std::exchange(connection_, nullptr), answer,
                done = std::move(done)]() mutable {
      const Result<Answer> decoded = DecodeAnswer(answer);
      if (!decoded.ok()) {
        connection->Close(decoded.status());
        return done(decoded.status());
      }
      connection->Establish(*decoded,
                            [connection, done = std::move(done)](const Status& status) mutable {
                              if (!status.ok()) return done(status);
                              done(std::shared_ptr<Connection>(std::move(connection)));
                            });
    });
  }

 private:
  std::shared_ptr<VerbsConnection> connection_;
  const std::string offer_;
  Executor& home_;
};

}  // namespace

VerbsLink::VerbsLink(Options options)
    : options_(std::move(options)),
      devices_(OpenDevices(options_)),
      memory_(std::make_shared<MemoryTable>(devices_.devices)),
      leases_(std::make_shared<Leases>(options_.lease)) {}

VerbsLink::~VerbsLink() { Shutdown(); }

std::unique_ptr<Link> VerbsLink::Create(Options options) {
  std::unique_ptr<VerbsLink> link(new VerbsLink(std::move(options)));
  if (link->devices_.devices.empty()) return link;
  const Options& set = link->options_;
  std::vector<std::string> names;
  for (const auto& device : link->devices_.devices) names.push_back(device->name());
  const std::vector<std::string> cpus = set.topology.PlaceThreads(names, set.threads);
  for (unsigned i = 0; i < set.threads; ++i) {
    link->threads_.push_back(std::make_unique<Progress>(i, set.spin, cpus[i]));
  }
  link->slow_ = std::make_unique<os::LoopThread>("verbs-slow");
  link->WatchDevices();
  return link;
}

LinkCapability VerbsLink::Describe() const {
  LinkCapability verbs;
  verbs.name = name_;
  verbs.version = "1";
  verbs.version_must_match = true;
  verbs.rdma = true;
  verbs.viability = devices_.viability;
  for (const std::shared_ptr<Device>& device : devices_.devices) {
    for (const Port& port : device->ports()) {
      NicCapability nic;
      nic.name = port.name;
      nic.address = GidText(port.gid.gid);
      nic.fabric = port.Fabric();
      nic.bytes_per_second = port.bytes_per_second;
      nic.emulated = device->emulated();
      nic.viability = port.viability;
      // What it can really register is for a probe to find out.
      for (const char* kind : {"host", "cuda", "dmabuf"}) nic.memories.push_back({kind, {}, {}});
      verbs.nics.push_back(std::move(nic));
    }
  }
  for (const auto& [name, viability] : devices_.refused) {
    NicCapability nic;
    nic.name = name;
    nic.viability = viability;
    verbs.nics.push_back(std::move(nic));
  }
  if (!verbs.viability.viable) return verbs;
  const bool windows = devices_.devices.front()->has_windows();
  verbs.attributes = {{"queue_pairs", std::to_string(options_.queue_pairs)},
                      {"read_bytes", FormatBytes(options_.read_bytes)},
                      {"threads", std::to_string(options_.threads)},
                      {"key", windows ? "window" : "lease"},
                      {"encrypted", "no"}};
  for (size_t i = 0; i < threads_.size(); ++i) {
    const std::string& cpus = threads_[i]->cpus();
    if (!cpus.empty()) verbs.attributes["cpus of thread " + std::to_string(i)] = cpus;
  }
  for (const std::shared_ptr<Device>& device : devices_.devices) {
    for (const Port& port : device->ports()) {
      if (!port.viability.viable) continue;
      verbs.attributes["mtu " + port.name] = std::to_string(port.mtu_bytes);
    }
  }
  return verbs;
}

void VerbsLink::OnChange(UniqueFunction<void()> changed) {
  const MutexLock lock(mutex_);
  changed_ = std::move(changed);
}

Status VerbsLink::NotViable() const {
  return {Code::kFailedPrecondition, devices_.viability.reason, devices_.viability.detail,
          devices_.viability.remedy};
}

Result<std::vector<NicRegistration>> VerbsLink::Register(const RegionRef& region,
                                                         const std::vector<std::string>& nics) {
  if (threads_.empty()) return NotViable();
  return memory_->Register(region, nics);
}

void VerbsLink::EndLeases(const RegionRef& region) {
  if (slow_ == nullptr) return;
  slow_->loop().Post([leases = leases_, region] { leases->Retire(region.get()); });
}

Result<std::shared_ptr<VerbsConnection>> VerbsLink::NewConnection(const std::string& peer,
                                                                  Progress& progress) {
  auto connection =
      std::make_shared<VerbsConnection>(options_, peer, progress, devices_.devices, pairings_,
                                        memory_, SlowCalls{slow_->loop(), leases_});
  ONECOPY_RETURN_IF_ERROR(connections_.Add(connection));
  connection->OnClosed([leases = leases_, peer](const Status&) { leases->DropPeer(peer); });
  return connection;
}

void VerbsLink::Dial(const std::string& peer, Dialled done) {
  if (threads_.empty()) return done(NotViable());
  Progress& progress = NextThread();
  progress.loop().Post([this, &progress, peer, done = std::move(done)]() mutable {
    const auto connection = NewConnection(peer, progress);
    if (!connection.ok()) return done(connection.status());
    const Result<Offer> offer = (*connection)->MakeOffer();
    if (!offer.ok()) {
      (*connection)->Close(offer.status());
      return done(offer.status());
    }
    done(std::unique_ptr<Dialing>(
        std::make_unique<VerbsDialing>(*connection, Encode(*offer), progress.loop())));
  });
}

void VerbsLink::Accept(const std::string& peer, const std::string& offer, Answered done) {
  if (threads_.empty()) return done(NotViable());
  Result<Offer> decoded = DecodeOffer(offer);
  if (!decoded.ok()) return done(decoded.status());
  Progress& progress = NextThread();
  progress.loop().Post(
      [this, &progress, peer, offer = std::move(*decoded), done = std::move(done)]() mutable {
        const auto connection = NewConnection(peer, progress);
        if (!connection.ok()) return done(connection.status());
        const Result<Answer> answer = (*connection)->MakeAnswer(offer);
        if (!answer.ok()) {
          (*connection)->Close(answer.status());
          return done(answer.status());
        }
        done(Accepted{*connection, Encode(*answer)});
      });
}

void VerbsLink::WatchDevices() {
  os::EventLoop& loop = threads_.front()->loop();
  threads_.front()->RunSync([this, &loop] {
    for (const std::shared_ptr<Device>& device : devices_.devices) {
      // A device whose events cannot be watched still moves bytes; its failures show there.
      (void)loop.Watch(device->context()->async_fd, EPOLLIN,
                       [device](uint32_t) { device->ReadEvents(); });
      device->OnEvents(
          [this, &loop, device] { loop.Post([this, device] { OnAsyncEvents(device); }); });
    }
  });
}

void VerbsLink::OnAsyncEvents(const std::shared_ptr<Device>& device) {
  for (const Device::Event& event : device->TakeEvents()) HandleEvent(device, event);
  if (!device->Refresh()) return;
  for (const auto& connection : connections_.All()) connection->OnPortsChanged(device.get());
  const MutexLock lock(mutex_);
  if (changed_) changed_();
}

void VerbsLink::HandleEvent(const std::shared_ptr<Device>& device, const Device::Event& event) {
  const auto [type, port] = event;
  const Status why(Code::kUnavailable, reasons::kLinkDown,
                   device->name() + (port != 0 ? " port " + std::to_string(port) : "") + ": " +
                       device->api().EventText(type));
  if (type == IBV_EVENT_DEVICE_FATAL) device->MarkLost();
  if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_PORT_ERR) {
    for (const auto& connection : connections_.All()) {
      connection->OnPortDown(device.get(), port, why);
    }
  }
}

void VerbsLink::Shutdown() {
  {
    const MutexLock lock(mutex_);
    changed_ = nullptr;
  }
  if (!connections_.Shutdown() || threads_.empty()) return;
  threads_.front()->RunSync([this] {
    for (const std::shared_ptr<Device>& device : devices_.devices) {
      threads_.front()->loop().Unwatch(device->context()->async_fd);
      device->OnEvents(nullptr);
    }
  });
  slow_->StopAndJoin();
  for (auto& thread : threads_) thread->Stop();
}

}  // namespace onecopy::verbs
