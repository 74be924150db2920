#include "transport/core/base/nearest.h"

#include <algorithm>

namespace onecopy {
namespace {

// Two words as they are compared: '-' and '_' are one, and so are the cases of a letter.
std::string Fold(std::string_view word) {
  std::string folded;
  for (const char c : word) {
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  }
  return folded;
}

// How many letters have to be replaced, added, removed or swapped with their neighbour.
size_t EditDistance(const std::string& a, const std::string& b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> cost((a.size() + 1) * width);
  const auto at = [&](size_t i, size_t j) -> size_t& { return cost[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return cost.back();
}

}  // namespace

std::string Nearest(std::string_view typed, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;  // a longer word is not a key or a name
  if (typed.size() > kLongest) return {};
  const std::string word = Fold(typed);
  // A third of the letters may be wrong: more, and any short word would resemble any other.
  size_t nearest_distance = std::max<size_t>(word.size() / 3, 1) + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, Fold(candidate));
    if (distance >= nearest_distance) continue;
    nearest_distance = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace onecopy
