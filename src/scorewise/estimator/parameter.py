"""An estimator's parameter ``score`` beside its method of the same name."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, TypeVar, overload

Method = TypeVar("Method", bound=Callable[..., Any])


class ParameterAndMethod(Generic[Method]):
    """A decorator of a method that leaves its name free for a parameter.

    Users write ``Estimator(score="hss")``, and scikit-learn calls ``estimator.score(X, y)``. It also wants a parameter
    to be an attribute of the same name: it is in ``vars(estimator)`` as all others are, and can be set as they are.
    What is read is the method; `ScoreParameter.get_params` gives the parameter.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Method: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[..., Any]: ...
    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        return self._method if instance is None else MethodType(self._method, instance)

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)[self._name] = value


class ScoreParameter:
    """For estimators with a parameter ``score``: comes before `sklearn.base.BaseEstimator`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT002  # as scikit-learn has it
        """The parameters by name.

        Args:
            deep: Whether to give those of inner estimators too.
        """
        params: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]  # of BaseEstimator
        return params | {"score": vars(self)["score"]}
