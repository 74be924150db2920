// The one place where the configuration's peers and discovered addresses become the peers that the
// engine has.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/discovery/address.h"
#include "daemon/discovery/discovery.h"
#include "daemon/engine/base/options.h"
#include "transport/core/base/mutex.h"

namespace onecopy::discovery {

struct DirectoryOptions {
  std::string kind;  // of discovery, for people: "static", "dns", "etcd"
  std::string node;  // this one
  AddressRules rules;
};

// Any thread. An address in the configuration counts before a discovered one. A discovered node
// that no section of [peers] names or matches is a stranger, and no peer. What was discovered stays
// until another answer replaces it. Each fact is logged once, and only so many of a kind.
class Directory final : public Sink {
 public:
  // `set` gives the engine all peers (Engine::SetPeers). It is called with each change, in order,
  // and never waits.
  using SetPeers = std::function<void(std::vector<engine::PeerOptions> peers)>;
  Directory(DirectoryOptions options, std::vector<engine::PeerOptions> configured, SetPeers set);

  // Other peers are configured now.
  void Configure(std::vector<engine::PeerOptions> configured);

  void Found(Snapshot snapshot) override;
  void Failed(const Status& why) override;

  engine::DiscoveryState State() const;

 private:
  // Facts of one kind that are in the log already.
  struct Told {
    std::set<std::string> facts;
    // Whether this one is new, and there is room to tell it.
    bool Tell(const std::string& fact);
  };

  // What counts now; shows it.
  std::vector<engine::PeerOptions> Merge() ONECOPY_REQUIRES(merging_);
  // The discovered entry of that name, if it may be a peer.
  void Take(const Entry& entry, std::map<std::string, engine::PeerOptions>* peers)
      ONECOPY_REQUIRES(merging_);
  void TakeOwn(const Entry& entry) ONECOPY_REQUIRES(merging_);
  void Trouble(const Status& why) ONECOPY_REQUIRES(merging_);
  void AddConflict(NameConflict conflict) ONECOPY_REQUIRES(merging_);
  void Show() ONECOPY_REQUIRES(merging_);

  const DirectoryOptions options_;
  const SetPeers set_;
  Mutex merging_;  // held for long, and never by a thread of the engine
  std::vector<engine::PeerOptions> configured_ ONECOPY_GUARDED_BY(merging_);
  Snapshot found_ ONECOPY_GUARDED_BY(merging_);
  std::vector<std::string> machine_ ONECOPY_GUARDED_BY(merging_);  // addresses of this machine
  engine::DiscoveryState merged_ ONECOPY_GUARDED_BY(merging_);
  Told failures_ ONECOPY_GUARDED_BY(merging_);  // since it worked last
  Told strangers_ ONECOPY_GUARDED_BY(merging_);
  Told refused_ ONECOPY_GUARDED_BY(merging_);
  Told differing_ ONECOPY_GUARDED_BY(merging_);
  Told conflicts_ ONECOPY_GUARDED_BY(merging_);
  mutable Mutex mutex_;
  engine::DiscoveryState state_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::discovery
