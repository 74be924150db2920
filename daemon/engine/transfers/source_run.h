// The source's half of a transfer between nodes: opens the range to reading, or stages it through
// slots, and closes it again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/exported_range.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/sharing/memory_exporter.h"
#include "daemon/engine/staging/checksum.h"
#include "daemon/engine/staging/registrations.h"
#include "daemon/engine/staging/slots.h"
#include "daemon/engine/transfers/staged_source.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/pipeline/channel.h"

namespace onecopy::engine {

// For a destination whose source this node's next process will have.
Status ReturnsLater(const std::string& node);

// Engine thread. It ends when the destination says Finish, or when this side has to close the range
// first; what became of the transfer is the destination's to say, and the mirrors' to learn.
// Prepare is answered at once; what takes time comes after that, and its outcome over the channel.
class SourceRun final : public Run, public std::enable_shared_from_this<SourceRun> {
 public:
  struct Needs {
    Context& context;
    Peers& peers;
    Transfers& transfers;
    Buffers& buffers;
    Registrations& registrations;
    Slots& slots;
    Checksums& checksums;
    MemoryExporter& exporter;
  };

  // The buffer has been found; the connection is the caller's, and there is none for a caller that
  // has borrowed the buffer's memory.
  SourceRun(const Needs& needs, TransferId id, std::string destination, const Ticket& ticket,
            RegionRef region, Connections::Serving serving);

  PrepareReply Prepare(const PrepareRequest& request);
  // Closes the range, then answers.
  void Finish(const FinishRequest& request, Reply<FinishReply> reply);

  void Cancel(const Status& why) override;
  void Leave(const Status& why) override;
  // The connection is gone, and with it whatever the reader has not read; what it makes of that is
  // its own to say.
  void LoseConnection(const Status& why) { Close(why); }
  uint64_t connection_number() const { return connection_number_; }
  void Tick() override;
  const std::string& destination() const { return destination_; }
  const Ticket& ticket() const { return ticket_; }
  // Why the buffer has gone, also if something else ended this run: for the next attempt.
  void NoteLost(const Status& why) { ticket_.lost = why; }
  // Whether this is the destination, with the ticket that this run rests on, and has not said that
  // it has everything: it may then have what it began prepared again; memory that it was lent, once
  // it has said that it will not use it.
  bool MayBeginAgain(const std::string& caller, const std::string& ticket) const {
    return caller == destination_ && ticket == ticket_text_ && (!lent_ || finish_) &&
           !(finish_ && finish_->status.ok() && ticket_.unproven > kMostUnproven);
  }
  // A destination sends three times at the most what arrived wrong, in a few parts each.
  static constexpr uint32_t kMostUnproven = 64;
  const Status& failure() const { return failure_; }  // what went wrong here, first
  ChannelId channel() const { return channel_id_; }   // which tells one attempt from the next
  // Runs `then` once nothing is open any more: at once, where that is so.
  void WhenEnded(Task then);

 private:
  void Stage(const PrepareRequest& request);
  void OpenInPlace(const PrepareRequest& request);
  void Register(const Span& span, const std::vector<std::string>& nics);
  void Export(const Span& span);
  void TellReady(pipeline::ReadyMessage ready);
  // To a reader that hears nothing else, as long as something goes on.
  void TellWaiting();
  // Slots that others wait for, and that the reader does not read.
  void LimitWaiting();
  // Lets everything go, then runs AfterClosed; safe to repeat.
  void Close(const Status& why);
  void CloseRange();
  // Of memory that the destination uses in place: it must let go, unless it says that it has.
  void CloseLoan();
  void OnePartClosed();
  void AfterClosed();
  void AnswerFinish(digest::TreeSum checksum);
  void End();

  const Needs needs_;
  const TransferId id_;
  const std::string destination_;
  Ticket ticket_;
  const Owner payer_;
  const Flow flow_;
  RegionRef region_;
  const std::shared_ptr<Slots> slots_;  // where it is staged
  const std::string link_;
  const std::shared_ptr<Connection> connection_;
  std::string ticket_text_;
  ChannelId channel_id_ = 0;
  uint64_t connection_number_ = 0;

  std::unique_ptr<pipeline::Channel> channel_;
  const bool lent_;                       // instead of read over a connection
  std::shared_ptr<ExportedRange> range_;  // where it is read in place
  std::shared_ptr<StagedSource> stage_;
  std::vector<ExecutedStep> steps_;

  os::Clock::time_point prepared_ = os::Clock::now();
  os::Clock::time_point told_;  // that it waits
  uint64_t given_ = 0;          // slots, to anybody, when that was told

  uint64_t begun_ = 0;   // runs of this node when this one began
  bool shared_ = false;  // others ran then

  bool closing_ = false;
  bool closed_ = false;
  bool over_ = false;  // closed, and Finish answered if it came
  std::vector<Task> when_over_;
  int parts_open_ = 0;  // while closing
  Status failure_;      // what went wrong here
  std::optional<FinishRequest> finish_;
  Reply<FinishReply> finish_reply_;
  Checksums::StopFlag stop_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace onecopy::engine
