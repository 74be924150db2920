#include "daemon/engine/api/figures.h"

namespace onecopy::engine {

std::string_view DirectionName(Direction direction) {
  switch (direction) {
    case Direction::kIn:
      return "in";
    case Direction::kOut:
      return "out";
    case Direction::kInside:
      return "inside";
    case Direction::kElsewhere:
      break;
  }
  return "elsewhere";
}

}  // namespace onecopy::engine
