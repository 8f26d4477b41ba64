# SPDX-License-Identifier: Apache-2.0
"""Federated averaging: clients send what they learned, the server adds the mean of it."""

import tempfile

import networks
import numpy as np
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer


class Participant:
    def __init__(self, folder):
        self.state = CheckpointState.load_checkpoint(f"{folder}/checkpoint")
        self.module = Module(f"{folder}/training_model.onnx", self.state, f"{folder}/eval_model.onnx")
        self.optimizer = Optimizer(f"{folder}/optimizer_model.onnx", self.module)
        self.optimizer.set_learning_rate(0.05)

    def weights(self):
        return self.module.get_contiguous_parameters(trainable_only=True)

    def receive(self, weights):
        buffer = self.weights()
        buffer.update_inplace(weights)
        self.module.copy_buffer_to_parameters(buffer, trainable_only=True)

    def learn(self, steps):
        before = self.weights().numpy().copy()
        self.module.train()
        for step in steps:
            self.module(*networks.batch(step))
            self.optimizer.step()
            self.module.lazy_reset_grad()
        return self.weights().numpy() - before

    def loss(self):
        self.module.eval()
        return float(self.module(*networks.batch(500, size=32)))


with tempfile.TemporaryDirectory() as folder:
    model = networks.classifier()
    artifacts.generate_artifacts(
        model,
        requires_grad=networks.names(model),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=folder,
    )
    server = Participant(folder)
    clients = [Participant(folder) for _ in range(3)]
    print("start", server.loss())
    for turn in range(4):
        weights = server.weights().numpy().copy()
        differences = []
        for number, client in enumerate(clients):
            client.receive(weights)
            first = 40 * number + 5 * turn
            differences.append(client.learn(range(first, first + 5)))
            print("client", number, np.linalg.norm(differences[-1]), client.loss())
        server.receive(weights + np.mean(differences, axis=0))
        print("server", server.loss())
