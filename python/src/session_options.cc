// SPDX-License-Identifier: Apache-2.0
//
// SessionOptions under ONNX Runtime's attribute names, and Strop's own.

#include "objects.h"

namespace strop::python {
namespace {

using namespace nb::literals;

using NonFinite = SessionOptions::NonFinite;

const char* NonFiniteName(const SessionOptions& options) {
  return options.non_finite == NonFinite::kError ? "error" : "report";
}

void SetNonFinite(SessionOptions& options, const std::string& name) {
  if (name != "error" && name != "report") {
    throw Error(ErrorCode::kInvalidArgument,
                "non_finite is \"report\" or \"error\", got \"" + name + "\"");
  }
  options.non_finite = name == "error" ? NonFinite::kError : NonFinite::kReport;
}

std::string ConfigEntry(const SessionOptions& options, const std::string& key) {
  const auto found = options.config.find(key);
  if (found != options.config.end()) return found->second;
  throw Error(ErrorCode::kNotFound,
              "there is no session configuration entry \"" + key + "\"");
}

}  // namespace

SessionOptions SessionOptionsOf(nb::handle object) {
  if (object.is_none()) return {};
  if (nb::isinstance<SessionOptions>(object))
    return nb::cast<SessionOptions>(object);
  // Another library's object with the attributes of ONNX Runtime's.
  if (!nb::hasattr(object, "intra_op_num_threads")) {
    throw nb::type_error("session_options: a SessionOptions object is wanted");
  }
  SessionOptions options;
  options.num_threads =
      nb::cast<int>(nb::getattr(object, "intra_op_num_threads"));
  options.enable_profiling =
      nb::cast<bool>(nb::getattr(object, "enable_profiling", nb::bool_(false)));
  return options;
}

void BindSessionOptions(nb::module_& module) {
  nb::class_<SessionOptions>(
      module, "SessionOptions",
      "How a Module runs.\n\n    options = SessionOptions()\n"
      "    options.intra_op_num_threads = 2\n")
      .def(nb::init<>())
      .def_rw("intra_op_num_threads", &SessionOptions::num_threads,
              "Threads of a step; 0 means one per core. The same number, "
              "inputs and seed give the same bits.")
      .def_rw("memory_limit_bytes", &SessionOptions::memory_limit_bytes,
              "Most bytes a step may hold beside parameters and gradients; 0 "
              "means no limit. A step that needs more raises MemoryError "
              "before it changes anything.")
      .def_prop_rw("non_finite", &NonFiniteName, &SetNonFinite,
                   "\"report\" returns an infinite or NaN loss like any other; "
                   "\"error\" raises before the step changes anything.")
      .def_rw("update_batch_norm_statistics",
              &SessionOptions::update_batch_norm_statistics,
              "Whether train steps move the running statistics of "
              "BatchNormalization.")
      .def_rw("max_plans", &SessionOptions::max_plans,
              "Plans kept for different input shapes.")
      .def_rw("disabled_passes", &SessionOptions::disabled_passes,
              "Passes over the graph to leave out, for finding faults.")
      .def_rw("enable_profiling", &SessionOptions::enable_profiling,
              "Collect times of kernels; Module.write_profile writes them.")
      .def(
          "add_session_config_entry",
          [](SessionOptions& options, const std::string& key,
             const std::string& value) { options.config[key] = value; },
          "key"_a, "value"_a)
      .def("get_session_config_entry", &ConfigEntry, "key"_a);
}

}  // namespace strop::python
