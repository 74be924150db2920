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

  // Whether pushes have room for a sum, and may have one.
  virtual bool sums() const { return false; }
  // Begins to move bytes that lie inside what the two sides have agreed on. With a sum:
  // CHECKSUM_MISMATCH where the bytes have arrived, and their own differs.
  virtual void Read(const Push& push, Done done) = 0;
  // Nothing more comes at once: a reader that collects begins now.
  virtual void Flush() {}
  // What is under way ends soon, and may fail.
  virtual void Cancel() = 0;
};

}  // namespace onecopy::pipeline
