"""Makes the files of this folder: python3 make.py, with Pillow and scikit-image."""
from PIL import Image
from skimage import data

image = Image.fromarray(data.astronaut()).crop((176, 64, 304, 192))
image.save("astronaut.png", optimize=True)
image.save("astronaut-10.jpg", quality=10)
