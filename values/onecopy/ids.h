// Ids are strong types: a transfer's id cannot be passed where a grant's is meant.
#pragma once

#include "onecopy/language.h"  // first

#include <compare>
#include <functional>
#include <string>
#include <utility>

namespace onecopy {

// A string that is an id of one kind.
template <typename Tag>
class NamedId {
 public:
  NamedId() = default;
  explicit NamedId(std::string text) : text_(std::move(text)) {}

  const std::string& str() const { return text_; }
  bool empty() const { return text_.empty(); }

  friend auto operator<=>(const NamedId&, const NamedId&) = default;

 private:
  std::string text_;
};

using TransferId = NamedId<struct TransferTag>;  // unique in the cluster
using GrantId = NamedId<struct GrantTag>;        // unique on its node

}  // namespace onecopy

template <typename Tag>
struct std::hash<onecopy::NamedId<Tag>> {
  size_t operator()(const onecopy::NamedId<Tag>& id) const {
    return std::hash<std::string>()(id.str());
  }
};
