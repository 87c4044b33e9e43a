"""A picture of 7x4 pixels in every EXIF orientation, and upright as Pillow's exif_transpose has it.

pip install pillow==13.0.0 numpy==2.4.6 safetensors; python make.py
"""

import io
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import save_file

rng = np.random.default_rng(0)
image = Image.fromarray(rng.integers(0, 256, (4, 7, 3), dtype=np.uint8))
upright = {}


def tiff(order, value):
    """A directory with the model's name before the orientation."""
    s = "<" if order == b"II" else ">"
    entries = struct.pack(s + "HHI4s", 0x0110, 2, 4, b"cam\0") + struct.pack(s + "HHIHH", 0x0112, 3, 1, value, 0)
    return order + struct.pack(s + "HIH", 42, 8, 2) + entries + struct.pack(s + "I", 0)


def keep(name, data):
    open(name, "wb").write(data)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    upright[name] = np.ascontiguousarray(np.asarray(turned.convert("RGB")))


def save(name, **options):
    file = io.BytesIO()
    image.save(file, **options)
    keep(name, file.getvalue())


for value in range(1, 9):
    order = b"MM" if value % 2 else b"II"
    save(f"{value}.jpg", format="jpeg", quality=95, subsampling=0, exif=b"Exif\0\0" + tiff(order, value))
save("6.png", format="png", exif=tiff(b"II", 6))
save("8.png", format="png", exif=tiff(b"MM", 8))
save("5.webp", format="webp", lossless=True, exif=b"Exif\0\0" + tiff(b"II", 5))
save("6.webp", format="webp", lossless=True, exif=tiff(b"MM", 6))
# A chunk after the pixels.
file = io.BytesIO()
image.save(file, format="png")
body = tiff(b"MM", 3)
chunk = struct.pack(">I", len(body)) + b"eXIf" + body + struct.pack(">I", zlib.crc32(b"eXIf" + body))
keep("3-last.png", file.getvalue()[:-12] + chunk + file.getvalue()[-12:])
save_file(dict(sorted(upright.items())), "upright.safetensors")
