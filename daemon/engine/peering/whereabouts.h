// Where a peer is: at which address it is dialled, and where else it may be.
#pragma once

#include <string>
#include <utility>

namespace onecopy::engine {

// Three sources name addresses: the configuration, which is right; discovery, which may be behind;
// and the peer itself, which is believed where neither knows better. A peer that answers is never
// left for another address. One thread; no calls.
class Whereabouts {
 public:
  explicit Whereabouts(std::string address) : address_(std::move(address)) {}

  const std::string& address() const { return address_; }  // at which it is dialled
  bool configured() const { return configured_; }
  bool discovered() const { return discovered_; }
  // It was discovered, and is not any more.
  bool vanished() const { return vanished_; }
  // Whether one greeting without an answer is enough to leave this address.
  bool in_doubt() const { return vanished_ || doubted_; }
  // Whether it has answered at this address.
  bool answered() const { return answered_ == address_; }
  // Whether what the peer says of its address is news, and counts.
  bool IsNews(const std::string& said) const { return !configured_ && address_ != said; }

  // The configuration names it. Returns whether that is another address than before.
  bool Configure(const std::string& address) {
    configured_ = true;
    discovered_ = vanished_ = false;
    elsewhere_.clear();
    found_.clear();
    return std::exchange(address_, address) != address;
  }
  void ConfigureNoMore() { configured_ = false; }

  // What to do about a discovered address.
  enum class Next { kStay, kAskHere, kMoveOn };
  // `is_up`: the peer answers where it is.
  Next Discover(const std::string& address, bool is_up) {
    discovered_ = true;
    vanished_ = false;
    found_ = address;
    if (address_ == address) {
      elsewhere_.clear();
      return Next::kStay;
    }
    if (std::exchange(elsewhere_, address) == address) return Next::kStay;
    doubted_ = is_up;
    return is_up ? Next::kAskHere : Next::kMoveOn;
  }
  void Vanish() {
    discovered_ = false;
    vanished_ = true;
    elsewhere_.clear();
    found_.clear();
  }

  // The peer says that it is there, and another one of its name has answered here: it may be left
  // once that one is known not to answer any more.
  void Doubt(const std::string& said) {
    doubted_ = IsNews(said);
    if (doubted_) elsewhere_ = said;
  }
  // The same where none answers.
  void Follow(const std::string& said) {
    elsewhere_.clear();
    address_ = said;
  }

  // Something answered at this address.
  void Heard() { doubted_ = false; }
  // It was the peer.
  void Settle() {
    answered_ = address_;
    if (!discovered_) elsewhere_.clear();
  }
  // It does not answer. Returns whether the address is another one now: where else it may be, or
  // where it was discovered, since what it says of itself counts no more than that.
  bool MoveOn() {
    if (elsewhere_.empty() && address_ != found_) elsewhere_ = found_;
    if (elsewhere_.empty()) return false;
    address_ = std::exchange(elsewhere_, {});
    return true;
  }

 private:
  std::string address_;
  bool configured_ = false;
  bool discovered_ = false;
  bool vanished_ = false;
  bool doubted_ = false;   // until something has answered here once more
  std::string found_;      // where it was discovered; empty: it is not
  std::string elsewhere_;  // where it may be if it does not answer here
  std::string answered_;   // the address at which it answered last
};

}  // namespace onecopy::engine
