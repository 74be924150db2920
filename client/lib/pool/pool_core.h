// Divides memory in slabs among callers. Knows neither CUDA nor the daemon: two interfaces stand
// for slabs and streams.
//
// Every slab is a row of blocks, each used, or free for one stream (what was given to that stream
// before may still use it) or for all. What was freed last waits in a small table by its size, in
// which the same stream finds it again without a search; everything else that is free is joined
// with its free neighbours of the same stream, and is found by size, then address: the smallest
// that fits, and of those the lowest. A block never reaches over a slab's end, as each slab is a
// buffer of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "onecopy/memory_resource.h"
#include "onecopy/pool_statistics.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Where slabs come from. Called with the pool's lock held.
class SlabSource {
 public:
  struct Slab {
    std::byte* data = nullptr;  // a multiple of kPoolAlignment
    uint64_t bytes = 0;         // at least what was asked for
  };
  virtual ~SlabSource() = default;
  // RESOURCE_EXHAUSTED if no memory is left.
  virtual Result<Slab> Make(uint64_t bytes) = 0;
  // Nothing uses it any more.
  virtual Status Free(const Slab& slab) = 0;
};

// What streams have still to do, each by a key that no other one has. Called with the pool's lock
// held; blocks only in Wait, or for microseconds. If either fails, what the stream has freed
// stays its own.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;
  // What is given to `later` from now on begins after all that was given to `earlier` before it
  // last freed something. The host waits for nothing.
  virtual Status Follow(StreamHandle later, StreamHandle earlier) = 0;
  // Returns when the stream has done all that it was given before it last freed something.
  virtual Status Wait(StreamHandle stream) = 0;
  // Whether it has, as far as that can be told without waiting for it.
  virtual bool HasEnded(StreamHandle stream) = 0;
};

struct PoolCoreOptions {
  uint64_t slab_bytes = uint64_t{64} << 20;  // of a slab, at least; more for what needs more
  uint64_t limit_bytes = UINT64_MAX;         // of all slabs together
  uint64_t granularity = 4096;               // slabs are multiples of it; a power of two
};

// Thread-safe. `source` and `order` outlive it.
class PoolCore final : public MemoryResource {
 public:
  PoolCore(PoolCoreOptions options, SlabSource& source, StreamOrder& order);
  // Waits for what was freed, and frees all slabs, also of what is in use: nothing may touch it any
  // more.
  ~PoolCore() override;
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  // What the stream has freed, then what is free for all, then what other streams have freed that
  // it can follow, then a new slab; where there can be none: after a wait for all streams, what any
  // has freed.
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream) override;
  // What nothing uses any more: what is free for all, then what a stream has freed that has ended
  // since, then a new slab; where there can be none: after a wait for all streams, as Allocate.
  Result<void*> AllocateIdle(uint64_t bytes);
  Status Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) override;

  // One more slab, beforehand.
  Status Grow(uint64_t bytes);
  // Waits for a stream; what it has freed is for all from then on, and it is forgotten.
  Status ReleaseStream(StreamHandle stream);
  // Waits for the streams and gives back every slab that is free as a whole, as long as more than
  // `keep_bytes` are left. The bytes that went.
  Result<uint64_t> Trim(uint64_t keep_bytes);

  // Where the used block is that has this byte; nothing where none has.
  struct Place {
    SlabSource::Slab slab;
    std::byte* block = nullptr;
    uint64_t block_bytes = 0;  // as asked for
  };
  std::optional<Place> Find(const void* pointer) const;
  PoolStatistics statistics();
  // Whether rows, tables and counts agree; for tests. Says what does not.
  Status Check() const;

 private:
  enum class State : uint8_t { kUsed, kRecent, kFree };
  struct Row;
  struct Block {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    uint64_t asked = 0;  // used: what the caller asked for
    Row* row = nullptr;
    Block* before = nullptr;  // in the row
    Block* after = nullptr;
    StreamHandle stream = 0;  // free: whose
    bool common = false;      // free: for all, whatever `stream` says
    State state = State::kFree;
  };
  struct Row {
    SlabSource::Slab slab;
    Block* first = nullptr;
    uint64_t used = 0;  // blocks
  };
  struct Smaller {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
    bool operator()(const Block* a, uint64_t bytes) const { return a->bytes < bytes; }
    bool operator()(uint64_t bytes, const Block* a) const { return bytes < a->bytes; }
  };
  static constexpr size_t kSlots = 64;
  struct FreeBlocks {
    std::set<Block*, Smaller> by_size;
    std::array<Block*, kSlots> recent = {};  // by a hash of the size
  };

  static size_t SlotOf(uint64_t bytes);
  // BAD_SIZE, NO_MEMORY; counted.
  Status CheckSize(uint64_t bytes) ONECOPY_REQUIRES(mutex_);
  FreeBlocks& Of(StreamHandle stream) ONECOPY_REQUIRES(mutex_);
  FreeBlocks& ListOf(const Block& block) ONECOPY_REQUIRES(mutex_);
  // The free block that fits best, cut to size; null where none fits.
  Block* Take(FreeBlocks& list, uint64_t bytes) ONECOPY_REQUIRES(mutex_);
  // Without growth: null where nothing fits.
  Block* TakeAny(uint64_t bytes, StreamHandle stream) ONECOPY_REQUIRES(mutex_);
  // The same of what nothing uses any more.
  Block* TakeIdle(uint64_t bytes) ONECOPY_REQUIRES(mutex_);
  // From a new slab; of what is free for all where there can be none. Failures are counted.
  Result<void*> UseAfterGrowth(uint64_t bytes, uint64_t asked) ONECOPY_REQUIRES(mutex_);
  Result<Block*> TakeAfterGrowth(uint64_t bytes) ONECOPY_REQUIRES(mutex_);
  void* Use(Block* block, uint64_t asked) ONECOPY_REQUIRES(mutex_);
  void JoinRecent(FreeBlocks& list) ONECOPY_REQUIRES(mutex_);
  // Puts a block that is in no list into its list, joined with its neighbours.
  void Join(Block* block) ONECOPY_REQUIRES(mutex_);
  void Absorb(Block* block, Block* next) ONECOPY_REQUIRES(mutex_);
  Status AddSlab(uint64_t bytes) ONECOPY_REQUIRES(mutex_);
  // What is in the list becomes free for all.
  void MakeCommon(FreeBlocks& list) ONECOPY_REQUIRES(mutex_);
  // Waits for all streams. What those have freed that could be waited for is for all then; the
  // failure of another.
  Status Synchronize() ONECOPY_REQUIRES(mutex_);
  Result<uint64_t> FreeSlabs(uint64_t keep_bytes) ONECOPY_REQUIRES(mutex_);
  Block* AddBlock(Block block) ONECOPY_REQUIRES(mutex_);
  Status Misplaced(const void* pointer) ONECOPY_REQUIRES(mutex_);

  const PoolCoreOptions options_;
  SlabSource& source_;
  StreamOrder& order_;
  mutable Mutex mutex_;
  std::map<std::byte*, std::unique_ptr<Row>> rows_ ONECOPY_GUARDED_BY(mutex_);  // by address
  // All blocks by their beginning, and the same in order, for what lies inside of them.
  std::unordered_map<const void*, std::unique_ptr<Block>> blocks_ ONECOPY_GUARDED_BY(mutex_);
  std::map<const std::byte*, Block*> in_order_ ONECOPY_GUARDED_BY(mutex_);
  std::unordered_map<StreamHandle, std::unique_ptr<FreeBlocks>> streams_ ONECOPY_GUARDED_BY(mutex_);
  FreeBlocks common_ ONECOPY_GUARDED_BY(mutex_);
  StreamHandle last_stream_ ONECOPY_GUARDED_BY(mutex_) = 0;
  FreeBlocks* last_ ONECOPY_GUARDED_BY(mutex_) = nullptr;  // of last_stream_
  PoolStatistics counts_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::client
