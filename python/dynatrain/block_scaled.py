"""Weights in block-scaled FP8, made of what a trainer holds."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import torch

from .capture import Piece
from .errors import InvalidError, TensorError
from .held_parts import pieces_held
from .hollow import local_part
from .optimizer import Key, named_tensors
from .state import Part

QUANTIZED = torch.float8_e4m3fn
_LARGEST = torch.finfo(QUANTIZED).max

#: What scales may be: any f32, or powers of two, as an f32 or as the exponent
#: alone.
_FORMATS = ("float", "ue8m0")
_EXPONENT = getattr(torch, "float8_e8m0fnu", None)
#: Rows and columns of a block.
Block = tuple[int, int]
#: A model, its pipeline chunks, or its tensors by name; lists are of pieces.
Weights = Union[torch.nn.Module, Sequence[torch.nn.Module], Mapping[str, Any]]


def _coarse(sizes: Sequence[int], block: Block) -> tuple[int, ...]:
    *leading, rows, columns = sizes
    return (*leading, -(-rows // block[0]), -(-columns // block[1]))


def _check_format(scale_format: str, scale_dtype: torch.dtype) -> None:
    if scale_format not in _FORMATS:
        raise InvalidError(
            f"a format of scales {scale_format!r}, expected one of "
            f"{list(_FORMATS)}"
        )
    if scale_format == "ue8m0" and _EXPONENT is None:
        raise InvalidError(
            f"PyTorch {torch.__version__} has no float8_e8m0fnu, of which "
            "'ue8m0' is made"
        )
    allowed = [torch.float32] + [_EXPONENT] * (scale_format == "ue8m0")
    if scale_dtype not in allowed:
        raise InvalidError(
            f"scales of {scale_dtype} and format {scale_format!r}, expected "
            f"{' or '.join(map(str, allowed))}"
        )


def _to_powers_of_two(scales: torch.Tensor) -> torch.Tensor:
    """The next power of two, as transformers finds it; what has none, such as
    infinity, is no number."""
    least = torch.finfo(torch.float32).tiny
    powers = torch.pow(2.0, torch.ceil(torch.log2(scales.clamp(min=least))))
    return powers.to(_EXPONENT).float()


def quantize(
    values: torch.Tensor,
    block: Block = (128, 128),
    scale_format: str = "float",
    scale_dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 (e4m3) of a tensor's last two dims, block by block, and the f32 scale
    of each block, by which its values are multiplied to have the tensor back.

    The last blocks may be smaller. All is computed in f32 and rounded to
    nearest, of two equally near to the even one, as transformers 5 does
    (`integrations/finegrained_fp8.py`, `Fp8Quantize`)::

        factor = 448 / max(abs(block)), or 1 of a block of zeros
        block = (block * factor).clamp(-448, 448) in e4m3; scale = 1 / factor

    With `scale_format` "ue8m0" a scale is the next power of two, 2 to the
    ceil(log2(1 / factor)), and the factor 1 / scale: as DeepSeek-V3.1 has them
    (`scale_fmt`), in f32, or in `scale_dtype` torch.float8_e8m0fnu.
    """
    _check_format(scale_format, scale_dtype)
    *leading, rows, columns = values.shape
    height, width = block
    tiles = *leading, *_coarse((rows, columns), block)
    padding = 0, tiles[-1] * width - columns, 0, tiles[-2] * height - rows
    tiled = torch.nn.functional.pad(values.detach().float(), padding).reshape(
        *leading, tiles[-2], height, tiles[-1], width
    )
    largest = tiled.abs().amax(dim=(-3, -1))
    ones = torch.ones_like(largest)
    factors = torch.where(
        largest > 0, _LARGEST / torch.where(largest > 0, largest, ones), ones
    )
    scales = 1.0 / factors
    if scale_format == "ue8m0":
        scales = _to_powers_of_two(scales)
        factors = 1.0 / scales
    tiled = (tiled * factors[..., :, None, :, None]).clamp(-_LARGEST, _LARGEST)
    whole = tiled.reshape(*leading, tiles[-2] * height, tiles[-1] * width)
    weights = whole[..., :rows, :columns].to(QUANTIZED)
    return weights, scales.to(scale_dtype)


@dataclass
class _Quantized:
    """A local tensor, and what is made of it."""

    values: torch.Tensor
    weights: torch.Tensor
    scales: torch.Tensor

    @property
    def is_gone(self) -> bool:
        """A plan of mode flat has taken what was made."""
        return self.weights.numel() != self.values.numel()

    def refresh(self, block: Block, scale_format: str) -> None:
        with torch.no_grad():
            weights, scales = quantize(
                self.values, block, scale_format, self.scales.dtype
            )
            self.weights.copy_(weights)
            self.scales.copy_(scales)


class BlockScaled(Part):
    """Weights of which a plan moves some as block-scaled FP8: as the request's
    `quantize` says (docs/Views.md), or what a destination has of its own::

        source = dynatrain.State(
            weights=dynatrain.BlockScaled(model, of=["*_proj.weight"])
        )
        switch = plan.prepare(world, source, destination)

    In place of each tensor that `of` matches (globs; of a pipeline stage that
    may be none) the plan gets FP8 under its name and scales under `scale`,
    where `{}` is the name. Both are made anew of what the trainer holds when a
    switch transfers, in memory of their own: half of what bf16 takes, which a
    plan of mode flat gives back as it goes. All else is given as it is;
    `prepare` refuses what the plan has in FP8 and `of` does not match.

    `scale_format` and `scale_dtype` are those of `quantize` above; the dtype is
    what the request's `scale_dtype` says.

    A tensor that says where it lies (a DTensor, a `capture.Piece`) has whole
    blocks of the full one; of any other the blocks begin where it does.
    """

    def __init__(
        self,
        weights: Weights,
        of: str | Iterable[str],
        block: Block = (128, 128),
        scale: str = "{}_scale_inv",
        scale_format: str = "float",
        scale_dtype: torch.dtype = torch.float32,
    ) -> None:
        _check_format(scale_format, scale_dtype)
        self._weights = weights
        self._globs = [of] if isinstance(of, str) else list(of)
        self._block, self._scale = block, scale
        self._format, self._scale_dtype = scale_format, scale_dtype
        if len(block) != 2 or min(block) < 1:
            raise InvalidError(f"a block of {block}, expected rows and columns")
        if "{}" not in scale:
            raise InvalidError(
                f"scales called {scale!r}, expected '{{}}' for the tensor's "
                "name in it"
            )
        self._made: list[_Quantized] = []
        self._given: dict[Key, Any] | None = None

    def tensors(self) -> dict[Key, Any]:
        """The same tensors each time, of the values of now or of the last
        transfer."""
        if self._given is None or any(one.is_gone for one in self._made):
            self._made = []
            self._given = self._all()
            self.refresh()
        return self._given

    def refresh(self) -> None:
        """Of what the trainer holds now."""
        for one in self._made:
            one.refresh(self._block, self._format)

    def _all(self) -> dict[Key, Any]:
        found: dict[Key, Any] = {}
        for name, value in self._named().items():
            if not any(fnmatch.fnmatchcase(name, g) for g in self._globs):
                found[name, "param"] = value
                continue
            weights, scales = self._quantized(name, value)
            found[name, "param"] = weights
            found[self._scale.format(name), "param"] = scales
        return found

    def _named(self) -> dict[str, Any]:
        if isinstance(self._weights, Mapping):
            return dict(self._weights)
        chunks = self._weights
        chunks = [chunks] if isinstance(chunks, torch.nn.Module) else chunks
        return {
            name: tensor
            for chunk in chunks
            for name, tensor in named_tensors(chunk).items()
        }

    def _quantized(self, name: str, value: Any) -> tuple[Any, Any]:
        """As `value` is given: a tensor, a piece or a list of either."""
        if isinstance(value, (list, tuple)):
            pairs = [self._quantized(name, one) for one in value]
            return [one for one, _ in pairs], [one for _, one in pairs]
        is_placed = isinstance(value, Piece) or local_part(value) is not value
        if not is_placed:
            return self._of_local(name, value)
        pairs = [
            self._of_piece(name, one)
            for one in pieces_held((name, "param"), value)
        ]
        return [one for one, _ in pairs], [one for _, one in pairs]

    def _of_local(
        self, name: str, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if values.dim() < 2:
            raise TensorError(
                f"tensor '{name}' has shape {list(values.shape)}, expected "
                "rows and columns of blocks"
            )
        if not values.dtype.is_floating_point or values.dtype.itemsize < 2:
            raise TensorError(
                f"tensor '{name}' has dtype {values.dtype}, expected f32, f16 "
                "or bf16 to quantise"
            )
        made = _Quantized(
            values,
            torch.empty(values.shape, dtype=QUANTIZED, device=values.device),
            torch.empty(
                _coarse(values.shape, self._block),
                dtype=self._scale_dtype,
                device=values.device,
            ),
        )
        self._made.append(made)
        return made.weights, made.scales

    def _of_piece(self, name: str, piece: Piece) -> tuple[Piece, Piece]:
        """Both as pieces of their full tensors."""
        values = local_part(piece.tensor)
        whole = (0, math.prod(piece.size))
        if piece.range is not None and tuple(piece.range) != whole:
            raise TensorError(
                f"tensor '{name}' is here in a run of elements "
                f"{list(piece.range)}, which cuts blocks"
            )
        self._check_cut(name, piece)
        shape, size = tuple(piece.shape), tuple(piece.size)
        weights, scales = self._of_local(name, values.view(size))
        offset = tuple(piece.offset)
        rows, columns = (
            first // step for first, step in zip(offset[-2:], self._block)
        )
        return Piece(weights, shape, offset, size), Piece(
            scales,
            _coarse(shape, self._block),
            (*offset[:-2], rows, columns),
            tuple(scales.shape),
        )

    def _check_cut(self, name: str, piece: Piece) -> None:
        for place, step in zip((-2, -1), self._block):
            if len(piece.shape) < 2 or not piece.size[place]:
                return
            first = piece.offset[place]
            end = first + piece.size[place]
            if first % step or (end % step and end != piece.shape[place]):
                raise TensorError(
                    f"tensor '{name}' has [{first}:{end}) of dim "
                    f"{len(piece.shape) + place} here, which cuts a block of "
                    f"{step}"
                )
