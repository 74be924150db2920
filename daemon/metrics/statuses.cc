#include "daemon/metrics/statuses.h"

#include <utility>

#include "daemon/log/audit.h"
#include "daemon/log/log.h"
#include "daemon/status/document.h"

namespace onecopy::metrics {

void Statuses::Get(Reply reply) {
  if (IsFresh()) return reply(document_);
  scrapes_.Get([this, reply = std::move(reply)](const engine::Figures* figures) mutable {
    // Several that waited for one answer share its document.
    if (figures != nullptr && IsFresh()) return reply(document_);
    std::string document = status::DocumentOf({.figures = figures,
                                               .log_records_dropped = log::Dropped(),
                                               .audit_records_dropped = audit::Dropped(),
                                               .now = std::chrono::system_clock::now()});
    if (figures == nullptr) return reply(document);
    document_ = std::move(document);
    made_ = now_();
    reply(document_);
  });
}

}  // namespace onecopy::metrics
