"""The names that users see as `actorflow.NAME` beside the verbs of `ops`, gathered from where they live."""

from __future__ import annotations

import actorflow.data as data
import actorflow.datasets as datasets
import actorflow.errors as errors  # not `from actorflow import`, which would ask for this module
import actorflow.nn as nn
import actorflow.optim as optim
import actorflow.testing as testing
from actorflow.actors import supervision
from actorflow.actors.actor import Actor
from actorflow.actors.many import Answers, Told, ask_all, tell_all
from actorflow.actors.optimizer import OptimizerActor, UpdateContext
from actorflow.actors.ref import Ref
from actorflow.actors.resources import reset
from actorflow.actors.system import ActorSystem
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.process import Process
from actorflow.cluster.trainer import Trainer, UpdateDone
from actorflow.coord.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.dtypes import can_cast, finfo, iinfo, result_type
from actorflow.errors import ActorflowError
from actorflow.feeding import Feeder, producing
from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import (
    Tensor,
    colocate_with,
    container,
    control_dependencies,
    device,
    name_scope,
)
from actorflow.graph.custom import custom_gradient
from actorflow.graph.forward import hessian_vector_product, jvp
from actorflow.graph.graph import Graph
from actorflow.graph.serial import from_data, to_data
from actorflow.graph.slices import IndexedSlices
from actorflow.loop import run
from actorflow.messages import Terminated
from actorflow.nn import init
from actorflow.program import Program
from actorflow.rows import Slices
from actorflow.session import Session
from actorflow.spec import Spec
from actorflow.trainer import EpochDone, RunDone, StepDone
from actorflow.training import minimize

__all__ = [
    "Actor", "ActorSystem", "ActorflowError", "Answers",
    "Async", "Backup", "Cluster", "EpochDone", "Feeder", "Graph",
    "IndexedSlices", "OptimizerActor", "Policy",
    "Process", "Program", "Ref", "RunDone", "Session", "Slices", "Spec",
    "StaleSync", "StepDone", "Sync", "Tensor", "Terminated", "Told",
    "Trainer", "UpdateContext", "UpdateDone",
    "ask_all", "can_cast", "colocate_with", "container", "control_dependencies", "custom_gradient", "data",
    "datasets", "device",
    "errors", "finfo", "from_data", "gradients", "hessian_vector_product", "iinfo", "init", "jvp",
    "minimize", "name_scope", "nn", "optim", "producing", "reset", "result_type", "run", "supervision",
    "tell_all", "testing", "to_data",
]  # fmt: skip
