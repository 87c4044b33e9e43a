from typing import Callable, Literal, Optional, Union

from numpy.typing import ArrayLike

from . import Corruption, _Boundary, _Floats

class Blur(Corruption):
    def __new__(cls, largest: Optional[float] = None, *, boundary: Optional[_Boundary] = None) -> Blur: ...

class Heat(Corruption):
    def __new__(cls, largest: Optional[float] = None, *, floor: Optional[float] = None) -> Heat: ...

class Masking(Corruption):
    def __new__(
        cls,
        order: Optional[Literal["window", "spiral", "random", "rows", "columns"]] = None,
        *,
        softness: Optional[float] = None,
        order_seed: Optional[int] = None,
    ) -> Masking: ...

class Pixelation(Corruption):
    def __new__(cls) -> Pixelation: ...

class Fading(Corruption):
    def __new__(cls) -> Fading: ...

class Decolourisation(Corruption):
    def __new__(cls, grey: Optional[Literal["mean", "luma"]] = None) -> Decolourisation: ...

class Motion(Corruption):
    def __new__(
        cls,
        largest: Optional[float] = None,
        *,
        boundary: Optional[_Boundary] = None,
        direction: Optional[Literal["horizontal", "vertical"]] = None,
    ) -> Motion: ...

def Custom(
    matrix: Optional[ArrayLike] = None,
    *,
    kernel: Optional[ArrayLike] = None,
    function: Optional[Callable[[_Floats], ArrayLike]] = None,
    boundary: _Boundary = "zero",
) -> Corruption: ...
def Composed(*parts: Union[Corruption, tuple[Corruption, float, float]]) -> Corruption: ...
