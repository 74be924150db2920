// Pages of a list that is ordered by a key.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/footprint.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

// How many items a page may have.
inline Result<size_t> PageSize(const PageRequest& page) {
  constexpr int32_t kDefault = 100;
  constexpr int32_t kMost = 1000;
  if (page.size < 0) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "a page of negative size");
  }
  return static_cast<size_t>(page.size == 0 ? kDefault : std::min(page.size, kMost));
}

// The first of `items` that a page after `token` may have: found at once where they stand in a tree
// by their keys in text.
template <typename Items>
auto FirstAfter(const Items& items, const std::string& token) {
  if constexpr (requires { requires std::same_as<typename Items::key_type, std::string>; }) {
    return token.empty() ? items.begin() : items.upper_bound(token);
  } else {
    return items.begin();
  }
}

// The items of a list from one on.
template <typename Iterator>
struct From {
  Iterator begin() const { return first; }
  Iterator end() const { return last; }

  Iterator first;
  Iterator last;
};

// What a page may take, so that none takes long to make or to send: its first item always does.
inline constexpr uint64_t kPageBytes = uint64_t{256} << 10;

// Fills one page: `items` is a range in order whose elements' key (text, by `key_of`) is above
// page.token; those that `wanted` refuses are left out. The token of the next page is the last key
// of this one, so a list that changes meanwhile neither repeats nor loses what stayed.
template <typename T, typename Items, typename KeyOf, typename Wanted, typename Make>
Result<Page<T>> TakePage(const PageRequest& request, const Items& items, KeyOf key_of,
                         Wanted wanted, Make make) {
  ONECOPY_ASSIGN_OR_RETURN(const size_t size, PageSize(request));
  Page<T> page;
  uint64_t bytes = 0;
  std::string last;
  for (auto at = FirstAfter(items, request.token); at != items.end(); ++at) {
    const auto& item = *at;
    const std::string key = key_of(item);
    if (!request.token.empty() && key <= request.token) continue;
    if (!wanted(item)) continue;
    if (page.items.size() == size) {
      page.next_token = last;
      break;
    }
    T made = make(item);
    bytes += FootprintOf(made);
    if (!page.items.empty() && bytes > kPageBytes) {
      page.next_token = last;
      break;
    }
    page.items.push_back(std::move(made));
    last = key;
  }
  return page;
}

}  // namespace onecopy::engine
