#include "bench/measure/row.h"

#include <cstdio>

#include "bench/measure/statistics.h"

namespace onecopy::bench {
namespace {

Row WithOutcome(Row row, RowStatus status, std::string_view reason, std::string detail) {
  row.status = status;
  row.reason = reason;
  row.detail = std::move(detail);
  return row;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

Row WithStatus(Row row, RowStatus status, const Status& why) {
  std::string detail = why.message();
  if (!why.remedy().empty()) detail += " (" + why.remedy() + ")";
  return WithOutcome(std::move(row), status, why.reason(), std::move(detail));
}

}  // namespace

std::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kBytesPerSecond:
      return "B/s";
    case Unit::kBytes:
      return "B";
    case Unit::kCores:
      return "cores";
    case Unit::kSeconds:
      return "s";
    case Unit::kSecondsPerGigabyte:
      return "s/GB";
    case Unit::kBytesPerByte:
      return "B/B";
    case Unit::kPerSecond:
      return "1/s";
  }
  return "";
}

std::string_view RowStatusName(RowStatus status) {
  switch (status) {
    case RowStatus::kOk:
      return "OK";
    case RowStatus::kWaived:
      return "WAIVED";
    case RowStatus::kFailed:
      return "FAILED";
  }
  return "";
}

std::optional<double> Row::ratio() const {
  if (ceiling.empty() || values.empty()) return std::nullopt;
  return MedianRatio(values, ceiling_values);
}

Row Waived(Row row, const Status& why) {
  return WithStatus(std::move(row), RowStatus::kWaived, why);
}

Row Failed(Row row, const Status& why) {
  return WithStatus(std::move(row), RowStatus::kFailed, why);
}

Row Evaluated(Row row) {
  using enum RowStatus;
  if (row.verified == false) {
    return WithOutcome(std::move(row), kFailed, kPayloadWrong,
                       "the bytes that arrived differ from the bytes that were sent");
  }
  if (const auto ratio = row.ratio(); row.floor && ratio && *ratio < *row.floor) {
    std::string detail = Number(*ratio) + " of " + row.ceiling + ", and " + Number(*row.floor) +
                         " is the least that is good enough";
    return WithOutcome(std::move(row), kFailed, kBelowFloor, std::move(detail));
  }
  if (const auto ratio = row.ratio(); row.roof && ratio && *ratio > *row.roof) {
    std::string detail = Number(*ratio) + " of " + row.ceiling + ", and " + Number(*row.roof) +
                         " is the most that is good enough";
    return WithOutcome(std::move(row), kFailed, kOverLimit, std::move(detail));
  }
  const double median = Summarise(row.values).median;
  if (row.limit && median > *row.limit) {
    const std::string unit(UnitName(row.unit));
    std::string detail = Number(median) + " " + unit + ", and " + Number(*row.limit) + " " + unit +
                         " is the most that is good enough" +
                         (row.detail.empty() ? "" : ": " + row.detail);
    return WithOutcome(std::move(row), kFailed, kOverLimit, std::move(detail));
  }
  row.status = kOk;
  return row;
}

}  // namespace onecopy::bench
