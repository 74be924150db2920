#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "client/lib/files/client_copy.h"
#include "client/lib/files/input_file.h"
#include "client/lib/files/moved_file.h"
#include "client/lib/files/output_file.h"
#include "client/lib/files/resumed_copy.h"
#include "client/lib/files/windows.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"

namespace onecopy {
namespace {

using client::FilePart;
using client::InputFile;
using client::OutputFile;
using client::RemoteRange;
using client::Waiter;

// Pieces that one request takes.
struct Group {
  std::vector<FilePiece> pieces;
  ByteRange file;    // from the first to the last
  ByteRange buffer;  // likewise
};

Status CheckPiece(const FilePiece& piece, const std::string& name) {
  const uint64_t bytes = piece.buffer.bytes.value_or(0);
  if (bytes == 0) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "a piece of " + name + " has no bytes: its buffer is " + piece.buffer.ToString(),
            "leave out empty pieces, and give the size of the others"};
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  ONECOPY_RETURN_IF_ERROR(CheckWithin({piece.offset_bytes, bytes}, kMost, "any file"));
  return CheckWithin({piece.buffer.offset_bytes.value_or(0), bytes}, kMost, "any buffer");
}

void Widen(ByteRange* range, uint64_t offset, uint64_t bytes) {
  const uint64_t end = std::max(range->offset + range->bytes, offset + bytes);
  range->offset = range->bytes == 0 ? offset : std::min(range->offset, offset);
  range->bytes = end - range->offset;
}

Result<std::vector<Group>> GroupByBuffer(std::span<const FilePiece> pieces,
                                         const std::string& name) {
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, size_t> known;  // the last group of each buffer
  for (const FilePiece& piece : pieces) {
    ONECOPY_RETURN_IF_ERROR(CheckPiece(piece, name));
    const auto [at, is_new] =
        known.try_emplace({piece.buffer.node, piece.buffer.buffer}, groups.size());
    if (!is_new && groups[at->second].pieces.size() == kMaxRanges) at->second = groups.size();
    if (at->second == groups.size()) groups.emplace_back();
    Group& group = groups[at->second];
    Widen(&group.file, piece.offset_bytes, *piece.buffer.bytes);
    Widen(&group.buffer, piece.buffer.offset_bytes.value_or(0), *piece.buffer.bytes);
    group.pieces.push_back(piece);
  }
  return groups;
}

std::vector<RangePair> RangesOf(const Group& group, bool reads) {
  std::vector<RangePair> ranges;
  ranges.reserve(group.pieces.size());
  for (const FilePiece& piece : group.pieces) {
    const StridedRange file{piece.offset_bytes - group.file.offset, *piece.buffer.bytes};
    const StridedRange buffer{piece.buffer.offset_bytes.value_or(0) - group.buffer.offset,
                              *piece.buffer.bytes};
    ranges.push_back(reads ? RangePair{file, buffer} : RangePair{buffer, file});
  }
  return ranges;
}

// One copy of all pieces of one file, which is open as `open` says.
class PiecesMover {
 public:
  PiecesMover(Client& client, const LocalFile& file, FilePart open, const FileCopyOptions& options,
              const Waiter& waiter)
      : client_(client), file_(file), open_(std::move(open)), waiter_(waiter), options_(options) {
    options_.sync = false;  // of the whole file, in the end
  }

  Result<std::vector<PiecesCopy>> Move(const std::vector<Group>& groups) {
    for (const Group& group : groups) total_ += BytesOf(group);
    if (options_.on_progress) {
      options_.on_progress = [this, note = std::move(options_.on_progress)](
                                 uint64_t done, std::optional<uint64_t>) {
        note(done_ + done, total_);
      };
    }
    for (const Group& group : groups) ONECOPY_RETURN_IF_ERROR(MoveGroup(group));
    return std::move(copies_);
  }

 private:
  static uint64_t BytesOf(const Group& group) {
    uint64_t bytes = 0;
    for (const FilePiece& piece : group.pieces) bytes += *piece.buffer.bytes;
    return bytes;
  }

  Status MoveGroup(const Group& group) {
    Endpoint whole = group.pieces.front().buffer;
    whole.offset_bytes = group.buffer.offset;
    whole.bytes = group.buffer.bytes;
    ONECOPY_ASSIGN_OR_RETURN(const RemoteRange range, client::FindRange(client_, whole, &waiter_));
    FilePart part = open_;
    part.name = client::FileEnd(client_, {file_.path}).file;
    part.offset = group.file.offset;
    part.bytes = group.file.bytes;
    FileCopyOptions together = options_;
    together.ranges = RangesOf(group, !open_.writes);
    if (client::DaemonMoves(client_, part, range, together)) {
      Result<FileCopy> copy = client::MoveFile(client_, part, range, together, waiter_);
      if (copy.ok()) return Note(group.file, range.whole(), *std::move(copy));
      if (!client::MayGoByWindows(client_, range, copy.status())) return copy.status();
    }
    for (const FilePiece& piece : group.pieces) ONECOPY_RETURN_IF_ERROR(MovePiece(piece));
    return OkStatus();
  }

  Status MovePiece(const FilePiece& piece) {
    ONECOPY_RETURN_IF_ERROR(waiter_.Check());
    options_.deadline = waiter_.Remaining();
    const LocalFile part = {file_.path, open_.fd, piece.offset_bytes, piece.buffer.bytes};
    ONECOPY_ASSIGN_OR_RETURN(
        FileCopy copy, open_.writes ? CopyBufferToFile(client_, piece.buffer, part, options_)
                                    : CopyFileToBuffer(client_, part, piece.buffer, options_));
    return Note({piece.offset_bytes, *piece.buffer.bytes}, piece.buffer, std::move(copy));
  }

  Status Note(const ByteRange& file, Endpoint buffer, FileCopy copy) {
    Endpoint end = client::FileEnd(client_, {file_.path});
    end.offset_bytes = file.offset;
    end.bytes = file.bytes;
    done_ += copy.bytes;
    copies_.push_back({std::move(end), std::move(buffer), std::move(copy)});
    return OkStatus();
  }

  Client& client_;
  const LocalFile& file_;
  const FilePart open_;
  const Waiter& waiter_;
  FileCopyOptions options_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  std::vector<PiecesCopy> copies_;
};

// Writes all texts; what of them is payload, as the copy that it is.
Result<std::vector<PiecesCopy>> WriteTexts(const Client& client, std::span<const FileText> texts,
                                           const LocalFile& file, OutputFile& output,
                                           const Waiter& waiter) {
  const auto began = std::chrono::steady_clock::now();
  ByteRange payload;
  uint64_t bytes = 0;
  uint64_t parts = 0;
  for (const FileText& text : texts) {
    output.Seek(text.offset_bytes);
    ONECOPY_RETURN_IF_ERROR(output.WriteForeign(
        reinterpret_cast<const std::byte*>(text.bytes.data()), text.bytes.size(), waiter));
    if (!text.is_payload || text.bytes.empty()) continue;
    Widen(&payload, text.offset_bytes, text.bytes.size());
    bytes += text.bytes.size();
    ++parts;
  }
  std::vector<PiecesCopy> copies;
  if (parts == 0) return copies;
  PiecesCopy copy;
  copy.file = client::FileEnd(client, {file.path, -1, payload.offset, payload.bytes});
  copy.buffer = client::OwnMemoryEnd(client);
  copy.copy = client::ClientCopy(client.node(), false, bytes, parts, began);
  copies.push_back(std::move(copy));
  return copies;
}

Status NoPieces(const std::string& name) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          name + " is a stream, and a stream has no pieces", "name a regular file"};
}

}  // namespace

Result<std::vector<PiecesCopy>> CopyFileToBuffers(Client& client, const LocalFile& source,
                                                  std::span<const FilePiece> pieces,
                                                  const FileCopyOptions& options) {
  ONECOPY_RETURN_IF_ERROR(client::RefuseResume(options, "pieces"));
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, Waiter::Make(options.stop, options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const InputFile input,
                           InputFile::Open({source.path, source.fd, uint64_t{0}, {}}));
  if (input.fd() < 0 || !input.bytes()) return NoPieces(input.name());
  ONECOPY_ASSIGN_OR_RETURN(const auto groups, GroupByBuffer(pieces, input.name()));
  for (const Group& group : groups) {
    ONECOPY_RETURN_IF_ERROR(CheckWithin(group.file, *input.bytes(), input.name()));
  }
  return PiecesMover(client, source, {.fd = input.fd()}, options, *waiter).Move(groups);
}

Result<std::vector<PiecesCopy>> CopyBuffersToFile(Client& client, std::span<const FileText> texts,
                                                  std::span<const FilePiece> pieces,
                                                  const LocalFile& destination,
                                                  const FileCopyOptions& options) {
  ONECOPY_RETURN_IF_ERROR(client::RefuseResume(options, "pieces"));
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, Waiter::Make(options.stop, options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const auto groups, GroupByBuffer(pieces, destination.path));
  uint64_t bytes = 0;
  for (const FileText& text : texts) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    ONECOPY_RETURN_IF_ERROR(CheckWithin({text.offset_bytes, text.bytes.size()}, kMost, "any file"));
    bytes = std::max(bytes, text.offset_bytes + text.bytes.size());
  }
  for (const Group& group : groups) bytes = std::max(bytes, group.file.offset + group.file.bytes);
  ONECOPY_ASSIGN_OR_RETURN(OutputFile output,
                           OutputFile::Open(destination, bytes,
                                            {.sync = options.sync,
                                             .read_back = options.checksum,
                                             .write_device = options.write_device}));
  if (output.fd() < 0) return NoPieces(output.name());
  ONECOPY_ASSIGN_OR_RETURN(std::vector<PiecesCopy> copies,
                           WriteTexts(client, texts, destination, output, *waiter));
  ONECOPY_ASSIGN_OR_RETURN(
      std::vector<PiecesCopy> moved,
      PiecesMover(client, destination,
                  {.fd = output.fd(), .writes = true, .is_new = output.is_new()}, options, *waiter)
          .Move(groups));
  std::ranges::move(moved, std::back_inserter(copies));
  ONECOPY_RETURN_IF_ERROR(output.Commit());
  return copies;
}

}  // namespace onecopy
