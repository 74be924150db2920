#include "client/python/native/errors.h"

#include "client/cli/output/document.h"
#include "client/python/native/gil.h"
#include "client/python/native/text.h"

namespace onecopy::python {

namespace nb = nanobind;

nb::object ToException(const Status& status) {
  const std::string document =
      cli::ToJson(status).dump(-1, ' ', false, cli::Json::error_handler_t::replace);
  return CallPython([&]() -> nb::object {
    return nb::module_::import_("onecopy.core.values._errors").attr("build")(document);
  });
}

void RegisterErrors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      const nb::object exception = ToException(error.status());
      PyErr_SetObject(exception.type().ptr(), exception.ptr());
    }
  });
}

}  // namespace onecopy::python
