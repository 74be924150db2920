#include "client/formats/head_reader.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "client/cli/output/escape.h"

namespace onecopy::formats {
namespace {

using cli::Quote;

constexpr uint64_t kMaxNumber = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxDepth = 127;  // as of the format's library
constexpr size_t kMaxMetadata = kMaxTensors;
constexpr std::string_view kMetadataName = "__metadata__";
constexpr std::string_view kFieldNames[] = {"dtype", "shape", "data_offsets"};

constexpr ElementType kTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64}};

const ElementType* FindType(std::string_view name) {
  const auto* const found = std::ranges::find(kTypes, name, &ElementType::name);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

std::span<const ElementType> ElementTypes() { return kTypes; }

uint64_t BitsOf(std::string_view dtype) {
  const ElementType* const type = FindType(dtype);
  return type == nullptr ? 0 : type->bits;
}

bool HeadReader::null() {
  if (place() == Place::kHead && in_metadata_) return true;
  if (place() == Place::kDtype) return true;
  return Scalar("null");
}

bool HeadReader::boolean(bool) { return Scalar("true or false"); }
bool HeadReader::number_integer(number_integer_t) { return Scalar("a number with a sign"); }
bool HeadReader::number_float(number_float_t, const string_t&) { return Scalar("a fraction"); }
bool HeadReader::binary(binary_t&) { return Scalar("binary"); }

bool HeadReader::number_unsigned(number_unsigned_t value) {
  if (place() != Place::kNumbers) return Scalar("a number");
  if (value > kMaxNumber) return Refuse("a number of 2^63 or more");
  if (numbers_->size() == most_numbers_) {
    return Refuse("more than " + std::to_string(most_numbers_) + " numbers");
  }
  numbers_->push_back(value);
  return true;
}

bool HeadReader::string(string_t& value) {
  if (place() == Place::kMetadata) {
    if (metadata_.size() == kMaxMetadata) return Refuse("more strings than allowed");
    metadata_.emplace_back(std::move(name_), std::move(value));
    return true;
  }
  if (!BeginElement()) return false;
  const bool in_tensor = place() == Place::kTensor || place() == Place::kTensorList;
  return in_tensor && field_ == kDtypeField ? SetDtype(value) : Scalar("a string");
}

bool HeadReader::start_object(std::size_t) {
  switch (place()) {
    case Place::kOutside:
      return Enter(Place::kHead);
    case Place::kHead:
      return in_metadata_ ? Enter(Place::kMetadata) : EnterTensor(Place::kTensor);
    case Place::kTensor:
    case Place::kTensorList:
      if (!BeginElement()) return false;
      dtype_words_ = 0;
      if (field_ == kDtypeField) return Enter(Place::kDtype);
      return field_ == kOtherField ? Enter(Place::kSkipped) : Refuse("an object");
    case Place::kSkipped:
      return Enter(Place::kSkipped);
    default:
      return Refuse("an object");
  }
}

bool HeadReader::start_array(std::size_t) {
  switch (place()) {
    case Place::kHead:
      return in_metadata_ ? Refuse("a list") : EnterTensor(Place::kTensorList);
    case Place::kTensor:
    case Place::kTensorList:
      if (!BeginElement()) return false;
      if (field_ == kShapeField) return EnterNumbers(&tensor_.shape, kMaxDimensions);
      if (field_ == kOffsetsField) return EnterNumbers(&offsets_, 2);
      return field_ == kOtherField ? Enter(Place::kSkipped) : Refuse("a list");
    case Place::kSkipped:
      return Enter(Place::kSkipped);
    default:
      return Refuse("a list");
  }
}

bool HeadReader::key(string_t& value) {
  switch (place()) {
    case Place::kHead:
      in_metadata_ = value == kMetadataName;
      if (in_metadata_ && std::exchange(had_metadata_, true)) {
        return Fail(std::string(kMetadataName) + " occurs in it twice");
      }
      name_ = std::move(value);
      return true;
    case Place::kMetadata:
      name_ = std::move(value);
      return true;
    case Place::kTensor:
      return SetField(value);
    case Place::kDtype:
      return ++dtype_words_ == 1 ? SetDtype(value) : Refuse("an object with several names");
    default:
      return true;
  }
}

bool HeadReader::end_object() {
  const Place ended = place();
  places_.pop_back();
  if (ended == Place::kDtype && dtype_words_ == 0) return Refuse("an empty object");
  return ended != Place::kTensor || EndTensor();
}

bool HeadReader::end_array() {
  const Place ended = place();
  places_.pop_back();
  return ended != Place::kTensorList || EndTensor();
}

// The library's message repeats the text, which may come from any file.
bool HeadReader::parse_error(std::size_t position, const std::string&,
                             const nlohmann::detail::exception&) {
  return NotJson(position);
}

bool HeadReader::NotJson(std::size_t position) {
  return Fail("its head is not JSON at byte " + std::to_string(position));
}

bool HeadReader::Enter(Place place) {
  if (places_.size() == kMaxDepth) return Fail("its head is nested too deeply");
  places_.push_back(place);
  return true;
}

bool HeadReader::EnterTensor(Place place) {
  tensor_ = {};
  offsets_.clear();
  std::ranges::fill(has_, false);
  elements_ = 0;
  return Enter(place);
}

bool HeadReader::EnterNumbers(std::vector<uint64_t>* numbers, size_t most) {
  numbers_ = numbers;
  most_numbers_ = most;
  return Enter(Place::kNumbers);
}

// Before each value that may be one of a tensor's that is a list.
bool HeadReader::BeginElement() {
  if (place() != Place::kTensorList) return true;
  if (elements_ == kOtherField) return Fail("tensor " + Quote(name_) + " has more than 3 elements");
  field_ = static_cast<Field>(elements_++);
  has_[field_] = true;
  return true;
}

bool HeadReader::SetField(std::string_view name) {
  const auto* const found = std::ranges::find(kFieldNames, name);
  field_ = static_cast<Field>(found - std::begin(kFieldNames));
  if (field_ == kOtherField || !std::exchange(has_[field_], true)) return true;
  return Fail("tensor " + Quote(name_) + " has " + std::string(name) + " twice");
}

bool HeadReader::SetDtype(std::string_view name) {
  const ElementType* const type = FindType(name);
  if (type == nullptr) {
    return Fail("tensor " + Quote(name_) + " has an unknown dtype, " + Quote(name));
  }
  tensor_.dtype = type->name;
  return true;
}

bool HeadReader::EndTensor() {
  if (!has_[kDtypeField] || !has_[kShapeField] || offsets_.size() != 2) {
    return Fail("tensor " + Quote(name_) + " lacks a dtype, a shape or two data_offsets");
  }
  if (tensors_.size() == kMaxTensors) return Fail("it has more tensors than allowed");
  tensor_.name = std::move(name_);
  tensor_.offset_bytes = offsets_[0];
  tensor_.bytes = offsets_[1] - offsets_[0];
  tensors_.push_back(std::move(tensor_));
  return true;
}

bool HeadReader::Scalar(std::string_view what) {
  if (place() == Place::kSkipped) return true;
  if (!BeginElement()) return false;
  if (place() == Place::kTensor && field_ == kOtherField) return true;
  return Refuse(what);
}

bool HeadReader::Refuse(std::string_view what) {
  const std::string value(what);
  const std::string metadata(kMetadataName);
  switch (place()) {
    case Place::kOutside:
      return Fail("its head is " + value + ", not an object");
    case Place::kHead:
      if (in_metadata_) return Fail(metadata + " is " + value + ", not an object");
      return Fail("tensor " + Quote(name_) + " is " + value + ", not an object");
    case Place::kMetadata:
      return Fail(metadata + " has " + value + ", not only strings");
    default:
      return Fail("tensor " + Quote(name_) + " has " + value + " in its " +
                  std::string(kFieldNames[field_]));
  }
}

bool HeadReader::Fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return false;
}

}  // namespace onecopy::formats
