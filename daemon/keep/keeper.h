// The daemon's memory and records in the hands of a holder process.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/keeper_api.h"
#include "daemon/keep/holder_link.h"
#include "daemon/keep/journal.h"
#include "transport/core/mutex.h"

namespace onecopy::keep {

class Keeper final : public engine::KeeperApi {
 public:
  struct Options {
    std::string socket;  // of the holder
    // The program that serves there where none does, and its arguments; empty: something else
    // starts it.
    std::vector<std::string> program;
    std::chrono::milliseconds hold_for{0};  // after this daemon has gone
    std::chrono::milliseconds busy_patience{10'000};
  };

  // Where no holder listens, the log says why, and so does every Hold, until Renew has found one.
  // Fails where there is one, but what it has cannot be had now: to go on would lose it. As
  // HolderLink::Connect; RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<Keeper>> Open(Options options);

  Left TakeLeft() override;
  Status Hold(uint64_t number, int fd) override;
  void Release(uint64_t number) override;
  Status Renew() override;
  int lost_fd() const override;
  Status Put(const std::string& key, const std::string& value, bool minor) override;
  void Erase(const std::string& key) override;

  // Under which the records are held; those of memory are larger.
  static constexpr uint64_t kRecords = 1;

 private:
  explicit Keeper(Options options) : options_(std::move(options)) {}

  Result<HolderLink> Connect() const;
  // Takes over what the holder has, and begins new records where those cannot be read.
  Status Adopt(HolderLink link);
  Status Lose(const Status& why) ONECOPY_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::optional<HolderLink> link_ ONECOPY_GUARDED_BY(mutex_);
  Status lost_ ONECOPY_GUARDED_BY(mutex_);  // not OK: why the link is of no use
  std::unique_ptr<Journal> journal_;        // engine thread, once it is open
  std::map<uint64_t, os::UniqueFd> left_;
};

}  // namespace onecopy::keep
