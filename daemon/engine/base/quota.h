// Counts what owners have of one kind of thing, so that nobody takes what others need.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "daemon/engine/api/limits.h"
#include "daemon/engine/base/owners.h"

namespace onecopy::engine {

// Engine thread, as is every charge of it; charges may outlive it. Owners count as who pays for
// them. An administrator of this node is counted, but bound by the total alone, of which a part is
// for administrators only.
class Quota {
  struct Counts {
    std::map<Owner, size_t> of;
    size_t all = 0;
    size_t others = 0;  // of all, those that no administrator has
  };

 public:
  // The right to have some of the things, until it goes.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept { *this = std::move(other); }
    Charge& operator=(Charge&& other) noexcept;
    ~Charge() { GiveBack(); }

    size_t count() const { return counts_ == nullptr ? 0 : count_; }
    // What the other one has, of the same owner and quota.
    void Absorb(Charge&& other);
    // As many of them, or all.
    void GiveBack(size_t count = SIZE_MAX);

   private:
    friend class Quota;
    std::shared_ptr<Counts> counts_;
    Owner owner_;
    bool administrator_ = false;
    size_t count_ = 0;
  };

  // `key` of [limits], which says what is counted: "request_ids" in the message becomes "request
  // ids", and the limit of one owner is "request_ids_per_user".
  Quota(std::string node, std::string key, Limit limit, size_t reserved_percent)
      : node_(std::move(node)),
        key_(std::move(key)),
        limit_(limit),
        reserved_((limit.total * reserved_percent + 99) / 100) {}

  // One more, for as long as the charge stays. RESOURCE_EXHAUSTED (QUOTA), which names the limit
  // and where it is set.
  Result<Charge> Take(const Owner& owner, bool administrator);
  Result<Charge> Take(const Principal& who) { return Take(OwnerOf(who), who.administrator); }
  // One more into a charge of the same owner (and as much an administrator), or into an empty one.
  Status TakeInto(Charge& charge, const Owner& owner, bool administrator);

  size_t of(const Owner& owner) const;
  size_t all() const { return counts_->all; }

 private:
  Status Full(const Owner& owner, bool administrator) const;

  const std::string node_;
  const std::string key_;
  const Limit limit_;
  const size_t reserved_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace onecopy::engine
