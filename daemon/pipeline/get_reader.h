// Reads from another node over a link: each push is one get.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "daemon/pipeline/small_reader.h"
#include "daemon/pipeline/summed_end.h"
#include "transport/core/contracts/link.h"

namespace onecopy::pipeline {

class GetReader final : public SmallReader {
 public:
  struct Params {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;  // of the gets
    Flow flow = {};         // as in GetRequest
    RemoteKey key;
    uint64_t begin = 0;          // where the key's bytes begin, in the source's buffer
    RegionRef into;              // registered with the link
    uint64_t to_base = 0;        // where the destination's buffer begins in `into`
    std::shared_ptr<void> held;  // goes with the reader
  };

  explicit GetReader(Params way);

  bool sums() const override { return end_.has_value(); }
  void Read(const Push& push, Done done) override;
  void Cancel() override { way_.connection->CancelGets(way_.channel); }

 private:
  const Params way_;
  std::optional<SummedEnd> end_;  // nothing where it cannot be summed
};

}  // namespace onecopy::pipeline
