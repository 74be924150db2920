// Puts back what an earlier process of this daemon has left.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/kept.h"
#include "daemon/engine/registry/tickets.h"

namespace onecopy::engine {

// Engine thread, before anything is served; may block, on GPUs for as long as these take to open.
class Restoring {
 public:
  struct Needs {
    Context& context;
    Kept& kept;
    Buffers& buffers;
    Grants& grants;
    Tickets& tickets;
  };

  explicit Restoring(const Needs& needs) : needs_(needs) {}

  // Buffers with their ids, then views and grants, and what peers may read by them. The log says
  // what is there again, and what of the earlier process is gone, and why.
  void Run();

  // A transfer that was under way to a buffer that is here again, and how many bytes of its
  // beginning had arrived.
  struct Arriving {
    ArrivingRecord record;
    uint64_t bytes = 0;
  };
  // To be taken up again; once, after Run.
  std::vector<Arriving> TakeArriving() { return std::move(arriving_); }

 private:
  void RestoreBuffers();
  void RestoreRights();
  void FindArriving();
  Status Restore(const BufferRecord& record);
  Status RestoreView(const BufferRecord& record);
  // It is gone for ever, or the next process may still restore it.
  void Lose(const std::string& key, const BufferRecord& record, const Status& why);
  void Postpone(const BufferRecord& record, const Status& why);

  const Needs needs_;
  KeeperApi::Left left_;
  std::vector<Arriving> arriving_;
  std::set<BufferId> postponed_;
  uint64_t restored_ = 0;
  uint64_t bytes_ = 0;
  uint64_t granted_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace onecopy::engine
