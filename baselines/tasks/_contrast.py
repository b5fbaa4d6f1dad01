"""The loss that several tasks share: representations must tell whose input they were made of."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from maghub.baselines._model import Model
from maghub.baselines._task import Batch, TaskConfig
from maghub.baselines.losses import info_nce


class ContrastConfig(TaskConfig):
    """Settings of the loss.

    Attributes:
        modality_loss: Weight of each modality's InfoNCE; 0 leaves it out.
        temperature: Its temperature.
        contrasted: Largest number of nodes that InfoNCE compares in one step.
    """

    modality_loss: float = Field(default=0.5, ge=0)
    temperature: float = Field(default=0.07, gt=0)
    contrasted: int = Field(default=1024, ge=2)


class ModalityContrast(nn.Module):
    """InfoNCE between a projection of ``h`` and the input of each modality (OpenMAG's adapter)."""

    def __init__(self, encoder: Model, config: ContrastConfig) -> None:
        super().__init__()
        self.config = config
        dims = encoder.dims if config.modality_loss else {}
        self.project = nn.ModuleDict({m: nn.Linear(encoder.out, d) for m, d in dims.items()})

    def forward(self, h: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Weighted losses of the first ``contrasted`` rows of a batch.

        Nodes without a modality (rows of zeros) have nothing to be matched with and are left out.

        Args:
            h: float32 [n, D], representations of the batch's nodes.
            batch: The batch.

        Returns:
            ``nce_MODALITY`` -> scalar, for modalities that at least two rows have.
        """
        rows, losses = batch.rows[: self.config.contrasted], {}
        for modality, layer in self.project.items():
            target = batch.x[modality][rows]
            there = target.abs().sum(dim=1) > 0
            if int(there.sum()) > 1:
                loss = info_nce(
                    layer(h[rows][there]), target[there], temperature=self.config.temperature
                )
                losses[f"nce_{modality}"] = self.config.modality_loss * loss
        return losses
