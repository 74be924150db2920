#include "daemon/discovery/directory.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/base/glob.h"
#include "transport/core/base/name.h"
#include "transport/os/sockets/own_addresses.h"

namespace onecopy::discovery {
namespace {

constexpr size_t kMaxTold = 64;
constexpr size_t kMaxConflicts = 64;

std::vector<std::string> MachineAddresses() {
  std::vector<std::string> addresses;
  for (os::OwnAddress& own : os::OwnAddresses()) addresses.push_back(std::move(own.address));
  return addresses;
}

}  // namespace

bool Directory::Told::Tell(const std::string& fact) {
  return facts.size() < kMaxTold && facts.insert(fact).second;
}

Directory::Directory(DirectoryOptions options, std::vector<engine::PeerOptions> configured,
                     SetPeers set)
    : options_(std::move(options)), set_(std::move(set)) {
  const MutexLock lock(merging_);
  configured_ = std::move(configured);
  merged_.info.kind = options_.kind;
  if (options_.kind != "static") {
    merged_.info.viability = Viability::No(reasons::kNotYetKnown, "no answer has come yet");
  }
  Show();
}

void Directory::Configure(std::vector<engine::PeerOptions> configured) {
  const MutexLock lock(merging_);
  configured_ = std::move(configured);
  set_(Merge());
}

void Directory::Found(Snapshot snapshot) {
  std::vector<std::string> machine = MachineAddresses();
  const MutexLock lock(merging_);
  const bool same = machine == machine_ && snapshot.entries == found_.entries;
  machine_ = std::move(machine);
  found_ = std::move(snapshot);
  if (!found_.trouble.ok()) {
    Trouble(found_.trouble);
  } else {
    if (!std::exchange(failures_, {}).facts.empty()) {
      log::Info("discovery works again", {{"kind", options_.kind}});
    }
    merged_.info.viability = {};
  }
  merged_.info.answer_time = std::chrono::system_clock::now();
  std::vector<engine::PeerOptions> peers = Merge();
  if (!same) set_(std::move(peers));
}

void Directory::Failed(const Status& why) {
  const MutexLock lock(merging_);
  Trouble(why);
  Show();
}

void Directory::Trouble(const Status& why) {
  merged_.info.viability = Viability::No(why.reason(), why.message(), why.remedy());
  if (!failures_.Tell(why.message())) return;
  log::Warning("discovery failed: the peers that are known already stay known",
               {{"kind", options_.kind}, {"why", why.ToString()}, {"try", why.remedy()}});
}

engine::DiscoveryState Directory::State() const {
  const MutexLock lock(mutex_);
  return state_;
}

void Directory::Show() {
  const MutexLock lock(mutex_);
  state_ = merged_;
}

std::vector<engine::PeerOptions> Directory::Merge() {
  merged_.info.strangers = 0;
  merged_.info.refused = found_.refused;
  merged_.conflicts.clear();
  for (const NameConflict& conflict : found_.conflicts) AddConflict(conflict);
  std::map<std::string, engine::PeerOptions> discovered;
  for (const Entry& entry : found_.entries) Take(entry, &discovered);
  merged_.info.peers = discovered.size();
  std::vector<engine::PeerOptions> peers = configured_;
  for (auto& [name, peer] : discovered) peers.push_back(std::move(peer));
  Show();
  return peers;
}

void Directory::AddConflict(NameConflict conflict) {
  if (merged_.conflicts.size() >= kMaxConflicts) return;
  conflict.address = engine::Printable(conflict.address);
  conflict.other = engine::Printable(conflict.other);
  merged_.conflicts.push_back(std::move(conflict));
}

void Directory::Take(const Entry& entry, std::map<std::string, engine::PeerOptions>* peers) {
  const Status usable = IsName(entry.name) ? CheckAddress(entry.address, options_.rules)
                                           : Status(Code::kInvalidArgument, reasons::kBadName,
                                                    "the name is not a node's");
  if (!usable.ok()) {
    ++merged_.info.refused;
    if (!refused_.Tell(entry.name + " " + entry.address)) return;
    return log::Warning("a discovered entry is refused",
                        {{"name", engine::Printable(entry.name)},
                         {"address", engine::Printable(entry.address)},
                         {"why", usable.message()}});
  }
  if (entry.name == options_.node) return TakeOwn(entry);
  const engine::PeerOptions* named = nullptr;
  bool matches = false;
  for (const engine::PeerOptions& peer : configured_) {
    if (peer.name == entry.name) named = &peer;
    matches = matches || peer.name == entry.name || MatchesGlob(peer.name, entry.name);
  }
  if (!matches) {
    ++merged_.info.strangers;
    if (!strangers_.Tell(entry.name)) return;
    return log::Info("a discovered node is not a peer: no section of [peers] names or matches it",
                     {{"node", entry.name}, {"address", entry.address}});
  }
  if (named != nullptr && !named->address.empty()) {
    if (named->address == entry.address || !differing_.Tell(entry.name + " " + entry.address)) {
      return;
    }
    return log::Info(
        "a peer's address in the configuration is used, not the discovered one",
        {{"peer", entry.name}, {"configured", named->address}, {"discovered", entry.address}});
  }
  const auto [place, added] =
      peers->try_emplace(entry.name, engine::PeerOptions{.name = entry.name,
                                                         .address = entry.address,
                                                         .uid_domain = std::nullopt,
                                                         .discovered = true});
  if (!added && place->second.address != entry.address) {
    AddConflict({entry.name, place->second.address, entry.address, options_.kind});
    if (!conflicts_.Tell(entry.name + " " + entry.address)) return;
    log::Warning(
        "a name was discovered at two addresses: the first one is used",
        {{"name", entry.name}, {"first", place->second.address}, {"other", entry.address}});
  }
}

void Directory::TakeOwn(const Entry& entry) {
  if (IsOwnAddress(entry.address, options_.rules, machine_)) return;
  // A daemon that listens at every address does not know which of them others use.
  if (options_.rules.own.host.empty() || options_.rules.own.host == "0.0.0.0" ||
      options_.rules.own.host == "::") {
    return;
  }
  const std::string own = options_.rules.own.ToString();
  const bool known =
      std::any_of(merged_.conflicts.begin(), merged_.conflicts.end(), [&](const NameConflict& has) {
        return has.name == entry.name && has.other == entry.address;
      });
  if (known) return;
  AddConflict({entry.name, own, entry.address, options_.kind});
  if (!conflicts_.Tell(entry.name + " " + entry.address)) return;
  log::Warning("this node's name was discovered at another address",
               {{"name", entry.name},
                {"this", own},
                {"other", entry.address},
                {"try", "give every node its own name, or stop the other daemon"}});
}

}  // namespace onecopy::discovery
