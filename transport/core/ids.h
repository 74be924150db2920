// Ids are strong types: a transfer's id cannot be passed where a buffer's is meant.
#pragma once

#include <compare>
#include <cstdint>
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
using SessionId = NamedId<struct SessionTag>;  // unique on its node; not the session's secret token

// A buffer of this node. The generation makes the id of a removed buffer fail although its slot is
// used again.
struct BufferId {
  uint32_t slot = 0;
  uint32_t generation = 0;

  // "17.3", and back; {0, 0}, which no buffer has, for anything else.
  std::string ToString() const;
  static BufferId Parse(const std::string& text);

  friend auto operator<=>(const BufferId&, const BufferId&) = default;
};

}  // namespace onecopy

template <typename Tag>
struct std::hash<onecopy::NamedId<Tag>> {
  size_t operator()(const onecopy::NamedId<Tag>& id) const {
    return std::hash<std::string>()(id.str());
  }
};
