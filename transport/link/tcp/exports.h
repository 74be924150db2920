// What a connection's peer may read.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"

namespace onecopy::tcp {

// Bytes that the peer may read. Code that sends from them holds a reference; when they are
// withdrawn and the last reference goes, `idle` is posted to `home`.
class Export {
 public:
  Export(Span span, Executor& home) : span_(std::move(span)), home_(home) {}
  ~Export() {
    if (idle_) home_.Post(std::move(idle_));
  }

  const Span& span() const { return span_; }

 private:
  friend class Exports;
  const Span span_;
  Executor& home_;
  Task idle_;  // set while withdrawing, under the table's mutex, before the table's reference goes
};
using ExportRef = std::shared_ptr<const Export>;

// The exports of one connection: made and withdrawn on its home thread, looked up by the threads
// of all its lanes, once per get.
class Exports {
 public:
  // Whatever was wrong, so that a peer learns nothing by guessing.
  static Status NotOpen();

  explicit Exports(Executor& home) : home_(home) {}

  uint64_t Add(Span span);
  // No get finds it any more; `idle` runs on the home thread once nothing sends from it. True where
  // something still does.
  bool Revoke(uint64_t key, Task idle);
  // The export, if [offset, offset+bytes) lies inside it; NotOpen() otherwise.
  Result<ExportRef> Find(uint64_t key, uint64_t offset, uint64_t bytes) const;
  // Revokes all.
  void Clear();

 private:
  Executor& home_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Export>> by_key_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::tcp
