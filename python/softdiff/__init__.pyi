import pathlib
from os import PathLike
from typing import Any, Callable, Iterable, Iterator, Literal, Optional, Sequence, Union, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .corruptions import (
    Blur as Blur,
    Composed as Composed,
    Custom as Custom,
    Decolourisation as Decolourisation,
    Fading as Fading,
    Heat as Heat,
    Masking as Masking,
    Motion as Motion,
    Pixelation as Pixelation,
)

__version__: str

_StrPath = Union[str, "PathLike[str]"]
_Seeds = Union[int, Iterable[int]]
_Shape = tuple[int, int, int]
_Settings = dict[str, Any]
_Floats = NDArray[np.float64]
_Denoiser = Callable[[_Floats, float], ArrayLike]
_Callback = Callable[[dict[str, Any]], object]
_Boundary = Literal["zero", "reflect", "periodic"]

class Error(Exception):
    hint: Optional[str]

class Corruption:
    def __new__(cls, name: str, **parameters: Any) -> Corruption: ...
    @staticmethod
    def custom(
        matrix: Optional[ArrayLike] = None,
        kernel: Optional[ArrayLike] = None,
        function: Optional[Callable[[_Floats], ArrayLike]] = None,
        boundary: _Boundary = "zero",
    ) -> Corruption: ...
    @staticmethod
    def composed(*parts: Union[Corruption, tuple[Corruption, float, float]]) -> Corruption: ...
    def levels(self, shape: _Shape) -> tuple[float, float]: ...

@final
class Path:
    def __new__(
        cls,
        shape: _Shape,
        corruption: Union[str, Corruption],
        knots: Union[Schedule, Sequence[float], _Floats, None] = None,
    ) -> Path: ...
    @staticmethod
    def variance_exploding(shape: _Shape, smallest: float = 0.01, largest: float = 50.0) -> Path: ...
    @staticmethod
    def variance_preserving(shape: _Shape, alpha: Literal["linear", "cosine"] = "linear") -> Path: ...
    @property
    def shape(self) -> _Shape: ...
    def sigma(self, t: float) -> float: ...
    def level(self, t: float) -> float: ...
    def corrupt(self, images: ArrayLike, t: float) -> NDArray[Any]: ...
    def diffuse(self, images: ArrayLike, t: float, seed: int = 0, noise: Optional[ArrayLike] = None) -> _Floats: ...

@final
class Schedule:
    @staticmethod
    def read(file: _StrPath) -> Schedule: ...
    def save(self, file: _StrPath) -> None: ...
    def to_json(self) -> str: ...
    @property
    def knots(self) -> _Floats: ...
    @property
    def hops(self) -> _Floats: ...
    @property
    def candidates(self) -> _Floats: ...
    @property
    def path_cost(self) -> float: ...
    @property
    def corruption(self) -> str: ...

@final
class DenoiseSteps(Iterator[tuple[float, _Floats, _Floats]]):
    def __iter__(self) -> DenoiseSteps: ...
    def __next__(self) -> tuple[float, _Floats, _Floats]: ...

@final
class Restored:
    @property
    def mean(self) -> _Floats: ...
    @property
    def std(self) -> _Floats: ...
    @property
    def samples(self) -> _Floats: ...
    @property
    def image(self) -> NDArray[np.uint8]: ...
    @property
    def seen(self) -> _Floats: ...
    @property
    def misfit(self) -> float: ...
    @property
    def task(self) -> str: ...
    @property
    def level(self) -> Optional[float]: ...
    @property
    def noise(self) -> float: ...
    @property
    def entered_at(self) -> float: ...
    @property
    def warning(self) -> Optional[str]: ...

@final
class Model:
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> _Shape: ...
    @property
    def path(self) -> Path: ...
    @property
    def schedule(self) -> Optional[Schedule]: ...
    @property
    def step(self) -> int: ...
    @property
    def weights(self) -> str: ...
    @property
    def recipe(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def takes_any_size(self) -> bool: ...
    def sample(
        self,
        seeds: Optional[_Seeds] = None,
        *,
        steps: Optional[int] = None,
        sampler: Optional[str] = None,
        set: Optional[_Settings] = None,
        batch: Optional[int] = None,
        dtype: Optional[DTypeLike] = None,
        progress: bool = True,
    ) -> NDArray[Any]: ...
    def restore(
        self,
        image: Union[ArrayLike, _StrPath],
        task: Optional[Literal["deblur", "denoise", "inpaint", "super-resolve", "colourise"]] = None,
        *,
        corruption: Optional[Literal["blur", "heat", "motion", "defocus"]] = None,
        level: Optional[float] = None,
        boundary: Optional[_Boundary] = None,
        angle: Optional[float] = None,
        kernel: Optional[ArrayLike] = None,
        mask: Optional[ArrayLike] = None,
        factor: Optional[int] = None,
        t: Optional[float] = None,
        noise: Optional[float] = None,
        seeds: Optional[_Seeds] = None,
        steps: Optional[int] = None,
        sampler: Optional[str] = None,
        set: Optional[_Settings] = None,
        quality: Optional[Literal["fast", "default", "best"]] = None,
        free: bool = False,
        batch: Optional[int] = None,
        progress: bool = True,
    ) -> Restored: ...
    def denoise_steps(
        self,
        seed: Optional[int] = None,
        *,
        seeds: Optional[_Seeds] = None,
        steps: Optional[int] = None,
        sampler: Optional[str] = None,
        set: Optional[_Settings] = None,
    ) -> DenoiseSteps: ...
    def denoise(self, xt: ArrayLike, t: float) -> _Floats: ...
    def __call__(self, xt: ArrayLike, t: float) -> _Floats: ...
    def starts(self, seeds: _Seeds) -> _Floats: ...
    def export(self, folder: _StrPath, *, half: bool = False) -> None: ...

@final
class Run:
    @property
    def model(self) -> Model: ...
    @property
    def step(self) -> int: ...
    @property
    def from_step(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def out(self) -> Optional["PathLike[str]"]: ...

def load(
    model: _StrPath,
    *,
    device: str = "auto",
    checkpoint: Union[str, int, None] = None,
    weights: Optional[str] = None,
    guide: Optional[_StrPath] = None,
) -> Model: ...
def train(
    recipe: Optional[_StrPath] = None,
    *,
    out: Optional[_StrPath] = None,
    set: Optional[_Settings] = None,
    images: Union[ArrayLike, _StrPath, None] = None,
    corruption: Union[str, Corruption, None] = None,
    path: Optional[Path] = None,
    steps: Optional[int] = None,
    batch: Optional[int] = None,
    seed: Optional[int] = None,
    device: str = "auto",
    checkpoint: Union[str, int, None] = None,
    callback: Optional[_Callback] = None,
    progress: bool = True,
) -> Run: ...
def sample(
    denoiser: Union[_Denoiser, Model],
    path: Path,
    seeds: _Seeds,
    *,
    steps: int = 100,
    sampler: str = "momentum",
    prior: Union[ArrayLike, _StrPath, None] = None,
    start: Optional[ArrayLike] = None,
    batch: Optional[int] = None,
    dtype: Optional[DTypeLike] = None,
    progress: bool = True,
) -> NDArray[Any]: ...
def restore(
    photo: Union[ArrayLike, _StrPath],
    task: Optional[Literal["deblur", "denoise", "inpaint", "super-resolve", "colourise"]] = None,
    *,
    model: Optional[_StrPath] = None,
    device: str = "auto",
    **options: Any,
) -> Restored: ...
def corrupt(
    images: ArrayLike, corruption: Union[str, Corruption], level: Optional[float] = None
) -> NDArray[Any]: ...
def schedule(
    images: Union[ArrayLike, _StrPath],
    corruption: Union[str, Corruption, None] = None,
    *,
    knots: int = 32,
    candidates: int = 256,
    measured: int = 1024,
    metric: Literal["paired", "exact", "sinkhorn", "divergence", "sliced", "bures", "mmd"] = "paired",
    seed: int = 0,
    progress: bool = True,
) -> Schedule: ...
def fid(
    images: Union[ArrayLike, _StrPath],
    reference: Union[ArrayLike, _StrPath],
    *,
    network: Optional[_StrPath] = None,
    device: str = "auto",
    progress: bool = True,
) -> float: ...
def evaluate(
    images: Union[ArrayLike, _StrPath],
    reference: Union[ArrayLike, _StrPath],
    metrics: Sequence[str],
    *,
    network: Optional[_StrPath] = None,
    device: str = "auto",
    progress: bool = True,
) -> dict[str, float]: ...
def fetch(name: Literal["cifar10", "fashion-mnist", "mnist", "fid-inception"], *, progress: bool = True) -> pathlib.Path: ...
def read_images(
    source: _StrPath,
    *,
    split: Literal["all", "train", "test"] = "all",
    size: Optional[int] = None,
    channels: Optional[int] = None,
    limit: Optional[int] = None,
    progress: bool = True,
) -> NDArray[np.uint8]: ...
