#include "onecopy/mapped_buffer.h"

#include <utility>

#include "client/lib/memory/mapping.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"

namespace onecopy {

MappedBuffer::MappedBuffer(std::unique_ptr<client::Mapping> mapping)
    : mapping_(std::move(mapping)) {}

MappedBuffer::MappedBuffer(MappedBuffer&& other) noexcept = default;
MappedBuffer& MappedBuffer::operator=(MappedBuffer&& other) noexcept = default;
MappedBuffer::~MappedBuffer() = default;

void* MappedBuffer::data() const {
  return mapping_ == nullptr ? nullptr : mapping_->memory().data();
}

uint64_t MappedBuffer::bytes() const { return mapping_ == nullptr ? 0 : mapping_->info().bytes; }

const BufferInfo& MappedBuffer::info() const {
  static const BufferInfo closed;
  return mapping_ == nullptr ? closed : mapping_->info();
}

std::optional<int> MappedBuffer::cuda_device() const {
  return mapping_ == nullptr ? std::nullopt : mapping_->memory().cuda_device();
}

Status MappedBuffer::CheckValid() const {
  if (mapping_ != nullptr) return mapping_->CheckValid();
  return {Code::kCancelled, reasons::kCancelled, "the mapping was closed"};
}

int MappedBuffer::revocation_fd() const { return mapping_ == nullptr ? -1 : mapping_->lease(); }

Status MappedBuffer::Close() {
  const std::unique_ptr<client::Mapping> mapping = std::move(mapping_);
  return mapping == nullptr ? OkStatus() : mapping->Unmap();
}

Result<MappedBuffer> Client::MapBuffer(const std::string& buffer, const MapOptions& options) {
  const size_t colon = buffer.find(':');
  const std::string node = colon == std::string::npos ? std::string() : buffer.substr(0, colon);
  const std::string name = colon == std::string::npos ? buffer : buffer.substr(colon + 1);
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<client::Mapping> mapping,
                           client::Mapping::Make(connection_, node, name, options));
  return MappedBuffer(std::move(mapping));
}

}  // namespace onecopy
