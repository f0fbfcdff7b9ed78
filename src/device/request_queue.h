// What every Device does with a request before the drive sees it: the rules it must keep, and the order of service.
// Threads: as Device; nothing is owned but the requests' descriptions.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <string>

#include "device/device.h"

namespace artesian {

// `invalid` with the reason if the request breaks the device's alignment, lies outside its file (`names` has one name
// for each, for messages) or writes to what is not `writable`.
Status check_request(const DeviceFacts& facts, std::span<const std::string> names, bool writable,
                     const IoRequest& request);

// All of a batch or nothing: `invalid` as above, `retry` if it does not fit beside the `outstanding` ones.
Status check_batch(const DeviceFacts& facts, std::span<const std::string> names, bool writable,
                   std::uint64_t outstanding, std::span<const IoRequest> requests);

// Requests that wait, earlier classes first, in the order of arrival within a class.
class RequestQueue {
 public:
  void push(const IoRequest& request);
  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  const IoRequest* next() const;  // what pop() would give; null if empty
  IoRequest pop();                // not of an empty queue
  void clear();

 private:
  std::array<std::deque<IoRequest>, io_class_count> classes_;
  std::uint32_t size_ = 0;
};

}  // namespace artesian
