"""A preparation of columns as scikit-learn's transformers, made or written down."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, RobustScaler, StandardScaler

from mustlink.preparation.request import Preparation

_SCALERS = {"standard": StandardScaler, "robust": RobustScaler}


def transformers(steps: Preparation) -> list[Any]:
    """Transformers in the order of the steps, not fitted; columns are numbers."""
    found: list[Any] = []
    if steps.impute:
        found.append(SimpleImputer(strategy=steps.impute))
    columns: list[tuple[Any, list[str | int]]] = []
    if steps.drop:
        columns.append(("drop", list(steps.drop)))
    if steps.log:
        columns.append((FunctionTransformer(np.log1p), list(steps.log)))
    if steps.one_hot:
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        columns.append((encoder, list(steps.one_hot)))
    if columns:
        found.append(make_column_transformer(*columns, remainder="passthrough"))
    if steps.standardize:
        found.append(_SCALERS[steps.standardize]())
    return found


def transformer_code(steps: Preparation) -> list[str]:
    """What is written in Python for each of the `transformers`."""
    found = []
    if steps.impute:
        found.append(f"SimpleImputer(strategy={steps.impute!r})")
    columns = []
    if steps.drop:
        columns.append(f'("drop", {list(steps.drop)})')
    if steps.log:
        columns.append(f"(FunctionTransformer(np.log1p), {list(steps.log)})")
    if steps.one_hot:
        encoder = 'OneHotEncoder(handle_unknown="ignore", sparse_output=False)'
        columns.append(f"({encoder}, {list(steps.one_hot)})")
    if columns:
        found.append(f'make_column_transformer({", ".join(columns)}, remainder="passthrough")')
    if steps.standardize:
        found.append(f"{_SCALERS[steps.standardize].__name__}()")
    return found


def imports(steps: Preparation) -> list[str]:
    """The imports that the code needs."""
    named = ["FunctionTransformer"] if steps.log else []
    named += ["OneHotEncoder"] if steps.one_hot else []
    named += [_SCALERS[steps.standardize].__name__] if steps.standardize else []
    found = ["import mustlink as ml"] + (["import numpy as np"] if steps.log else [])
    if steps.log or steps.one_hot or steps.drop:
        found.append("from sklearn.compose import make_column_transformer")
    if steps.impute:
        found.append("from sklearn.impute import SimpleImputer")
    if not steps.is_nothing:
        found.append("from sklearn.pipeline import make_pipeline")
    if named:
        found.append(f"from sklearn.preprocessing import {', '.join(named)}")
    return found
