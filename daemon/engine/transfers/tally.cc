#include "daemon/engine/transfers/tally.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "daemon/plan/ladder.h"
#include "daemon/plan/refused.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxReasonBytes = 48;
constexpr uint32_t kManyCopies = 9;  // and more
constexpr std::string_view kOther = "other";
constexpr std::string_view kMore = "(more)";

// On the ladder, or a word that says why it is not. Peers send paths, too.
std::string PathName(const std::string& path) {
  if (path.empty()) return "none";
  if (path.find(',') != std::string::npos) return "several";
  const bool known = plan::CarrierOf(path).has_value();
  return known ? path : std::string(kOther);
}

const std::string& PathOf(const TransferInfo& info) {
  return info.receipt.path.empty() && info.plan ? info.plan->path : info.receipt.path;
}

const std::string& LinkOf(const TransferInfo& info) {
  return info.receipt.link.empty() && info.plan ? info.plan->link : info.receipt.link;
}

// Adds to what is there, or makes it while there is room; else to `instead`.
template <typename Map>
auto& Room(Map& map, const typename Map::key_type& key, size_t most,
           const typename Map::key_type& instead) {
  const auto found = map.find(key);
  if (found != map.end()) return found->second;
  return map[map.size() < most ? key : instead];
}

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

std::string Tally::Words::Take(const std::string& word, std::string_view instead) {
  if (known_.contains(word)) return word;
  if (known_.size() >= most_) return std::string(instead);
  known_.insert(word);
  return word;
}

Tally::Tally(std::string node, std::set<std::string> links)
    : node_(std::move(node)), links_(std::move(links)), reasons_(kMaxReasonsTold) {}

Direction Tally::DirectionOf(const TransferInfo& info) const {
  const bool from_here = info.source.node == node_;
  const bool to_here = info.destination.node == node_;
  if (from_here) return to_here ? Direction::kInside : Direction::kOut;
  return to_here ? Direction::kIn : Direction::kElsewhere;
}

const std::string& Tally::PeerOf(const TransferInfo& info) const {
  static const std::string kNone;
  switch (DirectionOf(info)) {
    case Direction::kIn:
      return info.source.node;
    case Direction::kOut:
      return info.destination.node;
    default:
      return kNone;
  }
}

std::string Tally::LinkName(const std::string& link) const {
  const bool known = link.empty() || links_.contains(link);
  return known ? link : std::string(kOther);
}

std::string Tally::ReasonName(const std::string& reason) {
  const bool formed =
      !reason.empty() && reason.size() <= kMaxReasonBytes &&
      reason.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == std::string::npos;
  return formed ? reasons_.Take(reason, "OTHER") : "OTHER";
}

void Tally::AddBytes(const std::string& path, const std::string& link, const std::string& peer,
                     Direction direction, uint64_t bytes) {
  if (bytes == 0) return;
  TransferFigures::BytesKey key{path, LinkName(link), peer, direction};
  if (!peer.empty()) key.peer = peers_.Take(peer, kMore);
  Room(figures_.bytes, key, kMaxBytesTold,
       {std::string(kOther), std::string(kOther), std::string(kMore), direction}) += bytes;
}

void Tally::AddPath(const std::string& path, uint32_t copies, const std::vector<Refusal>& refused,
                    TransferFigures::Amount amount) {
  copies = std::min(copies, kManyCopies);
  const auto add = [&](TransferFigures::Amount& to) {
    to.transfers += amount.transfers;
    to.bytes += amount.bytes;
  };
  add(figures_.copies[copies]);
  const Refusal* const best = plan::BestRefused(refused);
  if (best == nullptr) return;
  add(Room(figures_.worse, {copies, path, PathName(best->path), ReasonName(best->reason)},
           kMaxWorseTold, {copies, path, std::string(kOther), "OTHER"}));
}

void Tally::AddRefusals(const std::vector<Refusal>& refused, uint64_t transfers) {
  for (const Refusal& refusal : refused) {
    if (plan::CouldNotApply(refusal.reason)) continue;
    Room(figures_.refusals, {PathName(refusal.path), ReasonName(refusal.reason)}, kMaxRefusalsTold,
         {std::string(kOther), "OTHER"}) += transfers;
  }
}

void Tally::AddFailovers(const std::vector<Attempt>& attempts) {
  for (size_t i = 1; i < attempts.size(); ++i) {
    if (attempts[i - 1].path == attempts[i].path) continue;
    ++Room(figures_.failovers, {PathName(attempts[i - 1].path), PathName(attempts[i].path)},
           kMaxFailoversTold, {std::string(kOther), std::string(kOther)});
  }
}

void Tally::AddLanes(const std::string& link, const std::vector<LaneBytes>& lanes) {
  for (const LaneBytes& lane : lanes) {
    if (lane.bytes == 0) continue;
    Room(figures_.lanes, {link, lane.device}, kMaxLanesTold,
         {std::string(kOther), std::string(kOther)}) += lane.bytes;
  }
}

void Tally::Note(const TransferRecord& record) {
  if (record.by_ring) return;
  const TransferInfo& info = record.info;
  const Receipt& receipt = info.receipt;
  const std::string path = PathName(PathOf(info));
  const Direction direction = DirectionOf(info);
  const bool succeeded = info.state == TransferState::kSucceeded;
  const bool decided = direction == Direction::kIn || direction == Direction::kInside;
  if (!record.series && direction != Direction::kElsewhere) {
    // A peer could report more bytes than were asked for: these do not count.
    const uint64_t bytes = std::min(info.bytes_done, info.bytes);
    AddBytes(path, LinkOf(info), PeerOf(info), direction, bytes);
    if (decided && succeeded) {
      AddPath(path, static_cast<uint32_t>(receipt.steps.size()), receipt.refused, {1, bytes});
    }
    if (decided) AddFailovers(receipt.attempts);
    if (direction == Direction::kIn) AddLanes(LinkName(LinkOf(info)), receipt.lanes);
  }
  if (!info.part_of.empty()) return;
  const std::string reason = succeeded ? std::string() : ReasonName(info.error.reason());
  ++Room(figures_.ended, {path, direction, info.state, reason}, kMaxEndsTold,
         {std::string(kOther), direction, info.state, "OTHER"});
  if (!decided) return;
  AddRefusals(receipt.refused, 1);
  if (!succeeded) return;
  figures_.durations[path].Note(Nanoseconds(receipt.asked_seconds));
  figures_.negotiations.Note(Nanoseconds(receipt.negotiation_seconds));
  figures_.sizes.Note(info.bytes);
}

void Tally::AddRunning(
    const TransferRecord& record,
    std::map<TransferFigures::BytesKey, TransferFigures::Amount>& running) const {
  if (record.series) return;  // its parts move its bytes
  const TransferInfo& info = record.info;
  const Direction direction = DirectionOf(info);
  TransferFigures::BytesKey key{PathName(PathOf(info)), LinkName(LinkOf(info)), PeerOf(info),
                                direction};
  if (peers_.full() && !peers_.Has(key.peer) && !key.peer.empty()) key.peer = kMore;
  TransferFigures::Amount& amount =
      Room(running, key, kMaxBytesTold,
           {std::string(kOther), std::string(kOther), std::string(kMore), direction});
  ++amount.transfers;
  amount.bytes += std::min(info.bytes_done, info.bytes);
}

void Tally::NoteRefused(const Status& why) {
  ++figures_.requests_refused[ReasonName(why.reason())];
}

void Tally::AddRing(const RingWay& way, const RingAmount& amount) {
  const uint64_t transfers = amount.durations.count();
  if (transfers == 0) return;
  const std::string path = PathName(way.plan->path);
  AddBytes(path, way.plan->link, way.peer, way.direction, amount.sizes.sum);
  AddPath(path, way.copies, way.plan->refused, {transfers, amount.sizes.sum});
  figures_.ended[{path, way.direction, TransferState::kSucceeded, {}}] += transfers;
  AddRefusals(way.plan->refused, transfers);
  figures_.durations[path] += amount.durations;
  figures_.sizes += amount.sizes;
}

void Tally::AddRingFailures(const Plan* plan, Direction direction, const Status& why,
                            uint64_t count) {
  if (count == 0) return;
  const std::string path = plan == nullptr ? "none" : PathName(plan->path);
  Room(figures_.ended, {path, direction, TransferState::kFailed, ReasonName(why.reason())},
       kMaxEndsTold, {std::string(kOther), direction, TransferState::kFailed, "OTHER"}) += count;
}

void Tally::DropPeer(const std::string& node) {
  peers_.Drop(node);
  std::erase_if(figures_.bytes, [&](const auto& entry) { return entry.first.peer == node; });
}

}  // namespace onecopy::engine
