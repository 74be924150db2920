#include "daemon/log/text_output.h"

#include <spdlog/logger.h>

#include <array>
#include <cstdio>

#include "daemon/log/escape.h"
#include "daemon/log/standard_error.h"

namespace onecopy::log {
namespace {

spdlog::level::level_enum SpdlogLevel(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

class TextOutput final : public Output {
 public:
  explicit TextOutput(std::shared_ptr<spdlog::sinks::sink> sink)
      : logger_("onecopyd", std::move(sink)) {
    logger_.set_level(spdlog::level::trace);  // log::Enabled has decided already
    logger_.flush_on(spdlog::level::trace);
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%-7l%$ %v", spdlog::pattern_time_type::utc);
  }

  void Write(const Record& record) override {
    const std::string text = TextOf(record);
    logger_.log(record.time, spdlog::source_loc(), SpdlogLevel(record.level),
                spdlog::string_view_t(text.data(), text.size()));
  }

 private:
  spdlog::logger logger_;
};

std::string NumberText(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() || text.find_first_of(" =\"\\") != std::string_view::npos;
}

}  // namespace

std::string ValueOf(const Field& field) {
  struct Visitor {
    std::string operator()(std::string_view text) const { return Escape(text, kMaxValueBytes); }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(uint64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return NumberText(number); }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
  };
  return std::visit(Visitor(), field.value);
}

std::string TextOf(const Record& record) {
  std::string text = Escape(record.message, kMaxMessageBytes);
  for (const Field& field : record.fields) {
    if (field.absent) continue;
    text += ' ';
    text += field.name;
    text += '=';
    const std::string value = ValueOf(field);
    if (NeedsQuotes(value)) {
      const auto& original = std::get<std::string_view>(field.value);
      text += '"' + Escape(original, kMaxValueBytes, true) + '"';
    } else {
      text += value;
    }
  }
  return text;
}

std::shared_ptr<Output> MakeTextOutput(std::shared_ptr<spdlog::sinks::sink> sink) {
  return std::make_shared<TextOutput>(std::move(sink));
}

std::shared_ptr<Output> MakeStderrOutput() { return MakeTextOutput(MakeStandardErrorSink()); }

}  // namespace onecopy::log
