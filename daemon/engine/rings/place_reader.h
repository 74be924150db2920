// Copies on the ring's thread: memory of another daemon of this host in place, or staged bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/pipeline/small_reader.h"
#include "daemon/ring/ring_thread.h"
#include "transport/core/base/executor.h"
#include "transport/core/contracts/link.h"

namespace onecopy::engine {

// See SmallReader for its thread.
class PlaceReader final : public pipeline::SmallReader {
 public:
  struct Params {
    ring::RingThread& ring;
    std::shared_ptr<Connection> connection;  // of the server
    std::shared_ptr<SmallCopyRoute> way;
    uint64_t from_base = 0;  // where the buffers begin in what the way moves
    uint64_t to_base = 0;
    // Runs on the ring's thread at each one's end, and then `tell` on any, so that the owner hears
    // of it. Null: nothing else to tell.
    std::function<void(const pipeline::Push&, const ring::ErrandEnd&, Task tell)> ended;
    std::shared_ptr<void> held;  // goes with the reader
  };

  explicit PlaceReader(Params way) : way_(std::move(way)) {}

  void Read(const pipeline::Push& push, Done done) override;
  void Flush() override;
  // Cancels what waits for another node. Copy engines finish what they have begun.
  void Cancel() override { way_.way->Cancel(); }

 private:
  const Params way_;
  std::vector<ring::Errand> collected_;
};

}  // namespace onecopy::engine
