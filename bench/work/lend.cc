#include "bench/work/lend.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "bench/work/gpus.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::milliseconds kAskEvery{50};
constexpr size_t kMaxGpus = 2;

class Lent {
 public:
  explicit Lent(Client& client) : client_(client) {}
  ~Lent() {
    // Where the daemon has gone, the buffers have too.
    for (const std::string& name : names_) static_cast<void>(client_.DeleteBuffer(name, true));
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  Status Add(const std::string& name, const std::string& memory, const LendOptions& options) {
    ONECOPY_RETURN_IF_ERROR(
        client_.CreateBuffer({.name = name, .bytes = options.bytes, .memory = memory}).status());
    names_.push_back(name);
    if (options.to.empty()) return OkStatus();
    // By assignments: gcc 12 takes parts of a value that is initialised in place for uninitialised.
    CreateGrantRequest grant;
    grant.range.buffer = name;
    grant.to = options.to;
    grant.read = grant.write = true;
    return client_.CreateGrant(grant).status();
  }

 private:
  Client& client_;
  std::vector<std::string> names_;
};

}  // namespace

Status Lend(const LendOptions& options, std::ostream& out) {
  Node node;
  node.run_dir = options.run_dir;
  ONECOPY_ASSIGN_OR_RETURN(Client client, node.Connect());
  node.run_dir = client.run_dir();
  Lent lent(client);
  const std::string prefix = kLentPrefix;
  ONECOPY_RETURN_IF_ERROR(lent.Add(prefix + "host", "host", options));
  out << "lent " << prefix << "host: " << FormatBytes(options.bytes) << " of host memory\n";
  const auto gpus = UsableGpus(node);
  for (size_t i = 0; gpus.ok() && i < std::min(gpus->size(), kMaxGpus); ++i) {
    const std::string name = prefix + "gpu" + std::to_string(i);
    ONECOPY_RETURN_IF_ERROR(lent.Add(name, (*gpus)[i].device, options));
    out << "lent " << name << ": " << FormatBytes(options.bytes) << " of " << (*gpus)[i].device
        << '\n';
  }
  if (!gpus.ok()) out << "no GPU memory: " << gpus.status().message() << '\n';
  out << "until Ctrl-C; on the other node: onecopy-bench run --peer " << client.node() << std::endl;
  while (!options.stopped()) {
    std::this_thread::sleep_for(kAskEvery);
    // A daemon that has gone needs no buffers removed.
    ONECOPY_RETURN_IF_ERROR(client.GetBuffer({}, prefix + "host").status());
  }
  return OkStatus();
}

}  // namespace onecopy::bench
