"""The corruptions, one class each. What they do is in the library; `softdiff recipe keys` lists their parameters too."""

from ._softdiff import Corruption


class Blur(Corruption):
    """Gaussian blur, the paper's; its level is the standard deviation in pixels.

    Args:
        largest: the strongest; by default the paper's, 18 for 32x32 and 23 for 64x64.
        boundary: what lies beyond the border: "zero", "reflect" or "periodic".
    """

    def __new__(cls, largest=None, *, boundary=None):
        return super().__new__(cls, "blur", largest=largest, boundary=boundary)


class Heat(Corruption):
    """Heat dissipation, a blur by cosine frequencies; its level is the standard deviation in pixels.

    Args:
        largest: the strongest.
        floor: what is left of every frequency, from 0 to below 1.
    """

    def __new__(cls, largest=None, *, floor=None):
        return super().__new__(cls, "heat", largest=largest, floor=floor)


class Masking(Corruption):
    """Pixels that are erased one after the other; its level is the part that is erased.

    Args:
        order: "window", "spiral", "random", "rows" or "columns".
        softness: how gradually, from 0 to below 1.
        order_seed: of the random order.
    """

    def __new__(cls, order=None, *, softness=None, order_seed=None):
        return super().__new__(cls, "masking", order=order, softness=softness, order_seed=order_seed)


class Pixelation(Corruption):
    """Blocks of pixels that become one colour, ever larger ones."""

    def __new__(cls):
        return super().__new__(cls, "pixelation")


class Fading(Corruption):
    """Images that fade to black; its level is the part that is lost."""

    def __new__(cls):
        return super().__new__(cls, "fading")


class Decolourisation(Corruption):
    """Colours that fade to grey.

    Args:
        grey: which grey; "luma" or "mean".
    """

    def __new__(cls, grey=None):
        return super().__new__(cls, "decolourisation", grey=grey)


class Motion(Corruption):
    """Motion blur; its level is the length in pixels.

    Args:
        largest: the longest.
        boundary: what lies beyond the border: "zero", "reflect" or "periodic".
        direction: "horizontal" or "vertical".
    """

    def __new__(cls, largest=None, *, boundary=None, direction=None):
        return super().__new__(cls, "motion", largest=largest, boundary=boundary, direction=direction)


def Custom(matrix=None, *, kernel=None, function=None, boundary="zero"):
    """A corruption towards a linear map W of one's own: C = (1 - level) I + level W, for levels from 0 to 1.

    Args:
        matrix: W as a matrix on the flattened image, rows, columns, channels.
        kernel: W as the correlation with a kernel, as `scipy.ndimage.correlate` computes it.
        function: W as a function from a float array [height, width, channels] to one of the same shape, which must be linear.
            It is applied to every unit image once, and the matrix that this gives is what is trained with: the network
            sees no Python.
        boundary: of a kernel: what lies beyond the border: "zero", "reflect" or "periodic".
    """
    return Corruption.custom(matrix=matrix, kernel=kernel, function=function, boundary=boundary)


def Composed(*parts):
    """Several corruptions one after the other, each in its own part of the way.

    Args:
        parts: corruptions, or tuples of a corruption and where it starts and ends, such as (softdiff.Blur(3), 0, 0.7).
    """
    return Corruption.composed(*parts)
