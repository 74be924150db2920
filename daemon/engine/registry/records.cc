#include "daemon/engine/registry/records.h"

#include <chrono>
#include <utility>

#include "daemon/log/log.h"

namespace onecopy::engine {
namespace {

// The namespaces of a user that a certificate names; they are the same in every process.
constexpr char kUsersByCertificate[] = "cert";

}  // namespace

bool Records::CanName(const Owner& owner) const {
  return !owner.uid.foreign() || !context_.IsSelf(owner.node) ||
         owner.uid.namespaces == kUsersByCertificate;
}

bool Records::Put(const BufferRecord& record) {
  const auto share = record.view_of ? HolderApi::Share::kMinor : HolderApi::Share::kMajor;
  return on() && PutText(KeyOf(record.id), ToText(record), "buffer " + record.name, share);
}

bool Records::Put(const GrantRecord& record) {
  return on() && CanName(record.to) &&
         PutText(KeyOf(record.id), ToText(record), record.id.str(), HolderApi::Share::kMajor);
}

bool Records::Put(const ArrivingRecord& record) {
  const std::string& id = record.request.id.str();
  return on() &&
         PutText(kArrivingKeys + id, ToText(record), "transfer " + id, HolderApi::Share::kMinor);
}

bool Records::Put(const OrderedRecord& record) {
  const std::string& id = record.info.id.str();
  return on() &&
         PutText(kOrderedKeys + id, ToText(record), "transfer " + id, HolderApi::Share::kLeast);
}

bool Records::PutArrived(const TransferId& id, uint64_t bytes) {
  return on() && PutText(kArrivedKeys + id.str(), std::to_string(bytes), "transfer " + id.str(),
                         HolderApi::Share::kMinor);
}

bool Records::PutNode(const std::string& name) {
  return on() && PutText(kNodeKey, name, "node " + name, HolderApi::Share::kMajor);
}

uint64_t Records::Put(const TicketRecord& record) {
  if (!on() || !CanName(record.owner)) return 0;
  const uint64_t number = next_ticket_++;
  const std::string what = "transfer " + record.transfer.str();
  return PutText(KeyOfTicket(number), ToText(record), what, HolderApi::Share::kMinor) ? number : 0;
}

void Records::Erase(BufferId id) {
  if (on()) holder_->Erase(KeyOf(id));
}

void Records::Erase(const GrantId& id) {
  if (on()) holder_->Erase(KeyOf(id));
}

void Records::EraseOrdered(const TransferId& id) {
  if (on()) holder_->Erase(kOrderedKeys + id.str());
}

void Records::EraseTicket(uint64_t number) {
  if (number != 0) holder_->Erase(KeyOfTicket(number));
}

// The count goes first. A kill in between must not leave it for a later transfer with this id.
void Records::EraseArriving(const TransferId& id) {
  if (!on()) return;
  holder_->Erase(kArrivedKeys + id.str());
  holder_->Erase(kArrivingKeys + id.str());
}

void Records::EraseLeft(const std::string& key) {
  if (on()) holder_->Erase(key);
}

bool Records::PutText(const std::string& key, const std::string& text, const std::string& what,
                      HolderApi::Share share) {
  constexpr std::chrono::minutes kBetweenWarnings{1};
  const Status put = holder_->Put(key, text, share);
  if (put.ok()) return true;
  ++refused_;
  const os::Clock::time_point now = os::Clock::now();
  if (told_full_ != os::Clock::time_point() && now - told_full_ < kBetweenWarnings) return false;
  told_full_ = now;
  log::Warning("a record will not survive a restart of the daemon",
               {{"of", what},
                {"more", std::to_string(std::exchange(refused_, 0) - 1)},
                {"why", put.ToString()}});
  return false;
}

}  // namespace onecopy::engine
