// Which nodes may be peers, and whose uids are whose.
#include "daemon/engine/peering/admission.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "transport/os/machine/machine.h"

using namespace onecopy;
using namespace onecopy::engine;

namespace {

Options NodeEast(bool names_proven) {
  Options options;
  options.node = "east";
  options.names_proven = names_proven;
  options.uid_domain = "lab";
  options.loopback_only = false;
  options.peers = {{"west", "10.0.0.2:7701", {}},
                   {"near", "127.0.0.1:7711", {}},
                   {"friend", "10.0.0.3:7701", "lab"},
                   {"caller", "", {}},
                   {"gpu-*", "", "lab"},
                   {"gpu-9*", "", "far"}};
  return options;
}

}  // namespace

TEST_CASE("who is configured may be a peer, and on plain text the daemon's own user here") {
  const auto [node, local, plain, proven] = GENERATE(table<const char*, bool, bool, bool>({
      // The name, whether from here, whether it is admitted without certificates, and with them.
      {"west", false, true, true},
      {"west", true, true, true},
      {"friend", false, true, true},
      {"caller", false, true, true},
      {"gpu-1", false, true, true},
      {"gpu-1", true, true, true},
      {"gpu", false, false, false},
      {"GPU-1", false, false, false},
      {"stranger", false, false, false},
      {"stranger", true, true, true},
      {"West", false, false, false},
      // Where nobody has proven a name, one of this machine must come from it.
      {"near", false, false, true},
      {"near", true, true, true},
  }));
  CAPTURE(node, local);
  for (const bool names_proven : {false, true}) {
    CAPTURE(names_proven);
    Admission admission(NodeEast(names_proven));
    const Status admitted = admission.Admit(node, local);
    CHECK(admitted.ok() == (names_proven ? proven : plain));
    if (admitted.ok()) continue;
    CHECK(admitted.code() == Code::kPermissionDenied);
    CHECK(admitted.reason() == reasons::kAccessDenied);
    CHECK(admitted.message().find(node) != std::string::npos);
    CHECK_FALSE(admitted.remedy().empty());
  }
}

TEST_CASE("a name that was met on this machine is not taken over from another one") {
  Admission admission(NodeEast(false));
  REQUIRE_OK(admission.Admit("gpu-2", true));
  CHECK_FALSE(admission.Admit("gpu-2", false).ok());
  REQUIRE_OK(admission.Admit("stranger", true));
  CHECK_FALSE(admission.Admit("stranger", false).ok());
  REQUIRE_OK(admission.Admit("gpu-3", false));
  REQUIRE_OK(admission.Admit("gpu-3", true));
  CHECK(admission.DomainOf("gpu-3", "lab") == "lab");  // by its entry, and not for being here
}

TEST_CASE("a domain of uids is what the configuration says, whatever a node says of itself") {
  Admission admission(NodeEast(false));
  const std::vector<std::string> words = {"", "lab", "far", "loopback " + os::HostIdentity()};
  for (const std::string& says : words) {
    CAPTURE(says);
    CHECK(admission.DomainOf("west", says).empty());
    CHECK(admission.DomainOf("friend", says) == "lab");
    CHECK(admission.DomainOf("gpu-1", says) == "lab");
    CHECK(admission.DomainOf("gpu-99", says) == "far");
    CHECK(admission.DomainOf("unheard-of", says).empty());
  }
  // What a pattern says counts for a node that is named as well, unless that says otherwise.
  Options options = NodeEast(true);
  options.peers = {{"gpu-1", "10.0.0.4:7701", {}}, {"gpu-2", "", ""}, {"gpu-*", "", "lab"}};
  CHECK(Admission(options).DomainOf("gpu-1", "") == "lab");
  CHECK(Admission(options).DomainOf("gpu-2", "lab").empty());
  // On this machine its word can only take it out of the domain.
  REQUIRE_OK(admission.Admit("stranger", true));
  CHECK(admission.DomainOf("stranger", "lab") == "lab");
  CHECK(admission.DomainOf("stranger", "other").empty());
  CHECK(admission.DomainOf("near", "lab") == "lab");
  CHECK(admission.DomainOf("near", "").empty());
  CHECK(admission.OwnDomain() == "lab");
}

TEST_CASE("daemons on loopback share a domain that is this machine's") {
  Options options;
  options.node = "east";
  Admission admission(options);
  const std::string domain = admission.OwnDomain();
  CHECK(domain == "loopback " + os::HostIdentity());
  REQUIRE_OK(admission.Admit("west", true));
  CHECK(admission.DomainOf("west", domain) == domain);
  CHECK(admission.DomainOf("west", "loopback ").empty());
  CHECK(admission.DomainOf("west", "").empty());
  options.loopback_only = false;
  CHECK(Admission(options).OwnDomain().empty());
}

TEST_CASE("another configuration counts from then on") {
  Admission admission(NodeEast(true));
  REQUIRE_OK(admission.Admit("west", false));
  REQUIRE_OK(admission.Admit("gpu-1", false));
  CHECK(admission.Expects("gpu-1"));
  admission.Configure({{"north", "10.0.0.9:7701", "lab"}});
  CHECK_FALSE(admission.Admit("west", false).ok());
  CHECK_FALSE(admission.Admit("gpu-1", false).ok());
  CHECK_FALSE(admission.Expects("gpu-1"));
  REQUIRE_OK(admission.Admit("north", false));
  CHECK(admission.DomainOf("friend", "lab").empty());
}

TEST_CASE("a node that is forgotten may be met on this machine later, and one of it stays there") {
  Admission admission(NodeEast(false));
  REQUIRE_OK(admission.Admit("gpu-1", false));
  REQUIRE_OK(admission.Admit("gpu-2", true));
  admission.Forget("gpu-1");
  admission.Forget("gpu-2");
  REQUIRE_OK(admission.Admit("gpu-1", true));
  CHECK_FALSE(admission.Admit("gpu-1", false).ok());
  CHECK_FALSE(admission.Admit("gpu-2", false).ok());
}

TEST_CASE("a discovered address gives no rights") {
  Options options = NodeEast(false);
  PeerOptions found;
  found.discovered = true;
  found.address = "127.0.0.1:7799";
  for (const char* name : {"stranger", "gpu-1"}) {
    found.name = name;
    options.peers.push_back(found);
  }
  Admission admission(options);
  CHECK_FALSE(admission.Admit("stranger", false).ok());
  CHECK_FALSE(admission.Expects("stranger"));
  // The pattern lets it in, as it would without the address.
  CHECK(admission.Admit("gpu-1", false).ok());
  CHECK(admission.DomainOf("gpu-1", "") == "lab");
  admission.Configure(options.peers);
  CHECK_FALSE(admission.Expects("stranger"));
}

TEST_CASE("nodes that come and go keep no others out, and take nothing from those that stay") {
  constexpr size_t kMore = 10'000;
  Admission admission(NodeEast(false));
  REQUIRE_OK(admission.Admit("stays", true));
  REQUIRE_OK(admission.Admit("gpu-here", true));
  for (size_t i = 0; i < kMore; ++i) {
    const std::string number = std::to_string(i);
    REQUIRE_OK(admission.Admit("gpu-" + number, false));
    if (i % 1000 == 0) REQUIRE_OK(admission.Admit("stays", true));
  }
  CHECK_FALSE(admission.Admit("gpu-here", false).ok());  // others of elsewhere do not matter
  for (size_t i = 0; i < kMore; ++i) {
    REQUIRE_OK(admission.Admit("local-" + std::to_string(i), true));
    if (i % 1000 == 0) REQUIRE_OK(admission.Admit("stays", true));
  }
  CHECK(admission.Expects("stays"));
  CHECK(admission.Expects("local-" + std::to_string(kMore - 1)));
  CHECK_FALSE(admission.Expects("local-0"));
}
