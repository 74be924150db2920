// The rate limits that each transfer keeps: its user's, its node's and its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/base/flows.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/base/rate_limit.h"
#include "daemon/pipeline/pace.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Of one transfer, or of one part. Any thread; `loop` must outlive every call of At.
class TransferPace final : public pipeline::Pace {
 public:
  struct Limit {
    std::string of;  // "user 1000@east"
    std::shared_ptr<RateLimit> rate;
  };

  TransferPace(os::EventLoop& loop, std::vector<Limit> limits)
      : loop_(loop), limits_(std::move(limits)) {}

  std::optional<Clock::time_point> Spend(uint64_t bytes) override;
  void At(Clock::time_point when, Task task) override;
  uint64_t piece_bytes() const override;

  bool limited() const;
  // "105 MB/s for user 1000@east, 2.1 GB/s for node east"; empty if nothing limits it now.
  std::string Describe() const;

 private:
  os::EventLoop& loop_;
  const std::vector<Limit> limits_;
};

// Engine thread. Knows a limit for as long as a transfer keeps it, and then until what was spent in
// advance is made up for: transfers one after the other keep it as well as those at a time do.
class Paces {
 public:
  explicit Paces(os::EventLoop& loop) : loop_(loop) {}

  // Whose limits a transfer keeps beside those of its user and its node.
  struct Own {
    std::string transfer;  // all parts of one have its limit together
    uint64_t bytes_per_second = 0;
  };

  // As for Flows::Of. Never null: a limit may come while the transfer runs.
  std::shared_ptr<TransferPace> Of(const Flows& flows, const Owner& owner,
                                   const std::string& initiator, const Own& own);
  // After the flows have other limits: also for what runs.
  void Refresh(const Flows& flows);
  size_t known() const { return known_.size(); }  // also some that have ended

 private:
  struct Known {
    Owner owner;            // the user; of a node's own limit: not used
    std::string initiator;  // empty: the limit of one transfer
    bool of_user = false;
    std::shared_ptr<RateLimit> rate = {};
  };

  std::shared_ptr<RateLimit> Find(const std::string& of, Known known, uint64_t bytes_per_second);

  os::EventLoop& loop_;
  std::map<std::string, Known> known_;  // by whose limit it is
  size_t tidy_at_ = 64;
};

}  // namespace onecopy::engine
