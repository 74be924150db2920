#include "transport/link/ucx/ucx_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/ucx/address_file.h"
#include "transport/os/machine/machine.h"

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
  if (!api->passed_over.empty()) capability_.attributes["library_not_used"] = api->passed_over;
  ONECOPY_ASSIGN_OR_RETURN(context_, Context::Open({api, options_.transports, options_.devices,
                                                    TrustsAnyone(options_.trust)}));
  for (unsigned i = 0; i < options_.threads; ++i) {
    WorkerThread& one =
        *threads_.emplace_back(std::make_unique<WorkerThread>("ucx-" + std::to_string(i)));
    ONECOPY_ASSIGN_OR_RETURN(one.worker, Worker::Create(context_, one.thread));
    ONECOPY_ASSIGN_OR_RETURN(one.address_file, PublishAddress(one.worker->address()));
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
  attributes["protocols_named"] = context_->names_protocols() ? "yes" : "no";
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

Offer UcxLink::MakeOffer(const std::string& peer, const WorkerThread& from) const {
  Offer offer;
  offer.end = os::RandomNumber();
  offer.version = capability_.version;
  offer.host = host_;
  offer.network = context_->reaches_network();
  offer.lost = from.worker->LostEnds(peer);
  if (SourceFor(options_.trust, peer) == AddressSource::kMessage) {
    offer.address = Seal(from.worker->address());
  } else {
    offer.process = static_cast<uint32_t>(::getpid());
    offer.descriptor = static_cast<uint32_t>(from.address_file.get());
  }
  return offer;
}

FarWorker UcxLink::WorkerOf(const std::string& peer, const Far& far) const {
  return {peer, far.address, far.offer.network && context_->reaches_network(), far.offer.lost};
}

Result<UcxLink::Far> UcxLink::CheckFar(const std::string& peer, const std::string& text) const {
  Far far;
  ONECOPY_ASSIGN_OR_RETURN(far.offer, DecodeOffer(text));
  if (far.offer.version != capability_.version) {
    return Status(Code::kFailedPrecondition, reasons::kLinkVersions,
                  "UCX is " + capability_.version + " here and " + far.offer.version.substr(0, 32) +
                      " on " + peer + ", and these versions cannot talk to each other",
                  "install the same version of UCX on both nodes");
  }
  if (SourceFor(options_.trust, peer) == AddressSource::kMessage) {
    ONECOPY_ASSIGN_OR_RETURN(far.address, Unseal(far.offer.address));
  } else if (far.offer.host != host_) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "node " + peer + " is on another machine and not in [ucx] trust: UCX's keys " +
                      "and ports would let it write memory",
                  "add \"" + peer + "\" to [ucx] trust and set [tls], or use the link verbs");
  } else {
    ONECOPY_ASSIGN_OR_RETURN(far.address, ReadAddress(far.offer.process, far.offer.descriptor));
  }
  return far;
}

Result<std::shared_ptr<UcxConnection>> UcxLink::NewConnection(const std::string& peer,
                                                              const Far& far, EndId near,
                                                              bool reader,
                                                              const std::string& address,
                                                              WorkerThread& home) {
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
  auto connection = std::make_shared<UcxConnection>(std::move(options), *home.worker);
  ONECOPY_RETURN_IF_ERROR(connections_.Add(connection));
  return connection;
}

void UcxLink::Dial(const std::string& peer, Dialled done) {
  if (Status why = Unusable(); !why.ok()) return done(std::move(why));
  WorkerThread& home = NextThread();
  home.thread.loop().Post([this, peer, &home, done = std::move(done)]() mutable {
    done(std::unique_ptr<Dialing>(
        std::make_unique<UcxDialing>(*this, peer, home, MakeOffer(peer, home))));
  });
}

void UcxLink::Accept(const std::string& peer, const std::string& offer, Answered done) {
  if (Status why = Unusable(); !why.ok()) return done(std::move(why));
  Result<Far> far = CheckFar(peer, offer);
  if (!far.ok()) return done(far.status());
  WorkerThread& home = NextThread();
  home.thread.loop().Post(
      [this, peer, far = std::move(*far), &home, done = std::move(done)]() mutable {
        Result<EndpointRef> endpoint = home.worker->Connect(WorkerOf(peer, far));
        if (!endpoint.ok()) return done(endpoint.status());
        const Offer answer = MakeOffer(peer, home);
        const auto connection = NewConnection(peer, far, answer.end, false, peer, home);
        if (!connection.ok()) return done(connection.status());
        (*connection)->Start(std::move(*endpoint), nullptr);
        done(Accepted{*connection, Encode(answer)});
      });
}

void UcxDialing::Establish(const std::string& host, const std::string& answer,
                           UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) {
  Result<UcxLink::Far> far = link_.CheckFar(peer_, answer);
  home_.thread.loop().Post([&link = link_, &home = home_, peer = peer_, near = near_, host,
                            far = std::move(far), done = std::move(done)]() mutable {
    if (!far.ok()) return done(far.status());
    Result<EndpointRef> endpoint = home.worker->Connect(link.WorkerOf(peer, *far));
    if (!endpoint.ok()) return done(endpoint.status());
    const auto connection = link.NewConnection(peer, *far, near, true, host, home);
    if (!connection.ok()) return done(connection.status());
    (*connection)
        ->Start(std::move(*endpoint),
                [connection = *connection, done = std::move(done)](const Status& ready) mutable {
                  if (!ready.ok()) return done(ready);
                  done(std::shared_ptr<Connection>(std::move(connection)));
                });
  });
}

void UcxLink::Shutdown() {
  if (!connections_.Shutdown()) return;
  for (const auto& one : threads_) {
    one->thread.RunSync([&] {
      if (one->worker != nullptr) one->worker->Stop();
    });
    one->thread.StopAndJoin();
  }
}

}  // namespace onecopy::ucx
