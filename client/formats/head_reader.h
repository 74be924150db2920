// The JSON of a safetensors head, word by word.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/formats/safetensors.h"

namespace onecopy::formats {

// Keeps tensors and metadata, and nothing of the rest, however long that is. A method that returns
// false ends the reading; `why` then says what is wrong. Used once, by one thread.
//
// A tensor has the forms that the format's library takes: an object of dtype, shape and
// data_offsets, or a list of the three; the dtype is a text, or an object of that name and null.
class HeadReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // In the order of the text, also several of one name. Of data_offsets the second less the first
  // is in `bytes`; nothing is said yet of whether they fit.
  std::vector<TensorInFile> TakeTensors() { return std::move(tensors_); }
  std::vector<std::pair<std::string, std::string>> TakeMetadata() { return std::move(metadata_); }
  const std::string& why() const { return why_; }

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t& value) override;
  bool binary(binary_t& value) override;
  bool start_object(std::size_t elements) override;
  bool key(string_t& value) override;
  bool end_object() override;
  bool start_array(std::size_t elements) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& what) override;
  bool NotJson(std::size_t position);

 private:
  // What the next word is part of.
  enum class Place { kOutside, kHead, kMetadata, kTensor, kTensorList, kDtype, kNumbers, kSkipped };
  // Of a tensor, in the order that a list of them has.
  enum Field { kDtypeField, kShapeField, kOffsetsField, kOtherField };

  Place place() const { return places_.empty() ? Place::kOutside : places_.back(); }
  bool Enter(Place place);
  bool EnterTensor(Place place);
  bool EnterNumbers(std::vector<uint64_t>* numbers, size_t most);
  bool BeginElement();
  bool SetField(std::string_view name);
  bool SetDtype(std::string_view name);
  bool EndTensor();
  bool Scalar(std::string_view what);
  bool Refuse(std::string_view what);
  bool Fail(std::string why);

  std::vector<Place> places_;  // the innermost last
  bool had_metadata_ = false;
  bool in_metadata_ = false;  // the value that comes next in the head is that of __metadata__
  std::string name_;          // of the tensor, or of the metadata's next text
  Field field_ = kOtherField;
  bool has_[kOtherField] = {};
  int elements_ = 0;     // so far, of a tensor that is a list
  int dtype_words_ = 0;  // so far, of a dtype that is an object
  TensorInFile tensor_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t>* numbers_ = nullptr;  // that a list of numbers goes to
  size_t most_numbers_ = 0;
  std::vector<TensorInFile> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::string why_;
};

// Bits of an element; 0 for a name that is not a type of the format.
uint64_t BitsOf(std::string_view dtype);

}  // namespace onecopy::formats
