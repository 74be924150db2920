// Python's str as std::string: the bytes that it stands for. Instead of nanobind/stl/string.h,
// which has no bytes for the lone surrogates by which Python writes bytes that are not UTF-8
// (os.fsdecode): a name with some reaches the library as it is meant, which opens the file here
// that is called so, and refuses it where a name must be UTF-8.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle from, uint8_t, cleanup_list*) noexcept {
    Py_ssize_t bytes = 0;
    if (const char* text = PyUnicode_AsUTF8AndSize(from.ptr(), &bytes)) {
      value.assign(text, static_cast<size_t>(bytes));
      return true;
    }
    PyErr_Clear();
    // Surrogates that stand for no byte are no UTF-8 either.
    return Encode(from, "surrogateescape") || Encode(from, "surrogatepass");
  }

  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                                "surrogateescape");
  }

 private:
  bool Encode(handle from, const char* surrogates) noexcept {
    if (!PyUnicode_Check(from.ptr())) return false;
    PyObject* const encoded = PyUnicode_AsEncodedString(from.ptr(), "utf-8", surrogates);
    if (encoded == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.assign(PyBytes_AsString(encoded), static_cast<size_t>(PyBytes_Size(encoded)));
    Py_DECREF(encoded);
    return true;
  }
};

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
