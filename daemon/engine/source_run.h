// The source's half of a transfer between nodes: opens the range to reading, or stages it through
// slots, and closes it again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/checksum.h"
#include "daemon/engine/connections.h"
#include "daemon/engine/parts.h"
#include "daemon/engine/peer_api.h"
#include "daemon/engine/run.h"
#include "daemon/engine/tickets.h"
#include "daemon/pipeline/chain.h"
#include "daemon/pipeline/channel.h"

namespace onecopy::engine {

// Engine thread. It ends when the destination says Finish, or when this side has to close the range
// first; what became of the transfer is the destination's to say, and the mirrors' to learn.
class SourceRun final : public Run, public std::enable_shared_from_this<SourceRun> {
 public:
  // The buffer has been found; the connection is the caller's, and there is none for a caller that
  // has borrowed the buffer's memory.
  SourceRun(Parts& parts, TransferId id, std::string destination, const Ticket& ticket,
            RegionRef region, Connections::Serving serving);

  void Prepare(const PrepareRequest& request, Reply<PrepareReply> reply);
  // Closes the range, then answers.
  void Finish(const FinishRequest& request, Reply<FinishReply> reply);

  void Cancel(const Status& why) override;
  void Tick() override;
  bool Needs(const std::string& node) const override { return node == destination_; }
  const std::string& destination() const { return destination_; }

 private:
  void Stage(pipeline::SlotLease lease);
  void Open(const Span& span, uint64_t slot_bytes, std::vector<ExecutedStep> steps);
  void Expose(const Span& span, uint64_t slot_bytes, std::vector<ExecutedStep> steps);
  void StartChain(std::shared_ptr<CopyRoute> route);
  // Lets everything go, then runs AfterClosed; safe to repeat.
  void Close(const Status& why);
  void CloseKey();
  // Of memory that the destination uses in place: it must let go, unless it says that it has.
  void CloseLoan();
  void OnePartClosed();
  void AfterClosed();
  void AnswerFinish(const std::string& checksum);
  void End();

  Parts& parts_;
  const TransferId id_;
  const std::string destination_;
  const Ticket ticket_;
  RegionRef region_;
  const std::string link_;
  const std::shared_ptr<Connection> connection_;
  Reply<PrepareReply> prepare_reply_;
  uint64_t chunk_bytes_ = 0;

  std::unique_ptr<pipeline::Channel> channel_;
  std::optional<pipeline::SlotLease> lease_;
  const bool lent_;  // instead of read over a connection
  bool exposing_ = false;
  std::optional<RemoteKey> key_;
  std::shared_ptr<pipeline::Chain> chain_;
  bool chain_running_ = false;
  std::vector<ExecutedStep> steps_;  // of the chain
  std::vector<ExecutedStep> sent_;   // of the connection, as far as this end knows better

  bool closing_ = false;
  bool closed_ = false;
  int parts_open_ = 0;  // while closing
  Status failure_;      // what went wrong here
  std::optional<FinishRequest> finish_;
  Reply<FinishReply> finish_reply_;
  Checksums::StopFlag stop_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace onecopy::engine
