#include "client/cli/endpoint.h"

#include <algorithm>
#include <array>
#include <limits>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/name.h"

namespace onecopy::cli {
namespace {

constexpr char kForms[] =
    "write NODE:NAME or NAME for a buffer, /path or ./path for a file on this node, - for standard "
    "input or output; add a range as in NAME@4096+64MiB";

Status Bad(std::string_view text, const std::string& why, const std::string& remedy = kForms) {
  return {Code::kInvalidArgument, reasons::kBadEndpoint, Quote(text) + " " + why, remedy};
}

// Digits, perhaps a point and digits, perhaps a unit: whether it was meant as a size, good or not.
bool LooksLikeSize(std::string_view text) {
  static constexpr std::array<std::string_view, 14> kUnits = {
      "", "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "KB", "MB", "GB", "TB", "PB", "EB"};
  const size_t number = std::min(text.find_first_not_of("0123456789."), text.size());
  return number > 0 && text[0] != '.' &&
         std::find(kUnits.begin(), kUnits.end(), text.substr(number)) != kUnits.end();
}

// Takes a range off the end of `text`, where there is one.
Status TakeRange(std::string_view& text, ParsedEndpoint& endpoint) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return OkStatus();
  const std::string_view range = text.substr(at + 1);
  const size_t plus = range.find('+');
  const std::string_view offset = range.substr(0, plus);
  if (!LooksLikeSize(offset)) return OkStatus();
  if (plus != std::string_view::npos && !LooksLikeSize(range.substr(plus + 1))) return OkStatus();
  ONECOPY_ASSIGN_OR_RETURN(endpoint.offset_bytes, ParseBytes(offset));
  if (plus != std::string_view::npos) {
    ONECOPY_ASSIGN_OR_RETURN(endpoint.bytes, ParseBytes(range.substr(plus + 1)));
    if (*endpoint.bytes > std::numeric_limits<uint64_t>::max() - *endpoint.offset_bytes) {
      return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
              "the range " + Quote(text.substr(at)) + " ends after 2^64 bytes",
              "give an offset and a length that lie inside the buffer"};
    }
  }
  text = text.substr(0, at);
  return OkStatus();
}

bool IsPath(std::string_view text) {
  return text.starts_with('/') || text.starts_with("./") || text.starts_with("../") ||
         text == "." || text == "..";
}

Status BadBufferName(std::string_view name, bool bare) {
  if (name.find('@') != std::string_view::npos) {
    return Bad(name, "has a @, but no range after it",
               "write @OFFSET or @OFFSET+LENGTH with sizes, as in NAME@4096+64MiB");
  }
  std::string remedy =
      "a buffer's name has at most 63 letters, digits, '.', '_' and '-', and begins with a letter "
      "or digit";
  if (bare && !name.empty() && name.size() < 4096) {
    remedy += "; for a file on this node write " + ShellWord("./" + std::string(name));
  }
  return {Code::kInvalidArgument, reasons::kBadName, Quote(name) + " is not a buffer's name",
          remedy};
}

Status ParseBuffer(std::string_view name, ParsedEndpoint& endpoint) {
  if (!IsName(name)) return BadBufferName(name, endpoint.bare);
  endpoint.kind = ParsedEndpoint::Kind::kBuffer;
  endpoint.name = name;
  return OkStatus();
}

// `node:rest`
Status ParseQualified(std::string_view node, std::string_view rest, ParsedEndpoint& endpoint) {
  if (rest.empty()) {
    return Bad(endpoint.typed, "names a node, but no buffer on it", "write NODE:NAME");
  }
  endpoint.node = node;
  if (IsPath(rest)) {
    if (!rest.starts_with('/')) {
      return Bad(endpoint.typed, "names a file on another node by a relative path",
                 "write its absolute path: NODE:/path");
    }
    endpoint.kind = node.empty() ? ParsedEndpoint::Kind::kFile : ParsedEndpoint::Kind::kRemoteFile;
    endpoint.path = rest;
    return OkStatus();
  }
  if (rest.find(':') != std::string_view::npos) {
    return Bad(endpoint.typed, "has more than one colon",
               "use the node's name, not its address: see `onecopy node ls`");
  }
  return ParseBuffer(rest, endpoint);
}

}  // namespace

Result<ParsedEndpoint> ParseEndpoint(std::string_view text) {
  ParsedEndpoint endpoint;
  endpoint.typed = text;
  if (text.empty()) return Bad(text, "names neither a buffer nor a file");
  if (text == "-") {
    endpoint.kind = ParsedEndpoint::Kind::kStream;
    return endpoint;
  }
  ONECOPY_RETURN_IF_ERROR(TakeRange(text, endpoint));
  if (text == "-") {
    return Bad(endpoint.typed, "gives a range of standard input or output, which have none",
               "give the range at the other end");
  }
  if (IsPath(text)) {
    endpoint.kind = ParsedEndpoint::Kind::kFile;
    endpoint.path = text;
    return endpoint;
  }
  const size_t colon = text.find(':');
  if (text.starts_with('[') || text.starts_with("::")) {
    return Bad(endpoint.typed, "names a node by its address",
               "use the node's name: see `onecopy node ls`");
  }
  if (colon != std::string_view::npos) {
    const std::string_view node = text.substr(0, colon);
    if (node.empty() || IsName(node)) {
      ONECOPY_RETURN_IF_ERROR(ParseQualified(node, text.substr(colon + 1), endpoint));
      return endpoint;
    }
    if (node.find('/') == std::string_view::npos) {
      return Bad(endpoint.typed, "has " + Quote(node) + " where the name of a node belongs");
    }
  }
  endpoint.bare = true;
  ONECOPY_RETURN_IF_ERROR(ParseBuffer(text, endpoint));
  return endpoint;
}

}  // namespace onecopy::cli
