#include "daemon/plan/candidates.h"

namespace onecopy::plan {

Assessment Refused(const Rung& rung, std::string_view reason, std::string detail,
                   std::string remedy) {
  return {.candidates = {},
          .refusal = {std::string(rung.name), std::string(reason), std::move(detail),
                      std::move(remedy)}};
}

Assessment Refused(const Rung& rung, Viability why) {
  return Refused(rung, why.reason, std::move(why.detail), std::move(why.remedy));
}

Viability Both(Viability source, const Viability& destination) {
  if (source.viable) return destination;
  if (!destination.viable) source.detail += "; " + destination.detail;
  return source;
}

}  // namespace onecopy::plan
