// A set of digests in as little memory as they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onecopy::engine {

// Numbers that look random already: they are their own hashes. Freeing it is one call, however many
// there are.
class DigestSet {
 public:
  void Insert(uint64_t digest) {
    if (4 * (size_ + 1) > 3 * places_.size()) Grow();
    if (Place(Word(digest)) == 0) ++size_;
    Place(Word(digest)) = Word(digest);
  }
  bool Contains(uint64_t digest) const {
    return !places_.empty() && const_cast<DigestSet*>(this)->Place(Word(digest)) != 0;
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kLeast = 64;  // places; always a power of two

  // An empty place is 0.
  static uint64_t Word(uint64_t digest) { return digest == 0 ? 1 : digest; }

  // Where the word is, or the empty place where it belongs.
  uint64_t& Place(uint64_t word) {
    size_t at = word & (places_.size() - 1);
    while (places_[at] != 0 && places_[at] != word) at = (at + 1) & (places_.size() - 1);
    return places_[at];
  }
  void Grow() {
    std::vector<uint64_t> before(places_.empty() ? kLeast : 2 * places_.size());
    before.swap(places_);
    for (const uint64_t word : before) {
      if (word != 0) Place(word) = word;
    }
  }

  std::vector<uint64_t> places_;
  size_t size_ = 0;
};

}  // namespace onecopy::engine
