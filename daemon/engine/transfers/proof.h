// What follows when all bytes of a transfer have arrived.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/staging/checksum.h"
#include "onecopy/transfer.h"

namespace onecopy::engine {

// Compares the checksums of both ends, if one is asked for; then gives a file that was written its
// name. Engine thread. It keeps itself until it has called `done`.
class Proof : public std::enable_shared_from_this<Proof> {
 public:
  struct Params {
    Area destination;
    std::optional<Area> source;  // if it is on this node
    std::string source_node;
    std::string source_sum;  // if it is on another node: what that node said, or empty
    bool checksum = false;
    Owner payer;
    Checksums::StopFlag stop;  // set: what has not been done yet is left out, and the proof fails
  };
  // The checksum is absent if it was not asked for, or not computed. DATA_LOSS
  // (CHECKSUM_MISMATCH).
  using Done = UniqueFunction<void(const Status&, const std::optional<ChecksumResult>&)>;

  Proof(Context& context, Checksums& checksums, Params params, Done done);

  void Start();
  // The bytes are in the file, and not all of them on the disk yet.
  bool committing() const { return committing_; }

 private:
  void SumHere(Result<std::string> source);
  void Compare(const Result<std::string>& source, const Result<std::string>& here);
  void Commit();
  void End(const Status& status);

  Context& context_;
  Checksums& checksums_;
  Params params_;
  Done done_;
  std::optional<ChecksumResult> sums_;
  bool committing_ = false;
};

}  // namespace onecopy::engine
