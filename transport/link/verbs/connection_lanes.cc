// How a connection's lanes come and go.
#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/verbs/connection.h"
#include "transport/link/verbs/wire.h"

namespace onecopy::verbs {
namespace {

constexpr std::chrono::seconds kTick{2};  // a quiet lane is asked for its life that often
constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::chrono::seconds kMostPause{30};  // between two attempts to mend a lane

}  // namespace

std::unique_ptr<Lane> VerbsConnection::MakeLane(unsigned index,
                                                const std::shared_ptr<Device>& device,
                                                size_t port) {
  return std::make_unique<Lane>(index, progress_, device, port, options_, *this);
}

Result<Offer> VerbsConnection::MakeOffer() {
  reader_ = true;
  Status failure(Code::kUnavailable, reasons::kLinkDown, "no port of this node is active");
  // Round after round over the ports, so that neighbours in the list are on different ones.
  for (uint32_t pair = 0; pair < options_.queue_pairs; ++pair) {
    for (const std::shared_ptr<Device>& device : devices_) {
      for (size_t port = 0; port < device->port_count() && lanes_.size() < kMaxLanes; ++port) {
        std::unique_ptr<Lane> lane = MakeLane(static_cast<unsigned>(lanes_.size()), device, port);
        const Status created = lane->Create(true);
        if (created.ok()) {
          lanes_.push_back(std::move(lane));
        } else {
          failure = created;
        }
      }
    }
  }
  if (lanes_.empty()) return failure;
  Offer offer;
  for (const auto& lane : lanes_) offer.lanes.push_back(lane->address());
  return offer;
}

// The port of the same name is on the same rail, where fabrics have rails; else the one with the
// fewest lanes.
std::unique_ptr<Lane> VerbsConnection::MatchLane(unsigned index, const QueuePairAddress& theirs) {
  std::shared_ptr<Device> best;
  size_t best_port = 0;
  size_t best_lanes = 0;
  for (const std::shared_ptr<Device>& device : devices_) {
    for (size_t i = 0; i < device->port_count(); ++i) {
      const Port port = device->port(i);
      if (!port.viability.viable || port.Fabric() != theirs.fabric ||
          port.ethernet != theirs.ethernet) {
        continue;
      }
      if (port.name == theirs.nic) return MakeLane(index, device, i);
      const auto lanes = static_cast<size_t>(
          std::count_if(lanes_.begin(), lanes_.end(), [&](const std::unique_ptr<Lane>& lane) {
            return lane->usable() && lane->port().name == port.name;
          }));
      if (best != nullptr && lanes >= best_lanes) continue;
      best = device;
      best_port = i;
      best_lanes = lanes;
    }
  }
  return best == nullptr ? nullptr : MakeLane(index, best, best_port);
}

Result<std::unique_ptr<Lane>> VerbsConnection::AnswerLane(unsigned index,
                                                          const QueuePairAddress& theirs) {
  std::unique_ptr<Lane> lane = MatchLane(index, theirs);
  if (lane == nullptr) {
    return Status(
        Code::kUnavailable, reasons::kNicUnreachable,
        "no active port of this node is on the fabric of " + theirs.nic + " of node " + peer_);
  }
  ONECOPY_RETURN_IF_ERROR(lane->Create(false));
  ONECOPY_RETURN_IF_ERROR(lane->Connect(theirs));
  return lane;
}

Result<Answer> VerbsConnection::MakeAnswer(const Offer& offer) {
  Answer answer;
  Status failure;
  bool any = false;
  for (const QueuePairAddress& theirs : offer.lanes) {
    const auto index = static_cast<unsigned>(lanes_.size());
    Result<std::unique_ptr<Lane>> lane = AnswerLane(index, theirs);
    AnsweredLane& mine = answer.lanes.emplace_back();
    mine.present = lane.ok();
    if (lane.ok()) {
      mine.address = (*lane)->address();
      lanes_.push_back(std::move(*lane));
      any = true;
      continue;
    }
    failure = lane.status();
    // Lanes are numbered alike at both ends: one that is missing here keeps its place.
    lanes_.push_back(MakeLane(index, devices_.front(), 0));
    lanes_.back()->Close();
  }
  if (!any) return failure;
  BeginTicking();
  LimitConnecting();
  return answer;
}

void VerbsConnection::LimitConnecting() {
  home_.RunAfter(kHelloLimit, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->shut_) return;
    for (const auto& lane : self->lanes_) {
      if (lane->state() != Lane::State::kConnecting) continue;
      lane->Fail({Code::kUnavailable, reasons::kLinkDown,
                  "the lane between " + lane->port().name + " and " + lane->remote().nic +
                      " of node " + self->peer_ + " did not come up in time"});
    }
  });
}

void VerbsConnection::Establish(const Answer& answer, UniqueFunction<void(Status)> done) {
  establishing_ = std::move(done);
  if (answer.lanes.size() != lanes_.size()) {
    last_failure_ = {Code::kInvalidArgument, reasons::kBadArgument,
                     "a verbs answer that does not fit its offer"};
    for (const auto& lane : lanes_) lane->Close();
    return ResolveEstablishing();
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!answer.lanes[i].present) {
      lanes_[i]->Close();
      continue;
    }
    const Status connected = lanes_[i]->Connect(answer.lanes[i].address);
    if (!connected.ok()) {
      last_failure_ = connected;
      lanes_[i]->Close();
      continue;
    }
    lanes_[i]->Send(Encode(Frame{FrameKind::kHello, 0, 0, {}}), kHelloNumber);
  }
  for (const auto& lane : lanes_) {
    lane_infos_.push_back({lane->port().name, GidText(lane->remote().gid), lane->remote().nic});
  }
  BeginTicking();
  LimitConnecting();
  ResolveEstablishing();
}

void VerbsConnection::ResolveEstablishing() {
  if (!establishing_) return;
  bool any = false;
  for (const auto& lane : lanes_) {
    if (lane->state() == Lane::State::kConnecting) return;
    any |= lane->state() == Lane::State::kLive;
  }
  if (any) return std::exchange(establishing_, nullptr)(OkStatus());
  Status why = last_failure_.ok() ? Status(Code::kUnavailable, reasons::kNicUnreachable,
                                           "no port of node " + peer_ + " is on a fabric of ours")
                                  : last_failure_;
  Shut(why, false);
  std::exchange(establishing_, nullptr)(std::move(why));
}

void VerbsConnection::BeginTicking() {
  tick_timer_ = home_.RunAfter(kTick, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Tick();
  });
}

// The passive side of a read learns nothing from it, and a lane without work nothing at all.
void VerbsConnection::Tick() {
  if (shut_) return;
  for (const auto& lane : lanes_) {
    if (lane->state() == Lane::State::kLive && !lane->TakeActivity()) {
      lane->Send(Encode(Frame{FrameKind::kPing, 0, 0, {}}), 0);
    }
  }
  if (reader_ && !establishing_) {
    for (unsigned i = 0; i < lanes_.size(); ++i) Repair(i);
  }
  BeginTicking();
}

// A lane whose port is active again gets a new queue pair at both ends. Others carry the words
// about it: the last lane takes the connection with it.
void VerbsConnection::Repair(unsigned index) {
  const os::Clock::time_point now = os::Clock::now();
  LaneRepair& repair = repairs_[index];
  if (lanes_[index]->state() != Lane::State::kDead || now < repair.next) return;
  const std::shared_ptr<Device> device = lanes_[index]->device();
  const size_t port = lanes_[index]->port_index();
  if (device->lost() || !device->port(port).viability.viable) return;
  repair.pause = std::min<os::Clock::duration>(
      std::max<os::Clock::duration>(repair.pause * 2, kTick), kMostPause);
  repair.next = now + repair.pause;
  std::unique_ptr<Lane> lane = MakeLane(index, device, port);
  if (!lane->Create(true).ok()) return;
  Writer offer;
  PutAddress(offer, lane->address());
  lanes_[index] = std::move(lane);
  control_.Send(FrameKind::kRepair, index, offer.Take());
  LimitConnecting();
}

void VerbsConnection::OnRepair(const Frame& frame) {
  Reader in(frame.text);
  QueuePairAddress theirs;
  if (frame.subject >= lanes_.size() || !GetAddress(in, &theirs) || !in.AtEnd()) {
    return Shut({Code::kUnavailable, reasons::kLinkDown,
                 "node " + peer_ + " sent a malformed request for a lane"},
                true);
  }
  const auto index = static_cast<unsigned>(frame.subject);
  // The reader knows better than this end, which may not have noticed that the lane has failed.
  Lane& former = *lanes_[index];
  former.Close();
  CountLive();
  control_.OnLaneFailed(index);
  Result<std::unique_ptr<Lane>> lane = AnswerLane(index, theirs);
  Writer answer;
  answer.Put(exposures_.next_id());
  answer.Put(static_cast<uint8_t>(lane.ok() ? 1 : 0));
  if (lane.ok()) {
    lanes_[index] = std::move(*lane);
    PutAddress(answer, lanes_[index]->address());
    LimitConnecting();
  }
  control_.Send(FrameKind::kRepaired, index, answer.Take());
}

void VerbsConnection::OnRepaired(const Frame& frame) {
  Reader in(frame.text);
  const auto first_exposure = in.Get<uint64_t>();
  const bool present = in.Get<uint8_t>() == 1;
  QueuePairAddress theirs;
  if (frame.subject >= lanes_.size() || (present && !GetAddress(in, &theirs)) || !in.AtEnd()) {
    return Shut({Code::kUnavailable, reasons::kLinkDown,
                 "node " + peer_ + " sent a malformed answer about a lane"},
                true);
  }
  const auto index = static_cast<unsigned>(frame.subject);
  Lane& lane = *lanes_[index];
  if (lane.state() != Lane::State::kConnecting || lane.usable()) return;  // given up meanwhile
  if (!present || !lane.Connect(theirs).ok()) {
    lane.Close();
    return;
  }
  repairs_[index].first_exposure = first_exposure;
  lane.Send(Encode(Frame{FrameKind::kHello, 0, 0, {}}), kHelloNumber);
}

void VerbsConnection::OnLaneUp(unsigned index) {
  if (lanes_[index]->state() != Lane::State::kConnecting) return;
  lanes_[index]->SetLive();
  repairs_[index].pause = {};
  CountLive();
  ResolveEstablishing();
}

void VerbsConnection::CountLive() {
  live_lanes_ = static_cast<unsigned>(std::count_if(
      lanes_.begin(), lanes_.end(),
      [](const std::unique_ptr<Lane>& lane) { return lane->state() == Lane::State::kLive; }));
}

void VerbsConnection::OnPortDown(const Device* device, uint8_t port, const Status& why) {
  home_.Post([self = shared_from_this(), device, port, why] {
    for (const auto& lane : self->lanes_) {
      if (lane->device().get() != device || (port != 0 && lane->port().number != port)) continue;
      lane->Fail(why);
    }
  });
}

void VerbsConnection::OnLaneFailed(unsigned index, const Status& why, const GetRef& culprit) {
  Lane& lane = *lanes_[index];
  last_failure_ = why;
  const std::vector<GetRef> unfinished = lane.Close();
  CountLive();
  if (finished_) return;
  for (const GetRef& get : unfinished) {
    if (get == culprit) {
      EndGet(get, {Code::kPermissionDenied, reasons::kAccessDenied, why.message()});
      continue;
    }
    if (!get->refused.ok() || shut_) {
      OnGetDone(get);
      continue;
    }
    const Status moved = live_lanes_ > 0 ? Assign(get) : why;
    if (!moved.ok()) EndGet(get, moved);
  }
  if (!shut_) control_.OnLaneFailed(index);
  ResolveEstablishing();
  const bool any = std::any_of(lanes_.begin(), lanes_.end(),
                               [](const auto& one) { return one->state() != Lane::State::kDead; });
  if (any) return;
  if (shut_) return Finish();
  Shut(why, false);
}

}  // namespace onecopy::verbs
