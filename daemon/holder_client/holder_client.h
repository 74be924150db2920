// The daemon's side of the holder: memory, and the records that describe it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/holder_api.h"
#include "daemon/holder_client/holder_link.h"
#include "daemon/holder_client/journal.h"
#include "transport/core/base/mutex.h"

namespace onecopy::holder {

class HolderClient final : public engine::HolderApi {
 public:
  struct Options {
    std::string socket;  // of the holder
    // The command that starts a holder if none listens there; empty: something else starts it.
    std::vector<std::string> program;
    std::chrono::milliseconds hold_for{0};  // after this daemon has gone
    std::chrono::milliseconds busy_patience{10'000};
  };

  // If no holder listens, succeeds and logs an error; every Hold fails until Renew finds a holder.
  // If a holder listens but does not hand over what it has, fails, since starting without that
  // would lose it. Fails as HolderLink::Connect does; RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<HolderClient>> Open(Options options);

  Left TakeLeft() override;
  Status Hold(uint64_t number, int fd) override;
  void Release(uint64_t number) override;
  Status Renew() override;
  int lost_fd() const override;
  Status Put(const std::string& key, const std::string& value, Share share) override;
  void Erase(const std::string& key) override;

  // The number of the records' file. Numbers of memory are larger.
  static constexpr uint64_t kRecords = 1;

 private:
  explicit HolderClient(Options options) : options_(std::move(options)) {}

  Result<HolderLink> Connect() const;
  // Takes over what the holder has. Makes new records if the old ones cannot be read.
  Status Adopt(HolderLink link);
  Status Lose(const Status& why) ONECOPY_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::optional<HolderLink> link_ ONECOPY_GUARDED_BY(mutex_);
  Status lost_ ONECOPY_GUARDED_BY(mutex_);  // not OK: why the link cannot be used
  std::unique_ptr<Journal> journal_;        // engine thread, once it is open
  std::map<uint64_t, os::UniqueFd> left_;
};

}  // namespace onecopy::holder
