// Buffers that programs use in place, by real daemons and as different users.
#include <grp.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace mapping_test {
namespace {

using namespace onecopy::testing;

constexpr uint64_t kBytes = 1'000'003;

// The program of mapper.cc, as that user; 0: as the test's own.
class Mapper {
 public:
  Mapper(const Node& node, const std::string& buffer, uid_t uid = 0)
      : process_({.program = (ProgramFolder() / "support" / "mapper").string(),
                  .arguments = {node.run_dir(), buffer},
                  .input_file = "",
                  .in_child =
                      [uid] {
                        if (uid == 0) return;
                        if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 ||
                            ::setuid(uid) != 0) {
                          ::_exit(126);
                        }
                      }}),
        greeting(Read()) {}

  std::string Ask(const std::string& words) {
    process_.Write(words + "\n");
    return Read();
  }
  Process& process() { return process_; }

 private:
  std::string Read() {
    std::string line = process_.ReadLine();
    while (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
  }
  Process process_;

 public:
  const std::string greeting;
};

std::string Ready() { return "ready " + std::to_string(kBytes); }

void Create(const Node& node, const std::string& name) {
  node.Do({"buffer", "create", name, "--size", std::to_string(kBytes), "--memory", "host"});
}

}  // namespace

TEST_CASE("what one process writes into a buffer of the daemon's another one sees, and transfers") {
  Pair pair;
  Create(pair.east, "a");
  Create(pair.west, "b");
  Mapper one(pair.east, "a");
  Mapper other(pair.east, "east:a");
  REQUIRE(one.greeting == Ready());
  REQUIRE(other.greeting == Ready());
  CHECK(other.Ask("get 1000002") == "got 0");
  CHECK(one.Ask("put 1000002 77") == "done");
  CHECK(other.Ask("get 1000002") == "got 77");
  pair.east.Do({"cp", "a", "west:b"});
  CHECK(Contents(pair.west, "b@1000002+1") == "\x4d");
  pair.east.Do({"cp", "-", "a"}, Payload(kBytes, 3));
  CHECK(one.Ask("get 5") ==
        "got " + std::to_string(static_cast<unsigned char>(Payload(kBytes, 3)[5])));
  CHECK(Mapper(pair.east, "west:b").greeting == "refused OTHER_NODE");
  CHECK(Mapper(pair.east, "nothing").greeting == "refused BUFFER_NOT_FOUND");
}

TEST_CASE("another process's memory is used in place, until that process is gone") {
  Node east("east");
  auto owner = std::make_unique<onecopy::Client>(east.Connect());
  auto memory = std::make_unique<onecopy::HostBuffer>(Filled(*owner, "theirs", kBytes, 4));
  Mapper mapper(east, "theirs");
  REQUIRE(mapper.greeting == Ready());
  CHECK(mapper.Ask("get 9") ==
        "got " + std::to_string(static_cast<unsigned char>(Payload(kBytes, 4)[9])));
  CHECK(mapper.Ask("put 9 200") == "done");
  CHECK(memory->data()[9] == std::byte{200});
  memory.reset();
  owner.reset();
  const std::string told = mapper.Ask("await");
  // Its own end deletes it first; a killed process's does not.
  CHECK((told == "invalid BUFFER_NOT_FOUND" || told == "invalid OWNER_DIED"));
  CHECK(mapper.Ask("get 9") == "got 200");  // it does not fault
}

TEST_CASE("a mapper is told that the owner's process was killed") {
  Node east("east");
  TempFolder folder;
  Process owner({.program = (ProgramFolder() / "support" / "registrar").string(),
                 .arguments = {east.run_dir(), "theirs", std::to_string(kBytes)},
                 .input_file = ""});
  REQUIRE(owner.ReadLine() == "ready 0\n");
  Mapper mapper(east, "theirs");
  REQUIRE(mapper.greeting == Ready());
  CHECK(mapper.Ask("get 0") == "got 90");
  CHECK(mapper.Ask("check") == "valid");
  owner.Signal(SIGKILL);
  CHECK(mapper.Ask("await") == "invalid OWNER_DIED");
  CHECK(mapper.Ask("close") == "closed");
}

TEST_CASE("a mapper is told that the daemon was killed, or stops") {
  Node east("east");
  Create(east, "a");
  Mapper mapper(east, "a");
  REQUIRE(mapper.greeting == Ready());
  CHECK(mapper.Ask("put 3 33") == "done");
  SECTION("killed") {
    east.Kill();
    CHECK(mapper.Ask("await") == "invalid DAEMON_UNREACHABLE");
  }
  SECTION("stopped") {
    CHECK(east.Stop() == 0);
    CHECK(mapper.Ask("await") == "invalid DRAINING");
    CHECK(mapper.Ask("check") == "invalid DRAINING");
  }
  const std::string value = mapper.Ask("get 3");
  CHECK((value == "got 33" || value == "got 0"));  // it does not fault
}

TEST_CASE("a mapper that is killed keeps nothing, and nobody from removing the buffer") {
  Node east("east");
  Create(east, "a");
  auto mapper = std::make_unique<Mapper>(east, "a");
  REQUIRE(mapper->greeting == Ready());
  const CommandResult refused = east.Run({"buffer", "rm", "a"});
  CHECK(refused.reason() == "BUFFER_IN_USE");
  CHECK(refused.message().find("mapper") != std::string::npos);
  mapper->process().Signal(SIGKILL);
  mapper->process().Wait();
  WaitUntil("the mapping is gone", [&] {
    return east.Run({"buffer", "rm", "a"}).exit_status == 0;
  });
}

TEST_CASE("another user maps with a grant to read and write, and is told when that ends") {
  REQUIRE_ROOT();
  Node east("east");
  OpenTo(east);
  CommandAs(kOwner, east,
            {"buffer", "create", "a", "--size", std::to_string(kBytes), "--memory", "host"});
  const std::string to = std::to_string(kOther);
  CHECK(Mapper(east, "a", kOther).greeting == "refused BUFFER_NOT_FOUND");
  CommandAs(kOwner, east, {"grant", "add", "a", "--to", to, "--read"});
  CHECK(Mapper(east, "a", kOther).greeting == "refused NOT_OWNER");
  const std::string grant =
      CommandAs(kOwner, east, {"grant", "add", "a", "--to", to, "--read", "--write"}).at("id");
  Mapper owner(east, "a", kOwner);
  Mapper other(east, "a", kOther);
  REQUIRE(other.greeting == Ready());
  CHECK(other.Ask("put 0 1") == "done");
  CHECK(owner.Ask("get 0") == "got 1");
  CommandAs(kOwner, east, {"grant", "rm", grant});  // within its 2 s: nobody lets go
  CHECK(other.Ask("check") == "invalid NOT_OWNER");
  CHECK(owner.Ask("check") == "valid");
  WaitUntil("the log says who has not let go", [&] {
    const std::string log = east.Log();
    return log.find("has not released memory") != std::string::npos &&
           log.find("pid " + std::to_string(other.process().pid())) != std::string::npos;
  });
  CHECK(other.Ask("close") == "closed");
  CommandAs(kOwner, east, {"buffer", "rm", "a", "--force"});
  CHECK(owner.Ask("check") == "invalid BUFFER_NOT_FOUND");
}
}  // namespace mapping_test
