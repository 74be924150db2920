#include "daemon/engine/base/paces.h"

#include <algorithm>

#include "onecopy/size.h"

namespace onecopy::engine {
namespace {

// Of a second, that one piece should take.
constexpr uint64_t kPiecesPerSecond = 50;
// Less is not worth a request of its own.
constexpr uint64_t kMinPieceBytes = uint64_t{256} << 10;

}  // namespace

std::optional<TransferPace::Clock::time_point> TransferPace::Spend(uint64_t bytes) {
  const Clock::time_point now = Clock::now();
  for (const Limit& limit : limits_) {
    if (!limit.rate->MayAsk(now)) return std::nullopt;
  }
  Clock::time_point when = now;
  for (const Limit& limit : limits_) when = std::max(when, limit.rate->Spend(bytes, now));
  return when;
}

void TransferPace::At(Clock::time_point when, Task task) {
  loop_.Post([&loop = loop_, when, task = std::move(task)]() mutable {
    loop.RunAt(when, std::move(task));
  });
}

uint64_t TransferPace::piece_bytes() const {
  uint64_t piece = UINT64_MAX;
  for (const Limit& limit : limits_) {
    const uint64_t rate = limit.rate->rate();
    if (rate == 0) continue;
    const uint64_t most = std::max(rate / kPiecesPerSecond, kMinPieceBytes);
    piece = std::min(piece, most / kMinPieceBytes * kMinPieceBytes);  // whole blocks of files
  }
  return piece;
}

bool TransferPace::limited() const {
  return std::any_of(limits_.begin(), limits_.end(),
                     [](const Limit& limit) { return limit.rate->rate() != 0; });
}

std::string TransferPace::Describe() const {
  std::string text;
  for (const Limit& limit : limits_) {
    const uint64_t rate = limit.rate->rate();
    if (rate == 0) continue;
    text += (text.empty() ? "" : ", ") + FormatRate(static_cast<double>(rate)) + " for " + limit.of;
  }
  return text;
}

std::shared_ptr<RateLimit> Paces::Find(const std::string& of, Known known,
                                       uint64_t bytes_per_second) {
  if (known_.size() >= tidy_at_) {
    std::erase_if(known_, [](const auto& one) {
      return one.second.rate.use_count() == 1 && one.second.rate->IsMadeUpFor();
    });
    tidy_at_ = std::max<size_t>(64, 2 * known_.size());
  }
  const auto [place, is_new] = known_.try_emplace(of, std::move(known));
  std::shared_ptr<RateLimit>& rate = place->second.rate;
  if (is_new) rate = std::make_shared<RateLimit>();
  // What another node says of a later part of a transfer changes nothing.
  if (is_new || !place->second.initiator.empty()) rate->SetRate(bytes_per_second);
  return rate;
}

std::shared_ptr<TransferPace> Paces::Of(const Flows& flows, const Owner& owner,
                                        const std::string& initiator, const Own& own) {
  const Owner payer = PayerOf(owner);
  const Flows::Rates rates = flows.RatesOf(payer, initiator);
  const std::string user = "user " + payer.ToString();
  const std::string node = "node " + initiator;
  std::vector<TransferPace::Limit> limits;
  // Users of one name at two nodes are two.
  limits.push_back(
      {user, Find(user + " at " + initiator, {payer, initiator, true}, rates.of_user)});
  limits.push_back({node, Find(node, {payer, initiator, false}, rates.of_node)});
  if (own.bytes_per_second != 0) {
    limits.push_back(
        {"this transfer", Find("transfer " + own.transfer, {payer, {}}, own.bytes_per_second)});
  }
  return std::make_shared<TransferPace>(loop_, std::move(limits));
}

void Paces::Refresh(const Flows& flows) {
  for (const auto& [of, known] : known_) {
    if (known.initiator.empty()) continue;
    const Flows::Rates rates = flows.RatesOf(known.owner, known.initiator);
    known.rate->SetRate(known.of_user ? rates.of_user : rates.of_node);
  }
}

}  // namespace onecopy::engine
