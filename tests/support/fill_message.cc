#include "tests/support/fill_message.h"

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/rpc/status.pb.h"
#include "proto/codec/status_codec.h"

namespace onecopy::testing {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Filler {
 public:
  void Fill(Message* message) {
    const std::string& type = message->GetDescriptor()->full_name();
    const int number = ++number_;
    if (type == "google.protobuf.Duration") {
      auto* duration =
          google::protobuf::DynamicCastToGenerated<google::protobuf::Duration>(message);
      duration->set_seconds(number);
      duration->set_nanos(number % 1000 * 1'000'000);
    } else if (type == "google.protobuf.Timestamp") {
      auto* time = google::protobuf::DynamicCastToGenerated<google::protobuf::Timestamp>(message);
      time->set_seconds(1'700'000'000 + number);
      time->set_nanos(number % 1000 * 1'000'000);
    } else if (type == "google.rpc.Status") {
      const std::string text = std::to_string(number);
      *google::protobuf::DynamicCastToGenerated<google::rpc::Status>(message) = ToProto(
          Status(Code::kFailedPrecondition, "REASON_" + text, "message " + text, "remedy " + text)
              .WithRefusals({{"path" + text, "R", "detail", "remedy"}}));
    } else {
      const Descriptor& descriptor = *message->GetDescriptor();
      for (int i = 0; i < descriptor.field_count(); ++i) FillField(message, descriptor.field(i));
    }
  }

 private:
  void FillField(Message* message, const FieldDescriptor* field) {
    const Reflection& reflection = *message->GetReflection();
    const int times = field->is_repeated() ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      const int number = ++number_;
      const std::string text = "s" + std::to_string(number);
      const bool add = field->is_repeated();
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_MESSAGE:
          Fill(add ? reflection.AddMessage(message, field)
                   : reflection.MutableMessage(message, field));
          break;
        case FieldDescriptor::CPPTYPE_STRING:
          add ? reflection.AddString(message, field, text)
              : reflection.SetString(message, field, text);
          break;
        case FieldDescriptor::CPPTYPE_ENUM: {
          const int last = field->enum_type()->value_count() - 1;
          const auto* value = field->enum_type()->value(1 + number % last);
          add ? reflection.AddEnum(message, field, value)
              : reflection.SetEnum(message, field, value);
          break;
        }
        case FieldDescriptor::CPPTYPE_BOOL:
          reflection.SetBool(message, field, true);
          break;
        case FieldDescriptor::CPPTYPE_INT32:
          reflection.SetInt32(message, field, number);
          break;
        case FieldDescriptor::CPPTYPE_UINT32:
          add ? reflection.AddUInt32(message, field, static_cast<uint32_t>(number))
              : reflection.SetUInt32(message, field,
                                     3'000'000'000U + static_cast<uint32_t>(number));
          break;
        case FieldDescriptor::CPPTYPE_INT64:
          reflection.SetInt64(message, field, number);
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          add ? reflection.AddUInt64(message, field, static_cast<uint64_t>(number))
              : reflection.SetUInt64(message, field,
                                     (uint64_t{1} << 63) + static_cast<uint64_t>(number));
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          reflection.SetDouble(message, field, number + 0.5);
          break;
        case FieldDescriptor::CPPTYPE_FLOAT:
          reflection.SetFloat(message, field, static_cast<float>(number));
          break;
      }
    }
  }

  int number_ = 0;
};

}  // namespace

void Fill(Message* message) { Filler().Fill(message); }

std::string FirstUnset(const Message& message) {
  const Descriptor& descriptor = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  const std::string& type = descriptor.full_name();
  const bool whole = type == "google.protobuf.Duration" || type == "google.protobuf.Timestamp" ||
                     type == "google.protobuf.Any";
  if (whole) return message.ByteSizeLong() == 0 ? type : "";
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const std::string name = field->full_name();
    if (field->is_repeated()) {
      const int size = reflection.FieldSize(message, field);
      if (size == 0) return name;
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
      for (int j = 0; j < size; ++j) {
        std::string unset = FirstUnset(reflection.GetRepeatedMessage(message, field, j));
        if (!unset.empty()) return unset;
      }
      continue;
    }
    if (const auto* oneof = field->real_containing_oneof()) {
      if (!reflection.HasOneof(message, oneof)) return oneof->full_name();
      if (!reflection.HasField(message, field)) continue;
    }
    if (!reflection.HasField(message, field)) return name;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      std::string unset = FirstUnset(reflection.GetMessage(message, field));
      if (!unset.empty()) return unset;
    }
  }
  return {};
}

std::string Difference(const Message& a, const Message& b) {
  std::string report;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&report);
  differencer.Compare(a, b);
  return report;
}

}  // namespace onecopy::testing
