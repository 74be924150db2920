// Many small transfers, ordered as a user's program would.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "bench/ceiling/many.h"
#include "bench/measure/mover.h"
#include "bench/work/transfer_mover.h"

namespace onecopy::bench {

struct SmallParams {
  const Node& from;
  std::string from_memory;
  const Node& to;
  std::string to_memory;
  std::string path;                  // that the receipts must name
  bool by_ring = false;              // and that they must say
  bool over_grpc = false;            // asks so that no ring carries it
  bool asked_by_reader = false;      // at the destination's node, not at the source's
  bool checksum = false;             // of both ends, for each
  std::chrono::milliseconds idle{};  // before each, not timed
};

// `Moved::seconds` are of one transfer, by the client's own clock: asking and waiting included.
// What went by another path, or not by a ring, fails the sample. The detail `engine_cores` is what
// the source daemon's engine thread used meanwhile.
Result<std::unique_ptr<Mover>> MakeSmall(const SmallParams& params, const Many& many);

// An empty call on the daemon's socket, again and again; moves nothing.
Result<std::unique_ptr<Mover>> MakeEmptyCalls(const Node& node, const Many& many);

}  // namespace onecopy::bench
