"""The builders of ONNX's ops, one module a family."""
