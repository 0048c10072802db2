"""A small GPT of one's own on text of one's own, at four sites: tokenizer, dict output, gradient
accumulation, mixed precision, clipping, a cosine schedule and tied weights.

    python3 examples/python/gpt_own_tokens.py simulate examples/python/gpt_own_tokens.toml
    python3 examples/python/gpt_own_tokens.py compare examples/python/gpt_own_tokens.toml \
        --sync diloco,streaming_diloco,sparse_loco
"""

import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import longhaul

SITES = ["oslo", "lima", "accra", "perth"]
VOCABULARY, CONTEXT, WIDTH, ACCUMULATE = 1024, 32, 64, 2
DOCS = Path(__file__).resolve().parents[2] / "docs"


def tokenizer(texts: list[str]) -> dict[str, int]:
    """The most frequent words and signs; 0 stands for all others. The same at all sites."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in re.findall(r"\w+|\S", text.lower()):
            counts[word] = counts.get(word, 0) + 1
    words = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 1]
    return {word: i + 1 for i, word in enumerate(words)}


class Windows(Dataset):
    def __init__(self, text: str, ids: dict[str, int]):
        words = re.findall(r"\w+|\S", text.lower())
        self.tokens = torch.tensor([ids.get(word, 0) for word in words])

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // CONTEXT

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        window = self.tokens[i * CONTEXT:(i + 1) * CONTEXT + 1]
        return {"input_ids": window[:-1], "labels": window[1:]}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight  # tied: exchanged once
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.register_buffer("mask", torch.triu(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool), 1))

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.tokens(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.head(x)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


def read(site: str) -> tuple[Windows, Windows]:
    """This site's pages of the documentation, and the last of them to test with."""
    pages = sorted(DOCS.glob("*.md"))
    ids = tokenizer([page.read_text() for page in pages])
    mine = "\n".join(page.read_text() for page in pages[SITES.index(site)::len(SITES)])
    cut = len(mine) * 9 // 10
    return Windows(mine[:cut], ids), Windows(mine[cut:], ids)


def train(site: longhaul.Site) -> nn.Module:
    model = Gpt()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=200, eta_min=3e-4)
    opt = site.attach(model, opt, also=[schedule])
    loader = DataLoader(read(site.name)[0], batch_size=8, shuffle=True)
    for i, batch in enumerate(site.batches(loader)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch)["loss"] / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step(loss=ACCUMULATE * loss.detach())
            schedule.step()
            opt.zero_grad()
    return model


def score(model: nn.Module, site: longhaul.Site) -> dict[str, float]:
    loss, count = 0.0, 0
    with torch.no_grad():
        for batch in DataLoader(read(site.name)[1], batch_size=32):
            tokens = batch["labels"].numel()
            loss += model(**batch)["loss"].item() * tokens
            count += tokens
    return {"loss": loss, "samples": count}


if __name__ == "__main__":
    longhaul.main(train, score)
