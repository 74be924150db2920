// What a client checks before it asks, and how it reads what it is told. The rest is
// proto/codec/codec.h's. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "onecopy/transfer.h"
#include "proto/codec/codec.h"

namespace onecopy::client {

// INVALID_ARGUMENT (BAD_NAME) for what can be the name of nothing, and might not be valid on the
// wire: other characters than printable ASCII, or over 256 of them. Finer rules are the daemon's.
Status CheckText(std::string_view what, const std::string& text);
// The same of every text in the end that names something. A file of another node may have other
// characters in its path, which must be UTF-8, and up to 4096 bytes; that of an open descriptor is
// only shown.
Status CheckEnd(std::string_view what, const Endpoint& end);
// The same of every text in the request.
Status CheckTexts(const TransferRequest& request);
Status CheckTexts(const SeriesRequest& request);

// A text that is only shown, such as the path of a file that was opened here, as a message takes
// it: mended and cut where it must be.
std::string ShownText(std::string_view text);

// `request_id`, or one of the library's where the caller gave none.
std::string ChosenOr(const std::string& request_id);

// The value that a daemon's message holds. The daemon may be newer than this library, so that
// nothing is refused.
template <typename Message>
auto Read(const Message& message) {
  return codec::Parse(message, codec::Field(codec::Strictness::kLenient));
}

}  // namespace onecopy::client
