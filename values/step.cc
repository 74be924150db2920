#include "onecopy/step.h"

#include <algorithm>

#include "values/name_list.h"

namespace onecopy {

bool IsOnePass(const Step& a, const Step& b) {
  if (a.by != b.by && (a.by == "wire" || b.by == "wire")) return false;
  return a.node == b.node && a.from == b.from && a.to == b.to && a.loopback == b.loopback &&
         a.emulated == b.emulated;
}

void JoinPass(const Step& other, Step& into) {
  size_t begin = 0;
  while (begin <= other.by.size()) {
    const size_t end = std::min(other.by.find(',', begin), other.by.size());
    AddName(other.by.substr(begin, end - begin), into.by);
    begin = end + 1;
  }
}

}  // namespace onecopy
