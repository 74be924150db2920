#include "transport/link/ucx/ucx_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/ucx/address_file.h"
#include "transport/os/machine.h"

extern char** environ;

namespace onecopy::ucx {
namespace {

std::string Join(const std::vector<std::string>& list, std::string_view between) {
  std::string text;
  for (const std::string& entry : list) {
    if (!text.empty()) text += between;
    text += entry;
  }
  return text;
}

// What the user has set for UCX, which this link leaves alone.
std::string UsersVariables() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("UCX_")) variables.emplace_back(*entry);
  }
  std::sort(variables.begin(), variables.end());
  return Join(variables, " ");
}

}  // namespace

UcxLink::UcxLink(LinkOptions options) : options_(std::move(options)), host_(os::HostIdentity()) {}

UcxLink::~UcxLink() { Shutdown(); }

std::unique_ptr<Link> UcxLink::Create(LinkOptions options) {
  std::unique_ptr<UcxLink> link(new UcxLink(std::move(options)));
  const Status started = link->Start();
  link->capability_.name = link->name_;
  link->capability_.version_must_match = true;
  if (started.ok()) {
    link->DescribeWhatIs();
  } else {
    link->capability_.viability =
        Viability::No(started.reason(), started.message(), started.remedy());
  }
  return link;
}

Status UcxLink::Start() {
  ONECOPY_ASSIGN_OR_RETURN(const auto api, shim::LoadUcx(options_.library));
  capability_.version = api->GetVersionString();
  capability_.attributes["library"] = api->library;
  ONECOPY_ASSIGN_OR_RETURN(context_, Context::Open({api, options_.transports, options_.devices,
                                                    TrustsAnyone(options_.trust)}));
  for (unsigned i = 0; i < options_.threads; ++i) {
    auto seat = std::make_unique<Seat>("ucx-" + std::to_string(i));
    ONECOPY_ASSIGN_OR_RETURN(seat->worker, Worker::Create(context_, seat->thread));
    seats_.push_back(std::move(seat));
    ONECOPY_ASSIGN_OR_RETURN(seats_.back()->address_file,
                             PublishAddress(seats_.back()->worker->address()));
  }
  return OkStatus();
}

void UcxLink::DescribeWhatIs() {
  const std::vector<Resource>& resources = context_->resources();
  capability_.rdma = HaveRdma(resources) || !context_->unused().empty();
  capability_.nics =
      NicsOf(resources, {context_->unused(), context_->has_cuda(), host_,
                         [](const std::string& name) { return IsSoftwareDevice(name); }});
  std::vector<std::string> transports;
  std::vector<std::string> devices;
  for (const Resource& resource : resources) {
    transports.push_back(resource.transport + "/" + resource.device);
    const std::string device = DeviceName(resource);
    const bool known = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (!IsLocalTransport(resource.transport) && !known) devices.push_back(device);
  }
  device_ = devices.empty() ? "memory" : Join(devices, "+");
  auto& attributes = capability_.attributes;
  attributes["transports"] = Join(transports, " ");
  attributes["trust"] = TrustsAnyone(options_.trust) ? Join(options_.trust.trusted, " ") : "nobody";
  attributes["error_handling"] = context_->reaches_network() ? "peer" : "none";
  attributes["routes_named"] = context_->names_routes() ? "yes" : "no";
  attributes["emulation"] = context_->may_emulate() ? "allowed" : "refused";
  attributes["cuda"] = context_->has_cuda() ? "yes" : "no";
  attributes["encrypted"] = "no";
  attributes["keys"] = "writable";
  attributes["threads"] = std::to_string(options_.threads);
  std::vector<std::string> settings;
  for (const auto& [name, value] : context_->settings()) settings.push_back(name + "=" + value);
  attributes["settings"] = Join(settings, " ");
  attributes["environment"] = UsersVariables();
}

Status UcxLink::Unusable() const {
  const Viability& why = capability_.viability;
  if (why.viable) return OkStatus();
  return {Code::kFailedPrecondition, why.reason, why.detail, why.remedy};
}

Result<std::vector<NicRegistration>> UcxLink::Register(const RegionRef& region,
                                                       const std::vector<std::string>&) {
  ONECOPY_RETURN_IF_ERROR(Unusable());
  ONECOPY_ASSIGN_OR_RETURN(const auto mapped, context_->Map(region));
  (void)mapped;
  std::vector<NicRegistration> registrations;
  for (const NicCapability& nic : capability_.nics) {
    const bool takes =
        std::any_of(nic.memories.begin(), nic.memories.end(), [&](const NicMemory& memory) {
          return memory.kind == region->place().kind && memory.viability.viable;
        });
    // UCX says nothing of single devices; which one carries a get is in the evidence of that get.
    if (takes) registrations.push_back({nic.name, "ucx-writable", {}});
  }
  return registrations;
}

Offer UcxLink::MakeOffer(AddressSource source, const Seat& seat) const {
  Offer offer;
  offer.end = os::RandomNumber();
  offer.version = capability_.version;
  offer.host = host_;
  offer.network = context_->reaches_network();
  if (source == AddressSource::kMessage) {
    offer.address = Seal(seat.worker->address());
  } else {
    offer.process = static_cast<uint32_t>(::getpid());
    offer.descriptor = static_cast<uint32_t>(seat.address_file.get());
  }
  return offer;
}

Result<UcxLink::Far> UcxLink::CheckFar(const std::string& peer, const std::string& text) const {
  Far far;
  ONECOPY_ASSIGN_OR_RETURN(far.offer, DecodeOffer(text));
  if (far.offer.version != capability_.version) {
    return Status(Code::kFailedPrecondition, reasons::kLinkVersions,
                  "UCX is " + capability_.version + " here and " + far.offer.version.substr(0, 32) +
                      " on " + peer + ", and unlike versions of it cannot talk",
                  "install the same version of UCX on both nodes");
  }
  if (SourceFor(options_.trust, peer) == AddressSource::kMessage) {
    ONECOPY_ASSIGN_OR_RETURN(far.address, Unseal(far.offer.address));
  } else if (far.offer.host != host_) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "node " + peer + " is on another machine and not trusted for ucx, whose keys " +
                      "and ports let others write memory",
                  "add \"" + peer + "\" to [ucx] trust and set [tls], or use the link verbs");
  } else {
    ONECOPY_ASSIGN_OR_RETURN(far.address, ReadAddress(far.offer.process, far.offer.descriptor));
  }
  return far;
}

std::shared_ptr<UcxConnection> UcxLink::NewConnection(const std::string& peer, const Far& far,
                                                      EndId near, bool reader,
                                                      const std::string& address, Seat& seat) {
  ConnectionOptions options;
  options.node = options_.node;
  options.peer = peer;
  options.reader = reader;
  options.near = near;
  options.far = far.offer.end;
  options.same_machine = far.offer.host == host_;
  options.device = device_;
  options.peer_address = address;
  options.chunk_bytes = options_.chunk_bytes;
  options.gets = options_.gets;
  auto connection = std::make_shared<UcxConnection>(std::move(options), *seat.worker);
  const std::lock_guard lock(mutex_);
  if (shut_) return nullptr;
  std::erase_if(connections_, [](const auto& known) { return known.expired(); });
  connections_.push_back(connection);
  return connection;
}

void UcxLink::Dial(const std::string& peer, Dialled done) {
  if (Status why = Unusable(); !why.ok()) return done(std::move(why));
  Seat& seat = NextSeat();
  done(std::unique_ptr<Dialing>(std::make_unique<UcxDialing>(
      *this, peer, seat, MakeOffer(SourceFor(options_.trust, peer), seat))));
}

void UcxLink::Accept(const std::string& peer, const std::string& offer, Answered done) {
  if (Status why = Unusable(); !why.ok()) return done(std::move(why));
  Result<Far> far = CheckFar(peer, offer);
  if (!far.ok()) return done(far.status());
  Seat& seat = NextSeat();
  seat.thread.loop().Post(
      [this, peer, far = std::move(*far), &seat, done = std::move(done)]() mutable {
        const bool reports = far.offer.network && context_->reaches_network();
        Result<EndpointRef> endpoint = seat.worker->Connect(far.address, reports);
        if (!endpoint.ok()) return done(endpoint.status());
        const Offer answer = MakeOffer(SourceFor(options_.trust, peer), seat);
        auto connection = NewConnection(peer, far, answer.end, false, peer, seat);
        if (connection == nullptr) {
          return done(Status(Code::kUnavailable, reasons::kDraining, "the ucx link is shut down"));
        }
        connection->Start(std::move(*endpoint), nullptr);
        done(Accepted{connection, Encode(answer)});
      });
}

void UcxDialing::Establish(const std::string& host, const std::string& answer,
                           UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) {
  Result<UcxLink::Far> far = link_.CheckFar(peer_, answer);
  seat_.thread.loop().Post([&link = link_, &seat = seat_, peer = peer_, near = near_, host,
                            far = std::move(far), done = std::move(done)]() mutable {
    if (!far.ok()) return done(far.status());
    const bool reports = far->offer.network && link.context_->reaches_network();
    Result<EndpointRef> endpoint = seat.worker->Connect(far->address, reports);
    if (!endpoint.ok()) return done(endpoint.status());
    const auto connection = link.NewConnection(peer, *far, near, true, host, seat);
    if (connection == nullptr) {
      return done(Status(Code::kUnavailable, reasons::kDraining, "the ucx link is shut down"));
    }
    connection->Start(std::move(*endpoint),
                      [connection, done = std::move(done)](const Status& ready) mutable {
                        if (!ready.ok()) return done(ready);
                        done(std::shared_ptr<Connection>(connection));
                      });
  });
}

void UcxLink::Shutdown() {
  std::vector<std::weak_ptr<UcxConnection>> connections;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(shut_, true)) return;
    connections.swap(connections_);
  }
  for (const auto& weak : connections) {
    const auto connection = weak.lock();
    if (connection == nullptr) continue;
    connection->Close({Code::kUnavailable, reasons::kDraining, "this node is shutting down"});
  }
  for (const auto& weak : connections) {
    // Waits for the end of each, so that no get is left without its completion.
    const auto connection = weak.lock();
    if (connection == nullptr) continue;
    std::promise<void> closed;
    connection->OnClosed([&](const Status&) { closed.set_value(); });
    closed.get_future().wait();
  }
  for (const auto& seat : seats_) {
    seat->thread.RunSync([&] {
      if (seat->worker != nullptr) seat->worker->Stop();
    });
    seat->thread.StopAndJoin();
  }
}

}  // namespace onecopy::ucx
