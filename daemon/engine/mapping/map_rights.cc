#include "daemon/engine/mapping/map_rights.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

Status Refused(std::string_view reason, const Buffer& buffer, const std::string& why,
               std::string remedy) {
  return {Code::kFailedPrecondition, reason,
          "buffer \"" + buffer.name + "\" cannot be mapped: " + why, std::move(remedy)};
}

}  // namespace

Result<std::vector<GrantId>> RightToMap(const Grants& grants, const Principal& who,
                                        const Buffer& buffer) {
  std::vector<GrantId> rests_on;
  for (const Access access : {Access::kRead, Access::kWrite}) {
    const Result<std::optional<GrantId>> right =
        grants.Check(who, buffer, {0, buffer.bytes}, access);
    if (!right.ok()) {
      const Status& why = right.status();
      return Status(why.code(), why.reason(),
                    why.message() +
                        "; a mapping needs the right to read and to write the whole buffer, "
                        "because it cannot be limited to less",
                    why.remedy());
    }
    if (*right) rests_on.push_back(**right);
  }
  return rests_on;
}

Status CheckMayHave(const ImportRequest& memory, const Buffer& buffer, const ClientIdentity& client,
                    const ClientIdentity* registrant, bool owns) {
  if (!owns && buffer.view_of && buffer.bytes < buffer.region->bytes()) {
    return Refused(
        reasons::kNotShareable, buffer,
        "only its owner " + buffer.owner.ToString() +
            " may map it: it is a view of a larger buffer, and a mapping cannot be limited to a "
            "part",
        "transfer it into a buffer of yours, or ask its owner for access to the whole buffer");
  }
  if (!owns && !memory.owner_only.empty()) {
    return Refused(
        reasons::kNotShareable, buffer,
        "only its owner " + buffer.owner.ToString() + " may map it: " + memory.owner_only,
        "transfer it into a buffer of yours, or ask its owner to register this part as memory of "
        "its own");
  }
  if (memory.form != "cuda-ipc") return OkStatus();
  if (!client.same_pid_namespace || !memory.same_pid_namespace) {
    return Refused(reasons::kPidNamespace, buffer,
                   "memory of cudaMalloc cannot be shared across PID namespaces, and you run in "
                   "another one than the daemon",
                   "run the container in the host's PID namespace, or use memory of cuMemCreate, "
                   "which the daemon allocates by default ([cuda] allocation)");
  }
  if (registrant != nullptr && registrant->pid == client.pid) {
    return Refused(reasons::kNotShareable, buffer,
                   "it is this process's own memory of cudaMalloc, and the driver cannot open its "
                   "handle in the same process",
                   "use the pointer that was registered");
  }
  return OkStatus();
}

}  // namespace onecopy::engine
