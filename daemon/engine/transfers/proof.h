// The last steps of a transfer, once all its bytes have arrived.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/staging/checksum.h"
#include "daemon/engine/transfers/destination_sum.h"
#include "onecopy/transfer.h"

namespace onecopy::engine {

// Compares the checksums of both ends, if that was asked for. Then, if the destination is a file,
// commits it, which gives it its name. Engine thread. Keeps itself alive until it calls `done`.
class Proof : public std::enable_shared_from_this<Proof> {
 public:
  struct Params {
    Area destination;
    std::optional<Area> source;  // if it is on this node
    std::string source_node;
    digest::TreeSum source_sum = {};            // if it is on another node: what that node said
    std::shared_ptr<DestinationSum> here = {};  // if it has been begun
    bool checksum = false;
    Owner payer;
    Checksums::StopFlag stop;  // set: skips the steps that remain, and the proof fails
  };
  // The checksum is absent if it was not asked for, or not computed. DATA_LOSS
  // (CHECKSUM_MISMATCH) if the checksums differ.
  using Done = UniqueFunction<void(const Status&, const std::optional<ChecksumResult>&)>;

  Proof(Context& context, Checksums& checksums, Params params, Done done);

  void Start();
  // Stops the destination's checksum early; see also Params::stop.
  void Stop();
  // Whether the commit has begun: all bytes are in the file, but maybe not yet on the disk.
  bool committing() const { return committing_; }
  // Where the payload differs, once the checksums do: its blocks, neighbours as one. Empty if the
  // other node's blocks are not known.
  const std::vector<ByteRange>& wrong() const { return wrong_; }

 private:
  void SumHere(Result<digest::TreeSum> source);
  void Compare(const Result<digest::TreeSum>& source, const Result<digest::TreeSum>& here);
  void Commit();
  void End(const Status& status);

  Context& context_;
  Checksums& checksums_;
  Params params_;
  Done done_;
  std::optional<ChecksumResult> sums_;
  std::vector<ByteRange> wrong_;
  bool committing_ = false;
};

}  // namespace onecopy::engine
