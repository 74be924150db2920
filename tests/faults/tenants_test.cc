// Users of one node that take what they can, and what is written about what they were refused.
#include <grp.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace tenants_test {
namespace {

using namespace onecopy::testing;

constexpr uid_t kMallory = 65533;

CommandResult RunAs(uid_t uid, const Node& node, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--run-dir", node.run_dir(), "--json"});
  return RunCommand("onecopy", arguments, {}, [uid] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(126);
  });
}

// Other users reach its sockets.
void Open(Node& node) {
  std::filesystem::permissions(node.folder().path(), std::filesystem::perms(0755));
}

std::vector<std::string> LinesWith(const std::string& text, const std::string& word) {
  std::istringstream all(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(all, line);) {
    if (line.find(word) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("each refusal leaves one record: who, from where, what, and why") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  Node east("east");
  Open(east);
  const Kept kept(east);
  for (int i = 0; i < 20; ++i) {
    CHECK(RunAs(kMallory, east, {"buffer", "sum", "kept"}).reason() == "BUFFER_NOT_FOUND");
  }
  std::vector<std::string> records;
  WaitUntil("each is written", [&] {
    records = LinesWith(east.Log(), "what=\"use a buffer\"");
    return records.size() >= 20;
  });
  CHECK(records.size() == 20);
  for (const std::string& record : records) {
    INFO(record);
    for (const char* part : {" warning audit ", " who=65533@east ", "from=\"pid ",
                             " on=kept outcome=denied why=\"NOT_OWNER: "}) {
      CHECK(record.find(part) != std::string::npos);
    }
  }
  // A right that is given is written, too; what is merely used is not.
  east.Do({"grant", "add", "kept", "--to", "65533", "--read"});
  CHECK(RunAs(kMallory, east, {"buffer", "sum", "kept"}).exit_status == 0);
  WaitUntil("the grant is written", [&] {
    return !LinesWith(east.Log(), "what=CreateGrant on=\"kept to 65533\" outcome=allowed").empty();
  });
  CHECK(LinesWith(east.Log(), "what=\"use a buffer\"").size() == 20);
  CHECK(LinesWith(east.Log(), "what=SumBuffer").empty());
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("a call without a session, and somebody else's transfer, are written as refused") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  Node east("east", {.config = "[audit]\nlevel = \"all\"\n"});
  Open(east);
  const Kept kept(east);
  east.Do({"buffer", "create", "a", "--size", "4096"});
  const std::string id = east.Do({"cp", "kept", "a"}).at("id");
  CHECK(RunAs(kMallory, east, {"transfer", "show", id}).reason() == "TRANSFER_NOT_FOUND");
  WaitUntil("both are written", [&] {
    return !LinesWith(east.Log(), "what=\"see a transfer\" on=" + id + " outcome=denied").empty();
  });
  CHECK_FALSE(LinesWith(east.Log(), "what=Attach").empty());
  CHECK_FALSE(LinesWith(east.Log(), "what=CreateTransfer").empty());
}

TEST_CASE("what one user may have is limited, by name, and administrators are not locked out") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  Node east("east", {.config = "[limits]\nbuffers_per_user = 2\nbuffers = 6\n"
                               "reserved_percent = 20\ngrants_per_user = 1\n"});
  Open(east);
  const Kept kept(east);
  const auto create = [&](uid_t uid, const std::string& name) {
    return RunAs(uid, east, {"buffer", "create", name, "--size", "4096"});
  };
  CHECK(create(kMallory, "m1").exit_status == 0);
  CHECK(create(kMallory, "m2").exit_status == 0);
  const CommandResult third = create(kMallory, "m3");
  CheckRefused(third, 9, "RESOURCE_EXHAUSTED", "QUOTA");
  CHECK(third.message().find("65533@east has 2 buffers") != std::string::npos);
  CHECK(RemedyOf(third).find("[limits] buffers_per_user, which is 2") != std::string::npos);
  CHECK(create(65532, "o1").exit_status == 0);
  CHECK(create(65532, "o2").exit_status == 0);
  const CommandResult full = create(65531, "p1");
  CheckRefused(full, 9, "RESOURCE_EXHAUSTED", "QUOTA");
  CHECK(RemedyOf(full).find("[limits] buffers, which is 6") != std::string::npos);
  east.Do({"buffer", "create", "root", "--size", "4096"});  // what is reserved
  CHECK(RunAs(kMallory, east, {"grant", "add", "m1", "--to", "1", "--read"}).exit_status == 0);
  const CommandResult grant = RunAs(kMallory, east, {"grant", "add", "m1", "--to", "2", "--read"});
  CheckRefused(grant, 9, "RESOURCE_EXHAUSTED", "QUOTA");
  CHECK(RemedyOf(grant).find("[limits] grants_per_user") != std::string::npos);
  WaitUntil("the refusals are written",
            [&] { return LinesWith(east.Log(), "outcome=denied why=\"QUOTA: ").size() == 3; });
  CHECK(RunAs(kMallory, east, {"buffer", "rm", "m1"}).exit_status == 0);
  CHECK(create(kMallory, "m4").exit_status == 0);
  kept.CheckUnchanged();
}
}  // namespace tenants_test
