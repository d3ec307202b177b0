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
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.cluster.cluster import Cluster
from actorflow.cluster.process.process import Process
from actorflow.cluster.trainer import Trainer, UpdateDone
from actorflow.coord.rules.policy import Async, Backup, Policy, StaleSync, Sync
from actorflow.dataflow.engine.resources import reset
from actorflow.dataflow.optimizer.optimizer import OptimizerActor, UpdateContext
from actorflow.errors import ActorflowError
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
from actorflow.nn import init
from actorflow.runtime.event_loop import run
from actorflow.runtime.messages import Terminated
from actorflow.session.session import Session
from actorflow.training.minimize import minimize
from actorflow.training.program import Program
from actorflow.training.queue_runner import QueueRunner, producing
from actorflow.training.trainer import EpochDone, RunDone, StepDone
from actorflow.values.dtypes import can_cast, finfo, iinfo, result_type
from actorflow.values.sparse import Slices
from actorflow.values.spec import Spec

__all__ = [
    "Actor",
    "ActorSystem",
    "ActorflowError",
    "Answers",
    "Async",
    "Backup",
    "Cluster",
    "EpochDone",
    "Graph",
    "IndexedSlices",
    "OptimizerActor",
    "Policy",
    "Process",
    "Program",
    "QueueRunner",
    "Ref",
    "RunDone",
    "Session",
    "Slices",
    "Spec",
    "StaleSync",
    "StepDone",
    "Sync",
    "Tensor",
    "Terminated",
    "Told",
    "Trainer",
    "UpdateContext",
    "UpdateDone",
    "ask_all",
    "can_cast",
    "colocate_with",
    "container",
    "control_dependencies",
    "custom_gradient",
    "data",
    "datasets",
    "device",
    "errors",
    "finfo",
    "from_data",
    "gradients",
    "hessian_vector_product",
    "iinfo",
    "init",
    "jvp",
    "minimize",
    "name_scope",
    "nn",
    "optim",
    "producing",
    "reset",
    "result_type",
    "run",
    "supervision",
    "tell_all",
    "testing",
    "to_data",
]  # fmt: skip
