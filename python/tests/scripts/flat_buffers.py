# SPDX-License-Identifier: Apache-2.0
"""Parameters as one flat buffer: out, changed, in again; and one by one."""

import tempfile

import networks
import numpy as np
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

with tempfile.TemporaryDirectory() as folder:
    model = networks.classifier()
    artifacts.generate_artifacts(
        model,
        requires_grad=["fc2.weight", "fc2.bias", "fc1.bias"],
        frozen_params=["fc1.weight"],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    optimizer = Optimizer(f"{folder}/optimizer_model.onnx", module)
    print("sizes", module.get_parameters_size(), module.get_parameters_size(False), module.get_parameters_size(True))

    everything = module.get_contiguous_parameters()
    trainable = module.get_contiguous_parameters(trainable_only=True)
    print(everything.shape(), trainable.shape(), trainable.data_type(), trainable.device_name(), trainable.has_value())
    print("all", *everything.numpy()[::20])
    print("trainable", *trainable.numpy()[::7])

    for step in range(4):
        module(*networks.batch(step))
        optimizer.step()
        module.lazy_reset_grad()
    trained = module.get_contiguous_parameters(True)
    print("trained", *trained.numpy()[::7], "before", np.abs(trainable.numpy()).sum())

    module.copy_buffer_to_parameters(trainable)
    print("back", *state.parameters["fc2.weight"].data[0, :5])
    module.copy_buffer_to_parameters(everything, trainable_only=False)
    trained.update_inplace(trained.numpy() * 2)
    module.copy_buffer_to_parameters(trained, True)
    print("doubled", *state.parameters["fc2.weight"].data[0, :5], float(module(*networks.batch(0))))

    weight = state.parameters["fc1.weight"].data
    state.parameters["fc1.weight"] = weight + 0.25
    state.parameters["fc2.bias"].data = np.arange(4, dtype=np.float32)
    print("set", *module.get_contiguous_parameters().numpy()[::20], float(module(*networks.batch(0))))
    bias = state.parameters["fc2.bias"].data
    bias[:] = -1.0
    module.lazy_reset_grad()
    print("in place", float(module(*networks.batch(0))))
    gradient = state.parameters["fc2.bias"].grad
    gradient[:] = 0.5
    optimizer.step()
    print("after the gradient was set", *state.parameters["fc2.bias"].data, *bias, *gradient)
    trained.numpy()[:] = 0.125
    module.copy_buffer_to_parameters(trained, True)
    print("filled", *state.parameters["fc2.weight"].data[0, :5])
    state.parameters["fc1.weight"].data[:] *= 0.5
    print("a frozen one in place", float(module(*networks.batch(0))))
    print("names", len(state.parameters), "fc1.bias" in state.parameters, "fc3.bias" in state.parameters)
    for name, wrong in [("fc3.bias", np.zeros(4)), ("fc2.bias", np.zeros(5, np.float32)), ("fc2.bias", np.zeros(4))]:
        try:
            state.parameters[name] = wrong
        except (KeyError, RuntimeError) as error:
            print(name, isinstance(error, KeyError), isinstance(error, RuntimeError) or isinstance(error, KeyError))
