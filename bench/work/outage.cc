#include "bench/work/outage.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

extern char** environ;

namespace onecopy::bench {
namespace {

Status Tc(const std::string& verb, const std::string& interface) {
  std::vector<std::string> words = {"tc", "qdisc", verb, "dev", interface, "root", "netem"};
  if (verb == "add") words.insert(words.end(), {"loss", "100%"});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = ::posix_spawnp(&pid, "tc", nullptr, nullptr, pointers.data(), environ)) {
    return os::ErrnoStatus(error, "starting tc");
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kAccessDenied,
          "tc could not " + verb + " netem on " + interface};
}

}  // namespace

Result<std::unique_ptr<Outage>> Outage::Begin(const std::vector<std::string>& interfaces) {
  std::unique_ptr<Outage> outage(new Outage);
  for (const std::string& interface : interfaces) {
    ONECOPY_RETURN_IF_ERROR(Tc("add", interface));
    outage->cut_.push_back(interface);
  }
  return outage;
}

Outage::~Outage() {
  // What fails here shows as a path that does not come back.
  for (const std::string& interface : cut_) static_cast<void>(Tc("del", interface));
}

}  // namespace onecopy::bench
