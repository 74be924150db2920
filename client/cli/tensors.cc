#include "client/cli/tensors.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::cli {
namespace {

std::string PlaceOf(const formats::TensorInFile& tensor, const ParsedEndpoint& destination,
                    const std::string& own_node) {
  Endpoint place = destination.ToEndpoint();
  if (place.node.empty()) place.node = own_node;
  place.offset_bytes = place.offset_bytes.value_or(0) + tensor.offset_bytes;
  place.bytes = tensor.bytes;
  return place.ToString();
}

}  // namespace

Result<TensorFile> OpenTensors(MoveEnds* ends) {
  ParsedEndpoint& source = ends->source;
  if (source.kind != ParsedEndpoint::Kind::kFile || source.offset_bytes || source.bytes ||
      ends->destination.kind != ParsedEndpoint::Kind::kBuffer) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        "--tensors needs a whole safetensors file as the source and a buffer as the destination",
        "onecopy cp ./model.safetensors NODE:NAME --tensors");
  }
  TensorFile file;
  file.fd = os::UniqueFd(::open(source.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.fd) return os::ErrnoStatus(errno, "opening " + Printable(source.path));
  ONECOPY_ASSIGN_OR_RETURN(file.header, formats::ReadSafetensors(file.fd.get(), source.path));
  source.offset_bytes = file.header.payload_offset;
  source.bytes = file.header.payload_bytes;
  return file;
}

Json TensorsToJson(const formats::SafetensorsHeader& header, const ParsedEndpoint& destination,
                   const std::string& own_node) {
  Json list = Json::array();
  for (const formats::TensorInFile& tensor : header.tensors) {
    Json one;
    one["name"] = tensor.name;
    one["dtype"] = std::string(tensor.dtype);
    one["shape"] = tensor.shape;
    one["bytes"] = tensor.bytes;
    one["endpoint"] = PlaceOf(tensor, destination, own_node);
    list.push_back(std::move(one));
  }
  return list;
}

void PrintTensors(std::ostream& out, const formats::SafetensorsHeader& header,
                  const ParsedEndpoint& destination, const std::string& own_node) {
  for (const formats::TensorInFile& tensor : header.tensors) {
    std::string shape;
    for (const uint64_t length : tensor.shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(length);
    }
    out << "  tensor    " << PlaceOf(tensor, destination, own_node) << "  " << tensor.dtype << '['
        << shape << "]  " << Printable(tensor.name) << '\n';
  }
}

}  // namespace onecopy::cli
