"""Writes run.tfevents beside this file with TensorBoard's own classes (pip install tensorboard).

The run it describes is the one that tests/history.rs writes down.
"""

import struct
import zlib
from pathlib import Path

import tensorboard
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

HERE = Path(__file__).parent


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# Two grey pixels.
PNG = b"\x89PNG\r\n\x1a\n"
PNG += chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 0, 0, 0, 0))
PNG += chunk(b"IDAT", zlib.compress(bytes([0, 10, 200]))) + chunk(b"IEND", b"")


def scalar(tag, value):
    return summary_pb2.Summary.Value(tag=tag, simple_value=value)


def event(moment, step, *values):
    return event_pb2.Event(wall_time=moment, step=step, summary=summary_pb2.Summary(value=values))


image = summary_pb2.Summary.Image(height=1, width=2, colorspace=1, encoded_image_string=PNG)
events = [
    event_pb2.Event(wall_time=1000.0, file_version="brain.Event:2"),
    event(1005.0, 10, scalar("loss", 1.5), scalar("rate", 0.0002), scalar("norm", float("inf")), scalar("loss_by_time/0.5-1", 0.75)),
    event(1010.0, 20, scalar("loss", 1.25), scalar("rate", 0.0002), scalar("norm", 3.0), scalar("loss_by_time/0-0.5", 2.5), scalar("loss_by_time/0.5-1", 0.5)),
    event(1010.0, 20, scalar("evaluation/fid", 7.5)),
    event(1010.0, 20, summary_pb2.Summary.Value(tag="preview", image=image)),
    event(5020.0, 300, scalar("loss", 1.0), scalar("rate", 0.0002), scalar("norm", 2.0)),
]
(HERE / "preview.png").write_bytes(PNG)
with open(HERE / "run.tfevents", "wb") as file:
    writer = RecordWriter(file)
    for e in events:
        writer.write(e.SerializeToString(deterministic=True))
    writer.flush()
print("tensorboard", tensorboard.__version__)
