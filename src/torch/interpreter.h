// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>

#include <c10/core/SafePyObject.h>

// LibTorch keeps saved-tensor hooks and dispatch modes as "Python objects", but all it does with
// them goes through a table of functions, c10::impl::PyInterpreter. This is such a table in C++:
// an object is any class derived from ForeignObject, and no Python is needed. In a process that
// also runs Python, the table's address tells our objects from Python's.

namespace reprise::detail {

/// An object that LibTorch may hold as if it were a PyObject. Reference counted; thread-safe.
class ForeignObject {
 public:
  ForeignObject() = default;
  virtual ~ForeignObject();
  ForeignObject(const ForeignObject&) = delete;
  ForeignObject& operator=(const ForeignObject&) = delete;

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  std::atomic<int64_t> references_{1};
};

/// The process's table. Never destroyed: LibTorch may use it until the very end.
c10::impl::PyInterpreter* interpreter();

/// Hands an object to LibTorch's kind of owner; the owner deletes it with its last copy.
template <class T>
c10::SafePyObject to_safe_object(std::unique_ptr<T> object) {
  ForeignObject* base = object.release();
  return {reinterpret_cast<PyObject*>(base), interpreter()};
}

/// The object behind an owner that was made by to_safe_object().
inline ForeignObject& from_safe_object(PyObject* object) {
  return *reinterpret_cast<ForeignObject*>(object);
}

}  // namespace reprise::detail
