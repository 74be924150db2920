// Users of containers: their uids are others' than the host's, whatever their numbers.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <stdexcept>

#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/node.h"
#include "tests/support/sanitized.h"

namespace namespaces_test {
namespace {

using namespace onecopy::testing;

constexpr uid_t kUser = 65533;
constexpr uid_t kDaemon = 65532;

constexpr const char* kWhyRoot = "only root can make a PID namespace of the same users";

void Become(uid_t uid) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(126);
}

std::vector<std::string> CommandOf(const Node& node, const std::vector<std::string>& arguments) {
  std::vector<std::string> all;
  // LeakSanitizer looks for its own threads in a /proc that shows another namespace's.
  if (kAddressSanitizer) all = {"/usr/bin/env", "LSAN_OPTIONS=detect_leaks=0"};
  for (const std::string& word : {(ProgramFolder() / "onecopy").string(), std::string("--run-dir"),
                                  node.run_dir(), std::string("--json")}) {
    all.push_back(word);
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

// A PID namespace with something in it: all that of a container which concerns us.
class Container {
 public:
  Container()
      : process_({.program = "/usr/bin/unshare",
                  .arguments = {"--pid", "--fork", "--kill-child", "sleep", "infinity"}}) {
    WaitUntil("there is another namespace", [this] {
      std::error_code error;
      const auto inside = std::filesystem::read_symlink(Link(), error);
      return !error && inside != std::filesystem::read_symlink("/proc/self/ns/pid");
    });
  }
  // "pid4026532567", as an owner's name has it.
  std::string name() const {
    const std::string target = std::filesystem::read_symlink(Link());
    return "pid" + target.substr(5, target.size() - 6);
  }
  // onecopy --json ARGUMENTS as root in there.
  CommandResult Run(const Node& node, const std::vector<std::string>& arguments,
                    const std::string& input = {}) const {
    std::vector<std::string> all = {"--pid=" + Link(), "--"};
    for (const std::string& word : CommandOf(node, arguments)) all.push_back(word);
    return RunCommand("/usr/bin/nsenter", all, input);
  }
  Json Do(const Node& node, const std::vector<std::string>& arguments,
          const std::string& input = {}) const {
    const CommandResult result = Run(node, arguments, input);
    if (result.exit_status != 0) throw std::runtime_error(result.out + result.err);
    return result.json;
  }

 private:
  std::string Link() const {
    return "/proc/" + std::to_string(process_.pid()) + "/ns/pid_for_children";
  }
  Process process_;
};

std::string OwnerOf(const Node& node, const std::string& buffer) {
  return node.Do({"buffer", "show", buffer}).at("owner");
}

void CheckNotOwner(const CommandResult& result) {
  CheckRefused(result, 4, "PERMISSION_DENIED", "NOT_OWNER");
}

// To one who has no right on it, a buffer is not there.
void CheckUnknown(const CommandResult& result) {
  CheckRefused(result, 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
}

const std::string kPayload = Payload(10'000);

}  // namespace

TEST_CASE("a container's root is neither the host's root nor another container's") {
  if (::geteuid() != 0) ONECOPY_SKIP(kWhyRoot);
  Node east("east");
  const Container red;
  const Container blue;
  for (const auto& [container, name] :
       {std::pair<const Container*, std::string>{&red, "red"}, {&blue, "blue"}}) {
    container->Do(east, {"buffer", "create", name, "--size", "10000", "--memory", "host"});
    container->Do(east, {"cp", "-", name}, kPayload);
  }
  east.Do({"buffer", "create", "hosts", "--size", "10000", "--memory", "host"});
  CHECK(OwnerOf(east, "hosts") == "0@east");
  CHECK(OwnerOf(east, "red") == "0+" + red.name() + "@east");
  CHECK(OwnerOf(east, "blue") == "0+" + blue.name() + "@east");

  CheckUnknown(blue.Run(east, {"buffer", "sum", "red"}));
  CheckUnknown(blue.Run(east, {"cp", "red", "blue"}));
  CheckUnknown(blue.Run(east, {"cp", "blue", "red"}));
  CheckUnknown(blue.Run(east, {"cp", "hosts", "blue"}));
  CheckUnknown(blue.Run(east, {"buffer", "rm", "hosts"}));
  CheckUnknown(blue.Run(east, {"buffer", "rm", "red"}));
  CHECK(blue.Do(east, {"buffer", "ls"}).size() == 1);
  CHECK(red.Run(east, {"cp", "red", "-"}).exit_status ==
        0);  // another process of the same container

  // An owner's name, as it is shown, is what a grant takes.
  red.Do(east, {"grant", "add", "red", "--to", OwnerOf(east, "blue"), "--read"});
  blue.Do(east, {"cp", "red", "blue"});
  CheckNotOwner(blue.Run(east, {"cp", "blue", "red"}));
  // The host's root is an administrator.
  CHECK(east.Do({"buffer", "ls"}).size() == 3);
  east.Do({"buffer", "rm", "red"});
}

TEST_CASE("what an administrator may, a container's root may not") {
  if (::geteuid() != 0) ONECOPY_SKIP(kWhyRoot);
  Node east("east");
  const Container red;
  CheckNotOwner(red.Run(east, {"node", "log-level", "debug"}));
  CheckNotOwner(red.Run(east, {"node", "release", "cuda:0"}));
}

TEST_CASE("a user's own user namespace makes another owner of that user") {
  if (::geteuid() != 0) ONECOPY_SKIP(kWhyRoot);
  Node east("east");
  std::filesystem::permissions(east.folder().path(), std::filesystem::perms(0755));
  const auto run = [&](std::vector<std::string> before, const std::vector<std::string>& arguments) {
    for (const std::string& word : CommandOf(east, arguments)) before.push_back(word);
    const std::string program = before.front();
    before.erase(before.begin());
    return RunCommand(program, before, {}, [] { Become(kUser); });
  };
  const CommandResult inside =
      run({"/usr/bin/unshare", "--user", "--map-root-user", "--"},
          {"buffer", "create", "mine", "--size", "100", "--memory", "host"});
  if (inside.err.find("unshare") != std::string::npos)
    ONECOPY_SKIP("this machine lets users make no user namespaces");
  REQUIRE(inside.exit_status == 0);
  CHECK(std::regex_match(OwnerOf(east, "mine"), std::regex("65533\\+user[0-9]+@east")));
  CheckUnknown(run({"/usr/bin/env"}, {"buffer", "sum", "mine"}));
}

TEST_CASE("a daemon without any rights knows containers by what their clients show of themselves") {
  if (::geteuid() != 0) ONECOPY_SKIP(kWhyRoot);
  // Its own folder, in one that nobody else can write to, as service managers make it.
  TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  const std::string run_dir = folder / "run";
  REQUIRE(::mkdir(run_dir.c_str(), 0755) == 0);
  REQUIRE(::chown(run_dir.c_str(), kDaemon, kDaemon) == 0);
  NodeOptions options;
  options.run_dir = run_dir;
  options.in_child = [] { Become(kDaemon); };
  Node east("east", options);
  const Container red;
  east.Do({"buffer", "create", "hosts", "--size", "10000", "--memory", "host"});
  CHECK(OwnerOf(east, "hosts") == "0@east");
  red.Do(east, {"buffer", "create", "red", "--size", "10000", "--memory", "host"});
  CHECK(OwnerOf(east, "red") == "0+" + red.name() + "@east");
  // All programs of one container are one owner; those of another one of the same control group are
  // not.
  red.Do(east, {"cp", "-", "red"}, kPayload);
  CHECK(red.Do(east, {"buffer", "ls"}).size() == 1);
  const Container blue;
  CheckUnknown(blue.Run(east, {"buffer", "sum", "red"}));
  CHECK(blue.Do(east, {"buffer", "ls"}).empty());
  CheckUnknown(red.Run(east, {"cp", "hosts", "red"}));
  CheckNotOwner(red.Run(east, {"node", "log-level", "debug"}));
  // The daemon's own user, in a container, is not the daemon's.
  const std::vector<std::string> level = CommandOf(east, {"node", "log-level", "debug"});
  CHECK(RunCommand("/usr/bin/env", level, {}, [] { Become(kDaemon); }).exit_status == 0);
}
}  // namespace namespaces_test
