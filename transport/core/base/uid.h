// The user as which the kernel knows a process.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy {

// A uid, and whose: in a container uid 0 is not the host's root, and two containers' are two. Equal
// only where both parts are.
struct Uid {
  uint32_t number = 0;
  // Names the user and PID namespaces that it was met in, as "pid4026532567" or
  // "user4026532601.pid4026532602". Empty: those of the daemon itself.
  std::string namespaces;

  Uid() = default;
  // A number alone is one of the daemon's own namespaces.
  Uid(uint32_t uid) : number(uid) {}  // NOLINT(google-explicit-constructor)
  Uid(uint32_t uid, std::string where) : number(uid), namespaces(std::move(where)) {}

  bool foreign() const { return !namespaces.empty(); }

  // Who pays for what it uses up. Anybody may make user namespaces without end, so those count as
  // the uid that they belong to; it takes rights to make a PID namespace alone. Of those who cannot
  // be told apart at all, all that have one number count as one.
  Uid payer() const {
    if (namespaces.starts_with(kUserPart)) return Uid(number);
    return namespaces.starts_with(kAlonePart) ? Uid(number, std::string(kAlonePart)) : *this;
  }

  std::string ToString() const;  // "1000", "0+pid4026532567"

  friend auto operator<=>(const Uid&, const Uid&) = default;

  // How `namespaces` begins where the user namespace is another than the daemon's.
  static constexpr std::string_view kUserPart = "user";
  // And where nothing tells whose they are.
  static constexpr std::string_view kAlonePart = "alone";
};

// INVALID_ARGUMENT for what cannot name namespaces: at most 80 of a-z, 0-9, '.' and '-', the first
// a letter. Nothing at all is right.
Status CheckNamespaces(const std::string& text);

// "1000" or "0+pid4026532567" at the beginning of `text`; `rest` becomes what follows it.
Result<Uid> ParseUid(std::string_view text, std::string_view* rest);

}  // namespace onecopy
