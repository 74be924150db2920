// Named values of a log record.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <variant>

#include "onecopy/ids.h"
#include "onecopy/trace_context.h"

namespace onecopy::log {

// Refers to its sources, so it must not outlive the call that it is an argument of. Names are our
// own lower_case words; texts may come from any client or peer.
struct Field {
  std::string_view name;
  std::variant<std::string_view, int64_t, uint64_t, double, bool> value;
  bool absent = false;  // left out of the record

  template <std::convertible_to<std::string_view> Text>
  Field(std::string_view name, const Text& text) : name(name), value(std::string_view(text)) {}

  template <typename Tag>
  Field(std::string_view name, const NamedId<Tag>& id)
      : name(name), value(std::string_view(id.str())) {}

  Field(std::string_view name, const TraceContext& trace)
      : name(name), value(std::string_view(trace.str())), absent(trace.empty()) {}

  Field(std::string_view name, std::same_as<bool> auto truth) : name(name), value(truth) {}

  template <std::signed_integral Number>
  Field(std::string_view name, Number number) : name(name), value(int64_t{number}) {}

  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) Field(std::string_view name, Number number)
      : name(name), value(uint64_t{number}) {}

  template <std::floating_point Number>
  Field(std::string_view name, Number number) : name(name), value(double{number}) {}
};

}  // namespace onecopy::log
