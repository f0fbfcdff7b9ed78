// The one result type. Every fallible call returns a Result<T> that must be looked at: a value, or an Error whose code
// tells the caller what to do next and whose message says what and where (path, offset, option) in one sentence.
#pragma once

#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace artesian {

enum class Code {
  not_found,      // the thing is not there; a miss is an outcome, not an error, where an API says so
  rejected,       // refused by a limit or a policy; the caller carries on without
  retry,          // a queue is full or a resource is busy now; the same call may pass later
  corrupt,        // bytes were read and are not what they must be; never use them
  device_failed,  // the operating system or the drive reported an error
  invalid,        // the caller asked for something impossible; a configuration or usage error
};

std::string_view code_name(Code code);

struct Error {
  Code code = Code::invalid;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

using Status = Result<void>;

// fail(Code::corrupt, "{}: offset {}: ...", path, offset) builds the error side of any Result.
template <typename... Args>
std::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

inline std::unexpected<Error> fail(Error error) {
  return std::unexpected<Error>(std::move(error));
}

}  // namespace artesian
