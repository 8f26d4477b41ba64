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

constexpr char kSessionOptions[] = R"(How a Module or a Function runs.

A wrong number or name in it is a ValueError when one is made with it. Later
changes have no effect on what was made.

>>> options = strop.SessionOptions()
>>> options.intra_op_num_threads = 2
>>> options.non_finite = "error"
>>> state = strop.CheckpointState.load_checkpoint("checkpoint")
>>> module = strop.Module("training_model.onnx", state, session_options=options)
>>> module(np.full_like(x, np.nan), labels)
Traceback (most recent call last):
strop._errors.NonFiniteError: the loss is infinite or not a number)";

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
  nb::class_<SessionOptions>(module, "SessionOptions", kSessionOptions)
      .def(nb::init<>(), "Options with their defaults.")
      .def_rw("intra_op_num_threads", &SessionOptions::num_threads,
              "Threads of a step, an int; 0, the default, means one per\n"
              "core. The same number, inputs and seed give the same\n"
              "bits.")
      .def_rw("memory_limit_bytes", &SessionOptions::memory_limit_bytes,
              "Most bytes that a step may hold beside parameters,\n"
              "gradients and the caller's arrays, an int; 0, the\n"
              "default, means no limit. To keep to it, a train step\n"
              "computes values again instead of keeping them, with the\n"
              "same bits. A step that needs more even so raises\n"
              "MemoryError and changes nothing.")
      .def_prop_rw("non_finite", &NonFiniteName, &SetNonFinite,
                   "What a train step does whose loss is infinite or NaN:\n"
                   "\"report\", the default, returns it like any other;\n"
                   "\"error\" raises ArithmeticError and changes nothing.\n"
                   "ValueError for another value.")
      .def_rw("update_batch_norm_statistics",
              &SessionOptions::update_batch_norm_statistics,
              "Whether train steps move the running statistics of\n"
              "BatchNormalization, a bool; True by default.")
      .def_rw("max_plans", &SessionOptions::max_plans,
              "Plans that are kept for different input shapes, an int\n"
              "of 1 or more; 4 by default. A step with other shapes\n"
              "makes a new one.")
      .def_rw("disabled_passes", &SessionOptions::disabled_passes,
              "Names of passes over the graph to leave out, for finding\n"
              "faults; a list of str, empty by default.")
      .def_rw("enable_profiling", &SessionOptions::enable_profiling,
              "Whether to collect times of kernels, which\n"
              "Module.write_profile writes; a bool, False by default.")
      .def(
          "add_session_config_entry",
          [](SessionOptions& options, const std::string& key,
             const std::string& value) { options.config[key] = value; },
          "key"_a, "value"_a,
          "Sets an entry by name, both str, as in ONNX Runtime.\n"
          "Known are \"session.disable_prepacking\", which must be\n"
          "\"1\", and \"strop.fill_memory_with_nan\", which with \"1\"\n"
          "helps to find faults; others have no effect.")
      .def("get_session_config_entry", &ConfigEntry, "key"_a,
           "The value of an entry, a str; KeyError if it was not set.");
}

}  // namespace strop::python
