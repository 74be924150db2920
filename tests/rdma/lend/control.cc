#include "tests/rdma/lend/control.h"

#include <unistd.h>

#include <cstdlib>

namespace onecopy::lend {
namespace {

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

const std::string& ControlFolder() {
  static const std::string folder = [] {
    const char* const value = std::getenv("ONECOPY_TEST_VERBS");
    return std::string(value == nullptr ? "" : value);
  }();
  return folder;
}

std::string MemoryBehind(uint64_t dmabuf_inode) {
  if (ControlFolder().empty()) return {};
  std::string path = ControlFolder() + "/dmabufs/" + std::to_string(dmabuf_inode);
  return Exists(path) ? path : std::string();
}

bool Removed(const std::string& device) {
  return !ControlFolder().empty() && Exists(RemovedFolder() + "/" + device);
}

bool NoQueuePairs() {
  return !ControlFolder().empty() && Exists(ControlFolder() + "/no-queue-pairs");
}

bool NoWindows() { return !ControlFolder().empty() && Exists(ControlFolder() + "/no-windows"); }

std::string RemovedFolder() { return ControlFolder() + "/removed"; }

}  // namespace onecopy::lend
