#include "daemon/engine/peering/exported_range.h"

#include <utility>

namespace onecopy::engine {

void ExportedRange::Open(const Span& span, Reply<RemoteKey> ready) {
  ready_ = std::move(ready);
  opening_ = true;
  connection_->Export(span, [self = shared_from_this()](Result<RemoteKey> key) {
    self->context_.loop.Post([self, key = std::move(key)] {
      self->opening_ = false;
      if (key.ok()) self->key_ = *key;
      // Closed meanwhile: this was what the closing waited for.
      if (self->closed_) return self->Revoke();
      std::exchange(self->ready_, nullptr)(key);
    });
  });
}

void ExportedRange::Close(Task closed) {
  ready_ = nullptr;
  closed_ = std::move(closed);
  if (!opening_) Revoke();
}

void ExportedRange::Revoke() {
  if (!key_) return std::exchange(closed_, nullptr)();
  connection_->Revoke(*key_, [self = shared_from_this()] {
    self->context_.loop.Post([self] { std::exchange(self->closed_, nullptr)(); });
  });
}

}  // namespace onecopy::engine
