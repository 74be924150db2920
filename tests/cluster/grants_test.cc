// What other users may do, with and without a grant.
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace grants_test {
namespace {

using namespace onecopy::testing;

void CheckNotOwner(const CommandResult& result) {
  CheckRefused(result, 4, "PERMISSION_DENIED", "NOT_OWNER");
}

// To one who has no right on it, a buffer is not there.
void CheckUnknown(const CommandResult& result) {
  CheckRefused(result, 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
}

std::string Me(uid_t uid) { return std::to_string(uid); }

// kOwner's buffer "a" of Payload(10'000) on east, and kOther's "b" and "c" there and on west.
struct Users {
  Pair pair;
  Node& east = pair.east;
  Node& west = pair.west;
  const std::string payload = Payload(10'000);

  Users() {
    OpenTo(east);
    OpenTo(west);
    Create(kOwner, east, "a");
    CommandAs(kOwner, east, {"cp", "-", "a"}, payload);
    Create(kOther, east, "b");
    Create(kOther, west, "c");
  }
  static void Create(uid_t uid, const Node& node, const std::string& name) {
    CommandAs(uid, node, {"buffer", "create", name, "--size", "10000", "--memory", "host"});
  }
  std::string Grant(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"grant", "add"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return CommandAs(kOwner, east, all).at("id");
  }
};

}  // namespace

TEST_CASE("another user may neither read, write, sum, look at nor remove a buffer") {
  REQUIRE_ROOT();
  Users users;
  CheckUnknown(RunAs(kOther, users.east, {"cp", "a", "b"}));
  CheckUnknown(RunAs(kOther, users.east, {"cp", "b", "a"}));
  CheckUnknown(RunAs(kOther, users.east, {"cp", "a", "west:c"}));
  CheckUnknown(RunAs(kOther, users.west, {"cp", "east:a", "c"}));
  CheckUnknown(RunAs(kOther, users.west, {"cp", "c", "east:a"}));
  CheckUnknown(RunAs(kOther, users.west, {"explain", "east:a", "c"}));
  CheckUnknown(RunAs(kOther, users.east, {"buffer", "sum", "a"}));
  CheckUnknown(RunAs(kOther, users.west, {"buffer", "sum", "east:a"}));
  CheckUnknown(RunAs(kOther, users.east, {"buffer", "rm", "a"}));
  CheckUnknown(RunAs(kOther, users.east, {"buffer", "rm", "a", "--force"}));
  CheckUnknown(RunAs(kOther, users.east, {"buffer", "show", "a"}));
  CheckUnknown(RunAs(kOther, users.west, {"buffer", "show", "east:a"}));
  CheckUnknown(RunAs(kOther, users.east, {"grant", "add", "a", "--to", Me(kOther), "--read"}));
  // Only what is theirs is listed.
  const Json listed = CommandAs(kOther, users.east, {"buffer", "ls"});
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].at("name") == "b");
  CHECK(CommandAs(kOther, users.east, {"transfer", "ls"}).empty());
  // Nothing has changed, and the owner may do all that: from the other node, too.
  CHECK(CommandAs(kOwner, users.west, {"buffer", "sum", "east:a"}).at("value") ==
        CommandAs(kOwner, users.east, {"buffer", "sum", "a"}).at("value"));
  CHECK(Contents(users.east, "a") == users.payload);  // this is root, an administrator
}

TEST_CASE("a transfer is its initiator's, and no one else's to see or cancel") {
  REQUIRE_ROOT();
  Users users;
  Users::Create(kOwner, users.west, "d");
  const std::string id = CommandAs(kOwner, users.east, {"cp", "a", "west:d"}).at("id");
  for (const Node* node : {&users.east, &users.west}) {
    CHECK(RunAs(kOther, *node, {"transfer", "show", id}).exit_status != 0);
    CHECK(RunAs(kOther, *node, {"transfer", "cancel", id}).exit_status != 0);
    CHECK(CommandAs(kOwner, *node, {"transfer", "show", id}).at("state") == "SUCCEEDED");
    CHECK(CommandAs(kOther, *node, {"transfer", "ls"}).empty());
  }
}

TEST_CASE("a grant to read lets exactly its range through, here and on another node") {
  REQUIRE_ROOT();
  Users users;
  const std::string id = users.Grant({"a@100+1000", "--to", Me(kOther), "--read"});
  CheckReceipt(CommandAs(kOther, users.east, {"cp", "a@100+1000", "b@1"}), {"local", 1000, false});
  CHECK(Contents(users.east, "b@1+1000") == users.payload.substr(100, 1000));
  CheckReceipt(CommandAs(kOther, users.west, {"cp", "east:a@101+999", "c", "--checksum"}),
               {"tcp-direct", 999, true});
  CHECK(Contents(users.west, "c@0+999") == users.payload.substr(101, 999));
  CheckNotOwner(RunAs(kOther, users.east, {"cp", "a@99+1000", "b"}));
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "east:a@100+1001", "c"}));
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "east:a", "c"}));
  CheckNotOwner(RunAs(kOther, users.east, {"cp", "b@0+1000", "a@100"}));  // not to write
  CheckNotOwner(RunAs(kOther, users.east, {"buffer", "rm", "a"}));
  CHECK(RunAs(kOther, users.east, {"buffer", "sum", "a@100+1000"}).exit_status == 0);
  CheckNotOwner(RunAs(kOther, users.east, {"buffer", "sum", "a"}));
  CHECK(CommandAs(kOther, users.east, {"buffer", "ls"}).size() == 2);
  // It is the owner's to take back.
  CHECK(RunAs(kOther, users.east, {"grant", "rm", id}).exit_status == 3);
  CommandAs(kOwner, users.east, {"grant", "rm", id});
  CheckUnknown(RunAs(kOther, users.east, {"cp", "a@100+1000", "b@1"}));
  CheckUnknown(RunAs(kOther, users.west, {"cp", "east:a@100+1000", "c"}));
  CHECK(CommandAs(kOwner, users.east, {"grant", "ls"}).empty());
}

TEST_CASE("a grant to write lets exactly its range through, and does not let read") {
  REQUIRE_ROOT();
  Users users;
  users.Grant({"a@100+1000", "--to", Me(kOther) + "@west", "--write"});
  CommandAs(kOther, users.west, {"cp", "-", "c"}, std::string(10'000, 'w'));
  CheckReceipt(CommandAs(kOther, users.west, {"cp", "c@0+1000", "east:a@100"}),
               {"tcp-direct", 1000, false});
  std::string expected = users.payload;
  expected.replace(100, 1000, std::string(1000, 'w'));
  CHECK(Contents(users.east, "a") == expected);
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "c@0+1001", "east:a@100"}));
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "east:a@100+1000", "c"}));
  CheckNotOwner(RunAs(kOther, users.west, {"buffer", "sum", "east:a@100+1000"}));
  CHECK(Contents(users.east, "a") == expected);
}

TEST_CASE("a grant ends by itself when its time is over") {
  REQUIRE_ROOT();
  Users users;
  users.Grant({"a", "--to", Me(kOther), "--read", "--for", "300ms"});
  WaitUntil("the grant has expired", [&] {
    return RunAs(kOther, users.east, {"cp", "a", "b"}).exit_status != 0;
  });
  CheckRefused(RunAs(kOther, users.east, {"cp", "a", "b"}), 4, "PERMISSION_DENIED",
               "GRANT_EXPIRED");
  CheckRefused(RunAs(kOther, users.west, {"cp", "east:a", "c"}), 4, "PERMISSION_DENIED",
               "GRANT_EXPIRED");
  CHECK(CommandAs(kOwner, users.east, {"grant", "ls"}).empty());
  users.Grant({"a", "--to", Me(kOther), "--read", "--for", "1h"});
  CommandAs(kOther, users.west, {"cp", "east:a", "c"});
  CHECK(Contents(users.west, "c") == users.payload);
}

TEST_CASE("taking a grant back ends the transfer that rests on it") {
  REQUIRE_ROOT();
  Users users;
  const std::vector<std::string> create = {"buffer", "create",   "big", "--size",
                                           "2GiB",   "--memory", "host"};
  CommandAs(kOwner, users.east, create);
  CommandAs(kOther, users.west, create);
  const std::string grant = users.Grant({"big", "--to", Me(kOther), "--read"});
  const std::string id =
      CommandAs(kOther, users.west, {"cp", "east:big", "big", "--detach"}).at("id");
  onecopy::Client root = users.west.Connect();  // an administrator sees every transfer
  SeeRunning(root, onecopy::TransferId(id));
  Frozen west(users.west);
  CommandAs(kOwner, users.east, {"grant", "rm", grant});
  west.Thaw();
  CheckNotOwner(RunAs(kOther, users.west, {"transfer", "watch", id}));
  CommandAs(kOwner, users.east, {"buffer", "rm", "big"});
  CommandAs(kOther, users.west, {"buffer", "rm", "big"});
}

TEST_CASE("what uid_domain alone keeps apart is told so, with both nodes' domains") {
  Node west("west", {.config = "uid_domain = \"attic\"\n"});
  Node east("east", {.peers = {west.AsPeer()}, .config = "uid_domain = \"cellar\"\n"});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  east.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", "4096", "--memory", "host"});
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"cp", "a", "west:b"},
                                                    {"cp", "west:b", "a"},
                                                    {"buffer", "show", "west:b"}}) {
    const CommandResult refused = east.Run(arguments);
    INFO(refused.out);
    CHECK(refused.exit_status == 3);
    CHECK(refused.reason() == "BUFFER_NOT_FOUND");
    const std::string remedy = refused.json.at("error").at("remedy");
    CHECK(remedy.find("uid_domain") != std::string::npos);
    CHECK(remedy.find("[peers.NAME]") != std::string::npos);
    CHECK(remedy.find("west's is \"attic\"") != std::string::npos);
    // What east says of itself counts for nothing.
    CHECK(remedy.find("east's is not set") != std::string::npos);
  }
}

TEST_CASE(
    "whoever has no right on a buffer learns neither that it is there, nor whose, nor its size") {
  REQUIRE_ROOT();
  Users users;
  // The same words about "a", which is there, and "z", which is not.
  const auto same = [&](const Node& node, const std::vector<std::string>& words) {
    std::vector<std::string> other = words;
    for (std::string& word : other) {
      const size_t at = word.find("a@") == std::string::npos ? word.rfind('a') : word.find("a@");
      const bool names_it = word == "a" || word == "east:a" || word.find("a@") != std::string::npos;
      if (names_it) word[at] = 'z';
    }
    const CommandResult there = RunAs(kOther, node, words);
    const CommandResult not_there = RunAs(kOther, node, other);
    INFO(words.front() << " " << words.back() << ": " << there.out);
    CHECK(there.exit_status == 3);
    CHECK(there.exit_status == not_there.exit_status);
    std::string said = not_there.out;
    // Where the name itself is told.
    for (const std::string before : {"\\\"", "./", "buffer create "}) {
      for (size_t at = 0; (at = said.find(before + "z", at)) != std::string::npos;) {
        said[at + before.size()] = 'a';
      }
    }
    CHECK(there.out == said);
  };
  for (const Node* node : {&users.east, &users.west}) {
    const std::string a = node == &users.east ? "a" : "east:a";
    const std::string mine = node == &users.east ? "b" : "c";
    for (const std::string& range : {a, a + "@0+1", a + "@99999999+1"}) {
      same(*node, {"cp", range, mine});
      same(*node, {"cp", mine + "@0+1", range});
      same(*node, {"explain", range, mine});
      same(*node, {"buffer", "sum", range});
    }
    same(*node, {"buffer", "show", a});
  }
  same(users.east, {"buffer", "rm", "a"});
  same(users.east, {"grant", "add", "a", "--to", "1", "--read"});
  same(users.east, {"grant", "ls", "a"});
}

TEST_CASE("the id of a grant from before a restart names no other grant") {
  REQUIRE_ROOT();
  Node east("east");
  OpenTo(east);
  const auto grant = [&] {
    CommandAs(kOwner, east, {"buffer", "create", "a", "--size", "4096", "--memory", "host"});
    return CommandAs(kOwner, east, {"grant", "add", "a", "--to", Me(kOther), "--read"})
        .at("id")
        .get<std::string>();
  };
  const std::string before = grant();
  CHECK(east.Stop() == 0);
  east.Restart();
  const std::string after = grant();
  CHECK(before != after);
  CheckRefused(RunAs(kOwner, east, {"grant", "rm", before}), 3, "NOT_FOUND", "GRANT_NOT_FOUND");
  CHECK(CommandAs(kOwner, east, {"grant", "ls"}).size() == 1);
}

TEST_CASE("who was given a right sees it, here and from another node") {
  REQUIRE_ROOT();
  Users users;
  const std::string here = users.Grant({"a@100+1000", "--to", Me(kOther), "--read"});
  const std::string there = users.Grant({"a@5+10", "--to", Me(kOther) + "@west", "--write"});
  users.Grant({"a", "--to", "4711", "--read"});  // somebody else's
  const auto ids = [](const Json& grants) {
    std::vector<std::string> all;
    for (const Json& grant : grants) all.push_back(grant.at("id"));
    return all;
  };
  // Both nodes are on loopback, and so of one domain of uids.
  const std::vector<std::string> both = {here, there};
  CHECK(ids(CommandAs(kOther, users.east, {"grant", "ls"})) == both);
  const Json seen = CommandAs(kOther, users.west, {"grant", "ls", "--node", "east"});
  REQUIRE(ids(seen) == both);
  CHECK(seen[0].at("buffer") == "a");
  CHECK(seen[0].at("node") == "east");
  CHECK(seen[0].at("owner") == Me(kOwner) + "@east");
  CHECK(seen[0].at("offset_bytes") == 100);
  CHECK(CommandAs(kOther, users.west, {"grant", "ls"}).empty());
  CHECK(CommandAs(kOwner, users.east, {"grant", "ls"}).size() == 3);
  // To see a right is not to own it.
  CHECK(RunAs(kOther, users.east, {"grant", "rm", here}).exit_status == 3);
  CheckNotOwner(RunAs(kOther, users.east, {"grant", "ls", "a"}));
}

TEST_CASE("a grant to somebody on a node that nobody knows is made with a warning") {
  REQUIRE_ROOT();
  Users users;
  const CommandResult nowhere =
      RunAs(kOwner, users.east, {"grant", "add", "a", "--to", "1000@nowhere", "--read"});
  CHECK(nowhere.exit_status == 0);
  CHECK(nowhere.err.find("warning") != std::string::npos);
  CHECK(nowhere.err.find("nowhere") != std::string::npos);
  const CommandResult known =
      RunAs(kOwner, users.east, {"grant", "add", "a", "--to", "1000@west", "--read"});
  CHECK(known.exit_status == 0);
  CHECK(known.err.empty());
}

TEST_CASE("a buffer that is missing on another node is to be made there") {
  const Pair pair;
  pair.east.Do({"buffer", "create", "a", "--size", "10"});
  const CommandResult missing = pair.east.Run({"cp", "a", "west:b"});
  CheckRefused(missing, 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  const std::string remedy = missing.json.at("error").at("remedy");
  INFO(remedy);
  CHECK(remedy.find("on node west") != std::string::npos);
  CHECK(remedy.find("buffer create b") != std::string::npos);
  CHECK(remedy.find("buffer ls west") != std::string::npos);
}
}  // namespace grants_test
