#include "daemon/log/audit.h"

#include <spdlog/sinks/basic_file_sink.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "daemon/log/queued_output.h"
#include "daemon/log/text_output.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::audit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 4> kNames = {"off", "denied", "rights", "all"};
// Who asks: more than so many share one allowance.
constexpr size_t kMaxRemembered = 4096;

// How many records of one caller may be written.
struct Allowance {
  double left = 0;
  Clock::time_point at{};
  uint64_t left_out = 0;
};

class Log {
 public:
  void Set(const Options& options, std::shared_ptr<log::Output> output) {
    const MutexLock lock(mutex_);
    options_ = options;
    output_ = std::move(output);
    of_.clear();
  }

  void Write(const Decision& decision) {
    const bool denied = IsDenial(decision.why);
    uint64_t left_out = 0;
    std::shared_ptr<log::Output> output;
    {
      const MutexLock lock(mutex_);
      if (!Wanted(decision, denied) ||
          !Allow(decision.account.empty() ? decision.who : decision.account, &left_out))
        return;
      output = output_;
    }
    const std::string_view outcome = denied ? "denied" : decision.why.ok() ? "allowed" : "failed";
    std::vector<log::Field> fields = {{"who", decision.who},
                                      {"from", decision.from},
                                      {"what", decision.what},
                                      {"on", decision.on},
                                      {"outcome", outcome}};
    const std::string why = decision.why.ok() ? std::string() : decision.why.ToString();
    if (!why.empty()) fields.emplace_back("why", why);
    if (left_out > 0) fields.emplace_back("left_out_before", left_out);
    const log::Record record{denied ? log::Level::kWarning : log::Level::kInfo, "audit", fields};
    if (output != nullptr) {
      output->Write(record);
    } else {
      log::internal::Write(record);
    }
  }

  uint64_t Dropped() {
    std::shared_ptr<log::Output> output;
    uint64_t dropped = 0;
    {
      const MutexLock lock(mutex_);
      output = output_;
      dropped = dropped_;
    }
    return dropped + (output == nullptr ? 0 : output->dropped());
  }

 private:
  bool Wanted(const Decision& decision, bool denied) const ONECOPY_REQUIRES(mutex_) {
    if (denied) return options_.level >= Level::kDenied;
    if (decision.why.ok() && decision.rights) return options_.level >= Level::kRights;
    return options_.level >= Level::kAll;
  }

  bool Allow(std::string_view who, uint64_t* left_out) ONECOPY_REQUIRES(mutex_) {
    const Clock::time_point now = Clock::now();
    Allowance& of = Find(std::string(who), now);
    const std::chrono::duration<double, std::ratio<60>> minutes = now - of.at;
    of.at = now;
    of.left = std::min<double>(options_.most_per_minute,
                               of.left + minutes.count() * options_.most_per_minute);
    if (of.left < 1) {
      ++of.left_out;
      ++dropped_;
      return false;
    }
    of.left -= 1;
    *left_out = std::exchange(of.left_out, 0);
    return true;
  }

  Allowance& Find(const std::string& who, Clock::time_point now) ONECOPY_REQUIRES(mutex_) {
    const auto found = of_.find(who);
    if (found != of_.end()) return found->second;
    if (of_.size() >= kMaxRemembered) {
      // Who has asked for nothing for a minute has all of its allowance again.
      std::erase_if(of_, [now](const auto& entry) {
        return now - entry.second.at >= std::chrono::minutes(1) && entry.second.left_out == 0;
      });
    }
    const std::string& key = of_.size() < kMaxRemembered ? who : kOthers;
    const auto [place, made] = of_.try_emplace(key);
    if (made) place->second = {static_cast<double>(options_.most_per_minute), now, 0};
    return place->second;
  }

  const std::string kOthers = "others";
  Mutex mutex_;
  Options options_ ONECOPY_GUARDED_BY(mutex_);
  std::shared_ptr<log::Output> output_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t dropped_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Allowance, std::less<>> of_ ONECOPY_GUARDED_BY(mutex_);  // by caller
};

// Never destroyed: threads may write while the process ends.
Log& TheLog() {
  static Log& log = *new Log;
  return log;
}

}  // namespace

Result<Level> ParseLevel(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<Level>(found - kNames.begin());
  return Status(Code::kInvalidArgument, reasons::kBadArgument,
                "the audit log has no level \"" + std::string(name) + "\"",
                "the levels are off, denied, rights and all");
}

Status Open(const Options& options) {
  std::shared_ptr<log::Output> output;
  if (!options.file.empty()) {
    std::shared_ptr<spdlog::sinks::sink> sink;
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& failure) {
      return {Code::kInvalidArgument, reasons::kBadConfig,
              "audit.file: cannot write " + options.file + ": " + failure.what(),
              "name a file in an existing folder that onecopyd may write to"};
    }
    ONECOPY_ASSIGN_OR_RETURN(output,
                             log::QueuedOutput::Start(log::MakeTextOutput(std::move(sink))));
  }
  SetOutput(std::move(output), options);
  return OkStatus();
}

void SetOutput(std::shared_ptr<log::Output> output, const Options& options) {
  TheLog().Set(options, std::move(output));
}

bool IsDenial(const Status& status) {
  return status.code() == Code::kPermissionDenied || status.code() == Code::kUnauthenticated ||
         status.reason() == reasons::kQuota;
}

void Write(const Decision& decision) { TheLog().Write(decision); }

uint64_t Dropped() { return TheLog().Dropped(); }

}  // namespace onecopy::audit
