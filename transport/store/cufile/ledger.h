// What this process has asked the library to do for each GPU: beside what the library counts, it
// tells whether that was all of it. The library's counters do not tell transfers apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "transport/core/base/mutex.h"
#include "transport/shim/cufile.h"
#include "transport/store/cufile/counts.h"

namespace onecopy::cufile {

// Any thread.
class Ledger {
 public:
  explicit Ledger(std::shared_ptr<const Counts> counts) : counts_(std::move(counts)) {}

  // A time that begins now, in which a GPU's counters are looked at.
  struct Window {
    shim::CuFileCounts before;
    uint64_t ended = 0;      // operations
    uint64_t under_way = 0;  // whose count may be in `before` or not
  };
  // Nothing without counters.
  std::optional<Window> Open(const std::string& gpu);

  // Operations of any transfer. `moved`: those that moved something, which is counted.
  void Begin(const std::string& gpu, uint64_t operations);
  void End(const std::string& gpu, uint64_t operations, uint64_t moved);

  // What is known of the operations that have ended since: empty if all of them, of all transfers,
  // went directly; else how they went instead, in words.
  struct Seen {
    bool direct = false;
    bool through_gpu = false;  // else through host memory, as far as is known
    std::string why_not;
    uint64_t counted = 0;  // as direct
  };
  Seen Look(const std::string& gpu, const Window& window);

  // Transfers that use a GPU's counters. Join: how many there have been until now, and are.
  struct Company {
    uint64_t present = 0;
    uint64_t ever = 0;
  };
  Company Join(const std::string& gpu);
  void Leave(const std::string& gpu);
  // How many others there have been beside one that joined so.
  uint64_t Others(const std::string& gpu, const Company& joined);

 private:
  struct Account {
    uint64_t ended = 0;
    uint64_t under_way = 0;
    Company company;
  };

  const std::shared_ptr<const Counts> counts_;
  Mutex mutex_;
  std::map<std::string, Account> accounts_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cufile
