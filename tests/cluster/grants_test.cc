// What other users may do, with and without a grant.
#include <grp.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace {

using namespace onecopy::testing;

constexpr uid_t kOwner = 65533;  // neither is root, nor whom the daemons run as
constexpr uid_t kOther = 65534;

#define REQUIRE_ROOT() \
  if (::geteuid() != 0) ONECOPY_SKIP("only root can act as two other users")

// A node whose sockets other users can reach: its run directory's parents are open.
void OpenTo(Node& node) {
  std::filesystem::permissions(node.folder().path(), std::filesystem::perms(0755));
}

// onecopy --json ARGUMENTS, as that user.
CommandResult RunAs(uid_t uid, const Node& node, std::vector<std::string> arguments,
                    const std::string& input = {}) {
  arguments.insert(arguments.begin(), {"--run-dir", node.run_dir(), "--json"});
  return RunCommand("onecopy", arguments, input, [uid] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(126);
  });
}

Json CommandAs(uid_t uid, const Node& node, const std::vector<std::string>& arguments,
               const std::string& input = {}) {
  const CommandResult result = RunAs(uid, node, arguments, input);
  if (result.exit_status != 0) throw std::runtime_error(result.out + result.err);
  return result.json;
}

void CheckNotOwner(const CommandResult& result) {
  CheckRefused(result, 4, "PERMISSION_DENIED", "NOT_OWNER");
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
  CheckNotOwner(RunAs(kOther, users.east, {"cp", "a", "b"}));
  CheckNotOwner(RunAs(kOther, users.east, {"cp", "b", "a"}));
  CheckNotOwner(RunAs(kOther, users.east, {"cp", "a", "west:c"}));
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "east:a", "c"}));
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "c", "east:a"}));
  CheckNotOwner(RunAs(kOther, users.west, {"explain", "east:a", "c"}));
  CheckNotOwner(RunAs(kOther, users.east, {"buffer", "sum", "a"}));
  CheckNotOwner(RunAs(kOther, users.west, {"buffer", "sum", "east:a"}));
  CheckNotOwner(RunAs(kOther, users.east, {"buffer", "rm", "a"}));
  CheckNotOwner(RunAs(kOther, users.east, {"buffer", "rm", "a", "--force"}));
  CheckNotOwner(RunAs(kOther, users.east, {"buffer", "show", "a"}));
  CheckNotOwner(RunAs(kOther, users.west, {"buffer", "show", "east:a"}));
  CheckNotOwner(RunAs(kOther, users.east, {"grant", "add", "a", "--to", Me(kOther), "--read"}));
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

TEST_CASE("a transfer is its orderer's, and no one else's to see or cancel") {
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
  CheckNotOwner(RunAs(kOther, users.east, {"cp", "a@100+1000", "b@1"}));
  CheckNotOwner(RunAs(kOther, users.west, {"cp", "east:a@100+1000", "c"}));
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
