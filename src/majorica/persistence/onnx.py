"""``transform`` as an ONNX graph, for runtimes without Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorica.errors import optional_import
from majorica.statistics import F64


def transform_to_onnx(mean: F64, components: F64) -> Any:
    """An ONNX model with input ``X (n, n_features)`` and output ``sources (n, n_components)``, both float32.

    The mean is subtracted in double precision: an offset far above the
    signal would cost a float32 graph all its digits.
    """
    onnx = optional_import("onnx", extra="onnx", purpose="to_onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    k, f = components.shape
    nodes = [
        helper.make_node("Cast", ["X"], ["X64"], to=kinds.DOUBLE),
        helper.make_node("Sub", ["X64", "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "unmixing"], ["sources64"]),
        helper.make_node("Cast", ["sources64"], ["sources"], to=kinds.FLOAT),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(mean, dtype=np.float64), "mean"),
        onnx.numpy_helper.from_array(np.ascontiguousarray(components.T, dtype=np.float64), "unmixing"),
    ]
    graph = helper.make_graph(
        nodes,
        "majorica",
        [helper.make_tensor_value_info("X", kinds.FLOAT, ["n", f])],
        [helper.make_tensor_value_info("sources", kinds.FLOAT, ["n", k])],
        constants,
    )
    model = helper.make_model(graph, producer_name="majorica", opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8  # read by every runtime since 2022
    onnx.checker.check_model(model)
    return model
