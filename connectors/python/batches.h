// Batches that come from Python: buffers of any object that has some, held until the batch is answered, and never
// copied.
//
// Threads: made and destroyed with the GIL held; the store answers them without it. Errors: Python's exceptions.
#pragma once

#include <Python.h>

#include <memory>
#include <vector>

#include "artesian/store.h"

namespace artesian::python {

// The memory of Python objects, released with the GIL held.
class Buffers {
 public:
  Buffers() = default;
  Buffers(Buffers&&) = delete;
  ~Buffers();

  // A C-contiguous range of bytes; raises BufferError or TypeError.
  std::span<std::byte> writable(PyObject* object) { return take(object, PyBUF_WRITABLE); }
  std::span<const std::byte> readable(PyObject* object) { return take(object, PyBUF_SIMPLE); }

 private:
  std::span<std::byte> take(PyObject* object, int flags);

  std::vector<Py_buffer> views_;
};

// What has been asked for and what came of it: one kind of items.
struct AnyBatch {
  virtual ~AnyBatch() = default;
  // [outcome, ...], and for gets [bytes, ...] (None else). New references.
  virtual PyObject* outcomes() const = 0;
  virtual PyObject* sizes() const;

  Buffers buffers;
};

struct PutBatch final : AnyBatch {
  // `data[i]`: a buffer, or a list or tuple of buffers that follow one another. `parents`, `attributes`, `hints`: None
  // or one each; a hint is a tuple (session, position, tokens, deadline_ms, next_use_ms, lifetime).
  PutBatch(PyObject* keys, PyObject* data, PyObject* parents, PyObject* attributes, PyObject* hints);
  PyObject* outcomes() const override;

  std::vector<std::vector<std::span<const std::byte>>> pieces;
  std::vector<Put> items;
};

struct GetBatch final : AnyBatch {
  GetBatch(PyObject* keys, PyObject* data);
  PyObject* outcomes() const override;
  PyObject* sizes() const override;

  std::vector<std::vector<std::span<std::byte>>> pieces;
  std::vector<Get> items;
};

struct ProbeBatch final : AnyBatch {
  explicit ProbeBatch(PyObject* keys);
  PyObject* outcomes() const override;

  std::vector<Probe> items;
};

}  // namespace artesian::python
