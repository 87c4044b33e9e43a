from os import PathLike
from typing import Any, Callable, Iterable, Iterator, Literal, Optional, Sequence, Union

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

StrPath = Union[str, "PathLike[str]"]
Seeds = Union[int, Iterable[int]]
Shape = tuple[int, int, int]
Settings = dict[str, Any]
Floats = NDArray[np.float64]
Denoiser = Callable[[Floats, float], ArrayLike]
Callback = Callable[[dict[str, Any]], object]
Boundary = Literal["zero", "reflect", "periodic"]

class Error(Exception):
    hint: Optional[str]

class Corruption:
    def __new__(cls, name: str, **parameters: Any) -> Corruption: ...
    @staticmethod
    def custom(
        matrix: Optional[ArrayLike] = None,
        kernel: Optional[ArrayLike] = None,
        function: Optional[Callable[[Floats], ArrayLike]] = None,
        boundary: Boundary = "zero",
    ) -> Corruption: ...
    @staticmethod
    def composed(*parts: Union[Corruption, tuple[Corruption, float, float]]) -> Corruption: ...
    def levels(self, shape: Shape) -> tuple[float, float]: ...

class Path:
    def __new__(
        cls,
        shape: Shape,
        corruption: Union[str, Corruption],
        knots: Union[Schedule, Sequence[float], Floats, None] = None,
    ) -> Path: ...
    @staticmethod
    def variance_exploding(shape: Shape, smallest: float = 0.01, largest: float = 50.0) -> Path: ...
    @staticmethod
    def variance_preserving(shape: Shape, alpha: Literal["linear", "cosine"] = "linear") -> Path: ...
    @property
    def shape(self) -> Shape: ...
    def sigma(self, t: float) -> float: ...
    def level(self, t: float) -> float: ...
    def corrupt(self, images: ArrayLike, t: float) -> NDArray[Any]: ...
    def diffuse(self, images: ArrayLike, t: float, seed: int = 0, noise: Optional[ArrayLike] = None) -> Floats: ...

class Schedule:
    @staticmethod
    def read(file: StrPath) -> Schedule: ...
    def save(self, file: StrPath) -> None: ...
    def to_json(self) -> str: ...
    @property
    def knots(self) -> Floats: ...
    @property
    def hops(self) -> Floats: ...
    @property
    def candidates(self) -> Floats: ...
    @property
    def path_cost(self) -> float: ...
    @property
    def corruption(self) -> str: ...

class DenoiseSteps(Iterator[tuple[float, Floats, Floats]]):
    def __iter__(self) -> DenoiseSteps: ...
    def __next__(self) -> tuple[float, Floats, Floats]: ...

class Restored:
    @property
    def mean(self) -> Floats: ...
    @property
    def std(self) -> Floats: ...
    @property
    def samples(self) -> Floats: ...
    @property
    def image(self) -> NDArray[np.uint8]: ...
    @property
    def seen(self) -> Floats: ...
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

class Model:
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
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
        seeds: Optional[Seeds] = None,
        *,
        steps: Optional[int] = None,
        sampler: Optional[str] = None,
        set: Optional[Settings] = None,
        batch: Optional[int] = None,
        dtype: Optional[DTypeLike] = None,
        progress: bool = True,
    ) -> NDArray[Any]: ...
    def restore(
        self,
        image: Union[ArrayLike, StrPath],
        task: Optional[Literal["deblur", "denoise", "inpaint", "super-resolve", "colourise"]] = None,
        *,
        corruption: Optional[Literal["blur", "heat", "motion", "defocus"]] = None,
        level: Optional[float] = None,
        boundary: Optional[Boundary] = None,
        angle: Optional[float] = None,
        kernel: Optional[ArrayLike] = None,
        mask: Optional[ArrayLike] = None,
        factor: Optional[int] = None,
        t: Optional[float] = None,
        noise: Optional[float] = None,
        seeds: Optional[Seeds] = None,
        steps: Optional[int] = None,
        sampler: Optional[str] = None,
        set: Optional[Settings] = None,
        quality: Optional[Literal["fast", "default", "best"]] = None,
        free: bool = False,
        batch: Optional[int] = None,
        progress: bool = True,
    ) -> Restored: ...
    def denoise_steps(
        self,
        seed: Optional[int] = None,
        *,
        seeds: Optional[Seeds] = None,
        steps: Optional[int] = None,
        sampler: Optional[str] = None,
        set: Optional[Settings] = None,
    ) -> DenoiseSteps: ...
    def denoise(self, xt: ArrayLike, t: float) -> Floats: ...
    def __call__(self, xt: ArrayLike, t: float) -> Floats: ...
    def starts(self, seeds: Seeds) -> Floats: ...
    def export(self, folder: StrPath, *, half: bool = False) -> None: ...

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
    model: StrPath,
    *,
    device: str = "auto",
    checkpoint: Union[str, int, None] = None,
    weights: Optional[str] = None,
) -> Model: ...
def train(
    recipe: Optional[StrPath] = None,
    *,
    out: Optional[StrPath] = None,
    set: Optional[Settings] = None,
    images: Union[ArrayLike, StrPath, None] = None,
    corruption: Union[str, Corruption, None] = None,
    path: Optional[Path] = None,
    steps: Optional[int] = None,
    batch: Optional[int] = None,
    seed: Optional[int] = None,
    device: str = "auto",
    checkpoint: Union[str, int, None] = None,
    callback: Optional[Callback] = None,
    progress: bool = True,
) -> Run: ...
def sample(
    denoiser: Union[Denoiser, Model],
    path: Path,
    seeds: Seeds,
    *,
    steps: int = 100,
    sampler: str = "momentum",
    prior: Union[ArrayLike, StrPath, None] = None,
    start: Optional[ArrayLike] = None,
    batch: Optional[int] = None,
    dtype: Optional[DTypeLike] = None,
    progress: bool = True,
) -> NDArray[Any]: ...
def restore(
    photo: Union[ArrayLike, StrPath],
    task: Optional[Literal["deblur", "denoise", "inpaint", "super-resolve", "colourise"]] = None,
    *,
    model: Optional[StrPath] = None,
    device: str = "auto",
    **options: Any,
) -> Restored: ...
def corrupt(
    images: ArrayLike, corruption: Union[str, Corruption], level: Optional[float] = None
) -> NDArray[Any]: ...
def schedule(
    images: Union[ArrayLike, StrPath],
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
    images: Union[ArrayLike, StrPath],
    reference: Union[ArrayLike, StrPath],
    *,
    network: Optional[StrPath] = None,
    device: str = "auto",
    progress: bool = True,
) -> float: ...
def evaluate(
    images: Union[ArrayLike, StrPath],
    reference: Union[ArrayLike, StrPath],
    metrics: Sequence[str],
    *,
    network: Optional[StrPath] = None,
    device: str = "auto",
    progress: bool = True,
) -> dict[str, float]: ...
def read_images(
    source: StrPath,
    *,
    split: Literal["all", "train", "test"] = "all",
    size: Optional[int] = None,
    channels: Optional[int] = None,
    limit: Optional[int] = None,
    progress: bool = True,
) -> NDArray[np.uint8]: ...
