#include "daemon/engine/base/quota.h"

#include <algorithm>

#include "transport/core/reasons.h"

namespace onecopy::engine {

Quota::Charge& Quota::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  counts_ = std::move(other.counts_);
  owner_ = std::move(other.owner_);
  administrator_ = other.administrator_;
  count_ = std::exchange(other.count_, 0);
  return *this;
}

void Quota::Charge::Absorb(Charge&& other) {
  if (counts_ == nullptr) {
    *this = std::move(other);
    return;
  }
  count_ += std::exchange(other.count_, 0);
  other.counts_.reset();
}

void Quota::Charge::GiveBack(size_t count) {
  if (counts_ == nullptr) return;
  count = std::min(count, count_);
  count_ -= count;
  counts_->all -= count;
  if (!administrator_) counts_->others -= count;
  const auto found = counts_->of.find(owner_);
  if ((found->second -= count) == 0) counts_->of.erase(found);
  if (count_ == 0) counts_.reset();
}

size_t Quota::of(const Owner& owner) const {
  const auto found = counts_->of.find(PayerOf(owner));
  return found == counts_->of.end() ? 0 : found->second;
}

Status Quota::Full(const Owner& owner, bool administrator) const {
  std::string things = key_;
  std::replace(things.begin(), things.end(), '_', ' ');
  if (!administrator && of(owner) >= limit_.each) {
    return {Code::kResourceExhausted, reasons::kQuota,
            owner.ToString() + " has " + std::to_string(of(owner)) + " " + things + " on node " +
                node_ + ", as many as one user may have at a time",
            "let go of some, or raise [limits] " + key_ + "_per_user, which is " +
                std::to_string(limit_.each)};
  }
  const size_t room = limit_.total - std::min(limit_.total, reserved_);
  const bool fits = counts_->all < limit_.total && (administrator || counts_->others < room);
  if (fits) return OkStatus();
  return {
      Code::kResourceExhausted, reasons::kQuota,
      "node " + node_ + " has " + std::to_string(counts_->all) + " " + things +
          ", as many as it takes" +
          (administrator ? "" : " beside what is reserved for administrators"),
      "try again later, or raise [limits] " + key_ + ", which is " + std::to_string(limit_.total)};
}

Status Quota::TakeInto(Charge& charge, const Owner& owner, bool administrator) {
  const Owner payer = PayerOf(owner);
  ONECOPY_RETURN_IF_ERROR(Full(payer, administrator));
  ++counts_->of[payer];
  ++counts_->all;
  if (!administrator) ++counts_->others;
  charge.counts_ = counts_;
  charge.owner_ = payer;
  charge.administrator_ = administrator;
  ++charge.count_;
  return OkStatus();
}

Result<Quota::Charge> Quota::Take(const Owner& owner, bool administrator) {
  Charge charge;
  ONECOPY_RETURN_IF_ERROR(TakeInto(charge, owner, administrator));
  return charge;
}

}  // namespace onecopy::engine
