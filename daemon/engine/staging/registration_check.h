// Whether a network device and the mapping of a client's buffer name the same memory: a client
// passes a descriptor beside its handle, and nothing but reading tells whose bytes it names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/exported_range.h"

namespace onecopy::engine {

// Engine thread. Reads the first and the last page through each device, in loopback, and through
// the mapping. Keeps itself alive until `done`.
class RegistrationCheck final : public std::enable_shared_from_this<RegistrationCheck> {
 public:
  // The region is registered with the link's devices `nics`.
  struct Params {
    std::string link;
    RegionRef region;
    std::string buffer;  // its name, for people
    std::vector<std::string> nics;
    Owner payer;  // on whose account it is looked at
  };

  RegistrationCheck(Context& context, Connections& connections, Params params)
      : context_(context), connections_(connections), params_(std::move(params)) {}

  // FAILED_PRECONDITION, with BAD_HANDLE where the two differ, and with the reason where they could
  // not be compared.
  void Start(StatusReply done);

 private:
  struct Look {
    int lane = GetRequest::kAnyLane;
    std::string nic;
    uint64_t offset = 0;
  };

  void PlanLooks();
  void MakeScratch();
  void Export();
  void BeginLook();
  void Get(std::vector<std::byte> before);
  void Compare(std::vector<std::byte> before);
  void EndLook(bool same);
  void End(const Status& status);
  Status CannotCompare(const Status& why) const;

  Context& context_;
  Connections& connections_;
  const Params params_;
  StatusReply done_;
  std::optional<Connections::Use> use_;
  std::shared_ptr<Connection> serving_;
  RegionRef scratch_;
  std::shared_ptr<ExportedRange> range_;
  RemoteKey key_;
  ChannelId channel_ = 0;
  uint64_t page_ = 0;
  std::vector<Look> looks_;
  size_t next_look_ = 0;
  int tries_ = 0;
};

}  // namespace onecopy::engine
