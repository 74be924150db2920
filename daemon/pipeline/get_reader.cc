#include "daemon/pipeline/get_reader.h"

#include "daemon/pipeline/small_sums.h"

namespace onecopy::pipeline {

GetReader::GetReader(Params way) : way_(std::move(way)) {
  if (SummedEnd::Works(*way_.into)) end_.emplace(way_.into, way_.to_base);
}

void GetReader::Read(const Push& push, Done done) {
  // Released before `done` runs: the owner may then free the memory.
  std::optional<SummedEnd> end = push.sum ? end_ : std::nullopt;
  auto ended = [end = std::move(end), push, done = std::move(done)](
                   const Status& status, const StepList&, unsigned) mutable {
    Status outcome = status;
    if (outcome.ok() && push.sum) {
      const Result<SmallSum> own = end->Sum(push.to, push.bytes);
      outcome = own.ok() ? CompareSums(*push.sum, *own) : own.status();
    }
    end.reset();
    done(outcome);
  };
  way_.connection->Get({.channel = way_.channel,
                        .key = &way_.key,
                        .key_offset = push.from - way_.begin,
                        .into = {way_.into, way_.to_base + push.to, push.bytes},
                        .flow = way_.flow},
                       std::move(ended));
}

}  // namespace onecopy::pipeline
