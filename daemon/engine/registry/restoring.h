// Restores what the previous process of this daemon left.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffer_maker.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/held_memory.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/registry/tickets.h"

namespace onecopy::engine {

// Engine thread, before the daemon serves. May block as long as GPUs take to open.
class Restoring {
 public:
  struct Needs {
    Context& context;
    Records& records;
    HeldMemory& held;
    Buffers& buffers;
    BufferMaker& maker;
    Grants& grants;
    Tickets& tickets;
  };

  explicit Restoring(const Needs& needs) : needs_(needs) {}

  // Restores buffers with their ids, then views, grants and tickets. The log says what was
  // restored, and what is gone and why.
  void Run();

  // A transfer to a buffer of this node that was running, and how many bytes had arrived from its
  // beginning on.
  struct Arriving {
    ArrivingRecord record;
    uint64_t bytes = 0;
  };
  // The transfers to resume. Call it once, after Run.
  std::vector<Arriving> TakeArriving() { return std::move(arriving_); }
  // Transfers that clients of this node had asked for, including those that arrive here.
  std::vector<OrderedRecord> TakeOrdered() { return std::move(ordered_); }

 private:
  void RestoreBuffers();
  void RestoreRights();
  void FindArriving();
  void FindOrdered();
  Status Restore(const BufferRecord& record);
  Status RestoreView(const BufferRecord& record);
  Status Import(const BufferRecord& record, int fd);
  // The registry's entry, charged to its payer, still without memory.
  Result<Buffer> Draft(const BufferRecord& record, uint64_t charged_bytes) const;
  // The buffer is gone.
  void Lose(const std::string& key, const BufferRecord& record, const Status& why);
  // The next process may still restore it.
  void Postpone(const BufferRecord& record, const Status& why);

  const Needs needs_;
  HolderApi::Left left_;
  std::vector<Arriving> arriving_;
  std::vector<OrderedRecord> ordered_;
  std::set<BufferId> postponed_;
  uint64_t restored_ = 0;
  uint64_t bytes_ = 0;
  uint64_t granted_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace onecopy::engine
