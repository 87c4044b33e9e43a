"""Photographs of 32x32, sharp and blurred by Pillow and SciPy.

pip install pillow==13.0.0 scipy==1.17.1 scikit-image==0.26.0 numpy==2.4.6; python make.py
"""

import numpy as np
import skimage.data
from PIL import Image, ImageFilter
from scipy.ndimage import gaussian_filter

SIGMA = 1.5

for name in ["astronaut", "coffee", "chelsea", "rocket"]:
    image = getattr(skimage.data, name)()
    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = Image.fromarray(image[top : top + side, left : left + side])
    sharp = square.resize((32, 32), Image.LANCZOS)
    sharp.save(f"{name}.png")
    # Three box blurs of which each repeats the outer pixels.
    sharp.filter(ImageFilter.GaussianBlur(SIGMA)).save(f"{name}-pillow.png")
    for mode, file in [("reflect", "reflect"), ("nearest", "nearest"), ("constant", "zero")]:
        blurred = gaussian_filter(np.asarray(sharp).astype(float), (SIGMA, SIGMA, 0), mode=mode)
        Image.fromarray(np.clip(np.rint(blurred), 0, 255).astype(np.uint8)).save(f"{name}-{file}.png")
