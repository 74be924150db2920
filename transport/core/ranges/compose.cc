#include "transport/core/ranges/compose.h"

#include <optional>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy {
namespace {

class Composer {
 public:
  explicit Composer(const Layout& outer) : outer_(outer) {}

  bool Add(const StridedRange& inner) {
    if (const auto together = AsOne(inner)) {
      ranges_.push_back(*together);
      return ranges_.size() <= kMaxRanges;
    }
    for (uint64_t i = 0; i < inner.count; ++i) {
      if (!AddRun(inner.offset + i * inner.stride, inner.bytes)) return false;
    }
    return true;
  }

  const std::vector<StridedRange>& ranges() const { return ranges_; }

 private:
  // Parts of elements of one piece that lie alike in each of them: a column of a strided matrix.
  std::optional<StridedRange> AsOne(const StridedRange& inner) const {
    const size_t which = outer_.PieceAt(inner.offset);
    const StridedRange piece = outer_.piece(which);
    const uint64_t first = inner.offset - outer_.start(which);
    const uint64_t last = first + (inner.count - 1) * inner.stride;
    const bool in_piece = last + inner.bytes <= piece.bytes * piece.count;
    const uint64_t within = first % piece.bytes;
    const bool alike = inner.count > 1 && inner.stride % piece.bytes == 0;
    if (!in_piece || !alike || within + inner.bytes > piece.bytes) return std::nullopt;
    return StridedRange{piece.offset + first / piece.bytes * piece.stride + within, inner.bytes,
                        inner.stride / piece.bytes * piece.stride, inner.count};
  }

  bool AddRun(uint64_t offset, uint64_t bytes) {
    for (const StridedCopy& copy : CopiesOf({&outer_, 0}, {nullptr, 0}, offset, bytes)) {
      ranges_.push_back({copy.from, copy.bytes, copy.from_stride, copy.count});
    }
    return ranges_.size() <= kMaxRanges;
  }

  const Layout& outer_;
  std::vector<StridedRange> ranges_;
};

}  // namespace

Result<Layout> Compose(const Layout& outer, const ByteRange& part, const Layout* inner,
                       const std::string& what) {
  Composer composer(outer);
  bool fits = true;
  if (inner == nullptr) {
    fits = composer.Add({part.offset, part.bytes, 0, 1});
  } else {
    for (StridedRange piece : inner->pieces()) {
      piece.offset += part.offset;
      fits = composer.Add(piece);
      if (!fits) break;
    }
  }
  if (fits) return Layout::Make(composer.ranges(), what);
  return Status(Code::kInvalidArgument, reasons::kBadSize,
                "the ranges of " + what + " are more than " + std::to_string(kMaxRanges) +
                    " pieces of memory",
                "ask for larger ranges, or for fewer in one transfer");
}

}  // namespace onecopy
