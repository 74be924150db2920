// Reads from another node over a link: each push is one get.
#pragma once

#include <memory>

#include "daemon/pipeline/small_reader.h"
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

  explicit GetReader(Params way) : way_(std::move(way)) {}

  void Read(const Push& push, Done done) override {
    way_.connection->Get({.channel = way_.channel,
                          .key = &way_.key,
                          .key_offset = push.from - way_.begin,
                          .into = {way_.into, way_.to_base + push.to, push.bytes},
                          .flow = way_.flow},
                         [done = std::move(done)](const Status& status, const StepList&,
                                                  unsigned) mutable { done(status); });
  }
  void Cancel() override { way_.connection->CancelGets(way_.channel); }

 private:
  const Params way_;
};

}  // namespace onecopy::pipeline
