// The destination's side of a transfer of several buffers: begins its parts, a few at a time, and
// puts together what they did.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/transfers/destinations.h"
#include "daemon/engine/transfers/reporter.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. The first part that fails ends the others, and is how the whole has failed. It
// ends when none is under way.
class BundleRun final : public Run, public std::enable_shared_from_this<BundleRun> {
 public:
  struct Needs {
    Context& context;
    Buffers& buffers;
    Arrivals& arrivals;
    Transfers& transfers;
    Destinations& destinations;
  };
  // In one buffer, of all parts together.
  struct Arriving {
    BufferId buffer;
    ByteRange range;
    uint64_t bytes = 0;
    std::string message = {};
    Arrivals::Room room = {};
  };
  struct Params {
    TransferId id;
    std::string caller;
    std::vector<StartRequest> parts;  // that could begin when all were checked
    std::vector<BufferId> buffers;    // of this node; held until the end
    std::vector<Arriving> arriving;   // in the order in which they are told
    uint64_t asked_ranges = 0;
    bool checksum = false;
  };

  BundleRun(const Needs& needs, Params params, std::shared_ptr<Reporter> reporter);

  void Start();
  void OnPartFinal(const TransferRecord& part);

  void Cancel(const Status& why) override;
  void Tick() override;

 private:
  // Begins what may begin; ends the whole where there is nothing more to wait for.
  void GoOn();
  void BeginPart(size_t number);
  void End();
  // As DestinationRun::TellArrival, of each buffer.
  void TellArrivals();
  // Of all parts, in their order.
  ChecksumResult WholeChecksum() const;
  TransferRecord& record();

  const Needs needs_;
  Params params_;
  const std::shared_ptr<Reporter> reporter_;
  const os::Clock::time_point accepted_ = os::Clock::now();
  os::Clock::time_point first_byte_;  // of the first part that has ended; before that, unset
  size_t next_ = 0;                   // part to begin
  std::map<TransferId, size_t> under_way_;
  uint64_t bytes_ = 0;  // of the parts that have succeeded
  Receipt receipt_;     // likewise
  uint64_t merged_ranges_ = 0;
  std::vector<std::string> sums_;  // of each part
  bool verified_ = true;
  Status outcome_;
  bool ended_ = false;
};

}  // namespace onecopy::engine
