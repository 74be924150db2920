// Where chunks of a transfer rest between two moves.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/region.h"

namespace onecopy::pipeline {

// A chunk of the payload at one place.
struct Chunk {
  uint64_t offset = 0;  // in the payload
  uint64_t bytes = 0;
  uint32_t index = 0;  // of the slot, in a ring
  // Where it lies: offset inside the region, or inside what the remote key opens. Of bytes with a
  // layout, where that begins.
  uint64_t at = 0;
  // What opens it, where each chunk has its own key: the place's, until the chunk is released.
  const RemoteKey* key = nullptr;
};

// A place is made anywhere and then lives on its chain's executor, where it also ends. A chain
// fills it from the stage above and empties it into the stage below; either may be the peer's
// business instead.
class Place {
 public:
  virtual ~Place() = default;

  // What to call when the place changes by itself (a message from the peer), or fails.
  using Changed = UniqueFunction<void(Status)>;
  void Begin(Changed changed) {
    changed_ = std::move(changed);
    OnBegin();
  }

 protected:
  // Called once, when the chain begins; what was said to this place before must be heard now.
  virtual void OnBegin() {}

  void NotifyChange(Status status = {}) {
    if (changed_) changed_(std::move(status));
  }

 private:
  Changed changed_;
};

// What a stage moves chunks from.
class Source : public virtual Place {
 public:
  // The next chunk to be moved on, if there is one; Take() claims it, or as many of its bytes as
  // there is room for, and Release() gives it back afterwards. Only bytes that are not in slots can
  // be claimed in part.
  virtual std::optional<Chunk> Peek() = 0;
  virtual void Take(uint64_t bytes) = 0;
  virtual void Release(const Chunk& chunk) = 0;
};

// What a stage moves chunks to.
class Sink : public virtual Place {
 public:
  // Room for this chunk, or for its beginning, if there is some; Fill() says that it has landed.
  virtual std::optional<Chunk> Reserve(uint64_t offset, uint64_t bytes) = 0;
  virtual void Fill(const Chunk& chunk) = 0;
};

// Between two stages.
class Between : public Source, public Sink {};

// Below the last stage.
class Destination : public Sink {
 public:
  // Whether all of the payload has gone through here.
  virtual bool Complete() const = 0;
  // Bytes from the payload's beginning on without a gap that have gone through here; 0 where a
  // place does not say.
  virtual uint64_t arrived() const { return 0; }
};

}  // namespace onecopy::pipeline
