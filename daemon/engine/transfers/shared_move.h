// A move from another daemon of this host, whose memory this one uses in place: borrows it, copies,
// and has the source finish.
#pragma once

#include <memory>
#include <optional>

#include "daemon/engine/base/move.h"
#include "daemon/engine/sharing/memory_importer.h"
#include "daemon/engine/transfers/remote_move.h"
#include "daemon/engine/transfers/remote_source.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/pipeline/places.h"

namespace onecopy::engine {

class SharedMove final : public Move, public std::enable_shared_from_this<SharedMove> {
 public:
  // `destination` has the payload's length.
  SharedMove(Context& context, Peers& peers, MemoryImporter& importer, const Series& series,
             RemoteMove::Params params, Area destination);

  void Start(Task running, Done done) override;
  void Stop(const Status& why) override;
  uint64_t bytes_done() const override { return chain_ == nullptr ? moved_ : chain_->bytes_done(); }
  uint64_t life() const override {
    // The source may read all of its range for its checksum; how long that may take is the call's.
    const auto passed =
        finishing_ && params_.checksum ? os::Clock::now() - started_ : os::Clock::duration(0);
    return bytes_done() + LifeOfWaiting(params_.flow) + LifeOfHeld(chain_) +
           static_cast<uint64_t>(passed.count());
  }
  std::string waits_for() const override;

 private:
  MemoryImporter::Recalled OnRecall();
  // By which the memory that it needs is held: that of several views is one.
  const std::string& memory() const;
  void ImportMemory();
  void Fetch(const MemoryExport& loan);
  void Prepare();
  void Open();
  // What may be read has been told: looks at the route, and then moves.
  void Check(const ByteRange& lent);
  void Run(uint64_t there);
  void Finish();
  // True when the move has been stopped, recalled, or has failed, and has been brought to its end.
  bool Over(const Status& step = {});

  Context& context_;
  Peers& peers_;
  MemoryImporter& importer_;
  const Series& series_;
  const RemoteMove::Params params_;
  Area destination_;
  Task running_;
  Done done_;

  MemoryImporter::UseRef use_;
  bool found_ = false;  // it was held from an earlier transfer
  std::shared_ptr<CopyRoute> route_;
  std::shared_ptr<RemoteSource> remote_source_;
  std::shared_ptr<pipeline::Chain> chain_;
  const os::Clock::time_point started_ = os::Clock::now();
  bool finishing_ = false;
  uint64_t moved_ = 0;  // by the chain, once that has gone
  MoveOutcome outcome_;
  std::string waits_for_;
  Status stopped_;   // by whoever wanted the transfer to end
  Status recalled_;  // by the memory's owner
  std::shared_ptr<SharedMove> self_;
};

}  // namespace onecopy::engine
