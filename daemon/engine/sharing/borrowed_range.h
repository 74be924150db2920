// A range of another daemon's memory that this one reads in place, beyond one transfer: the
// counterpart of staging/imported_range for daemons of one host.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peer_opening.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/sharing/memory_importer.h"

namespace onecopy::engine {

// Engine thread. The memory stays mapped here, and the range open there, for as long as this lives.
class BorrowedRange : public std::enable_shared_from_this<BorrowedRange> {
 public:
  struct Needs {
    Context& context;
    Peers& peers;
    MemoryImporter& importer;
  };
  struct Params {
    std::string node;
    std::string memory;  // as transfers from that node name it
    std::string kind;    // of memory
    std::string ticket;  // which is used up
    TransferId id;       // that it was made for
    ByteRange range;     // that it is for, in the source's buffer
    Owner payer;         // of what stays mapped
    // The owner wants its memory back: this has to go soon. Once, and possibly before Borrow has
    // answered.
    std::function<void(const Status&)> recalled;
  };

  BorrowedRange(const Needs& needs, Params params) : needs_(needs), params_(std::move(params)) {}

  // Once. Fails as an import does (NOT_SHAREABLE, QUOTA, …).
  void Borrow(StatusReply borrowed);

  // Once it is borrowed:
  const RegionRef& region() const { return use_->region; }   // all of that memory
  const std::string& how() const { return use_->how; }       // "vmm-fd"
  uint64_t buffer_offset() const { return buffer_offset_; }  // where the buffer begins in it
  const Status& recalled() const { return recalled_; }

 private:
  std::function<void()> OnRecall();
  void Import();
  void Open();
  void Opened(OpenRangeReply opened);
  void End(const Status& status);

  const Needs needs_;
  const Params params_;
  StatusReply borrowed_;
  std::unique_ptr<PeerOpening> opening_;
  MemoryImporter::UseRef use_;  // gone before the node hears that nothing is read any more
  bool found_ = false;          // it was held from earlier
  uint64_t buffer_offset_ = 0;
  Status recalled_;
};

}  // namespace onecopy::engine
