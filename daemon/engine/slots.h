// The pinned slab through which payload is staged, and who has which part of it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/engine/context.h"
#include "daemon/pipeline/places.h"

namespace onecopy::engine {

// What a lease is for. Each purpose has half of the slab: a transfer that receives has its slots
// before it asks the other node for slots to send from, so two nodes that send to each other can
// never wait in a circle.
enum class Purpose { kSend, kReceive };

// Engine thread. The slab is made when it is first needed: of host memory, locked where the system
// allows it, near the devices where they are all near to one NUMA node.
class Slots {
 public:
  explicit Slots(Context& context);

  uint64_t slot_bytes() const { return context_.options.slot_bytes; }

  // A run of neighbouring slots: as many as wanted if there are that many, at least one. Waits its
  // turn when none is free. RESOURCE_EXHAUSTED when there can be no slab.
  void Acquire(Purpose purpose, uint32_t wanted, Reply<pipeline::SlotLease> reply);

  void Clear();  // at the engine's end

 private:
  struct Request {
    uint32_t wanted = 0;
    Reply<pipeline::SlotLease> reply;
  };
  struct Half {
    uint32_t first = 0;
    std::vector<bool> taken;
    std::deque<Request> waiting;
  };
  struct Run {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  // That all network devices of links are near to, or without any all GPUs; -1 where there is none.
  int32_t NumaNode() const;
  void MakeSlab();
  void Serve(Half& half);
  // The longest free run, cut to `wanted`; count 0 when none is free.
  static Run FindRun(const Half& half, uint32_t wanted);
  void GiveBack(Half& half, Run run);

  Context& context_;
  RegionRef slab_;
  bool making_ = false;
  Half send_;
  Half receive_;
};

}  // namespace onecopy::engine
