"""Agents on the Hugging Face hub: upload one with a model card, and download one.

A downloaded agent is checked like any other file: it is data, limited in size, and no code in it is executed.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from trustax.errors import TrustaxError
from trustax.run import read_run
from trustax.storage.manifest import ARRAYS, MANIFEST, MANIFEST_SIZE_LIMIT, CheckpointError
from trustax.storage.model_card import CURVE, model_card

if TYPE_CHECKING:
    from trustax.evaluation import EvaluationResult

SCHEME = "hf:/"
"""The beginning of an address; a `Path` makes one slash of the two in `hf://user/name`."""
ARRAYS_SIZE_LIMIT = 2**30


def is_address(path: Path | str) -> bool:
    """Whether a path is the address of an agent on the hub."""
    return str(path).startswith(SCHEME)


@contextmanager
def downloaded(address: Path | str) -> Iterator[Path]:
    """The files of an agent on the hub in a temporary folder. `hf://user/name@v1` is a branch, tag or commit."""
    hub = _import_hub()
    repo_id, _, revision = str(address).removeprefix(SCHEME).removeprefix("/").partition("@")
    with TemporaryDirectory(prefix="trustax-") as name:
        folder = Path(name)
        with _one_line_errors(hub, repo_id):
            api = hub.HfApi()
            info = api.model_info(repo_id, revision=revision or None, files_metadata=True)
            sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
            for file, limit in ((MANIFEST, MANIFEST_SIZE_LIMIT), (ARRAYS, ARRAYS_SIZE_LIMIT)):
                if file not in sizes:
                    raise TrustaxError(
                        f"{repo_id} on the Hugging Face hub is not an agent of Trustax: it has no {file}"
                    )
                if sizes[file] > limit:
                    raise TrustaxError(f"{file} of {repo_id} on the Hugging Face hub is larger than {limit:,} bytes")
                # The hub's cache consists of links, which agents must not be.
                shutil.copyfile(api.hf_hub_download(repo_id, file, revision=info.sha), folder / file)
        try:
            yield folder
        except CheckpointError as error:
            raise TrustaxError(str(error).replace(str(folder), f"hf://{repo_id}")) from error


def push(
    save: Callable[[Path], None],
    repo_id: str,
    run_dir: Path | None,
    evaluation: "EvaluationResult | None",
    private: bool,
) -> str:
    """Upload what `save` writes to a folder, with a model card, and return the address of the page."""
    run = None if run_dir is None else read_run(run_dir)
    hub = _import_hub()
    if hub.get_token() is None:
        raise TrustaxError("you are not logged in to the Hugging Face hub; log in with: hf auth login")
    with TemporaryDirectory(prefix="trustax-") as name, _one_line_errors(hub, repo_id):
        folder = Path(name) / "agent"
        save(folder)
        has_curve = run_dir is not None and (run_dir / CURVE).is_file()
        if run_dir is not None and has_curve:
            shutil.copyfile(run_dir / CURVE, folder / CURVE)
        card = model_card(repo_id, run, evaluation, has_curve)
        (folder / "README.md").write_text(card, encoding="utf-8")
        api = hub.HfApi()
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload an agent of Trustax")
    return str(address)


def _import_hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise TrustaxError('the Hugging Face hub needs an extra: pip install "trustax[hub]"') from None
    return huggingface_hub


@contextmanager
def _one_line_errors(hub: Any, repo_id: str) -> Iterator[None]:
    """Turn the errors of huggingface_hub into a `TrustaxError` of one line."""
    errors = hub.errors
    try:
        yield
    except TrustaxError:
        raise
    except errors.GatedRepoError as error:
        raise TrustaxError(f"{repo_id} on the Hugging Face hub asks you to accept its terms first") from error
    except errors.RepositoryNotFoundError as error:
        raise TrustaxError(
            f"there is no model {repo_id} on the Hugging Face hub, or it is private and you are not logged in "
            "(hf auth login)"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise TrustaxError(f"{repo_id} on the Hugging Face hub has no such revision") from error
    except errors.HFValidationError as error:
        raise TrustaxError(f"a model on the Hugging Face hub has a name like user/name, not {repo_id!r}") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            reason = "your login does not allow this; log in with: hf auth login"
        else:
            reason = _in_one_line(error)
        raise TrustaxError(f"{repo_id} on the Hugging Face hub: {reason}") from error
    except Exception as error:  # no network, a proxy, a full disk
        raise TrustaxError(f"{repo_id} on the Hugging Face hub: {_in_one_line(error)}") from error


def _in_one_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
