#include "daemon/engine/peering/namesakes.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/log/log.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxRivals = 64;
constexpr size_t kMaxOwnRivals = 8;
constexpr std::chrono::seconds kRivalForgotten{60};
constexpr const char* kOneNameEach =
    "give every node its own name (name in its configuration), or stop one of the two";
constexpr size_t kMostConflicts = 64;

}  // namespace

void Namesakes::Called(const std::string& name, const std::string& boot_id,
                       const std::string& address, Time now) {
  std::erase_if(rivals_, [&](const auto& one) { return now - one.second.last > kRivalForgotten; });
  if (!rivals_.contains(name) && rivals_.size() >= kMaxRivals) return;
  Rival& rival = rivals_[name];
  if (rival.boot_id != boot_id) {
    rival = {};
    rival.boot_id = boot_id;
    rival.since = now;
  }
  rival.address = address;
  rival.last = now;
}

void Namesakes::Answered(const std::string& name, const std::string& boot_id,
                         const std::string& address, Time asked) {
  const auto found = rivals_.find(name);
  if (found == rivals_.end()) return;
  Rival& rival = found->second;
  if (rival.boot_id == boot_id) {
    rivals_.erase(found);
    return;
  }
  if (asked < rival.since || asked - rival.last > kRivalForgotten) return;
  rival.kept_boot_id = boot_id;
  rival.kept_address = address;
  if (std::exchange(rival.certain, true)) return;
  log::Warning("two daemons have the same name: this node keeps to the first one",
               {{"name", name},
                {"first", address},
                {"other", Printable(rival.address)},
                {"try", kOneNameEach}});
}

void Namesakes::Told(const std::string& own_name, const std::string& own_address,
                     const std::string& by, const std::string& address, Time now) {
  std::erase_if(own_, [&](const auto& one) { return now - one.second.last > kRivalForgotten; });
  const bool known = own_.contains(address);
  if (!known && own_.size() >= kMaxOwnRivals) return;
  own_[address] = {{own_name, own_address, Printable(address), by}, now};
  if (known) return;
  log::Warning("another daemon has the name of this node",
               {{"name", own_name},
                {"this", own_address},
                {"other", Printable(address)},
                {"told_by", by.empty() ? "that daemon" : by},
                {"try", kOneNameEach}});
}

std::string Namesakes::OtherOf(const std::string& name, const std::string& boot_id,
                               Time now) const {
  const auto found = rivals_.find(name);
  if (found == rivals_.end()) return {};
  const Rival& rival = found->second;
  if (!rival.certain || now - rival.last > kRivalForgotten) return {};
  if (boot_id == rival.boot_id) return rival.kept_address;
  return boot_id == rival.kept_boot_id ? rival.address : std::string();
}

std::vector<NameConflict> Namesakes::Known(Time now) const {
  std::vector<NameConflict> known;
  for (const auto& [address, own] : own_) {
    if (now - own.last <= kRivalForgotten) known.push_back(own.conflict);
  }
  for (const auto& [name, rival] : rivals_) {
    if (!rival.certain || now - rival.last > kRivalForgotten) continue;
    known.push_back({name, rival.kept_address, Printable(rival.address), ""});
  }
  return known;
}

void AddConflicts(std::vector<NameConflict> more, std::vector<NameConflict>& conflicts) {
  for (NameConflict& one : more) {
    const bool told = std::any_of(conflicts.begin(), conflicts.end(), [&](const NameConflict& has) {
      return has.name == one.name && has.other == one.other;
    });
    if (!told) conflicts.push_back(std::move(one));
  }
  if (conflicts.size() > kMostConflicts) conflicts.resize(kMostConflicts);
}

}  // namespace onecopy::engine
