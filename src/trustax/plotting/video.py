"""Writes images as a video: GIF, or MP4 with the extra `record`."""

import itertools
import math
import subprocess
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from PIL import Image

from trustax.errors import TrustaxError

MAX_GIF_FPS = 50
"""Viewers slow a GIF down if its frames are shorter than two hundredths of a second."""


def writer_for(path: Path) -> Callable[[Path, Iterable[Image.Image], float], None]:
    """The function that writes this kind of file: `write(path, images, fps)`. Raises if it cannot be written."""
    if not path.parent.is_dir():
        raise TrustaxError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.suffix.lower() == ".gif":
        return _write_gif
    if path.suffix.lower() != ".mp4":
        raise TrustaxError(f"a recording is a .gif or an .mp4, not {path.name!r}")
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise TrustaxError(
            'an .mp4 needs imageio-ffmpeg: pip install "trustax[record]"; a .gif needs no extra'
        ) from None
    return partial(_write_mp4, program=get_ffmpeg_exe())


def _write_gif(path: Path, images: Iterable[Image.Image], fps: float) -> None:
    # Above the highest frame rate, drop frames instead of slowing the video down.
    stride = math.ceil(fps / MAX_GIF_FPS)
    kept = itertools.islice(images, 0, None, stride)
    hundredths = round(100 * stride / fps)
    next(kept).save(path, save_all=True, append_images=kept, duration=10 * hundredths, loop=0)


def _write_mp4(path: Path, images: Iterable[Image.Image], fps: float, program: str) -> None:
    images = iter(images)
    first = next(images)
    even = (first.width - first.width % 2, first.height - first.height % 2)  # the codec requires even sizes
    source = f"-f rawvideo -pix_fmt rgb24 -s {even[0]}x{even[1]} -r {fps} -i -"
    command = [program, "-y", "-loglevel", "error", *source.split(), "-pix_fmt", "yuv420p", str(path)]
    # imageio-ffmpeg's own writer forks, which can deadlock JAX.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin is not None
        try:
            for image in itertools.chain([first], images):
                ffmpeg.stdin.write(image.crop((0, 0, *even)).convert("RGB").tobytes())
        except BrokenPipeError:
            pass  # ffmpeg has exited; its stderr has the reason
        _, stderr = ffmpeg.communicate()
    if ffmpeg.returncode:
        raise OSError(" ".join(stderr.decode().split()))
