// How a SmallServer moves what it is asked for.
#pragma once

#include "daemon/pipeline/push_message.h"
#include "transport/core/base/unique_function.h"

namespace onecopy::pipeline {

// The executor of the server's connection, also when it goes: then nothing is under way.
class SmallReader {
 public:
  // Runs on that executor, once for each push.
  using Done = UniqueFunction<void(const Status&)>;

  virtual ~SmallReader() = default;

  // Whether a push may have a sum.
  virtual bool sums() const { return false; }
  // Begins to move bytes that lie inside what the two sides have agreed on. If the push has a sum,
  // compares it with the checksum of the bytes that arrived: CHECKSUM_MISMATCH if they differ.
  virtual void Read(const Push& push, Done done) = 0;
  // Nothing more comes at once: a reader that collects begins now.
  virtual void Flush() {}
  // What is under way ends soon, and may fail.
  virtual void Cancel() = 0;
};

}  // namespace onecopy::pipeline
