#include "client/lib/pool/pool_core.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::client {
namespace {

// Beyond it, rounding up could overflow.
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

uint64_t RoundUp(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

std::string PointerText(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", pointer);
  return text;
}

Status BadPointer(const void* pointer, const std::string& what) {
  return {Code::kInvalidArgument, reasons::kBadPointer, PointerText(pointer) + " " + what,
          "free each allocation of this pool once, by its first address"};
}

Status Inconsistent(const std::string& what) {
  return {Code::kInternal, reasons::kInternal, "the pool's tables disagree: " + what};
}

}  // namespace

PoolCore::PoolCore(PoolCoreOptions options, SlabSource& source, StreamOrder& order)
    : options_(options), source_(source), order_(order) {}

PoolCore::~PoolCore() {
  const MutexLock lock(mutex_);
  static_cast<void>(Synchronize());
  for (const auto& [data, row] : rows_) static_cast<void>(source_.Free(row->slab));
}

Result<void*> PoolCore::Allocate(uint64_t bytes, StreamHandle stream) {
  const MutexLock lock(mutex_);
  ONECOPY_RETURN_IF_ERROR(CheckSize(bytes));
  const uint64_t size = RoundUp(bytes, kPoolAlignment);
  FreeBlocks& own = Of(stream);
  if (Block*& recent = own.recent[SlotOf(size)]; recent != nullptr && recent->bytes == size) {
    ++counts_.from_recent;
    return Use(std::exchange(recent, nullptr), bytes);
  }
  if (Block* block = TakeAny(size, stream)) return Use(block, bytes);
  return UseAfterGrowth(size, bytes);
}

Result<void*> PoolCore::AllocateIdle(uint64_t bytes) {
  const MutexLock lock(mutex_);
  ONECOPY_RETURN_IF_ERROR(CheckSize(bytes));
  const uint64_t size = RoundUp(bytes, kPoolAlignment);
  if (Block* block = TakeIdle(size)) return Use(block, bytes);
  return UseAfterGrowth(size, bytes);
}

Status PoolCore::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  if (pointer == nullptr) return OkStatus();
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end() || found->second->state != State::kUsed) {
    ++counts_.failures;
    return Misplaced(pointer);
  }
  Block* const block = found->second.get();
  if (bytes != 0 && bytes != block->asked) {
    ++counts_.failures;
    return {Code::kInvalidArgument, reasons::kSizeMismatch,
            PointerText(pointer) + " was allocated with " + std::to_string(block->asked) +
                " bytes, and was freed with " + std::to_string(bytes),
            "free it with the size that was requested"};
  }
  ++counts_.deallocations;
  --counts_.blocks_in_use;
  --block->row->used;
  counts_.bytes_in_use -= block->bytes;
  counts_.bytes_asked -= block->asked;
  block->stream = stream;
  block->common = false;
  block->state = State::kRecent;
  Block* const older = std::exchange(Of(stream).recent[SlotOf(block->bytes)], block);
  if (older != nullptr) Join(older);
  return OkStatus();
}

Status PoolCore::Grow(uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes == 0 || bytes > kMostBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a slab of " + FormatBytes(bytes)};
  }
  return AddSlab(bytes);
}

Status PoolCore::ReleaseStream(StreamHandle stream) {
  const MutexLock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return OkStatus();
  JoinRecent(*found->second);
  if (!found->second->by_size.empty()) {
    ++counts_.synchronized;
    ONECOPY_RETURN_IF_ERROR(order_.Wait(stream));
    MakeCommon(*found->second);
  }
  last_ = nullptr;
  streams_.erase(found);
  return OkStatus();
}

Result<uint64_t> PoolCore::Trim(uint64_t keep_bytes) {
  const MutexLock lock(mutex_);
  const Status waited = Synchronize();
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t freed, FreeSlabs(keep_bytes));
  // What captured graphs use is in use.
  if (freed > 0 || waited.ok() || waited.reason() == reasons::kStreamCapturing) return freed;
  return waited;
}

std::optional<PoolCore::Place> PoolCore::Find(const void* pointer) const {
  const auto* const at = static_cast<const std::byte*>(pointer);
  const MutexLock lock(mutex_);
  auto found = in_order_.upper_bound(at);
  if (found == in_order_.begin()) return {};
  const Block& block = *std::prev(found)->second;
  if (block.state != State::kUsed || at >= block.data + block.asked) return {};
  return Place{block.row->slab, block.data, block.asked};
}

PoolStatistics PoolCore::statistics() {
  const MutexLock lock(mutex_);
  PoolStatistics now = counts_;
  now.slabs = rows_.size();
  const auto note = [&](const FreeBlocks& list) {
    if (!list.by_size.empty()) {
      now.largest_free = std::max(now.largest_free, (*list.by_size.rbegin())->bytes);
    }
  };
  for (const auto& [stream, list] : streams_) {
    JoinRecent(*list);
    note(*list);
  }
  note(common_);
  return now;
}

Status PoolCore::CheckSize(uint64_t bytes) {
  if (bytes > 0 && bytes <= kMostBytes) return OkStatus();
  ++counts_.failures;
  if (bytes == 0) {
    return {Code::kInvalidArgument, reasons::kBadSize, "an allocation of no bytes",
            "ask for at least 1 byte"};
  }
  return {Code::kResourceExhausted, reasons::kNoMemory, FormatBytes(bytes) + " exceed any memory"};
}

// Fibonacci's, of what is left beside the alignment.
size_t PoolCore::SlotOf(uint64_t bytes) {
  static_assert(kSlots == 64);
  return (bytes / kPoolAlignment * 0x9E3779B97F4A7C15U) >> 58;
}

PoolCore::FreeBlocks& PoolCore::Of(StreamHandle stream) {
  if (last_ != nullptr && last_stream_ == stream) return *last_;
  std::unique_ptr<FreeBlocks>& list = streams_[stream];
  if (list == nullptr) list = std::make_unique<FreeBlocks>();
  last_stream_ = stream;
  last_ = list.get();
  return *list;
}

PoolCore::FreeBlocks& PoolCore::ListOf(const Block& block) {
  return block.common ? common_ : Of(block.stream);
}

PoolCore::Block* PoolCore::Take(FreeBlocks& list, uint64_t bytes) {
  const auto found = list.by_size.lower_bound(bytes);
  if (found == list.by_size.end()) return nullptr;
  Block* const block = *found;
  if (block->bytes == bytes) {
    list.by_size.erase(found);
    return block;
  }
  // What is left keeps the block's place in the list, if with another size.
  list.by_size.erase(found);
  Block rest = *block;
  rest.data += bytes;
  rest.bytes -= bytes;
  rest.before = block;
  block->bytes = bytes;
  Block* const kept = AddBlock(rest);
  if (kept->after != nullptr) kept->after->before = kept;
  block->after = kept;
  list.by_size.insert(kept);
  return block;
}

PoolCore::Block* PoolCore::TakeAny(uint64_t bytes, StreamHandle stream) {
  FreeBlocks& own = Of(stream);
  JoinRecent(own);
  if (Block* block = Take(own, bytes)) return block;
  if (Block* block = Take(common_, bytes)) return block;
  for (const auto& [other, list] : streams_) {
    if (other == stream) continue;
    JoinRecent(*list);
    if (list->by_size.lower_bound(bytes) == list->by_size.end()) continue;
    if (!order_.Follow(stream, other).ok()) continue;  // it stays the other's
    ++counts_.from_others;
    return Take(*list, bytes);
  }
  return nullptr;
}

PoolCore::Block* PoolCore::TakeIdle(uint64_t bytes) {
  if (Block* block = Take(common_, bytes)) return block;
  for (const auto& [stream, list] : streams_) {
    JoinRecent(*list);
    if (list->by_size.lower_bound(bytes) == list->by_size.end()) continue;
    if (!order_.HasEnded(stream)) continue;  // it stays the stream's
    MakeCommon(*list);
    return Take(common_, bytes);
  }
  return nullptr;
}

Result<void*> PoolCore::UseAfterGrowth(uint64_t bytes, uint64_t asked) {
  const Result<Block*> block = TakeAfterGrowth(bytes);
  if (block.ok()) return Use(*block, asked);
  ++counts_.failures;
  return block.status();
}

// A slab that has just been added is free for all, and has room.
Result<PoolCore::Block*> PoolCore::TakeAfterGrowth(uint64_t bytes) {
  const Status growth = AddSlab(bytes);
  if (growth.ok()) return Take(common_, bytes);
  if (growth.code() != Code::kResourceExhausted) return growth;
  const Status waited = Synchronize();
  if (Block* block = Take(common_, bytes)) return block;
  // What is free lies in pieces that are too small: whole slabs can make room for a larger one.
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t freed, FreeSlabs(0));
  if (freed > 0) {
    ONECOPY_RETURN_IF_ERROR(AddSlab(bytes));
    return Take(common_, bytes);
  }
  if (waited.ok()) return growth;
  return growth.WithContext("cannot wait for memory that streams have freed (" + waited.message() +
                            ")");
}

void* PoolCore::Use(Block* block, uint64_t asked) {
  block->state = State::kUsed;
  block->asked = asked;
  ++block->row->used;
  ++counts_.allocations;
  ++counts_.blocks_in_use;
  counts_.bytes_in_use += block->bytes;
  counts_.bytes_asked += asked;
  counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.bytes_in_use);
  return block->data;
}

void PoolCore::JoinRecent(FreeBlocks& list) {
  for (Block*& each : list.recent) {
    if (each != nullptr) Join(std::exchange(each, nullptr));
  }
}

void PoolCore::Join(Block* block) {
  const auto joins = [](const Block* one, const Block* other) {
    return other != nullptr && other->state == State::kFree && other->common == one->common &&
           (one->common || other->stream == one->stream);
  };
  block->state = State::kFree;
  FreeBlocks& list = ListOf(*block);
  if (Block* const after = block->after; joins(block, after)) {
    list.by_size.erase(after);
    Absorb(block, after);
  }
  if (Block* const before = block->before; joins(block, before)) {
    list.by_size.erase(before);
    Absorb(before, block);
    block = before;
  }
  list.by_size.insert(block);
}

void PoolCore::Absorb(Block* block, Block* next) {
  block->bytes += next->bytes;
  block->after = next->after;
  if (next->after != nullptr) next->after->before = block;
  in_order_.erase(next->data);
  blocks_.erase(next->data);
}

Status PoolCore::AddSlab(uint64_t bytes) {
  const uint64_t used = counts_.bytes_reserved;
  const uint64_t left =
      used < options_.limit_bytes
          ? (options_.limit_bytes - used) / options_.granularity * options_.granularity
          : 0;
  const uint64_t least = RoundUp(bytes, options_.granularity);
  if (least > left) {
    return {Code::kResourceExhausted, reasons::kQuota,
            "the pool has " + FormatBytes(used) + " of at most " +
                FormatBytes(options_.limit_bytes) + ", of which " +
                FormatBytes(counts_.bytes_in_use) + " are in use: there is no room for " +
                FormatBytes(bytes) + " in one piece",
            "free some, or make the pool with a higher limit"};
  }
  const uint64_t wanted =
      std::min(std::max(RoundUp(options_.slab_bytes, options_.granularity), least), left);
  Result<SlabSource::Slab> slab = source_.Make(wanted);
  if (!slab.ok() && slab.status().code() == Code::kResourceExhausted && least < wanted) {
    slab = source_.Make(least);
  }
  if (!slab.ok()) return slab.status();
  auto row = std::make_unique<Row>();
  row->slab = *slab;
  Block block;
  block.data = slab->data;
  block.bytes = slab->bytes / kPoolAlignment * kPoolAlignment;
  block.row = row.get();
  block.common = true;
  row->first = AddBlock(block);
  common_.by_size.insert(row->first);
  rows_.emplace(slab->data, std::move(row));
  counts_.bytes_reserved += slab->bytes;
  ++counts_.grown;
  return OkStatus();
}

void PoolCore::MakeCommon(FreeBlocks& list) {
  JoinRecent(list);
  while (!list.by_size.empty()) {
    Block* const block = *list.by_size.begin();
    list.by_size.erase(list.by_size.begin());
    block->common = true;
    Join(block);
  }
}

Status PoolCore::Synchronize() {
  Status failure;
  bool any = false;
  for (const auto& [stream, list] : streams_) {
    JoinRecent(*list);
    if (list->by_size.empty()) continue;
    any = true;
    if (Status waited = order_.Wait(stream); waited.ok()) {
      MakeCommon(*list);
    } else {
      failure = std::move(waited);
    }
  }
  if (any) ++counts_.synchronized;
  return failure;
}

Result<uint64_t> PoolCore::FreeSlabs(uint64_t keep_bytes) {
  uint64_t freed = 0;
  for (auto at = rows_.begin(); at != rows_.end();) {
    const Row& row = *at->second;
    Block* const block = row.first;
    const bool free = block->after == nullptr && block->state == State::kFree && block->common;
    if (!free || counts_.bytes_reserved - row.slab.bytes < keep_bytes) {
      ++at;
      continue;
    }
    ONECOPY_RETURN_IF_ERROR(source_.Free(row.slab));
    common_.by_size.erase(block);
    in_order_.erase(block->data);
    blocks_.erase(block->data);
    freed += row.slab.bytes;
    counts_.bytes_reserved -= row.slab.bytes;
    ++counts_.trimmed;
    at = rows_.erase(at);
  }
  return freed;
}

PoolCore::Block* PoolCore::AddBlock(Block block) {
  auto made = std::make_unique<Block>(block);
  Block* const raw = made.get();
  blocks_[raw->data] = std::move(made);
  in_order_[raw->data] = raw;
  return raw;
}

Status PoolCore::Misplaced(const void* pointer) {
  const auto* const at = static_cast<const std::byte*>(pointer);
  const auto row = rows_.upper_bound(const_cast<std::byte*>(at));
  if (row == rows_.begin()) return BadPointer(pointer, "does not belong to this pool");
  const SlabSource::Slab& slab = std::prev(row)->second->slab;
  if (at >= slab.data + slab.bytes) return BadPointer(pointer, "does not belong to this pool");
  const Block& block = *std::prev(in_order_.upper_bound(at))->second;
  if (block.state != State::kUsed) {
    return BadPointer(pointer, "is already free: it was freed twice, or never allocated");
  }
  return BadPointer(pointer, "lies inside an allocation, " + std::to_string(at - block.data) +
                                 " bytes after its beginning " + PointerText(block.data));
}

Status PoolCore::Check() const {
  const MutexLock lock(mutex_);
  uint64_t reserved = 0;
  uint64_t in_use = 0;
  uint64_t asked = 0;
  uint64_t used = 0;
  size_t blocks = 0;
  size_t recent = 0;
  size_t listed = common_.by_size.size();
  for (const auto& [stream, list] : streams_) {
    listed += list->by_size.size();
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const Block* block = list->recent[slot];
      if (block == nullptr) continue;
      ++recent;
      if (block->state != State::kRecent || block->stream != stream ||
          SlotOf(block->bytes) != slot) {
        return Inconsistent("a recent block is in a wrong place");
      }
    }
  }
  size_t free = 0;
  for (const auto& [data, row] : rows_) {
    reserved += row->slab.bytes;
    const std::byte* at = data;
    uint64_t used_here = 0;
    for (const Block* block = row->first; block != nullptr; block = block->after) {
      ++blocks;
      if (block->data != at) return Inconsistent("a gap or an overlap before a block");
      if (block->row != row.get()) return Inconsistent("a block of another slab");
      const auto found = blocks_.find(block->data);
      if (found == blocks_.end() || found->second.get() != block) {
        return Inconsistent("a block that cannot be found");
      }
      if (block->after != nullptr && block->after->before != block) {
        return Inconsistent("neighbours that do not know each other");
      }
      at += block->bytes;
      if (block->state == State::kUsed) {
        ++used_here;
        in_use += block->bytes;
        asked += block->asked;
      } else if (block->state == State::kFree) {
        ++free;
        const auto list = streams_.find(block->stream);
        const FreeBlocks* const where = block->common            ? &common_
                                        : list == streams_.end() ? nullptr
                                                                 : list->second.get();
        if (where == nullptr || !where->by_size.contains(const_cast<Block*>(block))) {
          return Inconsistent("a free block that is not listed");
        }
        const Block* next = block->after;
        if (next != nullptr && next->state == State::kFree && next->common == block->common &&
            (block->common || next->stream == block->stream)) {
          return Inconsistent("free neighbours that were not joined");
        }
      }
    }
    if (at != data + row->slab.bytes / kPoolAlignment * kPoolAlignment) {
      return Inconsistent("a slab's end");
    }
    if (used_here != row->used) return Inconsistent("a slab's count of used blocks");
    used += used_here;
  }
  if (blocks != blocks_.size() || blocks != in_order_.size()) {
    return Inconsistent("the number of blocks");
  }
  if (free != listed) return Inconsistent("the number of free blocks");
  if (blocks != used + free + recent) return Inconsistent("the number of recent blocks");
  if (reserved != counts_.bytes_reserved || in_use != counts_.bytes_in_use ||
      asked != counts_.bytes_asked || used != counts_.blocks_in_use) {
    return Inconsistent("the statistics");
  }
  return OkStatus();
}

}  // namespace onecopy::client
