"""The nets that `tests.oracle.exported` has torch export, small and with random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Upsampling(nn.Module):
    """A small U-net: it halves images and makes them large again in three ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 8, 2, stride=2)
        self.groups = nn.GroupNorm(2, 8)
        self.back = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x: Any) -> Any:
        wide = torch.relu(self.norm(self.first(x)))
        low = torch.relu(self.groups(self.down(wide)))
        back = self.back(low)
        near = nn.functional.interpolate(low, scale_factor=2.0, mode="nearest")
        smooth = nn.functional.interpolate(back, scale_factor=1.5, mode="bilinear", align_corners=False)
        fitted = nn.functional.interpolate(near, size=wide.shape[2:], mode="bilinear", align_corners=True)
        joined = nn.functional.interpolate(back, size=wide.shape[2:], mode="nearest")
        return self.last(torch.cat([wide + joined, fitted], 1)), smooth


class Segmenting(nn.Module):
    """Pools to one pixel and to halves, flattens, and resizes a mask to the size of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.dense = nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        y = torch.nn.functional.gelu(self.conv(x))
        whole = self.dense(torch.flatten(nn.functional.adaptive_avg_pool2d(y, 1), 1))
        mask = torch.sigmoid(y * whole[:, :, None, None])
        mask = nn.functional.interpolate(mask, size=x.shape[-2:], mode="bicubic", align_corners=False)
        return mask.flatten(2).transpose(1, 2), whole.chunk(2, dim=1)[1]


class Warping(nn.Module):
    """Looks images up at moved places, and sets margins around that go by their sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, x: Any) -> Any:
        grid = torch.tanh(self.flow(x)).permute(0, 2, 3, 1)
        moved = nn.functional.grid_sample(x, grid, padding_mode="zeros", align_corners=False)
        return nn.functional.pad(moved, (0, x.shape[3] // 4, 1, x.shape[2] // 2))


class Aligning(nn.Module):
    """Turns and moves images as a small net says."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.theta = nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        theta = 0.3 * self.theta(self.conv(x).mean((2, 3))).view(-1, 2, 3)
        grid = nn.functional.affine_grid(theta, x.size(), align_corners=False)
        return nn.functional.grid_sample(x, grid, padding_mode="border", align_corners=False)


class Recurrent(nn.Module):
    """A recurrent layer of both directions behind an embedding of the features."""

    def __init__(self, kind: Any, **settings: Any) -> None:
        super().__init__()
        self.layer = kind(6, 5, batch_first=True, **settings)
        ways = 2 if settings.get("bidirectional") else 1
        self.dense = nn.Linear(5 * ways, 3)

    def forward(self, x: Any) -> Any:
        y, last = self.layer(x)
        return self.dense(y), last[0] if isinstance(last, tuple) else last


class Attention(nn.Module):
    """Attention of heads, written out so that nothing but sizes of its input says a shape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        n, t, width = x.shape
        parts = self.mixed(x).reshape(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-2, -1) / (width // self.heads) ** 0.5
        y = torch.softmax(scores, -1) @ parts[2]
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Block(nn.Module):
    """One layer of a transformer: attention and two dense layers, each beside its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Attention(width, 4)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.one(x))
        return x + self.dense(self.two(x))


class Transformer(nn.Module):
    """Two layers over positions that are cut to the length and a token set before, and a mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(6, 16)
        self.positions = nn.Parameter(torch.randn(1, 64, 16))
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.blocks = nn.Sequential(Block(16), Block(16))

    def forward(self, x: Any) -> Any:
        y = self.dense(x) + self.positions[:, : x.shape[1]]
        y = self.blocks(torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1))
        return y[:, 0], y[:, 1:], y.mean(1)


class Encoder(nn.Module):
    """torch's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        return self.encoder(x)


class Fused(nn.Module):
    """Attention by torch's function for it, which newer opsets have an op for."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = nn.Linear(6, 24)

    def forward(self, x: Any) -> Any:
        n, t, _ = x.shape
        q, k, v = self.mixed(x).reshape(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n, t, 8)


class Causal(nn.Module):
    """Attention written out: heads by view, a causal mask made of the length, halves by chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = nn.Linear(6, 36)
        self.dense = nn.Linear(12, 6)

    def forward(self, x: Any) -> Any:
        n, t, _ = x.shape
        q, k, v = (p.view(n, t, 3, 4).transpose(1, 2) for p in self.mixed(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / 2.0
        hidden = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        y = torch.softmax(scores.masked_fill(hidden, -1e9), -1) @ v
        return self.dense(y.transpose(1, 2).reshape(n, t, 12)), torch.arange(t) * 2


class Decoder(nn.Module):
    """torch's own decoder layer, which attends to the sequence itself and to another."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(6, 2, 12, batch_first=True, dropout=0.0)

    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layer(x, x * 0.5, tgt_mask=mask)


class Sequence1d(nn.Module):
    """Convolutions over time: dilated, transposed, and resized to another length."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 8, 3, padding=2, dilation=2)
        self.norm = nn.InstanceNorm1d(8, affine=True)
        self.back = nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="linear", align_corners=False)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm(self.conv(x.transpose(1, 2))))
        one, two = torch.split(y, [3, 5], dim=1)
        return self.back(y), self.up(one), torch.flatten(two, 0, 1), two.repeat(1, 2, 1)
