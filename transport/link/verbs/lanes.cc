#include "transport/link/verbs/lanes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/verbs/wire.h"

namespace onecopy::verbs {
namespace {

// A lane on which nothing has completed or arrived between two ticks is asked for its life, and has
// two more to show it: a path that is dead is known as such within two seconds, however long its
// device goes on trying. The owner's end asks while the reader reads, so that a reader whose reads
// are slow hears something, too.
constexpr std::chrono::milliseconds kTick{500};
constexpr unsigned kSilentTicks = 3;
constexpr std::chrono::seconds kFirstPause{2};  // after the first attempt to mend a lane
constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::chrono::seconds kMaxPause{30};  // between two attempts to mend a lane

bool IsLive(const std::unique_ptr<Lane>& lane) { return lane->state() == Lane::State::kLive; }

}  // namespace

Lanes::Lanes(const Options& options, std::string peer, const Home& home, Progress& progress,
             std::vector<std::shared_ptr<Device>> devices, std::shared_ptr<Pairings> pairings,
             ControlChannel& control, LaneOwner& owner)
    : options_(options),
      peer_(std::move(peer)),
      home_(home),
      progress_(progress),
      devices_(std::move(devices)),
      pairings_(std::move(pairings)),
      control_(control),
      owner_(owner) {}

bool Lanes::any_left() const {
  return std::any_of(list_.begin(), list_.end(),
                     [](const auto& one) { return one->state() != Lane::State::kDead; });
}

uint64_t Lanes::first_export(unsigned index) const {
  const auto repair = repairs_.find(index);
  return repair == repairs_.end() ? 0 : repair->second.first_export;
}

std::unique_ptr<Lane> Lanes::Make(unsigned index, const std::shared_ptr<Device>& device,
                                  size_t port) {
  return std::make_unique<Lane>(index, progress_, device, port, options_, owner_);
}

Result<Offer> Lanes::MakeOffer() {
  reader_ = true;
  Status failure(Code::kUnavailable, reasons::kLinkDown, "no port of this node is active");
  // Round after round over the ports, so that neighbours in the list are on different ones.
  for (uint32_t pair = 0; pair < options_.queue_pairs; ++pair) {
    for (const std::shared_ptr<Device>& device : devices_) {
      for (size_t port = 0; port < device->port_count() && list_.size() < kMaxLanes; ++port) {
        std::unique_ptr<Lane> lane = Make(static_cast<unsigned>(list_.size()), device, port);
        const Status created = lane->Create(true);
        if (created.ok()) {
          list_.push_back(std::move(lane));
        } else {
          failure = created;
        }
      }
    }
  }
  if (list_.empty()) return failure;
  Offer offer;
  for (const auto& lane : list_) offer.lanes.push_back(lane->address());
  return offer;
}

// The port of the same name is on the same rail, where fabrics have rails; else the one with the
// fewest lanes. One that the peer's has been tried with in vain comes after all others.
std::unique_ptr<Lane> Lanes::Match(unsigned index, const QueuePairAddress& theirs) {
  std::shared_ptr<Device> best;
  size_t best_port = 0;
  std::tuple<bool, bool, size_t> least;
  for (const std::shared_ptr<Device>& device : devices_) {
    for (size_t i = 0; i < device->port_count(); ++i) {
      const Port port = device->port(i);
      if (!port.viability.viable || port.Fabric() != theirs.fabric ||
          port.ethernet != theirs.ethernet) {
        continue;
      }
      const auto lanes = static_cast<size_t>(
          std::count_if(list_.begin(), list_.end(), [&](const std::unique_ptr<Lane>& lane) {
            return lane->usable() && lane->port().name == port.name;
          }));
      const std::tuple rank(pairings_->Failed(peer_, theirs.nic, port.name),
                            port.name != theirs.nic, lanes);
      if (best != nullptr && rank >= least) continue;
      best = device;
      best_port = i;
      least = rank;
    }
  }
  if (best == nullptr) return nullptr;
  if (std::get<0>(least)) pairings_->Forget(peer_, theirs.nic);
  pairings_->Try(peer_, theirs.nic, best->port(best_port).name);
  return Make(index, best, best_port);
}

Result<std::unique_ptr<Lane>> Lanes::MakeAnswerTo(std::unique_ptr<Lane> lane,
                                                  const QueuePairAddress& theirs) {
  if (lane == nullptr) {
    return Status(
        Code::kUnavailable, reasons::kNicUnreachable,
        "this node has no active port on the fabric of " + theirs.nic + " of node " + peer_);
  }
  if (theirs.ethernet && !lane->UseAddressFor(theirs.gid)) {
    const bool ipv4 = IsIpv4(theirs.gid);
    return Status(Code::kUnavailable, reasons::kNicUnreachable,
                  theirs.nic + " of node " + peer_ + " has the address " + GidText(theirs.gid) +
                      ", and " + lane->port().name + " of this node has none of " +
                      (ipv4 ? "IPv4" : "IPv6"),
                  "give the network devices of both addresses of one kind, or name entries of the "
                  "GID tables that are: [rdma] gid_index");
  }
  ONECOPY_RETURN_IF_ERROR(lane->Create(false));
  ONECOPY_RETURN_IF_ERROR(lane->Connect(theirs));
  return lane;
}

Result<Answer> Lanes::MakeAnswer(const Offer& offer) {
  Answer answer;
  Status failure;
  bool any = false;
  for (const QueuePairAddress& theirs : offer.lanes) {
    const auto index = static_cast<unsigned>(list_.size());
    Result<std::unique_ptr<Lane>> lane = MakeAnswerTo(Match(index, theirs), theirs);
    AnsweredLane& mine = answer.lanes.emplace_back();
    mine.present = lane.ok();
    if (lane.ok()) {
      mine.address = (*lane)->address();
      list_.push_back(std::move(*lane));
      any = true;
      continue;
    }
    failure = lane.status();
    // Lanes are numbered alike at both ends: one that is missing here keeps its place.
    list_.push_back(Make(index, devices_.front(), 0));
    list_.back()->Close();
  }
  if (!any) return failure;
  BeginTicking();
  LimitConnecting();
  return answer;
}

void Lanes::LimitConnecting() {
  home_.RunAfter(kHelloLimit, [this] {
    if (stopped_) return;
    for (const auto& lane : list_) {
      if (lane->state() != Lane::State::kConnecting) continue;
      lane->Fail({Code::kUnavailable, reasons::kLinkDown,
                  "the lane between " + lane->port().name + " and " + lane->remote().nic +
                      " of node " + peer_ + " did not come up in time"});
    }
  });
}

void Lanes::SendHello(Lane& lane) {
  lane.Send(Encode(Frame{FrameKind::kHello, 0, 0, {}}), LaneOwner::kHelloNumber);
}

void Lanes::Establish(const Answer& answer, UniqueFunction<void(Status)> done) {
  establishing_ = std::move(done);
  if (answer.lanes.size() != list_.size()) {
    last_failure_ = {Code::kInvalidArgument, reasons::kBadArgument,
                     "the peer's verbs answer does not match the offer"};
    for (const auto& lane : list_) lane->Close();
    return Settle();
  }
  for (size_t i = 0; i < list_.size(); ++i) {
    if (!answer.lanes[i].present) {
      list_[i]->Close();
      continue;
    }
    const Status connected = list_[i]->Connect(answer.lanes[i].address);
    if (!connected.ok()) {
      last_failure_ = connected;
      list_[i]->Close();
      continue;
    }
    SendHello(*list_[i]);
  }
  for (const auto& lane : list_) {
    infos_.push_back({lane->port().name, GidText(lane->remote().gid), lane->remote().nic});
  }
  BeginTicking();
  LimitConnecting();
  Settle();
}

void Lanes::Settle() {
  if (!establishing_) return;
  bool any = false;
  for (const auto& lane : list_) {
    if (lane->state() == Lane::State::kConnecting) return;
    any |= lane->state() == Lane::State::kLive;
  }
  if (any) return std::exchange(establishing_, nullptr)(OkStatus());
  Status why = last_failure_.ok()
                   ? Status(Code::kUnavailable, reasons::kNicUnreachable,
                            "no port of node " + peer_ + " is on a fabric of this node")
                   : last_failure_;
  std::exchange(establishing_, nullptr)(std::move(why));
}

void Lanes::BeginTicking() {
  home_.RunAfter(kTick, [this] { Tick(); });
}

// The passive side of a read learns nothing from it, and a lane without work nothing at all.
void Lanes::Tick() {
  if (stopped_) return;
  for (const auto& lane : list_) {
    if (!IsLive(lane)) continue;
    const unsigned silent = lane->CountSilence();
    if (silent == 1) lane->Send(Encode(Frame{FrameKind::kPing, 0, 0, {}}), 0);
    if (silent < kSilentTicks) continue;
    lane->Fail({Code::kUnavailable, reasons::kLinkDown,
                lane->remote().nic + " (" + GidText(lane->remote().gid) + ") of node " + peer_ +
                    " has not answered over " + lane->port().name + " for more than a second"});
  }
  if (reader_ && !establishing_) {
    for (unsigned i = 0; i < list_.size(); ++i) Mend(i);
  }
  BeginTicking();
}

// A lane whose port is active again gets a new queue pair at both ends. Others carry the words
// about it: the last lane takes the connection with it.
void Lanes::Mend(unsigned index) {
  const os::Clock::time_point now = os::Clock::now();
  Repair& repair = repairs_[index];
  // What has just failed still has gets, of which its owner hears next.
  if (!list_[index]->closed() || now < repair.next) return;
  const std::shared_ptr<Device> device = list_[index]->device();
  const size_t port = list_[index]->port_index();
  if (device->lost() || !device->port(port).viability.viable) return;
  repair.pause = std::min<os::Clock::duration>(
      std::max<os::Clock::duration>(repair.pause * 2, kFirstPause), kMaxPause);
  repair.next = now + repair.pause;
  std::unique_ptr<Lane> lane = Make(index, device, port);
  if (!lane->Create(true).ok()) return;
  Writer offer;
  PutAddress(offer, lane->address());
  list_[index] = std::move(lane);
  control_.Send(FrameKind::kRepair, index, offer.Take());
  LimitConnecting();
}

Status Lanes::OnRepair(const Frame& frame, uint64_t next_export) {
  Reader in(frame.text);
  QueuePairAddress theirs;
  if (frame.subject >= list_.size() || !GetAddress(in, &theirs) || !in.AtEnd()) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "node " + peer_ + " sent a malformed request for a lane"};
  }
  const auto index = static_cast<unsigned>(frame.subject);
  // The reader knows better than this end, which may not have noticed that the lane has failed.
  Lane& former = *list_[index];
  former.Close();
  CountLive();
  control_.OnLaneFailed(index);
  // The reader knows the lane by the port that answered it once.
  const bool answered = !former.remote().nic.empty();
  Result<std::unique_ptr<Lane>> lane = MakeAnswerTo(
      answered ? Make(index, former.device(), former.port_index()) : Match(index, theirs), theirs);
  Writer answer;
  answer.Put(next_export);
  answer.Put(static_cast<uint8_t>(lane.ok() ? 1 : 0));
  if (lane.ok()) {
    list_[index] = std::move(*lane);
    PutAddress(answer, list_[index]->address());
    LimitConnecting();
  }
  control_.Send(FrameKind::kRepaired, index, answer.Take());
  return OkStatus();
}

Status Lanes::OnRepaired(const Frame& frame) {
  Reader in(frame.text);
  const auto first_export = in.Get<uint64_t>();
  const bool present = in.Get<uint8_t>() == 1;
  QueuePairAddress theirs;
  if (frame.subject >= list_.size() || (present && !GetAddress(in, &theirs)) || !in.AtEnd()) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "node " + peer_ + " sent a malformed answer about a lane"};
  }
  const auto index = static_cast<unsigned>(frame.subject);
  Lane& lane = *list_[index];
  if (lane.state() != Lane::State::kConnecting || lane.usable()) return OkStatus();  // given up
  if (!present || !lane.Connect(theirs).ok()) {
    lane.Close();
    return OkStatus();
  }
  repairs_[index].first_export = first_export;
  SendHello(lane);
  return OkStatus();
}

void Lanes::OnUp(unsigned index) {
  if (list_[index]->state() != Lane::State::kConnecting) return;
  list_[index]->SetLive();
  if (!reader_) pairings_->CameUp(peer_, list_[index]->remote().nic, list_[index]->port().name);
  repairs_[index].pause = {};
  CountLive();
  Settle();
}

void Lanes::CountLive() {
  live_ = static_cast<unsigned>(std::count_if(list_.begin(), list_.end(), IsLive));
}

void Lanes::OnPortDown(const Device* device, uint8_t port, const Status& why) {
  for (const auto& lane : list_) {
    if (lane->device().get() != device || (port != 0 && lane->port().number != port)) continue;
    lane->Fail(why);
  }
}

void Lanes::OnPortsChanged(const Device* device) {
  for (const auto& lane : list_) {
    if (lane->device().get() != device || lane->state() == Lane::State::kDead) continue;
    const Port now = device->port(lane->port_index());
    if (now.Has(lane->port())) continue;
    lane->Fail({Code::kUnavailable, reasons::kLinkDown,
                "port " + now.name + " no longer has the address " + GidText(lane->port().gid.gid) +
                    ", by which node " + peer_ + " reached it"});
  }
}

std::vector<GetRef> Lanes::GiveUp(unsigned index, const Status& why) {
  last_failure_ = why;
  std::vector<GetRef> unfinished = list_[index]->Close();
  CountLive();
  return unfinished;
}

void Lanes::Close() {
  // All at once, so that their ends are waited for together.
  for (const auto& lane : list_) lane->Stop();
  for (const auto& lane : list_) lane->Close();
  live_ = 0;
}

}  // namespace onecopy::verbs
