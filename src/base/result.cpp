#include "base/result.h"

namespace artesian {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::not_found:
      return "not_found";
    case Code::rejected:
      return "rejected";
    case Code::retry:
      return "retry";
    case Code::corrupt:
      return "corrupt";
    case Code::device_failed:
      return "device_failed";
    case Code::invalid:
      return "invalid";
  }
  return "unknown";
}

}  // namespace artesian
