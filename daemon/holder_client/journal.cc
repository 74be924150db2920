#include "daemon/holder_client/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"

namespace onecopy::holder {
namespace {

constexpr uint64_t kHeadBytes = 4096;
constexpr uint64_t kMagic = 0x31'79'70'6f'63'65'6e'6fULL;  // "onecopy1"
constexpr uint64_t kVersion = 1;
constexpr uint64_t kSecondHalf = uint64_t{1} << 63;
constexpr uint32_t kErased = UINT32_MAX;

// Stands before a key and its value.
struct Entry {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;  // kErased: this entry removes the key
  uint64_t check = 0;        // of both, and of these lengths

  uint64_t text_bytes() const {
    return uint64_t{key_bytes} + (value_bytes == kErased ? 0 : value_bytes);
  }
  uint64_t bytes() const { return (sizeof(Entry) + text_bytes() + 7) / 8 * 8; }
  uint64_t CheckOf(const std::byte* text) const {
    const uint64_t seed = (uint64_t{key_bytes} << 32) | value_bytes;
    return XXH3_64bits_withSeed(text, text_bytes(), seed);
  }
};

Entry EntryOf(std::string_view key, std::string_view value) {
  Entry entry;
  entry.key_bytes = static_cast<uint32_t>(key.size());
  entry.value_bytes = static_cast<uint32_t>(value.size());
  return entry;
}

Status NoJournal(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadHandle,
          "the records of the earlier daemon cannot be read: " + why};
}

}  // namespace

struct Journal::Head {
  uint64_t magic;
  uint64_t version;
  uint64_t half_bytes;
  // Which half is in use, and how many of its bytes: one word, so that both change together.
  std::atomic<uint64_t> counts;
};

Journal::Journal(os::UniqueFd file, os::Mapping mapping)
    : file_(std::move(file)), mapping_(std::move(mapping)) {}

Journal::Head& Journal::head() const { return *reinterpret_cast<Head*>(mapping_.data()); }

std::byte* Journal::Half(uint64_t which) const {
  return mapping_.data() + kHeadBytes + (which == 0 ? 0 : head().half_bytes);
}

Result<std::unique_ptr<Journal>> Journal::Make(uint64_t half_bytes) {
  const uint64_t bytes = kHeadBytes + 2 * half_bytes;
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd file, os::SealedMemfd("onecopy-records", bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(file.get(), bytes));
  new (mapping.data()) Head{kMagic, kVersion, half_bytes, {0}};
  return std::unique_ptr<Journal>(new Journal(std::move(file), std::move(mapping)));
}

Result<std::unique_ptr<Journal>> Journal::Open(os::UniqueFd file) {
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) {
    return os::ErrnoStatus(errno, "looking at the records of the earlier daemon");
  }
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return NoJournal("they are in no sealed memory file");
  }
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  if (bytes < kHeadBytes) return NoJournal("their file has " + FormatBytes(bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(file.get(), bytes));
  std::unique_ptr<Journal> journal(new Journal(std::move(file), std::move(mapping)));
  const Head& head = journal->head();
  if (head.magic != kMagic) return NoJournal("their file is of another kind");
  if (head.version != kVersion) {
    return NoJournal("they are of version " + std::to_string(head.version) + ", and this is " +
                     std::to_string(kVersion));
  }
  if (head.half_bytes != (bytes - kHeadBytes) / 2) return NoJournal("their file is damaged");
  journal->Read();
  return journal;
}

void Journal::Read() {
  const uint64_t counts = head().counts.load(std::memory_order_acquire);
  const std::byte* const half = Half(counts & kSecondHalf);
  const uint64_t end = counts & ~kSecondHalf;
  if (end > head().half_bytes) {
    unread_ = end;
    head().counts.store(counts & kSecondHalf, std::memory_order_release);
    return;
  }
  uint64_t at = 0;
  while (at < end) {
    Entry entry;
    if (end - at < sizeof entry) break;
    std::memcpy(&entry, half + at, sizeof entry);
    const std::byte* const text = half + at + sizeof entry;
    if (entry.bytes() > end - at || entry.check != entry.CheckOf(text)) break;
    const char* const letters = reinterpret_cast<const char*>(text);
    const std::string key(letters, entry.key_bytes);
    if (entry.value_bytes == kErased) {
      records_.erase(key);
    } else {
      records_[key].assign(letters + entry.key_bytes, entry.value_bytes);
    }
    at += entry.bytes();
  }
  unread_ = end - at;
  for (const auto& [key, value] : records_) live_ += EntryOf(key, value).bytes();
  // New changes follow the last sound one.
  if (unread_ > 0) head().counts.store((counts & kSecondHalf) | at, std::memory_order_release);
}

bool Journal::Append(std::string_view key, std::string_view value, bool erase) {
  const uint64_t counts = head().counts.load(std::memory_order_relaxed);
  const uint64_t at = counts & ~kSecondHalf;
  Entry entry = EntryOf(key, value);
  if (erase) entry.value_bytes = kErased;
  if (entry.bytes() > head().half_bytes - at) return false;
  std::byte* const place = Half(counts & kSecondHalf) + at;
  std::memcpy(place + sizeof entry, key.data(), key.size());
  if (!erase) std::memcpy(place + sizeof entry + key.size(), value.data(), value.size());
  entry.check = entry.CheckOf(place + sizeof entry);
  std::memcpy(place, &entry, sizeof entry);
  head().counts.store(counts + entry.bytes(), std::memory_order_release);
  return true;
}

void Journal::Compact() {
  const uint64_t counts = head().counts.load(std::memory_order_relaxed);
  const uint64_t other = (counts & kSecondHalf) ^ kSecondHalf;
  std::byte* const begin = Half(other);
  std::byte* place = begin;
  for (const auto& [key, value] : records_) {
    Entry entry = EntryOf(key, value);
    std::memcpy(place + sizeof entry, key.data(), key.size());
    std::memcpy(place + sizeof entry + key.size(), value.data(), value.size());
    entry.check = entry.CheckOf(place + sizeof entry);
    std::memcpy(place, &entry, sizeof entry);
    place += entry.bytes();
  }
  const auto bytes = static_cast<uint64_t>(place - begin);
  head().counts.store(other | bytes, std::memory_order_release);
}

Status Journal::Put(const std::string& key, const std::string& value, unsigned part) {
  const uint64_t most = head().half_bytes / part;
  const auto before = records_.find(key);
  if (before != records_.end() && before->second == value) return OkStatus();
  const uint64_t replaced = before == records_.end() ? 0 : EntryOf(key, before->second).bytes();
  // The lengths fit into an entry's fields, which have 32 bits.
  const bool fits = key.size() <= most && value.size() <= most;
  const uint64_t live = fits ? live_ - replaced + EntryOf(key, value).bytes() : 0;
  // A change that does not make the table longer always fits.
  if (!fits || (live > most && live > live_)) {
    return {Code::kResourceExhausted, reasons::kNoMemory,
            "there is no room for more records that outlive the daemon"};
  }
  if (!Append(key, value, false)) {
    Compact();
    (void)Append(key, value, false);  // fits: the table takes at most half
  }
  records_[key] = value;
  live_ = live;
  return OkStatus();
}

void Journal::Erase(const std::string& key) {
  const auto found = records_.find(key);
  if (found == records_.end()) return;
  live_ -= EntryOf(key, found->second).bytes();
  records_.erase(found);
  // Compacting writes only what is in records_, so it leaves the key out.
  if (!Append(key, {}, true)) Compact();
}

}  // namespace onecopy::holder
