// GPU memory of programs in namespaces of their own, as containers make them: docs/kubernetes.md
// has a table of this.
#include <unistd.h>

#include "tests/gpu/users.h"

namespace onecopy::testing::namespaces_test {
namespace {

constexpr uint64_t kBytes = 20'000'003;

// cuda_user, begun in namespaces of these kinds (options of unshare).
std::unique_ptr<Process> StartUserIn(const std::vector<std::string>& namespaces, const Node& node,
                                     const std::string& name, const std::string& kind) {
  std::vector<std::string> arguments = namespaces;
  for (const std::string& word :
       {std::string("--"), (ProgramFolder() / "support/cuda_user").string(), node.run_dir(), name,
        kind, std::string("0"), std::to_string(kBytes), std::string("0"), std::string("7")}) {
    arguments.push_back(word);
  }
  auto user = std::make_unique<Process>(
      ProcessOptions{.program = "/usr/bin/unshare", .arguments = arguments, .input_file = ""});
  const std::string said = user->ReadLine();
  if (said != "registered\n") throw std::runtime_error("cuda_user: " + said);
  return user;
}

}  // namespace

TEST_CASE("which namespaces GPU memory of a client shares with the daemon decides its path") {
  ONECOPY_NEEDS_GPUS(1);
  if (::geteuid() != 0) ONECOPY_SKIP("only root can make namespaces");
  Node east("east");
  Create(east, "h", "host", kBytes);
  const std::vector<std::string> shared_pids = {"--mount", "--uts", "--ipc", "--net", "--cgroup"};
  std::vector<std::string> own_pids = shared_pids;
  for (const char* word : {"--pid", "--fork", "--kill-child", "--mount-proc"}) {
    own_pids.emplace_back(word);
  }
  int number = 0;
  for (const std::string kind : {"vmm", "malloc", "async", "managed", "unshared"}) {
    for (const bool shares : {true, false}) {
      const std::string name = kind + std::to_string(number++);
      CAPTURE(kind, shares);
      const auto user = StartUserIn(shares ? shared_pids : own_pids, east, name, kind);
      const bool in_place = kind == "vmm" || (kind == "malloc" && shares);
      const std::string path = in_place ? "local" : "peer-bounce";
      CheckPath(east.Do({"cp", name, "h", "--checksum"}), path, in_place ? 1 : 2);
      CheckPath(east.Do({"cp", "h", name, "--checksum"}), path, in_place ? 1 : 2);
      CHECK(Check(*user, 7) == "right\n");
    }
  }
}

}  // namespace onecopy::testing::namespaces_test
