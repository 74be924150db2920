#include "transport/core/base/glob.h"

#include <cstddef>

namespace onecopy {

bool MatchesGlob(std::string_view glob, std::string_view name) {
  constexpr size_t kNone = std::string_view::npos;
  size_t g = 0;
  size_t n = 0;
  size_t star = kNone;    // the last * seen, which takes one more character whenever the rest
  size_t star_takes = 0;  // does not fit; an earlier * never has to
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_takes = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != kNone) {
      g = star + 1;
      n = ++star_takes;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace onecopy
