#include "daemon/discovery/directory.h"

#include <algorithm>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace onecopy::discovery {
namespace {

engine::PeerOptions PeerAt(const std::string& name, const std::string& address = {}) {
  engine::PeerOptions peer;
  peer.name = name;
  peer.address = address;
  return peer;
}

// A directory, and what it has given the engine last.
struct DirectoryRig {
  std::vector<engine::PeerOptions> peers;
  int given = 0;
  Directory directory;

  explicit DirectoryRig(std::vector<engine::PeerOptions> configured)
      : directory({.kind = "etcd",
                   .node = "east",
                   .rules = {.own = {"10.0.0.1", 7701}, .beyond_machine = true}},
                  std::move(configured), [this](std::vector<engine::PeerOptions> all) {
                    peers = std::move(all);
                    ++given;
                  }) {}

  void Found(std::vector<Entry> entries) {
    Snapshot snapshot;
    snapshot.entries = std::move(entries);
    directory.Found(std::move(snapshot));
  }
  // The address of a discovered peer; empty: there is none.
  std::string Discovered(const std::string& name) const {
    const auto found = std::find_if(peers.begin(), peers.end(), [&](const auto& peer) {
      return peer.discovered && peer.name == name;
    });
    return found == peers.end() ? std::string() : found->address;
  }
};

TEST_CASE("a discovered node that a section names or matches is a peer and no other one is") {
  DirectoryRig rig({PeerAt("gpu-*"), PeerAt("west")});
  rig.Found({{"gpu-01", "10.0.0.2:7701"}, {"west", "10.0.0.3:7701"}, {"north", "10.0.0.4:7701"}});
  CHECK(rig.Discovered("gpu-01") == "10.0.0.2:7701");
  CHECK(rig.Discovered("west") == "10.0.0.3:7701");
  CHECK(rig.Discovered("north").empty());
  CHECK(rig.directory.State().info.peers == 2);
  CHECK(rig.directory.State().info.strangers == 1);
  CHECK(rig.directory.State().info.viability.viable);
  // What [peers] says stays beside it.
  CHECK(rig.peers.size() == 4);
}

TEST_CASE("an address in the configuration counts before a discovered one") {
  DirectoryRig rig({PeerAt("west", "10.0.0.9:7701")});
  rig.Found({{"west", "10.0.0.3:7701"}});
  CHECK(rig.Discovered("west").empty());
  REQUIRE(rig.peers.size() == 1);
  CHECK(rig.peers[0].address == "10.0.0.9:7701");
}

TEST_CASE("a reload and discovery do not overwrite each other") {
  DirectoryRig rig({PeerAt("*")});
  rig.Found({{"west", "10.0.0.3:7701"}});
  rig.directory.Configure({PeerAt("*"), PeerAt("north", "10.0.0.5:7701")});
  CHECK(rig.Discovered("west") == "10.0.0.3:7701");
  rig.Found({{"west", "10.0.0.4:7701"}});
  CHECK(rig.Discovered("west") == "10.0.0.4:7701");
  CHECK(std::any_of(rig.peers.begin(), rig.peers.end(), [](const auto& peer) {
    return peer.name == "north" && peer.address == "10.0.0.5:7701";
  }));
  // Without the pattern, what was discovered is a stranger.
  rig.directory.Configure({});
  CHECK(rig.peers.empty());
  CHECK(rig.directory.State().info.strangers == 1);
}

TEST_CASE("a failure leaves what was found and the same answer disturbs nothing") {
  DirectoryRig rig({PeerAt("*")});
  rig.Found({{"west", "10.0.0.3:7701"}});
  const int given = rig.given;
  rig.directory.Failed({Code::kUnavailable, reasons::kIo, "out of reach", "start it"});
  CHECK_FALSE(rig.directory.State().info.viability.viable);
  CHECK(rig.directory.State().info.peers == 1);
  CHECK(rig.directory.State().info.answer_time.has_value());
  rig.Found({{"west", "10.0.0.3:7701"}});
  CHECK(rig.given == given);
  CHECK(rig.directory.State().info.viability.viable);
}

TEST_CASE("entries count although something else fails and that is told") {
  DirectoryRig rig({PeerAt("west")});
  Snapshot snapshot;
  snapshot.entries = {{"west", "10.0.0.3:7701"}};
  snapshot.trouble = {Code::kPermissionDenied, reasons::kAccessDenied, "it may only read"};
  rig.directory.Found(snapshot);
  CHECK(rig.Discovered("west") == "10.0.0.3:7701");
  CHECK_FALSE(rig.directory.State().info.viability.viable);
  CHECK(rig.directory.State().info.viability.reason == reasons::kAccessDenied);
  snapshot.trouble = {};
  rig.directory.Found(snapshot);
  CHECK(rig.directory.State().info.viability.viable);
}

TEST_CASE("this node's name at another address is a conflict and at its own none") {
  DirectoryRig rig({PeerAt("*")});
  rig.Found({{"east", "10.0.0.1:7701"}});
  CHECK(rig.directory.State().conflicts.empty());
  CHECK(rig.Discovered("east").empty());
  rig.Found({{"east", "10.0.0.7:7701"}});
  REQUIRE(rig.directory.State().conflicts.size() == 1);
  CHECK(rig.directory.State().conflicts[0].other == "10.0.0.7:7701");
  CHECK(rig.Discovered("east").empty());
}

TEST_CASE("a name at two addresses is a conflict and the first one counts") {
  DirectoryRig rig({PeerAt("*")});
  rig.Found({{"west", "10.0.0.3:7701"}, {"west", "10.0.0.4:7701"}});
  CHECK(rig.Discovered("west") == "10.0.0.3:7701");
  CHECK(rig.directory.State().conflicts.size() == 1);
}

TEST_CASE("names and addresses that cannot be used are refused and counted") {
  DirectoryRig rig({PeerAt("*")});
  rig.Found({{"a b", "10.0.0.3:7701"},
             {"", "10.0.0.3:7701"},
             {std::string(100, 'x'), "10.0.0.3:7701"},
             {"west", "127.0.0.1:7701"},
             {"north", "nowhere"},
             {"south", "10.0.0.8:7701"}});
  CHECK(rig.directory.State().info.refused == 5);
  CHECK(rig.directory.State().info.peers == 1);
}

}  // namespace
}  // namespace onecopy::discovery
