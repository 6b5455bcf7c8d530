"""Python runs this when it starts, if this folder is in PYTHONPATH."""

import without_dynamo  # noqa: F401
