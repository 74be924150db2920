// Whose namespaces a process can show, and whose it cannot.
#include "transport/os/machine/shown_namespaces.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"

namespace shown_namespaces_test {
using namespace onecopy;
using onecopy::testing::Process;
using onecopy::testing::WaitUntil;

namespace {

os::UniqueFd Open(const std::string& path) {
  return os::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

// Somebody in other namespaces, of whom a process without rights sees nothing but that.
class Hidden {
 public:
  explicit Hidden(std::vector<std::string> which)
      : process_({.program = "/usr/bin/unshare", .arguments = With(std::move(which))}) {
    WaitUntil("there are other namespaces", [this] {
      std::ifstream children("/proc/" + std::to_string(process_.pid()) + "/task/" +
                             std::to_string(process_.pid()) + "/children");
      return static_cast<bool>(children >> pid_) && os::LookAtNamespaces(pid_, {}).pid.number &&
             !os::LookAtNamespaces(pid_, {}).pid.own;
    });
    seen_ = os::LookAtNamespaces(pid_, {});
  }

  // By itself: a child that has not told the kernel yet to end with its parent would not.
  ~Hidden() {
    ::kill(pid_, SIGKILL);
    process_.Wait();
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

  int pid() const { return pid_; }
  os::UniqueFd Show(const std::string& kind) const {
    return Open("/proc/" + std::to_string(pid_) + "/ns/" + kind);
  }
  // What a process without rights sees of it.
  os::ProcessNamespaces Seen() const {
    os::ProcessNamespaces seen;
    seen.user.own = seen_.user.own;
    return seen;
  }
  const os::ProcessNamespaces& all() const { return seen_; }

 private:
  static std::vector<std::string> With(std::vector<std::string> which) {
    for (const char* word : {"--pid", "--fork", "--kill-child", "sleep", "infinity"}) {
      which.emplace_back(word);
    }
    return which;
  }

  Process process_;
  int pid_ = 0;
  os::ProcessNamespaces seen_;
};

Status Wrong(const Hidden& who, const os::UniqueFd& user, const os::UniqueFd& pid) {
  return os::WithShown(who.Seen(), who.pid(), user.get(), pid.get()).status();
}

void CheckBad(const Status& status) {
  INFO(status.ToString());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reasons::kBadHandle);
}

}  // namespace

TEST_CASE("a process shows the namespaces that it is in") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can make a PID namespace of the same users");
  for (const std::vector<std::string>& which :
       {std::vector<std::string>{}, std::vector<std::string>{"--user", "--map-root-user"}}) {
    const Hidden one(which);
    const auto shown =
        os::WithShown(one.Seen(), one.pid(), one.Show("user").get(), one.Show("pid").get());
    REQUIRE_OK(shown);
    CHECK(shown->pid.number == one.all().pid.number);
    CHECK(shown->user.own == one.all().user.own);
    if (!shown->user.own) CHECK(shown->user.number == one.all().user.number);
  }
}

TEST_CASE("what a process shows of others, or of no namespace at all, is refused") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can make a PID namespace of the same users");
  const Hidden one({});
  const Hidden other({});
  const Hidden users({"--user", "--map-root-user"});
  const os::UniqueFd user = one.Show("user");
  CheckBad(Wrong(one, user, other.Show("pid")));  // it is not in there
  CheckBad(Wrong(one, user, users.Show("pid")));  // which is of another user namespace, too
  CheckBad(Wrong(one, user, Open("/proc/self/ns/pid")));
  CheckBad(Wrong(users, Open("/proc/self/ns/user"), users.Show("pid")));
  CheckBad(Wrong(one, one.Show("pid"), user));
  CheckBad(Wrong(one, user, Open("/proc/self/ns/net")));
  const os::UniqueFd memory(::memfd_create("user:[1]", MFD_CLOEXEC));
  CheckBad(Wrong(one, user, memory));
  CheckBad(Wrong(one, user, os::UniqueFd()));
  CHECK(os::WithShown(one.Seen(), one.pid(), user.get(), one.Show("pid").get()).ok());
}
}  // namespace shown_namespaces_test
