#include "daemon/rpc/call_quota.h"

#include <algorithm>

#include "onecopy/reasons.h"

namespace onecopy::rpc {

Result<std::shared_ptr<void>> CallQuota::Take(const engine::Owner& owner, bool administrator,
                                              size_t weight) {
  const engine::Owner who = PayerOf(owner);
  const MutexLock lock(counts_->mutex);
  const auto found = counts_->of.find(who);
  const size_t has = found == counts_->of.end() ? 0 : found->second;
  if (!administrator && has + weight > limit_.each) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  who.ToString() + " has " + std::to_string(has) +
                      " requests under way, and one user may have no more than " +
                      std::to_string(limit_.each) + " at a time",
                  "wait for their answers, and read them, or raise [limits] requests_per_user");
  }
  const size_t room = limit_.total - std::min(limit_.total, reserved_);
  const bool fits =
      counts_->all + weight <= limit_.total && (administrator || counts_->others + weight <= room);
  if (!fits) {
    return Status(
        Code::kResourceExhausted, reasons::kQuota,
        "the daemon has " + std::to_string(counts_->all) +
            " requests under way, as many as it takes" +
            (administrator ? "" : " beside what is reserved for administrators"),
        "try again later, or raise [limits] requests, which is " + std::to_string(limit_.total));
  }
  counts_->of[who] += weight;
  counts_->all += weight;
  if (!administrator) counts_->others += weight;
  return std::shared_ptr<void>(nullptr, [counts = counts_, who, administrator, weight](void*) {
    const MutexLock lock(counts->mutex);
    const auto of = counts->of.find(who);
    if ((of->second -= weight) == 0) counts->of.erase(of);
    counts->all -= weight;
    if (!administrator) counts->others -= weight;
  });
}

}  // namespace onecopy::rpc
