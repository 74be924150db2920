// What this node knows of long copies that it makes for another node's rings.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/rings/long_rates.h"
#include "daemon/pipeline/push_message.h"
#include "daemon/ring/errands.h"
#include "transport/core/base/executor.h"

namespace onecopy::engine {

// Tells the buffer's watchers, and keeps the rate of the path, as for transfers by gRPC.
class PushEnds {
 public:
  struct Of {
    std::string prefix;  // of the transfers' ids
    std::string owner;   // on whose behalf they are
    Endpoint source;     // the node's buffer, and this one's
    Endpoint destination;
    BufferId into;
    LongRates::Way way;
  };
  // See PlaceReader::Params.
  using Ended = std::function<void(const pipeline::Push&, const ring::ErrandEnd&, Task tell)>;

  PushEnds(Context& context, Buffers& buffers, Arrivals& arrivals, Transfers& transfers,
           LongRates& rates)
      : context_(context),
        buffers_(buffers),
        arrivals_(arrivals),
        transfers_(transfers),
        rates_(rates) {}

  // Engine thread. What it returns runs on the ring's thread. The owner hears of an end at once, as
  // the engine deals with it before whatever it is asked for afterwards; with many that the engine
  // has not dealt with yet, once it has.
  Ended For(Of of);

 private:
  static constexpr uint32_t kMany = 64;

  void Note(const Of& of, const pipeline::Push& push, const ring::ErrandEnd& end);

  Context& context_;
  Buffers& buffers_;
  Arrivals& arrivals_;
  Transfers& transfers_;
  LongRates& rates_;
};

}  // namespace onecopy::engine
